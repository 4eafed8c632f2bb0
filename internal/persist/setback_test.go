package persist_test

import (
	"sync/atomic"
	"testing"
	"time"

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
