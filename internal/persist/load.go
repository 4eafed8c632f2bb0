package persist

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"spool/internal/apply"
	"spool/internal/record"
	"spool/pkg/events"
	"spool/pkg/sessions"
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

// load reads the heads and sessions of a batch that are not in memory, in one go.
func (l *lane) load(ctx context.Context, batch []*staged) error {
	l.heads.trim()
	var missing []events.Thread
	wanted := map[events.Thread]bool{}
	for _, s := range batch {
		t := s.event.Thread
		if !s.known || wanted[t] || l.heads.threads[t] != nil {
			continue
		}
		wanted[t] = true
		missing = append(missing, t)
	}
	if err := l.loadThreads(ctx, missing); err != nil {
		return err
	}
	for _, s := range batch {
		if s.known {
			l.heads.sessions[s.event.Thread.Session].term = s.msg.Term
			l.heads.threads[s.event.Thread].used = l.heads.batches
		}
	}
	return nil
}

func (l *lane) loadThreads(ctx context.Context, missing []events.Thread) error {
	keys := make([]string, 0, 3*len(missing))
	for _, t := range missing {
		keys = append(keys, events.HeadKey(t), events.SessionKey(t.Session), events.DeletedKey(t.Session))
	}
	looked := l.p.queue.newest()
	rs, err := l.p.Records.Records(ctx, keys...)
	if err != nil {
		return err
	}
	lefts := make([]*apply.Left, len(missing))
	for i, t := range missing {
		if rs[3*i], err = apply.Ended(ctx, l.p.Records, t, rs[3*i]); err != nil {
			return err
		}
		if rs[3*i].Removed() {
			if lefts[i], err = apply.ReadLeft(ctx, l.p.Records, t); err != nil && apply.Passing(err) {
				return err
			} else if err != nil {
				l.latch(t, rs[3*i].Seq, err)
			}
		}
	}
	for i, t := range missing {
		known := apply.Thread{Key: t, Looked: looked, Left: lefts[i]}
		th := &thread{Thread: known, session: l.heads.session(t.Session, rs[3*i+1])}
		l.heads.put(th)
		l.liftMoved(t, rs[3*i].Seq)
		if err := th.session.learnDeleted(rs[3*i+2]); err != nil {
			l.latch(t, rs[3*i].Seq, err)
		}
		err := safely(func() error { return th.read(rs[3*i]) })
		if err == nil {
			th.Head, err = l.reader.Recall(ctx, th.Head)
		}
		if err != nil && apply.Passing(err) {
			return err
		} else if err != nil {
			l.latch(t, rs[3*i].Seq, err)
		}
	}
	return nil
}

// read takes a head from its record.
func (t *thread) read(r record.Record) error {
	t.record, t.rev, t.bytes = r.Key, r.Seq, len(r.Value)
	err := t.Load(t.Key, r, &t.session.Session)
	t.sent.Store(t.Head.Sent)
	return err
}

// session takes a session from its record, unless it is in memory. A record that cannot be read is written anew.
func (h *headCache) session(id string, r record.Record) *session {
	if s := h.sessions[id]; s != nil {
		return s
	}
	s := &session{names: map[string]bool{}, Session: apply.Session{ID: id, Info: sessions.Info{ID: id}}}
	if info, err := sessions.DecodeInfo(r.Value); r.Exists() && err == nil {
		s.Info, s.Stored, s.value = info, true, r.Value
	}
	h.sessions[id] = s
	return s
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

// trim forgets those threads that were not used for longest when they take too much, down to three quarters: but for those that
// a commit in flight touches. It counts bytes when there are more threads than there was room for, and now and then.
func (h *headCache) trim() {
	if h.batches++; len(h.threads) <= h.most && h.batches%256 != 0 {
		return
	}
	bytes, oldest := 0, make([]*thread, 0, len(h.threads))
	for _, t := range h.threads {
		bytes, oldest = bytes+t.size(), append(oldest, t)
	}
	h.most = len(oldest) + max(0, h.limit-bytes)/(8*threadRoom)
	if bytes <= h.limit {
		return
	}
	slices.SortFunc(oldest, func(a, b *thread) int { return cmp.Compare(a.used, b.used) })
	kept := map[string]bool{}
	for _, t := range oldest {
		if bytes > h.limit/4*3 && t.pending.Load() == 0 {
			bytes -= t.size()
			delete(h.threads, t.Key)
			continue
		}
		kept[t.Key.Session] = true
	}
	maps.DeleteFunc(h.sessions, func(id string, _ *session) bool { return !kept[id] })
	h.most = 0
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
	delete(l.heads.threads, key)
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
