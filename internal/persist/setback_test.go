package persist_test

import (
	"sync/atomic"
	"testing"
	"time"

	"spool/internal/faulttest"
	"spool/internal/must"
	"spool/internal/persist"
	"spool/internal/record"
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

	fence := must.Get(r.conn.Records().Fence(t.Context(), 0))(t)
	must.Get(r.conn.Records().Commit(t.Context(), fence,
		[]record.Put{{Key: events.HeadKey(thread(1)), Value: before.Encode(), Expect: record.Any}}))(t)
	link.Add(1)
	again := r.Publisher(client.PublisherConfig{Producer: "p"})
	r.publish(again, thread(1), 3, 10)
	must.Do(t, faulttest.Settle(t.Context(), r.conn))
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
	var link atomic.Uint64
	hold, held := make(chan struct{}), make(chan struct{}, 100)
	p := r.deaf(func(d *persist.Deps, c *persist.Config) {
		c.BatchEvents, c.QueueBytes = 3, 8<<10
		d.Link = link.Load
		d.At = func(step persist.Step) error {
			if step == persist.StepCommit {
				held <- struct{}{}
				<-hold
			}
			return nil
		}
	})
	first := make(chan struct{})
	go func() {
		r.feedOver(0, p)
		close(first)
	}()
	<-held
	time.Sleep(50 * time.Millisecond) // until it waits for room; without that the test tries less
	link.Add(1)
	close(hold)
	<-first
	r.feedOver(1, p)
	head := r.await(thread(1), "p", n)
	must.Same(t, head.Entries, n, "%d entries, want %d")
}
