package persist_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"spool/internal/persist"
	"spool/internal/persist/persistnats"
	"spool/pkg/client"
	"spool/pkg/events"
)

// mortal is a persister that is fed by hand and dies at a durable step.
type mortal struct {
	*persist.Persister
	died chan error
}

// doomed starts one that dies when it comes to that step; "": it lives until the test ends.
func (r *rig) doomed(at persist.Step, change func(*persist.Deps, *persist.Config)) *mortal {
	deps := persistnats.Deps(r.conn, 0, 0)
	deps.Packs, deps.Search = r.conn.Store(0), nil
	deps.At = func(s persist.Step) error {
		if s == at {
			return errKilled
		}
		return nil
	}
	cfg := persist.Config{BatchEvents: 20}
	if change != nil {
		change(&deps, &cfg)
	}
	m := &mortal{persist.New(deps, cfg), make(chan error, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	go func() { m.died <- m.Run(ctx) }()
	r.t.Cleanup(cancel)
	return m
}

// passing is a refusal for a reason that passes.
type passing struct {
	name    string
	publish func(r *rig, in events.Thread) // the event, alone in its message
	blind   func(*persist.Deps, *persist.Config)
	garbled bool         // the first persister gets bytes that nobody can read
	settle  func(r *rig) // takes the reason away
	applied func(r *rig, in events.Thread) bool
}

func forkOf(source events.Thread) func(*rig, events.Thread) {
	return func(r *rig, in events.Thread) {
		op := events.Control{Op: events.OpFork, Fork: &events.Fork{Session: source.Session, Thread: source.Name}}
		ok(r.t, r.Publisher(client.PublisherConfig{Producer: "late"}).Control(r.t.Context(), in, 1, op))
	}
}

func saysSmall(r *rig, in events.Thread) {
	e := client.Entry{Thread: in, Dialect: "omp", Body: message("small", "user", 3000), Seq: 1}
	ok(r.t, r.Publisher(client.PublisherConfig{Producer: "late"}).Publish(r.t.Context(), e))
}

func hasEntry(r *rig, in events.Thread) bool {
	h, err := r.Thread(r.t.Context(), in)
	return err == nil && h.Entries == 2
}

var passings = []passing{{
	name:    "a fork that makes a thread",
	publish: forkOf(events.Thread{Session: "source", Name: "main"}),
	settle: func(r *rig) {
		r.publish(r.Publisher(client.PublisherConfig{Producer: "p"}), events.Thread{Session: "source", Name: "main"}, 0, 3)
		r.give(r.deaf(), r.lastSeq(events.EventsStream), r.lastSeq(events.EventsStream))
		r.await(events.Thread{Session: "source", Name: "main"}, "p", 3)
	},
	applied: func(r *rig, in events.Thread) bool {
		_, err := r.Thread(r.t.Context(), in)
		return err == nil
	},
}, {
	name:    "an entry of a thread",
	publish: saysSmall,
	blind:   func(_ *persist.Deps, c *persist.Config) { c.MaxEntry = 2000 },
	applied: hasEntry,
}, {
	name:    "an event that nothing decodes",
	publish: saysSmall,
	garbled: true,
	applied: hasEntry,
}}

// asStored writes letters with the bytes that EVENTS has.
type asStored struct {
	persist.Outbox
	data []byte
}

func (o asStored) Dead(ctx context.Context, letters []events.Dead) error {
	for i := range letters {
		letters[i].Data = o.data
	}
	return o.Outbox.Dead(ctx, letters)
}

// An event that is refused is a dead letter once or is applied, wherever the persister dies, although the reason has passed when the
// event comes again.
func TestDeadOrApplied(t *testing.T) {
	for _, c := range passings {
		for _, at := range []persist.Step{persist.StepFence, persist.StepCommit, persist.StepLetters, persist.StepAck} {
			t.Run(fmt.Sprint(c.name, " ", at), func(t *testing.T) {
				t.Parallel()
				deadOrApplied(t, c, at)
			})
		}
	}
}

func deadOrApplied(t *testing.T, c passing, at persist.Step) {
	r := newRig(t)
	in := thread(0)
	if c.settle == nil { // the thread exists
		r.publish(r.Publisher(client.PublisherConfig{Producer: "q"}), in, 0, 1)
		r.give(r.deaf(), 1, 1)
		r.await(in, "q", 1)
	}
	c.publish(r, in)
	seq := r.lastSeq(events.EventsStream)
	m := r.message(seq, 1)
	if c.garbled {
		m.Data = []byte("\x93nobody")
	}
	first := r.doomed(at, func(d *persist.Deps, cfg *persist.Config) {
		d.Outbox = asStored{d.Outbox, r.message(seq, 1).Data}
		if c.blind != nil {
			c.blind(d, cfg)
		}
	})
	first.Deliver(t.Context(), m)
	first.wait(t, at)
	if c.settle != nil {
		c.settle(r)
	}
	second := r.doomed("", nil)
	for term := range uint64(2) { // the ack is lost too
		second.Deliver(t.Context(), r.message(seq, 2+term))
		r.through(second.Persister, int64(term)+1)
	}
	why, applied := r.whyDead(), c.applied(r, in)
	noted := at != persist.StepFence && at != persist.StepCommit
	if noted && (applied || len(why) != 1) || !noted && (!applied || len(why) != 0) {
		t.Errorf("applied: %v, dead letters %q; want it refused once it was noted: %v", applied, why, noted)
	}
}

// wait returns when it is dead.
func (m *mortal) wait(t *testing.T, at persist.Step) {
	t.Helper()
	select {
	case err := <-m.died:
		if !errors.Is(err, errKilled) {
			t.Fatalf("Run() = %v, want it killed at %s", err, at)
		}
	case <-time.After(20 * time.Second):
		t.Fatalf("it goes on behind %s", at)
	}
}

// message is a stored event as a consumer gives it in a term of its partition.
func (r *rig) message(seq, term uint64) persist.Message {
	r.t.Helper()
	s, err := r.conn.JetStream().Stream(r.t.Context(), events.EventsStream)
	ok(r.t, err)
	m, err := s.GetMsg(r.t.Context(), seq)
	ok(r.t, err)
	return persist.Message{
		Subject: m.Subject, Data: m.Data, Seq: seq, Stored: m.Time.UnixNano(), Term: term, Ack: func() error { return nil },
	}
}
