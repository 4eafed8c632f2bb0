package persist_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"spool/internal/persist"
	"spool/internal/record"
	"spool/pkg/casstore"
	"spool/pkg/client"
	"spool/pkg/events"
)

// A store that forgot what it had acknowledged, after a power loss with relaxed sync, is not held against what a persister that lived
// through it remembers: what is published again would seem to be applied, and be acked and lost.
func TestStoreSetBack(t *testing.T) {
	r := newRig(t)
	var link atomic.Uint64
	r.start(func(d *persist.Deps, _ *persist.Config) { d.Link = link.Load })
	pub := r.Publisher(client.PublisherConfig{Producer: "p"})
	r.publish(pub, thread(1), 0, 3)
	before := r.await(thread(1), "p", 3)
	r.publish(pub, thread(1), 3, 10)
	r.await(thread(1), "p", 10)

	fence, err := r.conn.Fence(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.conn.Commit(t.Context(), fence, []record.Put{{Key: events.HeadKey(thread(1)), Value: before.Encode(), Expect: record.Any}}); err != nil {
		t.Fatal(err)
	}
	link.Add(1)
	again := r.Publisher(client.PublisherConfig{Producer: "p"})
	r.publish(again, thread(1), 3, 10)
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		b, err := r.conn.Backlog(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if b.Pending+b.Unacked == 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%d events are not acked", b.Pending+b.Unacked)
		}
	}
	r.publish(again, thread(1), 10, 12)
	if h := r.await(thread(1), "p", 12); h.Entries != 12 {
		t.Errorf("%d entries, want 12: those that were published again were taken for applied", h.Entries)
	}
}

// What came over a connection that is gone is not applied, however late it gets into the queue: those before it were dropped, and would
// seem to be repeated when they come again behind it.
func TestWhatCameBeforeComesAgain(t *testing.T) {
	r := newRig(t)
	pub := r.Publisher(client.PublisherConfig{Producer: "p"})
	const n = 40
	for i := range n {
		r.publish(pub, thread(1), i, i+1) // not linked to each other
	}
	s, err := r.conn.JetStream().Stream(t.Context(), events.EventsStream)
	if err != nil {
		t.Fatal(err)
	}
	var link atomic.Uint64
	hold, held := make(chan struct{}), make(chan struct{}, 100)
	store := r.conn.Store(0)
	p := persist.New(persist.Deps{
		Records: r.conn, Bulk: store, Outbox: r.conn, Inbox: r.conn, Packs: casstore.NewPackCache(store, 8<<20), Nodes: store, Link: link.Load,
		At: func(step persist.Step) error {
			if step == persist.StepCommit {
				held <- struct{}{}
				<-hold
			}
			return nil
		},
	}, persist.Config{BatchEvents: 3, QueueBytes: 8 << 10})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run() = %v", err)
		}
	})
	deliver := func(over uint64) {
		for seq := uint64(1); seq <= n; seq++ {
			m, err := s.GetMsg(t.Context(), seq)
			if err != nil {
				t.Error(err)
				return
			}
			p.Deliver(ctx, persist.Message{Subject: m.Subject, Data: m.Data, Seq: seq, Link: over, Ack: func() error { return nil }})
		}
	}
	first := make(chan struct{})
	go func() {
		deliver(0)
		close(first)
	}()
	<-held
	time.Sleep(50 * time.Millisecond) // until it waits for room; without that the test tries less
	link.Add(1)
	close(hold)
	<-first
	deliver(1)
	head := r.await(thread(1), "p", n)
	if head.Entries != n {
		t.Errorf("%d entries, want %d", head.Entries, n)
	}
}
