package persist

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"spool/internal/record"
	"spool/pkg/artifacts"
	"spool/pkg/dialect"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// ErrRun is wrapped by every refusal of a sign of life of a run: what is wrong with it, and what to do.
var ErrRun = errors.New("run")

const (
	maxRuns  = 64 // records of runs that go into a commit
	keptRuns = 64 // runs of a thread that stay in memory while nothing is under way
)

// sign applies a sign of life of a run (SPEC A6). Its record says where the run stands and for how long that counts. When the
// lease is over nobody writes anything: whoever reads the record counts the run as failed, by the server's clock. A run is
// its thread's, so that two persisters that both apply its signs contend for the head, which each sign moves.
func (l *lane) sign(ctx context.Context, c *commit, t *thread, s *staged, op events.Run) error {
	key := events.RunKey(t.key.Session, op.ID)
	was, rev, err := l.knownRun(ctx, c, t, op)
	if err != nil {
		return err
	}
	if was == nil && t.head.Status == threads.StatusCompleted {
		return fmt.Errorf("%w: %s: begin the run in another thread", ErrEnded, t.key)
	}
	next, err := follow(was, t, s, op)
	if err != nil {
		return err
	}
	put, here := c.runs[key]
	switch {
	case !here && len(c.runs) >= maxRuns, here && was == nil: // begun by another thread in this very batch
		return errBarrier
	case was != nil && t.head.Start.IsZero():
		return fmt.Errorf("%w %s: its thread %s is not there any more", ErrRun, op.ID, t.key)
	}

	// From here on nothing fails.
	c.news(t, s, t.head)
	if t.head.Start.IsZero() {
		c.start(t, resultDialect, nil)
		s.timestamp(t, 0)
		if t.session.learn(t, s, &dialect.Entry{}) {
			c.infos[t.session] = nil
		}
	}
	if was != nil && renewed(*was, next) {
		return nil
	}
	if !here {
		put = record.Put{Key: key, Expect: record.Any} // the head carries the expectation
	}
	if was == nil {
		put.Expect = rev // another thread may be beginning a run of that id
	}
	put.Value = next.Encode()
	if c.runs == nil {
		c.runs = map[string]record.Put{}
	}
	if t.runs == nil {
		t.runs = map[string]record.Run{}
	}
	c.runs[key], t.runs[op.ID] = put, next
	return nil
}

// knownRun gives a run as the last prepared commit will leave it; nil if there is none, and the revision to expect then. What
// is not in memory no commit in flight has changed, so the store can be asked.
func (l *lane) knownRun(ctx context.Context, c *commit, t *thread, op events.Run) (*record.Run, uint64, error) {
	if err := op.Validate(); err != nil {
		return nil, 0, fmt.Errorf("%w: %w", events.ErrControl, err)
	}
	if r, ok := t.runs[op.ID]; ok {
		return &r, 0, nil
	}
	if c.byKey[t.key] == nil && t.pending.Load() == 0 && len(t.runs) >= keptRuns {
		clear(t.runs)
	}
	var rs []record.Record
	err := l.p.retry(ctx, "run", func() (err error) {
		rs, err = l.p.Records.Records(ctx, events.RunKey(t.key.Session, op.ID))
		return err
	})
	if err != nil {
		return nil, 0, err
	}
	if !rs[0].Exists() {
		return nil, rs[0].Seq, nil
	}
	r, err := record.DecodeRun(rs[0].Value)
	return &r, 0, err
}

// follow is a run after a sign of life; was is nil for the first one.
func follow(was *record.Run, t *thread, s *staged, op events.Run) (record.Run, error) {
	state, err := artifacts.ParseRunStatus(op.State)
	if err != nil {
		return record.Run{}, fmt.Errorf("%w: %w", events.ErrControl, err)
	}
	next := record.Run{ID: op.ID, Thread: t.key.Name, Begun: s.event.Time}
	switch {
	case was == nil && state.Ended():
		return next, fmt.Errorf("%w %s was never begun, and can not be %s: publish that it is queued, pending or running first", ErrRun, op.ID, state)
	case was != nil && was.Thread != t.key.Name:
		return next, fmt.Errorf("%w %s belongs to the thread %s", ErrRun, op.ID, was.Thread)
	case was != nil && !was.Status.CanBecome(state):
		err := fmt.Errorf("%w %s is %s, and can not be %s again", ErrRun, op.ID, was.Status, state)
		if was.Status.Ended() {
			err = fmt.Errorf("%w %s has ended, it is %s, and can not be %s: begin another run, with an id of its own", ErrRun, op.ID, was.Status, state)
		}
		return next, err
	case was != nil:
		next = *was
	}
	next.Status, next.Touched = state, s.event.Time
	next.Agent, next.Summary, next.Lease = cmp.Or(op.Agent, next.Agent), cmp.Or(op.Summary, next.Summary), cmp.Or(op.Lease, next.Lease)
	if state == artifacts.RunRunning && next.Lease == 0 {
		return next, fmt.Errorf("%w: run %s runs without a lease: say for how many milliseconds a sign of life counts", events.ErrControl, op.ID)
	}
	return next, nil
}

// renewed reports whether a sign of life says nothing new, so soon after the last record that the lease need not be written
// again: two thirds of it are left.
func renewed(was, next record.Run) bool {
	since := next.Touched - was.Touched
	soon := was.Touched != 0 && since >= 0 && since < next.Lease/3 || next.Status.Ended() || next.Lease == 0
	next.Touched = was.Touched
	return soon && next == was
}

// ofRun reports whether an event is of a run, which may outlive its thread.
func ofRun(s *staged) bool {
	if s.event.Kind != events.KindControl {
		return false
	}
	op, err := events.ParseControl(s.event.Body)
	return err == nil && op.Op == events.OpRun
}
