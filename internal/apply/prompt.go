package apply

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"spool/internal/record"
	"spool/pkg/dialect"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// maxPrompts is how many records of prompts go into a commit. Those of one entry beyond it get none, and are not
// listed.
const maxPrompts = 32

// roomForPrompts reports whether the records of an entry's prompts fit into the commit. One entry by itself always
// does.
func (d *draft) roomForPrompts(items []events.Item) bool {
	n, here := 0, len(d.st.Batch.Records)
	for i := range items {
		if _, ok := events.ParsePrompt(items[i]); ok {
			n += 2
		}
	}
	return n == 0 || here == 0 || here+n <= maxPrompts
}

// prompts notes the prompts that an entry asks and settles, so that those which are open can be listed without reading
// a thread (SPEC I8). Only prompts of the dialect of items can be answered here; a transcript tells of prompts that its
// own program asks.
func (d *draft) prompts(lang dialect.Dialect, st *threads.State, items []events.Item, others []string) {
	for i := range items {
		p, ok := events.ParsePrompt(items[i])
		if !ok || d.recordsInCommit() >= maxPrompts || slices.Contains(others, p.ID) {
			continue
		}
		r := record.Prompt{Prompt: p, Dialect: lang.Name(), Asked: events.Believed(st.Timestamp, d.e.stored()), Life: d.began()}
		if st.Entry.Count == int64(len(items)) {
			r.Item = st.Entry.First + int64(i)
		}
		key := events.PromptKey(d.st.Key, p.ID)
		switch {
		case items[i].Type == events.TypePendingPrompt:
			d.put(record.Put{Key: key, Value: r.Encode(), Expect: record.Any})
		case d.putsRecord(key) && lang.Name() != itemDialect: // asked and settled in one go, as in a transcript that is imported
			delete(d.Puts, key)
			d.Unput = append(d.Unput, key)
		default:
			d.put(record.Put{Key: key, Expect: record.Any})
			if lang.Name() == itemDialect {
				r.Resolution = events.ParseResolution(items[i])
				r.Resolution.At = cmp.Or(r.Resolution.At, r.Asked)
				d.settled(r)
			}
		}
	}
}

// othersPrompts are the ids of an entry's prompts that are open in its thread as those of another dialect: what a
// transcript tells under such an id is not of the prompt that somebody waits for here. Which they are must not depend
// on the batch.
func (d *draft) othersPrompts(
	ctx context.Context, lang dialect.Dialect, items []events.Item,
) (ids []string, err error) {
	if lang.Name() == itemDialect {
		return nil, nil
	}
	for i := range items {
		p, ok := events.ParsePrompt(items[i])
		if !ok {
			continue
		}
		key := events.PromptKey(d.st.Key, p.ID)
		put, before := d.st.Batch.Records[key]
		if !before {
			if err := d.w.Settle(ctx, d.st.Key); err != nil {
				return nil, err
			}
			rs, err := d.w.Records(ctx, key)
			if err != nil {
				return nil, err
			}
			put.Value = rs[0].Value
		}
		if open, err := record.DecodePrompt(put.Value); err == nil && open.Dialect != lang.Name() {
			ids = append(ids, p.ID)
		}
	}
	return ids, nil
}

// maySettle refuses an entry with a prompt that is none, and one that says of a prompt asked here that it is settled,
// unless its publisher may settle it.
func (d *draft) maySettle(a addition, items []events.Item) error {
	if a.operation || a.dialect.Name() != itemDialect {
		return nil
	}
	for i := range items {
		if err := events.CheckPrompt(items[i]); err != nil {
			return err
		}
		if items[i].Type == events.TypePendingPromptResolved { // also one that nobody could have asked: others read it
			p, _ := events.ParsePrompt(items[i])
			if err := d.e.Scope.CheckSettles(p.ID); err != nil {
				return err
			}
		}
	}
	return nil
}

// mayAsk refuses an entry that asks under the id of another question of its thread, open or settled: whoever waits for the answer
// would get that of the other one.
func (d *draft) mayAsk(ctx context.Context, a addition, items []events.Item) error {
	if a.operation || a.dialect.Name() != itemDialect {
		return nil
	}
	for i := range items {
		p, ok := events.ParsePrompt(items[i])
		if !ok || items[i].Type != events.TypePendingPrompt {
			continue
		}
		known, err := d.asked(ctx, p.ID)
		if err != nil {
			return err
		}
		if known != nil && !known.Asks(p) {
			return fmt.Errorf("%w: %q in %s: ask under an id of its own", ErrAsked, p.ID, d.st.Key)
		}
	}
	return nil
}

