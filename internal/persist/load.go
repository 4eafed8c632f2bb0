package persist

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"spool/internal/apply"
	"spool/internal/record"
	"spool/pkg/events"
)

// forgetPast drops from memory the sessions that were read in an earlier term of their partition: another process may
// have changed them. What was prepared over them is through before; had another process been first, it would be
// refused.
func (l *lane) forgetPast(ctx context.Context, batch []*staged, epoch uint64) error {
	past := map[string]bool{}
	for _, s := range batch {
		if s.known && !(l.heads.ofTerm(s) && l.outputs.ofTerm(s)) {
			past[s.event.Thread.Session] = true
		}
	}
	if len(past) == 0 {
		return nil
	}
	if err := l.settle(ctx, epoch); err != nil {
		return err
	}
	l.heads.forget(past)
	l.outputs.forget(past)
	return nil
}

// load reads the heads and sessions of a batch that are not in memory, in one go, and makes room for them.
func (l *lane) load(ctx context.Context, batch []*staged) error {
	h := l.heads
	h.batches++
	var missing []events.Thread
	wanted := map[events.Thread]bool{}
	for _, s := range batch {
		t := s.event.Thread
		if !s.known || wanted[t] {
			continue
		}
		wanted[t] = true
		if known := h.threads[t]; known != nil {
			h.use(known)
		} else {
			missing = append(missing, t)
		}
	}
	h.evict()
	if err := l.loadThreads(ctx, missing); err != nil {
		return err
	}
	h.evict()
	h.stats.hits.Add(int64(len(wanted) - len(missing)))
	h.stats.misses.Add(int64(len(missing)))
	for _, s := range batch {
		if s.known {
			h.sessions[s.event.Thread.Session].term = s.msg.Term
		}
	}
	return nil
}

func (l *lane) loadThreads(ctx context.Context, missing []events.Thread) error {
	if len(missing) == 0 {
		return nil
	}
	looked := l.p.queue.newest()
	all, err := l.readThreads(ctx, missing)
	if err != nil {
		return err
	}
	taken, some := make([]*thread, 0, len(all)), []*thread(nil)
	for i := range all {
		th, whole, err := l.takeThread(&all[i], looked)
		if taken = append(taken, th); err != nil {
			l.heads.drop(taken...)
			return err
		}
		if whole && !th.Head.Seen.IsZero() {
			some = append(some, th)
		}
	}
	if err := l.recall(ctx, some); err != nil {
		l.heads.drop(taken...)
		return err
	}
	return nil
}

// found is what the records say of a thread.
type found struct {
	thread                 events.Thread
	head, session, deleted record.Record
	left                   record.Record // what stayed under its name, if it has no head any more
}

// readThreads reads the records of threads, all of a kind in one go: heads; of those that are not among the active ones, what is in the
// history; and what the others left. errStale: their session is deleted meanwhile.
func (l *lane) readThreads(ctx context.Context, missing []events.Thread) ([]found, error) {
	all, keys := make([]found, len(missing)), make([]string, 0, 3*len(missing))
	for i, t := range missing {
		all[i].thread = t
		keys = append(keys, events.HeadKey(t), events.SessionKey(t.Session), events.DeletedKey(t.Session))
	}
	rs, err := l.p.Records.Records(ctx, keys...)
	if err != nil {
		return nil, err
	}
	for i := range all {
		all[i].head, all[i].session, all[i].deleted = rs[3*i], rs[3*i+1], rs[3*i+2]
	}
	err = l.readMore(ctx, all, (*found).removed, events.HistoryOf, func(f *found, r record.Record) {
		if r.Exists() {
			f.head = r
		}
	})
	if err == nil {
		err = l.readMore(ctx, all, (*found).removed, events.LeftKey, func(f *found, r record.Record) { f.left = r })
	}
	if err != nil {
		return nil, err
	}
	// Another process that deletes the session takes away what is in the history and what was left, and leaves the removed record of the
	// head as it is: nothing would refuse what is applied to a thread of which half was read before and half behind.
	var deleted []events.Thread
	err = l.readMore(ctx, all, (*found).nowhere, deletedKey, func(f *found, r record.Record) {
		if r.Seq != f.deleted.Seq {
			deleted = append(deleted, f.thread)
		}
	})
	if err == nil && len(deleted) > 0 {
		err = fmt.Errorf("%w: the sessions of %v are being deleted", errStale, deleted)
	}
	return all, err
}

func deletedKey(t events.Thread) string { return events.DeletedKey(t.Session) }

// removed reports whether the head was removed, nowhere whether nothing has its place.
func (f *found) removed() bool { return f.head.Removed() }
func (f *found) nowhere() bool { return f.head.Removed() && !f.left.Exists() }

