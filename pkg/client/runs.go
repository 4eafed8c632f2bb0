package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"

	"spool/internal/family"
	"spool/internal/mapped"
	"spool/internal/natsio"
	"spool/internal/record"
	"spool/internal/sleep"
	"spool/pkg/artifacts"
	"spool/pkg/events"
)

// RunConfig describes a run of an agent. The zero value works.
type RunConfig struct {
	ID    string              // names the run in its session, for ever; "" = a new one
	Agent string              // who runs
	State artifacts.RunStatus // queued, pending or running; "" = running
	// Lease is how long a sign of life counts, from a second to seven days; 0 = a minute. A living Run gives one every 2/5 of it.
	Lease      time.Duration
	Summary    string // what it is about
	User, Host string // as in PublisherConfig
}

const (
	defaultLease = time.Minute
	leastLease   = time.Second
)

var (
	// ErrNoRun: there is no run of that id in the session.
	ErrNoRun    = family.NotFound.New("no such run")
	errRunEnded = family.Conflict.New("the run has ended")
)

// Run is a run of an agent that this program keeps alive (SPEC A6). When the program dies the run counts as failed as soon as
// its lease is over. Safe for concurrent use.
type Run struct {
	client *Client
	thread events.Thread
	id     string
	pub    *Publisher

	ended  chan struct{} // closed when the run has ended
	beats  context.Context
	cancel context.CancelFunc // of beats
	done   chan struct{}      // closed when no beat will come

	mu    sync.Mutex
	state artifacts.RunStatus
	seq   uint64 // of the last event; never used again, also when nobody knows whether its event was stored
}

// StartRun begins a run in a thread, or goes on with the one of that ID, and returns when that is durable; a thread that is not
// there begins with it. Signs of life follow until End, or until ctx ends. ErrConflict: a run of that ID has
// ended, or the thread has (ErrEnded).
func (t ThreadHandle) StartRun(ctx context.Context, cfg RunConfig) (*Run, error) {
	cfg.ID = cmp.Or(cfg.ID, ulid.Make().String())
	cfg.State, cfg.Lease = cmp.Or(cfg.State, artifacts.RunRunning), cmp.Or(cfg.Lease, defaultLease)
	op := events.Run{ID: cfg.ID, State: string(cfg.State), Agent: cfg.Agent, Lease: cfg.Lease.Milliseconds(), Summary: cfg.Summary}
	_, bad := artifacts.ParseRunStatus(op.State)
	if bad == nil && cfg.State.Ended() {
		bad = fmt.Errorf("%w: a run does not begin as %s", events.ErrControl, cfg.State)
	}
	if cfg.Lease < leastLease {
		bad = errors.Join(bad, fmt.Errorf("%w: lease of %v; use at least %v", events.ErrControl, cfg.Lease, leastLease))
	}
	if err := errors.Join(t.Validate(), checkRun(op), bad); err != nil {
		return nil, fmt.Errorf("run %s: %w", cfg.ID, err)
	}
	r := &Run{
		client: t.c, thread: t.Thread, id: cfg.ID, pub: t.c.Publisher(PublisherConfig{User: cfg.User, Host: cfg.Host}), state: cfg.State,
		ended: make(chan struct{}), done: make(chan struct{}),
	}
	was, err := t.c.run(ctx, t.Session, cfg.ID)
	switch {
	case errors.Is(err, ErrNoRun):
	case err != nil:
		return nil, err
	case was.Status.Ended():
		return nil, endedAs(was)
	case was.Thread != t.Name:
		return nil, fmt.Errorf("%w: run %s belongs to the thread %s/%s", events.ErrControl, cfg.ID, t.Session, was.Thread)
	case !was.Status.CanBecome(cfg.State):
		return nil, fmt.Errorf("%w: run %s is %s and can not be %s again", events.ErrControl, cfg.ID, was.Status, cfg.State)
	}
	if err := t.Takes(ctx); err != nil {
		return nil, fmt.Errorf("run %s: %w", cfg.ID, err)
	}
	if err := r.publish(ctx, op); err != nil {
		return nil, err
	}
	r.beats, r.cancel = context.WithCancel(ctx)
	go r.beat(cfg.Lease * 2 / 5) // above a third of it, below which the persister does not write the record again
	return r, nil
}

