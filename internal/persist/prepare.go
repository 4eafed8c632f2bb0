package persist

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"spool/internal/record"
	"spool/pkg/dialect"
	"spool/pkg/events"
	"spool/pkg/sessions"
	"spool/pkg/threads"
)

// errBarrier ends a batch before an event that must see what is committed: the store does not hold the nodes yet that the
// batch before it made.
var errBarrier = errors.New("the batch ends here")

// errEpoch: a commit was refused while this batch was being prepared.
var errEpoch = errors.New("a commit was refused")

// prepare turns a batch into a commit. What is not taken is rest. After an error nothing is in memory of what the batch would have
// changed, but for errEpoch, which a flush follows.
func (l *lane) prepare(ctx context.Context, batch []*staged, epoch uint64) (c *commit, rest []*staged, err error) {
	c = &commit{epoch: epoch, link: l.link, byKey: map[events.Thread]*touched{}, infos: map[*session][]byte{}, numbers: map[*counter][]byte{}, records: map[string]record.Put{}}
	if _, err := rand.Read(c.id[:]); err != nil {
		return nil, nil, err
	}
	// Step 0: the fence, before a byte is uploaded.
	if err := l.p.At(StepFence); err != nil {
		return nil, nil, err
	}
	if c.fence, err = l.p.Records.Fence(ctx, l.p.cfg.Lane); err != nil {
		return nil, nil, err
	}
	l.announce(c.fence)
	l.forgetPacks(c.fence)
	batch, rest = l.split(batch)
	if err := l.forgetPast(ctx, batch, epoch); err != nil {
		return nil, nil, err
	}
	l.liftDue(batch)
	if err := l.load(ctx, batch); err != nil {
		return nil, nil, err
	}
	if err := l.learnRefusals(ctx, c, batch); err != nil {
		return nil, nil, err
	}
	if err := l.p.renew(ctx, batch, c.fence); err != nil {
		return nil, nil, err
	}
	if err := l.loadOutputs(ctx, batch); err != nil {
		return nil, nil, err
	}
	untaken, err := l.applyAll(ctx, c, batch)
	if err == nil {
		err = l.verify(ctx, c)
	}
	if err == nil {
		err = l.finish(c)
	}
	if err != nil && !errors.Is(err, errEpoch) {
		err = cmp.Or(l.undo(ctx, batch, epoch), err)
	}
	if err != nil {
		return nil, nil, err
	}
	return c, append(untaken, rest...), nil
}

// applyAll applies the events of a batch, as far as they fit into one commit.
func (l *lane) applyAll(ctx context.Context, c *commit, batch []*staged) (untaken []*staged, err error) {
	for i, s := range batch {
		if i > 0 && c.messages() > record.MaxCommit-mostOfEvent {
			return slices.Clip(batch[i:]), nil
		}
		err := l.applySafely(ctx, c, s)
		if errors.Is(err, errBarrier) {
			return slices.Clip(batch[i:]), nil
		}
		if err != nil {
			return nil, err
		}
		c.events = append(c.events, s)
		if c.ends {
			return slices.Clip(batch[i+1:]), nil
		}
	}
	return nil, nil
}

// announce lets the store make ready while the batch is prepared. While another commit is under way it would only be in its
// way: both are made ready by the same hand.
func (l *lane) announce(f record.Fence) {
	l.mu.Lock()
	busy := l.inFlight > 0
	l.mu.Unlock()
	if !busy {
		l.p.Records.WillCommit(f)
	}
}

// split keeps a batch within maxBatchThreads, for which an output counts as a thread, and maxBatchOutputs. An event that is on trial
// is a batch of its own.
func (l *lane) split(batch []*staged) (now, later []*staged) {
	seen, outputs := map[events.Thread]bool{}, map[string]bool{}
	for i, s := range batch {
		output := ""
		if s.event.Kind == events.KindChunk {
			output = events.OutputKey(s.event.Thread.Session, s.chunk.Output)
		}
		if s.trial.alone() && i > 0 {
			return batch[:i], batch[i:]
		}
		if i > 0 && batch[0].trial.alone() {
			return batch[:1], batch[1:]
		}
		full := len(seen)+len(outputs) >= maxBatchThreads
		if s.known && (full && !seen[s.event.Thread] || output != "" && !outputs[output] && (full || len(outputs) == maxBatchOutputs)) {
			return batch[:i], batch[i:]
		}
		seen[s.event.Thread] = true
		if output != "" {
			outputs[output] = true
		}
	}
	return batch, nil
}

// forgetPast drops from memory the sessions that were read in an earlier term of their partition: another process may have changed
// them. What was prepared over them is through before; had another process been first, it would be refused.
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
		}
	}
	return nil
}

// loadThreads reads the heads of threads that are not in memory, and their sessions.
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
	lefts := make([]*left, len(missing))
	for i, t := range missing {
		if rs[3*i], err = l.p.ended(ctx, t, rs[3*i]); err != nil {
			return err
		}
		if rs[3*i].Removed() {
			if lefts[i], err = l.p.readLeft(ctx, t); err != nil && passing(err) {
				return err
			} else if err != nil {
				l.latch(t, rs[3*i].Seq, err)
			}
		}
	}
	for i, t := range missing {
		th := &thread{key: t, fresh: true, looked: looked, left: lefts[i], session: l.heads.session(t.Session, rs[3*i+1])}
		l.heads.threads[t] = th
		l.liftMoved(t, rs[3*i].Seq)
		if err := th.session.learnDeleted(rs[3*i+2]); err != nil {
			l.latch(t, rs[3*i].Seq, err)
		}
		if err := safely(func() error { return th.read(rs[3*i]) }); err != nil {
			l.latch(t, rs[3*i].Seq, err)
		}
	}
	return nil
}

