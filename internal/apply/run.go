package apply

import (
	"cmp"
	"context"
	"fmt"

	"spool/internal/record"
	"spool/pkg/artifacts"
	"spool/pkg/dialect"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// RunChange is a run after a sign of life, and its record.
type RunChange struct {
	Put record.Put
	Run record.Run
}

// MaxRuns is how many records of runs go into a commit.
const MaxRuns = 64

// sign applies a sign of life of a run (SPEC A6). Its record says where the run stands and for how long that counts.
// When the lease is over nobody writes anything: whoever reads the record counts the run as failed, by the server's
// clock. A run is its thread's, so that two persisters that both apply its signs contend for the head, which each sign
// moves.
func (d *draft) sign(ctx context.Context, op events.Run) error {
	key := events.RunKey(d.st.Key.Session, op.ID)
	was, rev, err := d.knownRun(ctx, op)
	if err != nil {
		return err
	}
	if was == nil && d.Head.Status == threads.StatusCompleted {
		return fmt.Errorf("%w: %s: begin the run in another thread", ErrEnded, d.st.Key)
	}
	next, err := d.follow(was, op)
	if err != nil {
		return err
	}
	put, here := d.st.Batch.Runs[key]
	switch {
	case !here && len(d.st.Batch.Runs) >= MaxRuns, here && was == nil: // begun by another thread in this very batch
		return ErrNextCommit
	case was != nil && d.Head.Start.IsZero():
		return fmt.Errorf("%w %s: its thread %s is not there any more", ErrRun, op.ID, d.st.Key)
	}
	d.note(d.Head)
	d.seeAgent(op.Agent)
	if d.Head.Start.IsZero() {
		d.start(itemDialect, nil)
		d.timestamp(0)
		d.learn(&dialect.Entry{})
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
	d.Run = &RunChange{put, next}
	return nil
}

// knownRun gives a run as the last prepared commit will leave it; nil if there is none, and the revision to expect
// then. What is not in memory no commit in flight has changed, so the store can be asked.
func (d *draft) knownRun(ctx context.Context, op events.Run) (*record.Run, uint64, error) {
	if err := op.Validate(); err != nil {
		return nil, 0, fmt.Errorf("%w: %w", events.ErrControl, err)
	}
	if r, ok := d.st.Runs[op.ID]; ok {
		return &r, 0, nil
	}
	rs, err := d.w.Records(ctx, events.RunKey(d.st.Key.Session, op.ID))
	if err != nil {
		return nil, 0, err
	}
	if !rs[0].Exists() {
		return nil, rs[0].Seq, nil
	}
	r, err := record.DecodeRun(rs[0].Value)
	return &r, 0, err
}

// ownRun is the id of a run, or "" if the session of the event has no such run. Any thread of the session may have begun
// it, perhaps in a commit in flight.
func (d *draft) ownRun(ctx context.Context, id string) (string, error) {
	if events.CheckToken("run", id) != nil {
		return "", nil
	}
	key := events.RunKey(d.st.Key.Session, id)
	if _, here := d.st.Batch.Runs[key]; here {
		return id, nil
	}
	there, err := d.stored(ctx, key)
	if !there && err == nil {
		if err = d.w.Settle(ctx); err == nil {
			there, err = d.stored(ctx, key)
		}
	}
	if !there {
		id = ""
	}
	return id, err
}

// stored reports whether there is a record.
func (d *draft) stored(ctx context.Context, key string) (bool, error) {
	rs, err := d.w.Records(ctx, key)
	return err == nil && rs[0].Exists(), err
}

// follow is a run after a sign of life; was is nil for the first one.
func (d *draft) follow(was *record.Run, op events.Run) (record.Run, error) {
	state, err := artifacts.ParseRunStatus(op.State)
	if err != nil {
		return record.Run{}, fmt.Errorf("%w: %w", events.ErrControl, err)
	}
	next := record.Run{ID: op.ID, Thread: d.st.Key.Name, Begun: d.e.when()}
	switch {
	case was == nil && state.Ended():
		return next, fmt.Errorf("%w %s was never begun, and can not be %s: publish that it is queued, pending or running first",
			ErrRun, op.ID, state)
	case was != nil && was.Thread != d.st.Key.Name:
		return next, fmt.Errorf("%w %s belongs to the thread %s", ErrRun, op.ID, was.Thread)
	case was != nil && !was.Status.CanBecome(state):
		err := fmt.Errorf("%w %s is %s, and can not be %s again", ErrRun, op.ID, was.Status, state)
		if was.Status.Ended() {
			err = fmt.Errorf("%w %s has ended, it is %s, and can not be %s: begin another run, with an id of its own",
				ErrRun, op.ID, was.Status, state)
		}
		return next, err
	case was != nil:
		next = *was
	}
	next.Status, next.Touched = state, d.e.when()
	next.Agent, next.Summary = cmp.Or(op.Agent, next.Agent), cmp.Or(op.Summary, next.Summary)
	next.Lease = cmp.Or(op.Lease, next.Lease)
	if state == artifacts.RunRunning && next.Lease == 0 {
		return next, fmt.Errorf("%w: run %s runs without a lease: say for how many milliseconds a sign of life counts",
			events.ErrControl, op.ID)
	}
	return next, nil
}

// renewed reports whether a sign of life says nothing new, so soon after the last record that the lease need not be
// written again: two thirds of it are left.
func renewed(was, next record.Run) bool {
	since := next.Touched - was.Touched
	soon := was.Touched != 0 && since >= 0 && since < next.Lease/3 || next.Status.Ended() || next.Lease == 0
	next.Touched = was.Touched
	return soon && next == was
}
