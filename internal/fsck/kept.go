package fsck

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"spool/internal/apply"
	"spool/internal/jsonscan"
	"spool/internal/project"
	"spool/internal/record"
	"spool/pkg/casstore"
	"spool/pkg/dialect"
	"spool/pkg/events"
)

// Prompts, their answers and runs are in records alone: no head and no node says that they are there. What tells of them are
// the events that made them, as long as SPOOL_EVENTS has them.

// kept is a record that an event leaves for as long as its thread is there.
type kept struct {
	key string
	or  string // the record that takes its place: an answer's, of a prompt; "": none does
}

// mostPrompts is how many prompts an entry may have for all of them to have records.
const mostPrompts = 16

// leaves are the records that an event leaves once it is applied.
func leaves(e *events.Event) (all []kept) {
	if e.Kind == events.KindControl {
		switch op, err := events.ParseControl(e.Body); {
		case err != nil:
		case op.Op == events.OpAnswer:
			all = []kept{{key: events.AnsweredKey(e.Thread, op.Answer.Prompt)}}
		case op.Op == events.OpRun:
			all = []kept{{key: events.RunKey(e.Thread.Session, op.Run.ID)}}
		}
	}
	if e.Kind != events.KindEntry || e.Dialect != "item" || !bytes.Contains(e.Body, []byte(events.TypePendingPrompt)) {
		return all
	}
	lang, _ := dialect.Lookup(e.Dialect)
	read, err := lang.Read(e.Body, nil)
	if err != nil || len(read.Items) > mostPrompts {
		return nil
	}
	for _, it := range read.Items {
		p, ok := events.ParsePrompt(it)
		one := kept{key: events.AnsweredKey(e.Thread, p.ID)}
		if it.Type == events.TypePendingPrompt {
			one = kept{events.PromptKey(e.Thread, p.ID), one.key}
		}
		if ok {
			all = append(all, one)
		}
	}
	return all
}

// mostKept is how many records are asked for at once.
const mostKept = 300

// recordReader reads records by their keys.
type recordReader interface {
	Records(ctx context.Context, keys ...string) ([]record.Record, error)
}

// notKept are those that are not there. A prompt is asked for before its answer, and twice: it may be answered meanwhile.
func notKept[V any](ctx context.Context, s recordReader, all map[kept]V) (map[kept]V, error) {
	gone := maps.Clone(all)
	for range 2 {
		for some := range slices.Chunk(slices.Collect(maps.Keys(gone)), mostKept) {
			var keys []string
			for _, k := range some {
				keys = append(keys, k.key, cmp.Or(k.or, k.key))
			}
			rs, err := s.Records(ctx, keys...)
			if err != nil {
				return nil, err
			}
			for i, k := range some {
				if rs[2*i].Exists() || rs[2*i+1].Exists() {
					delete(gone, k)
				}
			}
		}
	}
	return gone, nil
}

// lacksKept notes what events of these threads leave and is not there. It comes before anything is read that says why: what
// went with its thread or session went before that is read.
func (a *accountant) lacksKept(ctx context.Context, names []events.Thread) (err error) {
	all := map[kept]bool{}
	for _, t := range names {
		for i := range a.threads[t] {
			for _, k := range a.threads[t][i].leaves {
				all[k] = true
			}
		}
	}
	a.gone, err = notKept(ctx, a.l, all)
	return err
}

// bare says which record an event that was applied left, and is not there. Where SPOOL_EVENTS has forgotten events, one that is
// linked may have been passed over.
func (b *book) bare(p *posting) (why string) {
	if p.prev != 0 && b.forgot() {
		return ""
	}
	for _, k := range p.leaves {
		if !b.a.gone[k] {
			continue
		}
		if b.a.bare == nil {
			return fmt.Sprintf("its thread has seen it, and neither the record %s, which it leaves, nor a dead letter is there", k.key)
		}
		b.a.bare[k.key] = fmt.Sprintf("%s %d left it, and nothing says what became of it", events.EventsStream, p.at)
	}
	return ""
}

// lostKept is a record that is lost, and the thread that it was of.
type lostKept struct {
	key string
	of  events.Thread
}

// checkKept finds the records of prompts, answers and runs that are lost.
func (c *checker) checkKept(ctx context.Context) error {
	gone, err := notKept(ctx, c.s, c.told)
	if err != nil {
		return err
	}
	of := map[events.Thread]bool{}
	for _, t := range gone {
		of[t] = true
	}
	for t := range of {
		if _, _, err := c.account(ctx, t); err != nil {
			return err
		}
		bare := maps.Clone(c.ledger.bare)
		if err := c.leaveRefusedAnswers(ctx, t, bare); err != nil {
			return err
		}
		for _, key := range slices.Sorted(maps.Keys(bare)) {
			c.bare = append(c.bare, lostKept{key, t})
			if err := c.find(ctx, 0, Finding{Kind: Missing, Record: key, Detail: bare[key]}); err != nil {
				return err
			}
		}
	}
	return nil
}

