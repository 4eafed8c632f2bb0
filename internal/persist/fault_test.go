package persist_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/must"
	"spool/internal/natstest"
	"spool/internal/persist"
	"spool/internal/persist/persistnats"
	"spool/internal/record"
	"spool/pkg/client"
	"spool/pkg/events"
)

var errKilled = errors.New("killed here")

// dieAt kills a persister when it comes to a step for the nth time.
func dieAt(step persist.Step, n int) func(persist.Step) error {
	var times atomic.Int64
	return func(s persist.Step) error {
		if s == step && times.Add(1) >= int64(n) {
			return errKilled
		}
		return nil
	}
}

// killed waits until a persister has died where it was to.
func (p *running) killed(t must.T) {
	t.Helper()
	if err := must.Receive(t, p.died, "not killed"); !errors.Is(err, errKilled) {
		t.Fatalf("Run() = %v, want it killed", err)
	}
	_ = p.stop()
}

// TestEveryEntryOnceWhateverDies kills the persister at each durable step, twice, and starts another one.
func TestEveryEntryOnceWhateverDies(t *testing.T) {
	for _, step := range []persist.Step{persist.StepFence, persist.StepBulk, persist.StepCommit, persist.StepItems, persist.StepAck} {
		t.Run(string(step), func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			const sessions, entries = 3, 200
			pubs := make([]*client.Publisher, sessions)
			for i := range pubs {
				pubs[i] = r.Publisher(client.PublisherConfig{Producer: fmt.Sprintf("p%d", i)})
				r.publish(pubs[i], thread(i), 0, entries/2)
			}
			for kill := range 2 {
				p := r.start(func(d *persist.Deps, c *persist.Config) {
					c.BatchEvents = 25 + 10*kill
					d.At = dieAt(step, 2*kill+2)
				})
				p.killed(t)
			}
			for i := range pubs {
				r.publish(pubs[i], thread(i), entries/2, entries)
			}
			r.start(nil)
			for i := range pubs {
				r.await(thread(i), pubs[i].Producer(), entries)
				r.check(thread(i), entries)
			}
		})
	}
}

type bucket = persist.Records

// unsure loses the answers of commits: some are carried out and some not.
type unsure struct {
	bucket
	n    atomic.Int64
	done func(n int64) bool // whether the n-th commit is carried out
	lose func(n int64) bool // whether its answer is lost
}

func (u *unsure) Commit(ctx context.Context, f record.Fence, puts []record.Put) (uint64, error) {
	n := u.n.Add(1)
	if !u.lose(n) {
		return u.bucket.Commit(ctx, f, puts)
	}
	if u.done(n) {
		if _, err := u.bucket.Commit(ctx, f, puts); err != nil {
			return 0, err
		}
	}
	return 0, fmt.Errorf("%w: the answer is lost", record.ErrUnknown)
}

// TestCommitsWithLostAnswers: an answer that never comes means done or not done, and neither loses nor repeats anything.
func TestCommitsWithLostAnswers(t *testing.T) {
	r := newRig(t)
	const entries = 300
	u := &unsure{bucket: r.conn.Records(), lose: func(n int64) bool { return n%2 == 0 }, done: func(n int64) bool { return n%4 == 0 }}
	p := r.start(func(d *persist.Deps, c *persist.Config) { d.Records, c.BatchEvents = u, 20 })
	pub := r.Publisher(client.PublisherConfig{Producer: "p"})
	r.publish(pub, thread(0), 0, entries)
	r.await(thread(0), "p", entries)
	r.check(thread(0), entries)
	if s := p.Stats(); s.Dead != 0 {
		t.Errorf("stats = %+v, want no dead letters", s)
	}
}

// outbox loses answers of item batches.
type outbox struct {
	persist.Outbox
	n atomic.Int64
}

