package fsck

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"spool/internal/record"
	"spool/internal/rehydrate"
	"spool/internal/text"
	"spool/pkg/casstore"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// A thread whose record is lost begins anew with the next entry that comes for its name, and is sound from then on.
// What tells of the entries before are its events, as long as SPOOL_EVENTS has them, and the items that were made of
// states which it does not have.

// posted are the entries that SPOOL_EVENTS holds of a name.
type posted struct {
	n    int64
	last name
	at   uint64 // where the message of the last one is
}

// lackEvents finds threads that have a head and lack entries that were acked.
func (c *checker) lackEvents(ctx context.Context) error {
	for i := range c.heads {
		h := &c.heads[i]
		if c.found(h) {
			continue
		}
		find := c.begunAnew
		if h.Life != 0 { // what others had under its name counts as posted
			find = c.endsShort
		}
		if err := find(ctx, h); err != nil {
			return err
		}
	}
	return nil
}

// begunAnew finds a thread that has lost entries which were acked and applied.
func (c *checker) begunAnew(ctx context.Context, h *head) error {
	it := c.items[h.id]
	items := it != nil && it.old != nil && !it.old.node.IsZero() && !c.stands(h, it.old.node)
	if c.posted[h.id].n <= h.Entries && !items {
		return nil
	}
	rs, err := c.s.Records(ctx, events.LeftKey(h.id), events.DeletedKey(h.id.Session))
	if err != nil || rs[0].Exists() || rs[1].Exists() { // another thread had the name
		return err
	}
	acc, lost, err := c.account(ctx, h.id)
	if err != nil {
		return err
	}
	var detail string
	// Who does not know the masks of the persisters does not find what was masked: it is in the thread nevertheless.
	switch n := min(int64(len(lost)), acc.Applied+int64(len(lost))-h.Entries); {
	case n > 0:
		detail = text.Sprintf("%s holds %d acked events of it that it lacks, the first of them: %s",
			events.EventsStream, n, acc.Findings[0].Detail)
	case items:
		detail = fmt.Sprintf("%s held its items up to %d, of states that it does not have, and nothing says that it was removed",
			events.ItemsStream, it.old.last)
	default:
		return nil
	}
	c.anew = append(c.anew, h)
	return c.find(ctx, h.seq, Finding{Kind: Missing, Record: h.key, Detail: "it began anew, without what it had: " + detail})
}

// endsShort finds a thread that has not seen the last entries that were posted to it: a repair that made its head again ended before it
// published them.
func (c *checker) endsShort(ctx context.Context, h *head) error {
	if h.Applied == 0 || c.posted[h.id].at <= h.Applied {
		return nil
	}
	_, lost, err := c.account(ctx, h.id)
	if err != nil {
		return err
	}
	maps.DeleteFunc(lost, func(e name, _ bool) bool { return h.Duplicate(e.producer, e.epoch, e.seq) })
	if len(lost) == 0 {
		return nil
	}
	c.short = append(c.short, h)
	return c.find(ctx, h.seq, Finding{Kind: Missing, Record: h.key, Detail: text.Sprintf(
		"it ends short: %s holds %d acked events of it that it has not seen", events.EventsStream, len(lost))})
}

// account holds the events of one thread against what is stored, and says which are nowhere. A thread that
// cannot be read, and dead letters that cannot, are told of elsewhere. What seems to be lost may have come first under another name that
// the thread had: then all of its session is read.
func (c *checker) account(ctx context.Context, t events.Thread) (acc *Accounts, lost map[name]bool, err error) {
	acc, lost, err = c.accountAmong(ctx, t, t)
	if err != nil || len(lost)+len(c.ledger.bare) == 0 {
		return acc, lost, err
	}
	if left, err := c.s.List(ctx, events.LeftKeysOf(t.Session)); err != nil || len(left) == 0 { // nobody had another name
		return acc, lost, err
	}
	return c.accountAmong(ctx, t, events.Thread{Session: t.Session, Name: events.EveryThread})
}