// leaveRefusedAnswers takes those out of what tells of lost records that are of answers which the thread does not tell of: it has an
// entry of each that counted. The others were refused, and their dead letters are lost.
func (c *checker) leaveRefusedAnswers(ctx context.Context, t events.Thread, bare map[string]string) error {
	i := slices.IndexFunc(c.heads, func(h head) bool { return h.id == t })
	if i < 0 || !slices.ContainsFunc(slices.Collect(maps.Keys(bare)), events.IsAnswered) {
		return nil
	}
	told := map[string]bool{}
	for step, err := range c.ledger.src.Reader.EntriesBack(ctx, c.heads[i].Head) {
		var items []events.Posted
		if err == nil && step.Entry.Type == events.TypePendingPromptResolved {
			items, err = project.Items(ctx, t, step)
		}
		if err != nil {
			return ctx.Err() // it is told elsewhere; what it may tell of is lost
		}
		for _, it := range items {
			id, _ := jsonscan.Text(jsonscan.Get(jsonscan.Get(jsonscan.Get(it.Data, "metadata"), "prompt"), "id"))
			told[events.AnsweredKey(t, id)] = true
		}
	}
	maps.DeleteFunc(bare, func(key, _ string) bool { return events.IsAnswered(key) && !told[key] })
	return nil
}

// fixKept makes the records of prompts, answers and runs again that are lost: all events of their threads are applied once
// more, here alone.
func (f *fixer) fixKept(ctx context.Context) error {
	made := map[events.Thread]map[string]record.Record{}
	for _, lost := range f.c.bare {
		if made[lost.of] == nil {
			all, err := f.keptAgain(ctx, lost.of)
			if err != nil {
				return fmt.Errorf("repair %s: %w", lost.key, err)
			}
			made[lost.of] = all
		}
		done := Repair{Record: lost.key}
		if r := made[lost.of][lost.key]; r.Exists() {
			rs, err := f.c.s.Records(ctx, lost.key)
			if err != nil {
				return err
			}
			fence, err := f.w.Fence(ctx, 0)
			if err != nil {
				return err
			}
			if !rs[0].Exists() {
				// A crash after this leaves a lost record less.
				if _, err := f.w.Commit(ctx, fence, []record.Put{{Key: lost.key, Value: r.Value, Expect: rs[0].Seq}}); err != nil {
					return fmt.Errorf("repair %s: %w", lost.key, err)
				}
			}
			done.To, done.Detail = lost.key, "it was made again from "+events.EventsStream
		} else {
			done.Detail = fmt.Sprintf("%s has not got all events that made it, or its thread has another name: restore it from a backup, "+
				"or ask, or begin the run, under another id", events.EventsStream)
		}
		f.c.report.Repairs = append(f.c.report.Repairs, done)
	}
	return nil
}

// keptAgain are the records that the events of a thread make.
func (f *fixer) keptAgain(ctx context.Context, t events.Thread) (map[string]record.Record, error) {
	i := slices.IndexFunc(f.c.heads, func(h head) bool { return h.id == t })
	if i < 0 {
		return map[string]record.Record{}, nil
	}
	h := &f.c.heads[i]
	stored, err := f.events(ctx, t)
	if err != nil {
		return nil, err
	}
	r := &remaker{
		f: f, rules: apply.Rules{Results: true, Artifacts: f.c.cfg.Artifacts},
		records: map[string]record.Record{}, packs: map[casstore.PackID]*casstore.Pack{},
		thread: apply.Thread{Key: t, AskedLeft: true}, session: apply.Session{ID: t.Session},
	}
	if err := r.begin(); err != nil {
		return nil, err
	}
	for _, e := range applied(stored) {
		if e.Seq > h.Applied {
			break
		}
		e.Event.Prev = 0
		if err := r.apply(ctx, e, e.Seq); ctx.Err() != nil {
			return nil, err // another error: what the event made cannot be told
		}
		if !r.thread.Head.Start.IsZero() {
			r.thread.Head.Began = h.Began
		}
	}
	for key, one := range r.records {
		if p, err := record.DecodePrompt(one.Value); err == nil {
			if p.Life = h.Began; r.thread.Head.Head().Ref != h.Head.Head().Ref {
				p.Item = 0 // its number is not known
			}
			one.Value = p.Encode()
			r.records[key] = one
		}
	}
	return r.records, nil
}