func checkRun(op events.Run) error {
	if err := op.Validate(); err != nil {
		return fmt.Errorf("%w: %w", events.ErrControl, err)
	}
	return nil
}

// ID names the run in its session.
func (r *Run) ID() string { return r.id }

// Ended is closed when the run has ended, also by somebody else's hand: then the agent is to stop. That is noticed within a
// lease.
func (r *Run) Ended() <-chan struct{} { return r.ended }

// Set says that the run is pending or running now, and what it is about; an empty summary leaves that as it was.
func (r *Run) Set(ctx context.Context, state artifacts.RunStatus, summary string) error {
	r.mu.Lock()
	was := r.state
	r.mu.Unlock()
	if state.Ended() || !was.CanBecome(state) {
		return fmt.Errorf("run %s is %s: Set can not make it %q", r.id, was, state)
	}
	return r.publish(ctx, events.Run{ID: r.id, State: string(state), Summary: summary})
}

// End ends the run and returns when that is durable: completed, failed, aborted or cancelled. ErrConflict: it has ended
// before, in another state. After another error it may be called again; no signs of life follow.
func (r *Run) End(ctx context.Context, state artifacts.RunStatus, summary string) error {
	if !state.Ended() {
		return fmt.Errorf("run %s can not end as %q: use completed, failed, aborted or cancelled", r.id, state)
	}
	r.cancel()
	<-r.done
	was, err := r.client.run(ctx, r.thread.Session, r.id)
	switch {
	case err == nil && was.Status == state:
	case err == nil && was.Status.Ended():
		err = endedAs(was)
	case err == nil || errors.Is(err, ErrNoRun): // not applied yet
		err = r.publish(ctx, events.Run{ID: r.id, State: string(state), Summary: summary})
	}
	if err != nil && !errors.Is(err, errRunEnded) {
		return err
	}
	r.over()
	return err
}

// Wait returns when the last that was said of the run is applied. ErrRefused: its thread has ended, or another thread began a run of
// that id first.
func (r *Run) Wait(ctx context.Context) error {
	r.mu.Lock()
	seq := r.seq
	r.mu.Unlock()
	if err := r.client.awaitStored(ctx, r.thread, r.pub.Producer(), 0, seq); err != nil {
		return err
	}
	now, err := r.client.run(ctx, r.thread.Session, r.id)
	if errors.Is(err, ErrNoRun) || err == nil && now.Thread != r.thread.Name {
		why := r.client.unrefused(ctx, waited{thread: r.thread, producer: r.pub.Producer(), first: 1, seq: seq})
		if !errors.Is(why, ErrRefused) { // the letter cannot be read
			why = ErrRefused
		}
		err = fmt.Errorf("run %s of %s: %w", r.id, r.thread, why)
	}
	return err
}

func (r *Run) over() {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-r.ended:
	default:
		close(r.ended)
	}
}

func (r *Run) publish(ctx context.Context, op events.Run) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if op.State == "" { // a beat
		op.State = string(r.state)
	}
	r.seq++
	if err := r.pub.Control(ctx, r.thread, r.seq, events.Control{Op: events.OpRun, Run: &op}); err != nil {
		return fmt.Errorf("run %s of %s: %w", r.id, r.thread, err)
	}
	r.state = artifacts.RunStatus(op.State)
	return nil
}

// beat renews the lease until End is called or the run is found to have ended. A beat that fails is left to the next one. Where there
// is no record of the run there is no lease yet, or none to come: its beginning may be refused, and each beat would be too.
func (r *Run) beat(every time.Duration) {
	defer close(r.done)
	for range sleep.Every(r.beats, every) {
		ctx, cancel := context.WithTimeout(r.beats, every)
		was, err := r.client.run(ctx, r.thread.Session, r.id)
		if err == nil && was.Status.Ended() {
			cancel()
			r.over()
			return
		}
		if !errors.Is(err, ErrNoRun) && (err != nil || was.Thread == r.thread.Name) {
			_ = r.publish(ctx, events.Run{ID: r.id})
		}
		cancel()
	}
}