// began is where in EVENTS the thread began, or begins with this event.
func (d *draft) began() uint64 {
	if d.st.Head.Start.IsZero() {
		return d.e.At
	}
	return d.st.Head.Began
}

// asked is the prompt of an id that the thread has, open or else settled; nil: none can be read. One that an earlier thread of its name
// settled is none of it (SPEC P12).
func (d *draft) asked(ctx context.Context, id string) (*record.Prompt, error) {
	if err := d.w.Settle(ctx, d.st.Key); err != nil {
		return nil, err
	}
	rs, err := d.w.Records(ctx, events.PromptKey(d.st.Key, id), events.AnsweredKey(d.st.Key, id))
	if err != nil {
		return nil, err
	}
	for _, r := range rs {
		if p, err := record.DecodePrompt(r.Value); r.Exists() && err == nil && p.InLife(d.began()) {
			return &p, nil
		}
	}
	return nil, nil
}

// putsRecord reports whether the commit puts a record, with what the event does so far.
func (d *draft) putsRecord(key string) bool {
	_, own := d.Puts[key]
	_, before := d.st.Batch.Records[key]
	return own || before && !slices.Contains(d.Unput, key)
}

// recordsInCommit counts those that the commit puts, with what the event does so far.
func (d *draft) recordsInCommit() int {
	n := len(d.st.Batch.Records)
	for key := range d.Puts {
		if _, before := d.st.Batch.Records[key]; !before {
			n++
		}
	}
	for i, key := range d.Unput {
		_, before := d.st.Batch.Records[key]
		_, again := d.Puts[key]
		if before && !again && !slices.Contains(d.Unput[:i], key) {
			n--
		}
	}
	return n
}

func (d *draft) settled(r record.Prompt) {
	d.put(record.Put{Key: events.AnsweredKey(d.st.Key, r.ID), Value: r.Encode(), Expect: record.Any})
}

// answer settles a prompt. The first answer does, in the order of the stream; one that comes later changes nothing and
// is no mistake of whoever gave it: the record says who was first (SPEC I8).
func (d *draft) answer(ctx context.Context, a events.Answer) error {
	t := d.st.Key
	lang, ok := dialect.Lookup(itemDialect)
	if !ok || d.Head.Start.IsZero() {
		return fmt.Errorf("%w: answer: there is no thread %s", ErrNoPrompt, t)
	}
	if err := d.w.Settle(ctx); err != nil {
		return err
	}
	rs, err := d.w.Records(ctx, events.PromptKey(t, a.Prompt), events.AnsweredKey(t, a.Prompt))
	if err != nil {
		return err
	}
	if !rs[0].Exists() {
		if p, err := record.DecodePrompt(rs[1].Value); !rs[1].Exists() || err == nil && !(p.InLife(d.began()) && p.InLife(a.Life)) {
			return fmt.Errorf("%w: %q in %s", ErrNoPrompt, a.Prompt, t)
		}
		d.pass()
		return nil
	}
	p, err := record.DecodePrompt(rs[0].Value)
	if err != nil {
		return err
	}
	if !p.InLife(a.Life) {
		return fmt.Errorf("%w: %q in %s: the answer is to an earlier thread of that name", ErrNoPrompt, a.Prompt, t)
	}
	if p.Dialect != itemDialect {
		return fmt.Errorf("%w: %q in %s was asked by a transcript: answer it where the agent runs", ErrNoPrompt, a.Prompt, t)
	}
	a.By = cmp.Or(a.By, d.e.User)
	if p.Resolution, err = p.Settle(a, events.NoLater(d.e.Time, d.e.stored())); err != nil {
		return err
	}
	if p.By != events.ByDeadline { // which anybody may notice
		if err := d.e.Scope.CheckSettles(a.Prompt); err != nil {
			return err
		}
	}
	p.Producer, p.Seq = d.e.Producer, d.e.Seq
	d.e.Text = events.PendingPromptResolved(p.ID, p.Kind, p.Resolution).JSON()
	if err := d.step(ctx, addition{dialect: lang, operation: true}); err != nil {
		return err
	}
	d.settled(p)
	return nil
}
