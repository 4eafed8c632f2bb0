package persist

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"spool/internal/record"
	"spool/pkg/dialect"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// itemDialect is the dialect of agents that speak to Spool itself. Their prompts can be answered here; a transcript tells of
// prompts that its own program asks.
const itemDialect = "item"

// ErrNoPrompt: no prompt of that id waits for an answer in the thread, or has got one.
var ErrNoPrompt = errors.New("no such prompt")

// maxPrompts is how many records of prompts go into a commit. Those of one entry beyond it get none, and are not listed.
const maxPrompts = 32

// roomForPrompts reports whether the records of an entry's prompts fit into the commit. One entry by itself always does.
func (c *commit) roomForPrompts(items []events.Item) bool {
	n := 0
	for i := range items {
		if _, ok := events.ParsePrompt(items[i]); ok {
			n += 2
		}
	}
	return n == 0 || len(c.records) == 0 || len(c.records)+n <= maxPrompts
}

// prompts notes the prompts that an entry asks and settles, so that those which are open can be listed without reading a
// thread (SPEC I8).
func (c *commit) prompts(t *thread, d dialect.Dialect, st *threads.State, items []events.Item) {
	for i := range items {
		p, ok := events.ParsePrompt(items[i])
		if !ok || len(c.records) >= maxPrompts {
			continue
		}
		r := record.Prompt{Prompt: p, Dialect: d.Name(), Asked: st.Timestamp}
		if st.Entry.Count == int64(len(items)) {
			r.Item = st.Entry.First + int64(i)
		}
		key := events.PromptKey(t.key, p.ID)
		_, here := c.records[key]
		switch {
		case items[i].Type == events.TypePendingPrompt:
			c.records[key] = record.Put{Key: key, Value: r.Encode(), Expect: record.Any}
		case here && d.Name() != itemDialect: // asked and settled in one go, as in a transcript that is imported
			delete(c.records, key)
		default:
			c.records[key] = record.Put{Key: key, Expect: record.Any}
			if d.Name() == itemDialect {
				r.Resolution = events.ParseResolution(items[i])
				c.settled(t, r)
			}
		}
	}
}

func (c *commit) settled(t *thread, r record.Prompt) {
	key := events.AnsweredKey(t.key, r.ID)
	c.records[key] = record.Put{Key: key, Value: r.Encode(), Expect: record.Any}
}

// answer settles a prompt. The first answer does, in the order of the stream; one that comes later changes nothing and is no
// mistake of whoever gave it: the record says who was first (SPEC I8).
func (l *lane) answer(ctx context.Context, c *commit, t *thread, s *staged, a events.Answer) error {
	d, ok := dialect.Lookup(itemDialect)
	if !ok || t.head.Start.IsZero() {
		return fmt.Errorf("%w: answer: there is no thread %s", ErrNoPrompt, t.key)
	}
	if err := l.barrier(ctx, c); err != nil {
		return err
	}
	var rs []record.Record
	err := l.p.retry(ctx, "answer", func() (err error) {
		rs, err = l.p.Records.Records(ctx, events.PromptKey(t.key, a.Prompt), events.AnsweredKey(t.key, a.Prompt))
		return err
	})
	if err != nil {
		return err
	}
	if !rs[0].Exists() {
		if !rs[1].Exists() {
			return fmt.Errorf("%w: %q in %s", ErrNoPrompt, a.Prompt, t.key)
		}
		l.pass(c, t, s)
		return nil
	}
	p, err := record.DecodePrompt(rs[0].Value)
	if err != nil {
		return err
	}
	if p.Dialect != itemDialect {
		return fmt.Errorf("%w: %q in %s was asked by a transcript: answer it where the agent runs", ErrNoPrompt, a.Prompt, t.key)
	}
	a.By = cmp.Or(a.By, s.event.User)
	if p.Resolution, err = p.Settle(a, s.event.Time); err != nil {
		return err
	}
	p.Producer, p.Seq = s.event.Producer, s.event.Seq
	s.text = events.PendingPromptResolved(p.ID, p.Kind, p.Resolution).JSON()
	if err := l.step(ctx, c, t, s, addition{dialect: d, operation: true}); err != nil {
		return err
	}
	c.settled(t, p)
	return nil
}