func (c *Client) run(ctx context.Context, session, id string) (record.Run, error) {
	if err := errors.Join(events.CheckToken("session", session), events.CheckToken("run", id)); err != nil {
		return record.Run{}, err
	}
	rs, err := c.records.Records(ctx, events.RunKey(session, id))
	if err != nil {
		return record.Run{}, err
	}
	if !rs[0].Exists() {
		return record.Run{}, fmt.Errorf("%w: %s in the session %s", ErrNoRun, id, session)
	}
	return record.DecodeRun(rs[0].Value)
}

// awaitRun returns when there is a run. ErrNoRun: persisters are done with all that was published to the session before, and there is none.
func (c *Client) awaitRun(ctx context.Context, session, id string) error {
	look := func() error {
		_, err := c.run(ctx, session, id)
		return err
	}
	if err := look(); !errors.Is(err, ErrNoRun) {
		return err
	}
	every := events.Thread{Session: session, Name: events.EveryThread}
	return c.awaiting(ctx, every, look, func(_ natsio.Newest, err error) bool { return !errors.Is(err, ErrNoRun) })
}

func endedAs(r record.Run) error { return fmt.Errorf("%w: %s is %s", errRunEnded, r.ID, r.Status) }

// EndRun ends a run from outside and returns when that is applied; its agent learns it with its next sign of life. ErrNoRun:
// there is none of that id. ErrConflict: it has ended before.
func (s SessionHandle) EndRun(ctx context.Context, id string, state artifacts.RunStatus, summary string) error {
	if !state.Ended() {
		return fmt.Errorf("%w: run %s can not end as %q: use completed, failed, aborted or cancelled", events.ErrControl, id, state)
	}
	was, err := s.c.run(ctx, s.ID, id)
	if err != nil {
		return err
	}
	if was.Status.Ended() {
		return endedAs(was)
	}
	now, err := s.c.signOf(ctx, s.ID, was, events.Run{ID: id, State: string(state), Summary: summary})
	if err == nil && now.Status != state { // another end was first
		err = endedAs(now)
	}
	return err
}

// RenewRun gives a sign of life of a run that another program began, and returns when that is applied: its lease begins anew. Of cfg
// State, Lease and Summary count; what is zero stays as it was. ErrNoRun: there is none of that id. ErrConflict: it has ended.
func (s SessionHandle) RenewRun(ctx context.Context, id string, cfg RunConfig) error {
	was, err := s.c.run(ctx, s.ID, id)
	if err != nil {
		return err
	}
	state := cmp.Or(cfg.State, was.Status)
	switch _, bad := artifacts.ParseRunStatus(string(state)); {
	case was.Status.Ended():
		return endedAs(was)
	case bad != nil:
		return fmt.Errorf("%w: run %s: %w", events.ErrControl, id, bad)
	case state.Ended(), !was.Status.CanBecome(state):
		return fmt.Errorf("%w: run %s is %s: a sign of life can not make it %s", events.ErrControl, id, was.Status, state)
	case cfg.Lease != 0 && cfg.Lease < leastLease:
		return fmt.Errorf("%w: run %s: lease of %v; use at least %v", events.ErrControl, id, cfg.Lease, leastLease)
	}
	op := events.Run{ID: id, State: string(state), Lease: cfg.Lease.Milliseconds(), Summary: cfg.Summary}
	if state == artifacts.RunRunning && was.Lease == 0 {
		op.Lease = cmp.Or(op.Lease, defaultLease.Milliseconds())
	}
	now, err := s.c.signOf(ctx, s.ID, was, op)
	if err == nil && now.Status.Ended() { // an end was first
		err = endedAs(now)
	}
	return err
}

// signOf publishes what somebody says of a run from outside, and gives the run when that is applied.
func (c *Client) signOf(ctx context.Context, session string, was record.Run, op events.Run) (record.Run, error) {
	if err := checkRun(op); err != nil {
		return was, err
	}
	t := events.Thread{Session: session, Name: was.Thread}
	p := c.Publisher(PublisherConfig{})
	if err := p.Control(ctx, t, 1, events.Control{Op: events.OpRun, Run: &op}); err != nil {
		return was, err
	}
	if err := c.awaitStored(ctx, t, p.Producer(), 0, 1); err != nil {
		return was, err
	}
	return c.run(ctx, session, was.ID)
}

