package persist_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"spool/internal/must"
	"spool/internal/persist"
	"spool/internal/record"
	"spool/pkg/casstore"
	"spool/pkg/client"
	"spool/pkg/events"
)

// A thread whose head has grown beyond what a record holds takes no events any more, and says why; other sessions go
// on. The rest of a message of which some was taken is refused as well, also once the thread is looked at anew.
func TestHeadBeyondARecord(t *testing.T) {
	t.Cleanup(persist.LatchFor(100 * time.Millisecond))
	r := newRig(t)
	const limit = 1 << 10 // less than what a head may have
	p := r.deaf(func(d *persist.Deps, c *persist.Config) {
		d.MaxRecord = func() int { return limit }
		c.BatchEvents = 5
	})
	var es []client.Entry
	for i := range 200 { // each is a root, and a tip once the next one comes
		body := fmt.Appendf(nil, `{"type":"message","id":"e%d","parentId":null,"timestamp":"2026-11-20T10:00:00.000Z","message":{"role":"user","content":"x"}}`, i)
		es = append(es, client.Entry{Thread: thread(0), Dialect: "omp", Body: body})
	}
	must.Get(r.Publisher(client.PublisherConfig{Producer: "p"}).Publish(t.Context(), es...))(t)
	r.publish(r.Publisher(client.PublisherConfig{Producer: "ok"}), thread(1), 0, 10)
	r.give(p, 1, r.lastSeq(events.EventsStream))
	r.await(thread(1), "ok", 10)
	r.check(thread(1), 10)
	r.through(p, 210)
	h := r.head(thread(0))
	if n := len(r.record(events.HeadKey(thread(0))).Value); n > limit || n < limit/2 {
		t.Errorf("the head has %d bytes, want at most %d", n, limit)
	}
	why := r.whyDead()
	if int(h.Entries)+len(why) != 200 {
		t.Errorf("%d entries and %d dead letters, want 200 together", h.Entries, len(why))
	}
	if len(why) == 0 || !strings.Contains(why[0], fmt.Sprint(limit)) || !strings.Contains(why[0], "fork") {
		t.Errorf("dead letters %.300q, want that they say the limit and what to do", why)
	}
}

// sizes notes how many records the largest commit writes.
type sizes struct {
	bucket
	most atomic.Int64
}

func (s *sizes) Commit(ctx context.Context, f record.Fence, puts []record.Put) (uint64, error) {
	s.most.Store(max(s.most.Load(), int64(len(puts))))
	return s.bucket.Commit(ctx, f, puts)
}

// A backlog of many small sessions, all of which end, with images and on packs that a collector could take for old, is committed in
// batches that a server takes.
func TestCommitOfManyRecords(t *testing.T) {
	r := newRig(t)
	const n = 260
	header := func(s string) []byte {
		return fmt.Appendf(nil, `{"type":"session","version":3,"id":"x","timestamp":"2026-11-20T10:00:00.000Z","cwd":"/%s","title":"%s"}`, s, s)
	}
	image := func(i int) []byte {
		data := strings.Repeat("A", 1020) + fmt.Sprintf("%04d", i)
		return fmt.Appendf(nil, `{"type":"message","id":"i%d","timestamp":"2026-11-20T10:00:00.000Z","message":{"role":"user","content":[{"type":"image","data":"%s","mimeType":"image/png"}]}}`, i, data)
	}
	seq := uint64(0)
	publish := func(id events.Thread, e *events.Event) *events.Event {
		seq++
		e.Producer, e.Seq, e.Thread, e.Time = "p", seq, id, 1795000000000
		return e
	}
	first := r.deaf()
	for i := range n { // each in a pack of its own
		e := publish(thread(i), &events.Event{Kind: events.KindEntry, Dialect: "omp", Body: header(fmt.Sprint("a", i))})
		must.Do(t, r.conn.Events().PublishEvents(t.Context(), []*events.Event{e}))
		r.give(first, uint64(i+1), uint64(i+1))
		r.through(first, int64(i+1))
	}
	must.Get(r.conn.Records().Fences(t.Context()))(t)
	var evs []*events.Event
	for i := range n {
		end := events.Control{Op: events.OpEnd, End: &events.End{}}
		evs = append(evs,
			publish(thread(i), &events.Event{Kind: events.KindEntry, Dialect: "omp", Body: header(fmt.Sprint("b", i))}),
			publish(thread(i), &events.Event{Kind: events.KindEntry, Dialect: "omp", Body: image(i)}),
			publish(thread(i), &events.Event{Kind: events.KindControl, Body: end.Encode()}))
	}
	must.Do(t, r.conn.Events().PublishEvents(t.Context(), evs))
	s := &sizes{bucket: r.conn.Records()}
	hold, held := make(chan struct{}), make(chan struct{}, 1)
	var once atomic.Bool
	p := r.deaf(func(d *persist.Deps, c *persist.Config) {
		d.Records, c.BatchEvents = s, 1000
		d.At = func(step persist.Step) error {
			if step == persist.StepFence && once.CompareAndSwap(false, true) {
				held <- struct{}{}
				<-hold
			}
			return nil
		}
	})
	r.publish(r.Publisher(client.PublisherConfig{Producer: "p"}), thread(n), 0, 1)
	last := r.lastSeq(events.EventsStream)
	r.give(p, last, last)
	<-held // no batch is taken before there is a backlog
	r.give(p, n+1, last-1)
	close(hold)
	r.through(p, 3*n+1)
	if most := s.most.Load(); most > record.MaxCommit || most < record.MaxCommit/5 {
		t.Errorf("the largest commit writes %d records, want at most %d, and many", most, record.MaxCommit)
	}
	r.noDead()
}

