package persist_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"spool/internal/must"
	"spool/internal/persist"
	"spool/internal/persist/persistnats"
	"spool/internal/record"
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
	deps.At = dieAt(at, 1)
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
		must.Do(r.t, r.Publisher(client.PublisherConfig{Producer: "late"}).Control(r.t.Context(), in, 1, op))
	}
}

func saysSmall(r *rig, in events.Thread) {
	e := client.Entry{Thread: in, Dialect: "omp", Body: message("small", "user", 3000), Seq: 1}
	must.Get(r.Publisher(client.PublisherConfig{Producer: "late"}).Publish(r.t.Context(), e))(r.t)
}

func hasEntry(r *rig, in events.Thread) bool {
	h, err := r.Thread(in).Head(r.t.Context())
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
		_, err := r.Thread(in).Head(r.t.Context())
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
		for _, at := range []persist.Step{
			persist.StepFence, persist.StepBulk, persist.StepCommit, persist.StepLetters, persist.StepItems, persist.StepAck,
		} {
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
	noted := at == persist.StepLetters || at == persist.StepItems || at == persist.StepAck
	if noted && (applied || len(why) != 1) || !noted && (!applied || len(why) != 0) {
		t.Errorf("applied: %v, dead letters %q; want it refused once it was noted: %v", applied, why, noted)
	}
}

// wait returns when it is dead.
func (m *mortal) wait(t *testing.T, at persist.Step) {
	t.Helper()
	err := must.Receive(t, m.died, "it goes on behind %s", at)
	if !errors.Is(err, errKilled) {
		t.Fatalf("Run() = %v, want it killed at %s", err, at)
	}
}

// message is a stored event as a consumer gives it in a term of its partition.
func (r *rig) message(seq, term uint64) persist.Message {
	r.t.Helper()
	s := must.Get(r.conn.JetStream().Stream(r.t.Context(), events.EventsStream))(r.t)
	m := must.Get(s.GetMsg(r.t.Context(), seq))(r.t)
	return persist.Message{
		Subject: m.Subject, Data: m.Data, Seq: seq, Stored: m.Time.UnixNano(), Term: term, Ack: func() error { return nil },
	}
}

// holdAt changes a persister so that it waits at its first step of a kind, until goOn.
func holdAt(at persist.Step) (arrived <-chan struct{}, goOn func(), change func(*persist.Deps, *persist.Config)) {
	there, hold := make(chan struct{}), make(chan struct{})
	var once sync.Once
	return there, sync.OnceFunc(func() { close(hold) }), func(d *persist.Deps, _ *persist.Config) {
		d.At = func(s persist.Step) error {
			if s == at {
				once.Do(func() {
					close(there)
					<-hold
				})
			}
			return nil
		}
	}
}

// held is a persister that waits before its first commit.
func (r *rig) held() (p *persist.Persister, at <-chan struct{}, goOn func()) {
	at, goOn, change := holdAt(persist.StepCommit)
	return r.deaf(change), at, goOn
}

// inTurn lets go of one persister that is held, and of the other when the first is through with its event.
func (r *rig) inTurn(first, second *persist.Persister, goOnFirst, goOnSecond func()) {
	r.t.Helper()
	goOnFirst()
	r.through(first, 1)
	goOnSecond()
	r.through(second, 1)
}

// Of two persisters that have an event, one of which refuses it and the other applies it, the first one counts for both.
func TestRefusedByOneAppliedByTheOther(t *testing.T) {
	for _, refusalFirst := range []bool{true, false} {
		t.Run(fmt.Sprint("refused first: ", refusalFirst), func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			c, in := passings[0], thread(0)
			a, aAt, aGoOn := r.held()
			b, bAt, bGoOn := r.held()
			defer aGoOn()
			defer bGoOn()
			c.publish(r, in)
			r.give(a, 1, 1)
			<-aAt // it has judged the event
			c.settle(r)
			r.give(b, 1, 1)
			<-bAt
			if refusalFirst {
				r.inTurn(a, b, aGoOn, bGoOn)
			} else {
				r.inTurn(b, a, bGoOn, aGoOn)
			}
			why, applied := r.whyDead(), c.applied(r, in)
			if applied == refusalFirst || len(why) > 0 != refusalFirst {
				t.Errorf("applied: %v, dead letters %q", applied, why)
			}
		})
	}
}