// ended gives the record that took over when a thread ended; one that has not ended keeps its own.
func (p *Persister) ended(ctx context.Context, t events.Thread, active record.Record) (record.Record, error) {
	if !active.Removed() {
		return active, nil
	}
	rs, err := p.Records.Records(ctx, events.HistoryOf(t))
	if err != nil || !rs[0].Exists() {
		return active, err
	}
	return rs[0], nil
}

// read takes a head from its record.
func (t *thread) read(r record.Record) error {
	t.record, t.rev = r.Key, r.Seq
	if !r.Exists() {
		t.reused = r.Seq != 0 || t.session.deleted != nil
		return nil
	}
	head, err := threads.DecodeHead(r.Value)
	if err != nil {
		return fmt.Errorf("head of %s: %w", t.key, err)
	}
	t.head = head
	t.sent.Store(head.Sent)
	t.memory, err = dialect.DecodeMemory(head.Memory)
	if err != nil {
		return fmt.Errorf("head of %s: %w", t.key, err)
	}
	return nil
}

// session takes a session from its record, unless it is in memory. A record that cannot be read is written anew.
func (h *headCache) session(id string, r record.Record) *session {
	if s := h.sessions[id]; s != nil {
		return s
	}
	s := &session{id: id, info: sessions.Info{ID: id}}
	if info, err := sessions.DecodeInfo(r.Value); r.Exists() && err == nil {
		s.info, s.value = info, r.Value
	}
	h.sessions[id] = s
	return s
}

// learnDeleted takes what is known of the session's deletion.
func (s *session) learnDeleted(r record.Record) error {
	s.deleted, s.deletedRev = nil, r.Seq
	if !r.Exists() {
		return nil
	}
	d, err := record.DecodeDeleted(r.Value)
	if err != nil {
		return fmt.Errorf("%s: %w", r.Key, err)
	}
	s.deleted = &d
	return nil
}

// trim forgets threads that no commit in flight touches when there are too many.
func (h *headCache) trim() {
	if len(h.threads) <= h.limit {
		return
	}
	kept := map[string]bool{}
	for key, t := range h.threads {
		if len(h.threads) > h.limit/2 && t.pending.Load() == 0 {
			delete(h.threads, key)
			continue
		}
		kept[key.Session] = true
	}
	for id := range h.sessions {
		if !kept[id] {
			delete(h.sessions, id)
		}
	}
}

// finish writes what the commit will leave of each thread it touches. errStale: one of them does not fit into its record, and takes
// no events any more.
func (l *lane) finish(c *commit) error {
	for _, t := range c.threads {
		t.head.Batch = c.id
		t.head.Sent = max(t.head.Sent, t.sent.Load())
		t.head.Memory = t.memory.Encode()
		t.value, t.last = t.head.Encode(), t.head.N
		if t.leaves != nil {
			t.leave()
		} else if _, _, past := events.ParseHistoryKey(t.thread.record); t.head.Status == threads.StatusCompleted && !past {
			t.removes = t.thread.record
			t.thread.record = events.HistoryKey(time.UnixMilli(t.head.Updated).UTC().Format(time.DateOnly), t.key)
		}
		t.record = t.thread.record
	}
	for s := range c.infos {
		s.value = s.info.Encode()
		c.infos[s] = s.value
	}
	c.finishOutputs()
	if l.latchTooLarge(c) {
		return errStale
	}
	for _, t := range c.threads {
		t.pending.Add(1)
	}
	c.outputsPending()
	return nil
}

// latch refuses everything that comes for a thread, with its first cause: something in the store is not as it must be, and appending
// would hide it. Other threads go on. It holds over the head of one revision, and for latchFor: then what comes finds out anew, and
// so it does after a restart.
func (l *lane) latch(t events.Thread, rev uint64, cause error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.latched[t].cause == nil {
		l.latched[t] = latched{fmt.Errorf("%w: %w", errLatched, cause), rev, time.Now()}
		l.p.Log.Error("thread is latched: its events go to the dead letters", "thread", t, "error", cause)
	}
}

// latched is why a thread takes no events, over which revision of its head, and since when.
type latched struct {
	cause error
	rev   uint64
	since time.Time
}

// latchFor is how long a thread is refused before the store is looked at again: it may have been repaired.
var latchFor = 10 * time.Second

func (l *lane) latchedBy(t events.Thread) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.latched[t].cause
}

// liftDue lets the threads of a batch have another try whose latch is due for it.
func (l *lane) liftDue(batch []*staged) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.latched) == 0 {
		return
	}
	for _, s := range batch {
		t := s.event.Thread
		if held, ok := l.latched[t]; s.known && ok && time.Since(held.since) >= latchFor {
			delete(l.latched, t)
			delete(l.heads.threads, t)
		}
	}
}

// liftMoved lets a thread have another try whose head is of another revision than the one that failed.
func (l *lane) liftMoved(t events.Thread, rev uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if held, ok := l.latched[t]; ok && held.rev != rev {
		delete(l.latched, t)
	}
}

// errLatched: the thread takes no more events.
var errLatched = errors.New("thread is latched")