// panicky panics over a ref that is looked for.
type panicky struct{ ref casstore.Ref }

func (p panicky) Locate(_ context.Context, ref casstore.Ref) (casstore.Located, error) {
	if ref == p.ref {
		panic("what nobody thought of")
	}
	return casstore.Located{}, casstore.ErrNotFound
}

// An event over which the persister panics is a dead letter with its bytes. What was beside it in its batch is applied once.
func TestPoison(t *testing.T) {
	r := newRig(t)
	poison := casstore.SumNode([]byte("poison"))
	p := r.deaf(func(d *persist.Deps, _ *persist.Config) { d.Nodes = panicky{poison} })
	id := thread(0)
	step := fmt.Sprintf(`{"role":"user","content":"x","refs":[%q]}`, poison)
	r.publish(r.Publisher(client.PublisherConfig{Producer: "a"}), thread(1), 0, 3)
	for i, body := range []string{`{"role":"user","content":"1"}`, step, `{"role":"user","content":"2"}`} {
		r.store(&events.Event{Producer: "p", Seq: uint64(i + 1), Kind: events.KindEntry, Dialect: "step", Thread: id, Time: 1,
			Body: []byte(body)})
	}
	r.publish(r.Publisher(client.PublisherConfig{Producer: "b"}), thread(1), 3, 6)
	last := r.lastSeq(events.EventsStream)
	r.give(p, 1, last)
	r.through(p, 9)
	r.await(id, "p", 3)
	r.check(thread(1), 6)
	must.Same(t, r.head(id).Entries, 2, "%d entries, want %d")
	if why := r.whyDead(); len(why) != 1 || !strings.Contains(why[0], "poison") {
		t.Errorf("dead letters %q, want one of poison", why)
	}
}

// choosy refuses for good every commit that writes some record; or all.
type choosy struct {
	bucket
	key string
}

func (c choosy) Commit(ctx context.Context, f record.Fence, puts []record.Put) (uint64, error) {
	if c.key == "" || slices.ContainsFunc(puts, func(p record.Put) bool { return p.Key == c.key }) {
		return 0, fmt.Errorf("%w: not that", record.ErrRefused)
	}
	return c.bucket.Commit(ctx, f, puts)
}

// A commit that the server refuses for good is tried in smaller parts until what it fails over is alone. All others are applied.
func TestCommitRefusedForGood(t *testing.T) {
	r := newRig(t)
	p := r.deaf(func(d *persist.Deps, c *persist.Config) {
		d.Records, c.BatchEvents = choosy{r.conn.Records(), events.HeadKey(thread(2))}, 100
	})
	const sessions, entries = 5, 8
	for i := range entries {
		for s := range sessions {
			r.publish(r.Publisher(client.PublisherConfig{Producer: "p"}), thread(s), i, i+1)
		}
	}
	r.give(p, 1, r.lastSeq(events.EventsStream))
	r.through(p, sessions*entries)
	for s := range sessions {
		if s == 2 {
			continue
		}
		r.await(thread(s), "p", entries)
		r.check(thread(s), entries)
	}
	if why := r.whyDead(); len(why) != entries || !strings.Contains(why[0], "not that") {
		t.Errorf("%d dead letters, want %d: %q", len(why), entries, why)
	}
}

// A store that takes no commit at all ends the persister: no event is blamed for it.
func TestStoreThatTakesNothing(t *testing.T) {
	r := newRig(t)
	p := r.start(func(d *persist.Deps, _ *persist.Config) { d.Records = choosy{bucket: r.conn.Records()} })
	r.publish(r.Publisher(client.PublisherConfig{Producer: "p"}), thread(0), 0, 3)
	err := must.Receive(t, p.died, "it goes on")
	must.Is(t, err, record.ErrRefused, "Run()")
	r.noDead()
}