// An event that the record has forgotten, because others were refused since, is refused again by its letter.
func TestRefusedAndForgotten(t *testing.T) {
	r := newRig(t)
	c, in := passings[0], thread(0)
	c.publish(r, in)
	c.publish(r, thread(1))
	first := r.deaf()
	for seq := uint64(1); seq <= 2; seq++ { // no ack is heard
		r.give(first, seq, seq)
		r.through(first, int64(seq))
	}
	if v, err := record.DecodeRefused(r.record(events.RefusedKey(0)).Value); err != nil || len(v.Events) != 1 || v.Events[0].Seq != 2 {
		t.Fatalf("the record is %+v, %v, want that it has event 2 alone", v, err)
	}
	c.settle(r)
	second := r.deaf()
	for seq := uint64(1); seq <= 2; seq++ {
		second.Deliver(t.Context(), r.message(seq, 1))
	}
	r.through(second, 2)
	if why := r.whyDead(); c.applied(r, in) || c.applied(r, thread(1)) || len(why) != 2 {
		t.Errorf("applied: %v and %v, dead letters %q, want two", c.applied(r, in), c.applied(r, thread(1)), why)
	}
}

// Of a message with several entries each is applied, or is a dead letter, once.
func TestRefusedInAMessage(t *testing.T) {
	for _, at := range []persist.Step{persist.StepCommit, persist.StepLetters, persist.StepAck} {
		t.Run(string(at), func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			pub := r.Publisher(client.PublisherConfig{Producer: "p"})
			var es []client.Entry
			for i := range 4 {
				es = append(es, client.Entry{Thread: thread(0), Dialect: "omp", Body: message(fmt.Sprintf("e%05d", i), "user", 2100-2000*(i%2))})
			}
			must.Get(pub.Publish(t.Context(), es...))(t)
			first := r.doomed(at, func(_ *persist.Deps, c *persist.Config) { c.MaxEntry = 1000 })
			first.Deliver(t.Context(), r.message(1, 1))
			first.wait(t, at)
			second := r.deaf()
			second.Deliver(t.Context(), r.message(1, 2))
			r.through(second, 4)
			// What the first one refused stays refused: the first entry at least. It may not have come to the others.
			least, most := 1, 2
			if at == persist.StepCommit {
				least, most = 0, 0
			}
			h, why := r.head(thread(0)), r.whyDead()
			if dead := len(why); h.Entries+int64(dead) != 4 || dead < least || dead > most {
				t.Errorf("%d entries, dead letters %q, want 4 in all, and from %d to %d letters", h.Entries, why, least, most)
			}
		})
	}
}

// The record fits into what the server takes, however many events are refused at once, and a deletion leaves nothing of its session.
func TestRefusedIsBounded(t *testing.T) {
	r := newRig(t)
	const limit, entries = 16 << 10, 600
	p := r.deaf(func(d *persist.Deps, c *persist.Config) {
		d.MaxRecord = func() int { return limit }
		c.BatchEvents = 1000
	})
	pub := r.Publisher(client.PublisherConfig{Producer: "p"})
	for i := range entries { // alone in its message, each
		dialect := fmt.Sprintf("nobody-%d-%s", i, strings.Repeat("x", 80))
		must.Get(pub.Publish(t.Context(), client.Entry{Thread: thread(0), Dialect: dialect, Body: []byte(`{}`)}))(t)
	}
	r.give(p, 1, entries)
	r.through(p, entries)
	if n := len(r.record(events.RefusedKey(0)).Value); n == 0 || n > limit {
		t.Errorf("the record has %d bytes, want at most %d", n, limit)
	}
	must.Same(t, len(r.whyDead()), entries, "%d dead letters, want %d")
	must.Do(t, pub.Control(t.Context(), thread(0), entries+1, events.Control{Op: events.OpDelete, Delete: &events.Delete{}}))
	r.give(p, entries+1, entries+1)
	r.through(p, entries+1)
	if v, err := record.DecodeRefused(r.record(events.RefusedKey(0)).Value); err != nil || len(v.Events) != 0 {
		t.Errorf("behind the deletion the record has %d events, %v, want none", len(v.Events), err)
	}
}