// RunInfo is a run as it counts at the moment of its listing.
type RunInfo struct {
	Thread  events.Thread
	ID      string
	Agent   string
	State   artifacts.RunStatus // failed when the lease is over
	Summary string
	Begun   time.Time     // by the agent's clock; zero = unknown
	Touched time.Time     // of the last sign of life that is on record
	Left    time.Duration // of the lease, by the server's clock; 0 when there is none
	Expired bool          // nobody said that it failed: its lease is over
}

// Active reports whether the run keeps its session from being deleted.
func (r RunInfo) Active() bool { return !r.State.Ended() }

// Runs lists the runs, the ended ones too, ordered by session and id. It reads
// records, never threads.
func (s SessionHandle) Runs(ctx context.Context) ([]RunInfo, error) {
	if s.ID != "" {
		if err := events.CheckToken("session", s.ID); err != nil {
			return nil, err
		}
	}
	seen, err := s.c.sessions.Runs(ctx, s.ID)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	out := mapped.List(seen, func(s record.Seen) RunInfo { return runInfo(s, now) })
	return out, nil
}

// Working says which of some sessions may have runs, or prompts that wait. It costs a request for each, whatever the store holds.
func (i Internal) Working(ctx context.Context, ids []string) (map[string]bool, error) {
	keys := slices.Concat(mapped.List(ids, events.RunKeys), mapped.List(ids, events.PromptKeys))
	newest, err := i.c.records.Records(ctx, keys...)
	working := map[string]bool{}
	for k, r := range newest {
		if r.Seq > 0 { // removed or not: older ones may be there
			working[ids[k%len(ids)]] = true
		}
	}
	return working, err
}

// runInfo is a run that was seen now.
func runInfo(s record.Seen, now time.Time) RunInfo {
	r := s.At(now)
	info := RunInfo{
		Thread: events.Thread{Session: s.Session, Name: s.Thread}, ID: s.ID, Agent: s.Agent, State: r.Standing(now), Summary: s.Summary,
		Begun: whenever(s.Begun), Touched: whenever(s.Touched), Expired: r.Standing(now) != s.Status,
	}
	if !r.Lease.IsZero() && info.Active() {
		info.Left = r.Lease.Sub(now)
	}
	return info
}

// RunJSON is a run as programs read it. What is empty is left out.
func RunJSON(r RunInfo) any {
	return struct {
		Session string `json:"session"`
		Thread  string `json:"thread"`
		ID      string `json:"run"`
		Agent   string `json:"agent,omitempty"`
		State   string `json:"state"`
		Expired bool   `json:"expired,omitempty"`
		Summary string `json:"summary,omitempty"`
		Begun   string `json:"begun_at,omitempty"`
		Touched string `json:"touched_at,omitempty"`
		Left    int64  `json:"lease_left_ms,omitempty"`
	}{
		r.Thread.Session, r.Thread.Name, r.ID, r.Agent, string(r.State), r.Expired, r.Summary, events.StampOf(r.Begun),
		events.StampOf(r.Touched), r.Left.Milliseconds(),
	}
}

// RunEnds gives runs as they end, by a sign or since a lease is over, to whoever has a name; "": to
// this call alone, those that end from now on. take says in how long a run is to be given again; 0: it is done with. Where the last one
// that had the name stopped, the next goes on.
func (s SessionHandle) RunEnds(ctx context.Context, name string, take func(RunInfo) (again time.Duration)) error {
	if s.ID != "" {
		if err := events.CheckToken("session", s.ID); err != nil {
			return err
		}
	}
	return natsio.Changes(ctx, s.c.records, name, events.RunKeys(s.ID), func(ch natsio.Change) time.Duration {
		run, err := record.DecodeRun(ch.Value)
		if !ch.Exists() || err != nil { // removed, or unreadable: fsck says so
			return 0
		}
		seen := record.Seen{Run: run, Ago: ch.Age}
		seen.Session, _, _ = events.ParseRunKey(ch.Key)
		info := runInfo(seen, time.Now())
		ended := ch.Age
		if info.Expired {
			ended -= events.Millis(run.Lease)
		}
		switch {
		case info.Active():
			return info.Left // 0: it has no lease, and its next sign comes by itself
		case ended > ch.Since:
			return 0
		}
		return take(info)
	})
}