func (o *outbox) PublishItems(ctx context.Context, items []events.Posted) error {
	n := o.n.Add(1)
	if n%2 == 0 && n%4 != 0 {
		return fmt.Errorf("%w: nothing was stored", record.ErrUnknown)
	}
	err := o.Outbox.PublishItems(ctx, items)
	if err == nil && n%4 == 0 {
		return fmt.Errorf("%w: the answer is lost", record.ErrUnknown)
	}
	return err
}

// TestItemsWithLostAnswers: every item is stored once even for a subscriber that drops no repeats.
func TestItemsWithLostAnswers(t *testing.T) {
	r := newRig(t)
	const entries = 200
	r.start(func(d *persist.Deps, c *persist.Config) { d.Outbox, c.BatchEvents = &outbox{Outbox: d.Outbox}, 20 })
	pub := r.Publisher(client.PublisherConfig{Producer: "p"})
	r.publish(pub, thread(0), 0, entries)
	r.await(thread(0), "p", entries)
	r.check(thread(0), entries)
	s := must.Get(r.conn.JetStream().Stream(t.Context(), events.ItemsStream))(t)
	must.Same(t, s.CachedInfo().State.Msgs, entries, "ITEMS holds %d messages, want %d")
}

// TestTwoPersistersOnEverything: both think that they own every partition; commits are refused, and nothing is lost or
// repeated.
func TestTwoPersistersOnEverything(t *testing.T) {
	r := newRig(t)
	const sessions, entries = 4, 150
	a, b := r.deaf(), r.deaf()
	for i := range sessions {
		r.publish(r.Publisher(client.PublisherConfig{Producer: "p"}), thread(i), 0, entries)
	}
	r.feed(a, b)
	for i := range sessions {
		r.await(thread(i), "p", entries)
		r.check(thread(i), entries)
	}
	if a.Stats().Refused+b.Stats().Refused+a.Stats().Repeated+b.Stats().Repeated == 0 {
		t.Error("the persisters never met")
	}
}

// deaf is a persister that is fed by hand, and whose world change alters.
func (r *rig) deaf(change ...func(*persist.Deps, *persist.Config)) *persist.Persister {
	deps := persistnats.Deps(r.conn, 0, 0)
	deps.Packs, deps.Nodes, deps.Search = r.conn.Store(0), nil, nil
	cfg := persist.Config{BatchEvents: 20}
	for _, c := range change {
		c(&deps, &cfg)
	}
	p := persist.New(deps, cfg)
	natstest.Run(r.t, p.Run)
	return p
}

// partitionOf is the partition that a stored event is of.
func partitionOf(subject string) int {
	begin, _ := strings.CutSuffix(events.PartitionFilter(0), "0.>")
	number, _, _ := strings.Cut(strings.TrimPrefix(subject, begin), ".")
	p, err := strconv.Atoi(number)
	if err != nil {
		panic(subject)
	}
	return p
}

// feed gives every stored event to all persisters.
func (r *rig) feed(ps ...*persist.Persister) {
	r.t.Helper()
	r.feedOver(0, ps...)
}

// feedOver is feed over a connection of that number. It may be called by any goroutine.
func (r *rig) feedOver(link uint64, ps ...*persist.Persister) {
	r.t.Helper()
	s, err := r.conn.JetStream().Stream(r.t.Context(), events.EventsStream)
	if err != nil {
		r.t.Error(err)
		return
	}
	last := s.CachedInfo().State.LastSeq
	for seq := uint64(1); seq <= last; seq++ {
		m, err := s.GetMsg(r.t.Context(), seq)
		if errors.Is(err, jetstream.ErrMsgNotFound) { // of a session that was deleted
			continue
		}
		if err != nil {
			r.t.Error(err)
			return
		}
		for _, p := range ps {
			p.Deliver(r.t.Context(), persist.Message{
				Subject: m.Subject, Data: m.Data, Seq: seq, Partition: partitionOf(m.Subject), Link: link, Ack: func() error { return nil }})
		}
	}
}