// accountAmong accounts for the events of a thread by those of some threads.
func (c *checker) accountAmong(ctx context.Context, t, among events.Thread) (acc *Accounts, lost map[name]bool, err error) {
	stored, err := c.s.ThreadEvents(ctx, among)
	if err != nil {
		return nil, nil, err
	}
	if err := c.readLetters(ctx); err != nil {
		return nil, nil, err
	}
	a := c.ledger
	a.asked, a.lost, a.bare = t, map[name]bool{}, map[string]string{}
	a.threads, a.accounts = map[events.Thread][]posting{}, &Accounts{Findings: []Finding{}}
	for i := range stored {
		if stored[i].Seq < c.floor {
			a.postEvents(stored[i].Seq, &stored[i].Event)
		}
	}
	a.threads[t] = append(a.threads[t], []posting{}...) // it is asked for, whether it has events or not
	names := slices.SortedFunc(maps.Keys(a.threads), func(x, y events.Thread) int { return cmp.Compare(x.Name, y.Name) })
	err = a.session(ctx, names)
	if unreadable := a.lost[(&posting{}).name()]; unreadable || c.noLetters {
		a.accounts.Findings, a.lost = nil, nil
	}
	return a.accounts, a.lost, err
}

// readLetters reads the dead letters, once.
func (c *checker) readLetters(ctx context.Context) error {
	if c.ledger != nil {
		return nil
	}
	c.ledger = &accountant{
		l: c.s, src: rehydrate.Source{Reader: threads.Reader{Packs: c.packCache()},
			Blobs: blobsOf{c}},
		letters: map[uint64][]name{}, unread: map[uint64][]name{}, refusals: map[refusal][]letterOf{}, floor: c.floor, oldest: 1,
	}
	states, err := c.s.StreamStates(ctx)
	if err != nil {
		return err
	}
	for _, s := range states {
		if s.Stream == events.EventsStream {
			c.ledger.oldest = max(1, s.First)
		}
	}
	err = c.s.Letters(ctx, c.ledger.letter)
	if c.noLetters = errors.Is(err, record.ErrValue); c.noLetters || errors.Is(err, record.ErrNotFound) {
		return nil
	}
	return err
}

// blobsOf reads the blobs that were listed.
type blobsOf struct{ c *checker }

func (b blobsOf) Blob(ctx context.Context, ref casstore.Ref) (raw []byte, err error) {
	one, ok := b.c.blobs[ref.Sum()]
	if !ok || !one.good {
		return nil, fmt.Errorf("blob %s: %w", ref, casstore.ErrNotFound)
	}
	err = b.c.s.ReadChunks(ctx, one.rec.Object, 0, func(chunk []byte) error { raw = append(raw, chunk...); return nil })
	return raw, err
}

// putBack makes a thread that began anew what it would have been: as it was before, and behind that what has come
// since. That is published again, so nothing is changed unless SPOOL_EVENTS has all that the thread holds now.
func (f *fixer) putBack(ctx context.Context, h *head) (done Repair, err error) {
	done = Repair{Record: h.key, From: h.Head.Head().Ref.String()}
	stored, err := f.events(ctx, h.id)
	if err != nil {
		return done, err
	}
	acc, _, err := f.c.account(ctx, h.id)
	if err != nil {
		return done, err
	}
	if acc.Applied < h.Entries {
		done.Detail = fmt.Sprintf("%s has not got all that it holds now: what it had before cannot be put in front of that; publish it again, "+
			"as a producer of another name", events.EventsStream)
		return done, nil
	}
	it := f.c.items[h.id]
	if it != nil && it.old != nil {
		it = it.old
	}
	known := it != nil && f.c.states[it.node] != nil && f.c.states[it.node].wrong == nil && !f.c.stands(h, it.node)
	if known { // which events it has must be known, so that the others come behind it
		step, err := f.r.Step(ctx, casstore.Located{Ref: it.node, Pack: f.c.packs[f.c.states[it.node].pack].id})
		if err != nil {
			return done, err
		}
		known = f.madeOf(ctx, stored, step) >= 0
	}
	if !known {
		it = nil
		if whole, err := f.whole(ctx, stored); err != nil || !whole {
			done.Detail = fmt.Sprintf("no state of what it had is known, and %s may not have all its events: publish again what is missing, "+
				"as a producer of another name", events.EventsStream)
			return done, err
		}
	}
	fence, err := f.w.Fence(ctx, 0)
	if err != nil {
		return done, err
	}
	// A crash after this leaves a thread without a head, which the next repair makes again from the same events.
	if _, err := f.w.Commit(ctx, fence, []record.Put{{Key: h.key, Expect: h.seq}}); err != nil {
		return done, err
	}
	if f.c.items[h.id] = it; it == nil {
		delete(f.c.items, h.id)
	}
	return f.recover(ctx, h.id)
}
