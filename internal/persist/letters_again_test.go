package persist_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"spool/internal/faulttest"
	"spool/internal/must"
	"spool/internal/persist"
	"spool/internal/record"
	"spool/pkg/client"
	"spool/pkg/events"
)

// refusing refuses the first commits, as when a collector begins.
type refusing struct {
	bucket
	left atomic.Int64
}

func (r *refusing) Commit(ctx context.Context, f record.Fence, puts []record.Put) (uint64, error) {
	if r.left.Add(-1) >= 0 {
		return 0, fmt.Errorf("%w: as a test wants it", record.ErrConflict)
	}
	return r.bucket.Commit(ctx, f, puts)
}

// The letters of a commit that is refused and prepared again, in other batches, are written once.
func TestLettersOfARefusedCommit(t *testing.T) {
	r := newRig(t)
	pub := r.Publisher(client.PublisherConfig{Producer: "p"})
	const entries = 40
	for i := range entries {
		e := client.Entry{Thread: thread(i % 3), Dialect: []string{"nobody", "omp"}[i%2], Body: []byte(`{`)}
		must.Get(pub.Publish(t.Context(), e))(t)
	}
	p := r.start(func(d *persist.Deps, c *persist.Config) {
		c.BatchEvents = 15
		refuse := &refusing{bucket: d.Records}
		refuse.left.Store(5)
		d.Records = refuse
	})
	must.Get(pub.Publish(t.Context(), client.Entry{Thread: thread(0), Dialect: "omp", Body: message("good", "user", 10)}))(t)
	r.await(thread(0), "p", entries+1)
	must.Do(t, faulttest.Settle(soon(t), r.conn)) // the other threads are of other partitions
	must.Do(t, p.stop())
	letters, err := r.EverySession().DeadLetters(t.Context())
	seen := map[uint64]int{}
	for _, l := range letters {
		seen[l.Seq]++
	}
	if err != nil || len(letters) != entries || len(seen) != entries {
		t.Errorf("%d letters of %d events, %v, want %d", len(letters), len(seen), err, entries)
	}
}

// What was a dead letter because its thread was latched, and is replayed, is there once when its event comes again from the beginning of
// the stream, as it does once a partition's consumer is made anew.
func TestReplayedAndComesAgain(t *testing.T) {
	r := newRig(t)
	a, id := r.deaf(), thread(0)
	r.publish(r.Publisher(client.PublisherConfig{Producer: "p"}), id, 0, 1)
	r.giveAll(a)
	must.Get(r.conn.Records().Fences(t.Context()))(t)
	head := r.head(id)
	pack := r.record(events.PackKey(head.Head().Pack.String()))
	r.put(pack.Key, nil)
	must.Get(r.Publisher(client.PublisherConfig{Producer: "p2"}).Publish(t.Context(), large(id, 1), large(id, 2)))(t)
	r.give(a, 2, 3)
	must.Until(r.t, "two dead letters", func() bool { return a.Stats().Dead == 2 })
	r.put(pack.Key, pack.Value)
	for _, d := range must.Get(r.Session(id.Session).DeadLetters(t.Context()))(t) {
		must.Get(r.Admin().ReplayDeadLetter(t.Context(), d.At))(t)
	}
	r.publish(r.Publisher(client.PublisherConfig{Producer: "p"}), id, 3, 4)
	for range 2 {
		r.giveAll(r.deaf())
		r.wantEntries(id, 4)
	}
	if why := r.whyDead(); len(why) != 2 {
		t.Errorf("dead letters %q, want those two", why)
	}
}