// readMore reads another record of some of the threads.
func (l *lane) readMore(
	ctx context.Context, all []found, of func(*found) bool, key func(events.Thread) string, take func(*found, record.Record),
) error {
	var some []*found
	var keys []string
	for i := range all {
		if f := &all[i]; of(f) {
			some, keys = append(some, f), append(keys, key(f.thread))
		}
	}
	if len(some) == 0 {
		return nil
	}
	rs, err := l.p.Records.Records(ctx, keys...)
	for i := range rs {
		take(some[i], rs[i])
	}
	return err
}

// takeThread has a thread in memory as its records say, and reports whether they could be read: else it is latched.
func (l *lane) takeThread(f *found, looked uint64) (th *thread, whole bool, err error) {
	t, rev := f.thread, f.head.Seq
	th = &thread{Thread: apply.Thread{Key: t, Looked: looked}, session: l.heads.session(t.Session, f.session)}
	l.heads.put(th)
	l.liftMoved(t, rev)
	whole = true
	var bad error
	if f.left.Exists() {
		th.Left, bad = apply.DecodeLeft(f.left.Value)
	}
	for _, err := range []error{bad, th.session.learnDeleted(f.deleted), safely(func() error { return th.read(f.head) })} {
		if err != nil && apply.Passing(err) {
			return th, false, err
		} else if err != nil {
			whole = false
			l.latch(t, rev, err)
		}
	}
	th.deletion = th.session.deletion()
	th.bytes += len(f.left.Value)
	l.heads.count(th)
	return th, whole, nil
}

// recall reads the producers of heads that do not name them all. Nodes are read side by side.
func (l *lane) recall(ctx context.Context, some []*thread) error {
	errs := make([]error, len(some))
	var g errgroup.Group
	g.SetLimit(recalls)
	for i, th := range some {
		g.Go(func() error {
			errs[i] = safely(func() (err error) { th.Head, err = l.reader.Recall(ctx, th.Head); return err })
			return nil
		})
	}
	_ = g.Wait()
	for i, err := range errs {
		if err != nil && apply.Passing(err) {
			return err
		} else if err != nil {
			l.latch(some[i].Key, some[i].rev, err)
		}
		l.heads.count(some[i])
	}
	return nil
}

// recalls is how many nodes of producers are read at once.
const recalls = 8

// read takes a head from its record.
func (t *thread) read(r record.Record) error {
	t.record, t.rev, t.bytes = r.Key, r.Seq, len(r.Value)
	err := t.Load(t.Key, r, &t.session.Session)
	t.sent.Store(t.Head.Sent)
	return err
}

// learnDeleted takes what is known of the session's deletion.
func (s *session) learnDeleted(r record.Record) error {
	s.Deleted, s.deletedRev = nil, r.Seq
	if !r.Exists() {
		return nil
	}
	d, err := record.DecodeDeleted(r.Value)
	if err != nil {
		return fmt.Errorf("%s: %w", r.Key, err)
	}
	s.Deleted = &d
	return nil
}

// settledThread gives the thread of an event once its name is certain: whoever was renamed or removed before must be
// committed.
func (l *lane) settledThread(ctx context.Context, c *commit, key events.Thread) (*thread, error) {
	t := l.heads.threads[key]
	if n := c.byKey[key]; n != nil && n.leaves != nil {
		return nil, errBarrier
	}
	if !t.gone {
		return t, nil
	}
	if err := l.barrier(ctx, c); err != nil {
		return nil, err
	}
	return l.reload(ctx, key)
}

// reload reads a thread again; all before must be committed.
func (l *lane) reload(ctx context.Context, key events.Thread) (*thread, error) {
	if err := l.loadThreads(ctx, []events.Thread{key}); err != nil {
		return nil, err
	}
	return l.heads.threads[key], nil
}

// forgetBatch forgets the sessions of a batch that is given up, so that they are read again: what is in memory of them
// is as that batch would have left them, or is not what is stored.
func (l *lane) forgetBatch(ctx context.Context, batch []*staged, epoch uint64) error {
	if err := l.settle(ctx, epoch); err != nil {
		return err
	}
	given := map[string]bool{}
	for _, s := range batch {
		given[s.event.Thread.Session] = true
	}
	l.heads.forget(given)
	l.outputs.forget(given)
	l.users = users{}
	return nil
}

// forgetPacks drops the packs in memory when a collector has begun another cycle. A pack that was repacked since tells
// where the nodes are that it refers to as it was long ago; collectors keep moved records only for what is stored, and
// what is stored behind this fence must name no other (DESIGN 7).
func (l *lane) forgetPacks(f record.Fence) {
	if f == l.fence {
		return
	}
	l.fence = f
	l.heads.forgetPlaces(nil)
	if cache, ok := l.p.Packs.(interface{ Clear() }); ok {
		cache.Clear()
	}
}
