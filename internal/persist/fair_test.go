package persist_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"spool/internal/must"
	"spool/internal/persist"
	"spool/internal/record"
	"spool/pkg/casstore"
	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// costly is a store that takes long over a blob's record, and over every commit, 5 ms unless given. It notes when the head
// of a thread is written first.
type costly struct {
	*memoryStore
	key     string
	takes   time.Duration
	commit  time.Duration
	mu      sync.Mutex
	written map[string]time.Time
}

func (c *costly) Records(ctx context.Context, keys ...string) ([]record.Record, error) {
	if slices.Contains(keys, c.key) {
		time.Sleep(c.takes)
	}
	return c.memoryStore.Records(ctx, keys...)
}

func (c *costly) Commit(ctx context.Context, f record.Fence, puts []record.Put) (uint64, error) {
	time.Sleep(cmp.Or(c.commit, 5*time.Millisecond))
	c.mu.Lock()
	for _, put := range puts {
		if c.written[put.Key].IsZero() {
			c.written[put.Key] = time.Now()
		}
	}
	c.mu.Unlock()
	return c.memoryStore.Commit(ctx, f, puts)
}

func (c *costly) when(t events.Thread) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.written[events.HeadKey(t)]
}

// refersTo is a step's entry that needs a record to be read.
func refersTo(ref casstore.Ref) []byte {
	return fmt.Appendf(nil, `{"role":"user","content":"x","refs":[%q]}`, ref)
}

// One session with a long backlog, each event of which takes long, delays the events of others by less than a second.
// So does one user with it in many sessions. An ack says no more than that all before it is through, and in the end all is
// acknowledged.
func TestSessionsTakeTurns(t *testing.T) {
	warmUp(t)
	for _, takes := range []time.Duration{0, 10 * time.Millisecond} {
		for _, sessions := range []int{1, 200} {
			t.Run(fmt.Sprintf("%v,%d", takes, sessions), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { sessionsTakeTurns(t, sessions, 24_000, takes) })
			})
		}
	}
}

// warmUp makes what compresses outside of a test's bubble, since all of them share it.
func warmUp(t *testing.T) {
	b := casstore.NewPackBuilder()
	b.AddNode(&casstore.Node{Type: "x", Payload: []byte{0xc0}})
	must.Two(b.Finish())(t)
}

func sessionsTakeTurns(t *testing.T, sessions, backlog int, takes time.Duration) {
	blob := casstore.SumBlob([]byte("much asked for"))
	st := &costly{
		memoryStore: &memoryStore{records: map[string]record.Record{}}, key: events.BlobKey(blob.Hex()), takes: takes,
		written: map[string]time.Time{},
	}
	st.records[st.key] = record.Record{Key: st.key, Value: record.Blob{Object: record.Object{Size: 1}}.Encode(), Seq: 1}
	p := persist.New(persist.Deps{Records: st, Bulk: st, Outbox: st, Inbox: st, Packs: st}, persist.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()

	var mu sync.Mutex
	var acked uint64
	seq := uint64(0)
	give := func(user string, id events.Thread, n int, body []byte) {
		seq++
		at, scope := seq, events.Everywhere.Apart(user)
		e := events.Event{Producer: "p", Seq: uint64(n), Kind: events.KindEntry, Thread: id, Dialect: "step", Body: body}
		p.Deliver(ctx, persist.Message{
			Subject: scope.Stamp(strings.TrimSuffix(events.StoredFilter(id), "*") + e.Kind.String()), Data: e.Encode(), Seq: at,
			Ack: func() error {
				mu.Lock()
				defer mu.Unlock()
				if acked = max(acked, at); int64(acked) > p.Stats().Entries {
					t.Errorf("ack of %d, when %d events are applied", at, p.Stats().Entries)
				}
				return nil
			},
		})
	}
	for i := range backlog {
		give("flood", thread(1000+i%sessions), i/sessions+1, refersTo(blob))
	}
	const others = 24
	for i := range others {
		id := thread(i + 1)
		time.Sleep(250 * time.Millisecond)
		since := time.Now()
		give(fmt.Sprint("user", i), id, 1, []byte(`{"role":"user","content":"x"}`))
		time.Sleep(time.Second)
		if at := st.when(id); at.IsZero() || at.Sub(since) >= time.Second {
			t.Errorf("%s is applied after %v, want less than 1s", id, at.Sub(since))
		}
	}
	time.Sleep(2*time.Second + time.Duration(backlog)*takes*2)
	synctest.Wait()
	if mu.Lock(); acked != seq {
		t.Errorf("%d events are acknowledged, want %d", acked, seq)
	}
	mu.Unlock()
	if s := p.Stats(); s.Entries != int64(seq) || s.Dead != 0 {
		t.Errorf("Stats() = %+v, want %d entries", s, seq)
	}
	cancel()
	must.Do(t, <-ended)
}

// A session for which a store once answered late waits for its next turn as long as others waited for it, and not until they
// have done as much work as that time would be for.
func TestAfterAPause(t *testing.T) {
	warmUp(t)
	synctest.Test(t, afterAPause)
}

func afterAPause(t *testing.T) {
	const backlog, pause = 10_000, time.Second
	blob := casstore.SumBlob([]byte("answered late"))
	st := &costly{
		memoryStore: &memoryStore{records: map[string]record.Record{}}, key: events.BlobKey(blob.Hex()), takes: pause,
		commit: 100 * time.Millisecond, written: map[string]time.Time{},
	}
	st.records[st.key] = record.Record{Key: st.key, Value: record.Blob{Object: record.Object{Size: 1}}.Encode(), Seq: 1}
	p := persist.New(persist.Deps{Records: st, Bulk: st, Outbox: st, Inbox: st, Packs: st}, persist.Config{BatchEvents: 50})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	seq := uint64(0)
	give := func(id events.Thread, n int, body []byte) {
		seq++
		e := events.Event{Producer: "p", Seq: uint64(n), Kind: events.KindEntry, Thread: id, Dialect: "step", Body: body}
		p.Deliver(ctx, persist.Message{
			Subject: strings.TrimSuffix(events.StoredFilter(id), "*") + e.Kind.String(), Data: e.Encode(), Seq: seq,
			Ack: func() error { return nil },
		})
	}
	body := []byte(`{"role":"user","content":"x"}`)
	last := events.Thread{Session: "b", Name: "last"}
	for i := range backlog {
		give(events.Thread{Session: "a", Name: "main"}, i+1, body)
		of := events.Thread{Session: "b", Name: "main"}
		switch i {
		case 0:
			give(of, 1, refersTo(blob))
		case 100:
			give(last, 1, body)
		default:
			give(of, i+1, body)
		}
	}
	since := time.Now()
	time.Sleep(time.Minute)
	synctest.Wait()
	if took := st.when(last).Sub(since); took < pause || took > 2*pause+time.Second {
		t.Errorf("the 101st event of the session is applied after %v, want twice the pause of %v, and a little", took, pause)
	}
	if s := p.Stats(); s.Entries != int64(seq) || s.Dead != 0 {
		t.Errorf("Stats() = %+v, want %d entries", s, seq)
	}
	cancel()
	must.Do(t, <-ended)
}

// An event that names what another session brought sees all that was stored before it, however much of that waits: a
// fork, and a step that refers to a blob.
func TestBehindWhatItNames(t *testing.T) {
	r := newRig(t)
	const n = 300
	r.publish(r.Publisher(client.PublisherConfig{Producer: "a"}), thread(0), 0, n)
	data := strings.Repeat("A", 1024)
	image := fmt.Appendf(nil, `{"type":"message","id":"i","timestamp":"2026-11-20T10:00:00.000Z","message":{"role":"user",`+
		`"content":[{"type":"image","data":"%s","mimeType":"image/png"}]}}`, data)
	store := func(id events.Thread, producer string, seq uint64, kind events.Kind, dialect string, body []byte) {
		r.store(&events.Event{Producer: producer, Seq: seq, Kind: kind, Dialect: dialect, Thread: id, Time: 1, Body: body})
	}
	store(thread(0), "a", n+1, events.KindEntry, "omp", image)
	from := events.Fork{Session: "s0", Thread: "main", Entry: fmt.Sprintf("e%05d", n-1)}
	store(thread(1), "b", 1, events.KindControl, "", events.Control{Op: events.OpFork, Fork: &from}.Encode())
	store(thread(2), "c", 1, events.KindEntry, "step", refersTo(casstore.SumBlob(make([]byte, 768))))
	last := r.lastSeq(events.EventsStream)

	hold, held := make(chan struct{}), make(chan struct{}, 1)
	var once sync.Once
	p := r.deaf(func(d *persist.Deps, _ *persist.Config) {
		d.At = func(step persist.Step) error {
			if step == persist.StepFence {
				once.Do(func() { held <- struct{}{}; <-hold })
			}
			return nil
		}
	})
	r.give(p, 1, 1)
	<-held // all is there when the next batch is taken
	r.give(p, 2, last)
	close(hold)
	r.through(p, n+3)
	r.noDead()
	if h := r.head(thread(1)); h.Entries != n+1 {
		t.Errorf("the fork has %d entries, want %d", h.Entries, n+1)
	}
}

// Entries that branch to older ones share commits, and make the nodes that they make in commits of their own, also
// where an id is there twice, or nowhere.
func TestBranchesShareCommits(t *testing.T) {
	r := newRig(t)
	const n = 150
	parents := rand.New(rand.NewPCG(1, 2))
	bodies := make([][]byte, n)
	for i := range bodies {
		parent := fmt.Sprintf(`"n%d"`, parents.IntN(i+2)) // "n0" is nowhere
		id := i + 1
		if i%50 == 49 {
			id = i - 10
		}
		bodies[i] = fmt.Appendf(nil, `{"type":"message","id":"n%d","parentId":%s,"timestamp":"2026-11-20T10:00:00.000Z",`+
			`"message":{"role":"user","content":"x%d"}}`, id, parent, i)
	}
	publish := func(id events.Thread) (from, to uint64) {
		var es []client.Entry
		for _, b := range bodies {
			es = append(es, client.Entry{Thread: id, Dialect: "omp", Body: b})
		}
		from = r.lastSeq(events.EventsStream) + 1
		must.Get(r.Publisher(client.PublisherConfig{Producer: "p"}).Publish(t.Context(), es...))(t)
		return from, r.lastSeq(events.EventsStream)
	}
	var refs [2][]casstore.Ref
	for i, most := range []int{1, 100} {
		id := events.Thread{Session: fmt.Sprint("s", i), Name: "main"}
		from, to := publish(id)
		p := r.deaf(func(_ *persist.Deps, c *persist.Config) { c.BatchEvents = most })
		r.give(p, from, to)
		r.through(p, n)
		h := r.head(id)
		for step := range must.All(t, r.Reader().EntriesBack(t.Context(), h)) {
			refs[i] = append(refs[i], step.At.Ref)
		}
		must.Same(t, len(refs[i]), n, "%d entries, want %d")
		must.Is(t, threads.Verify(t.Context(), r.Reader(), h), nil, "Verify()")
		if commits := p.Stats().Commits; most > 1 && commits > n/2 { // how many share one is a matter of time
			t.Errorf("%d commits for %d entries", commits, n)
		}
	}
	if !slices.Equal(refs[0], refs[1]) {
		t.Errorf("states %v in large commits, %v in small ones", refs[1], refs[0])
	}
	r.noDead()
}

// Where all events take long, though not by far as long as costly ones, commits stay large.
func TestBusyMachine(t *testing.T) {
	const n, most = 8000, 1000
	warmUp(t)
	synctest.Test(t, func(t *testing.T) {
		blob := casstore.SumBlob([]byte("asked for"))
		st := &costly{
			memoryStore: &memoryStore{records: map[string]record.Record{}}, key: events.BlobKey(blob.Hex()),
			takes: 65 * time.Microsecond, written: map[string]time.Time{},
		}
		st.records[st.key] = record.Record{Key: st.key, Value: record.Blob{Object: record.Object{Size: 1}}.Encode(), Seq: 1}
		p := persist.New(persist.Deps{Records: st, Bulk: st, Outbox: st, Inbox: st, Packs: st}, persist.Config{BatchEvents: most})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- p.Run(ctx) }()
		for i := range uint64(n) {
			e := events.Event{Producer: "p", Seq: i + 1, Kind: events.KindEntry, Thread: thread(0), Dialect: "step", Body: refersTo(blob)}
			p.Deliver(ctx, persist.Message{
				Subject: strings.TrimSuffix(events.StoredFilter(e.Thread), "*") + e.Kind.String(), Data: e.Encode(), Seq: i + 1,
				Ack: func() error { return nil },
			})
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if s := p.Stats(); s.Entries != n || s.Commits > n/most+2 {
			t.Errorf("%d entries in %d commits, want %d in %d", s.Entries, s.Commits, n, n/most+2)
		}
		cancel()
		must.Do(t, <-ended)
	})
}

// gated is a store whose commits wait at a gate. It notes with which commit the head of a thread is written first, and
// has one body, under any name.
type gated struct {
	*memoryStore
	gate    chan struct{}
	mu      sync.Mutex
	commits int
	written map[string]int
	body    []byte
}

func (g *gated) Commit(ctx context.Context, f record.Fence, puts []record.Put) (uint64, error) {
	<-g.gate
	g.mu.Lock()
	g.commits++
	for _, put := range puts {
		g.written[put.Key] = cmp.Or(g.written[put.Key], g.commits)
	}
	g.mu.Unlock()
	return g.memoryStore.Commit(ctx, f, puts)
}

func (g *gated) OpenBody(context.Context, events.BodyRef) (io.Reader, error) {
	return bytes.NewReader(g.body), nil
}

// However much of one session comes, there is room for what comes of others, and they are in the next batch.
func TestSessionLeavesRoom(t *testing.T) {
	warmUp(t)
	synctest.Test(t, sessionLeavesRoom)
}

func sessionLeavesRoom(t *testing.T) {
	const large, others = 64, 24
	st := &gated{
		memoryStore: &memoryStore{records: map[string]record.Record{}}, gate: make(chan struct{}), written: map[string]int{},
		body: message("large", "user", 8_000_000),
	}
	p := persist.New(persist.Deps{Records: st, Bulk: st, Outbox: st, Inbox: st, Packs: st}, persist.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	give := func(partition int, seq uint64, e events.Event) {
		e.Producer, e.Kind, e.Dialect = "p", events.KindEntry, "omp"
		p.Deliver(ctx, persist.Message{
			Subject: strings.TrimSuffix(events.StoredFilter(e.Thread), "*") + e.Kind.String(), Data: e.Encode(), Seq: seq,
			Partition: partition, Ack: func() error { return nil },
		})
	}
	ref := events.BodyRef{Object: "large", Size: int64(len(st.body)), Sum: sha256.Sum256(st.body)}
	go func() {
		for i := range uint64(large) {
			give(0, i+1, events.Event{Seq: i + 1, Thread: thread(0), Ref: &ref})
		}
	}()
	synctest.Wait() // the pipeline is full, and the session waits for room
	delivered := 0
	go func() {
		for i := range others {
			give(1, uint64(large+i+1), events.Event{Seq: 1, Thread: thread(i + 1), Body: message("small", "user", 150_000)})
			delivered++
		}
	}()
	if synctest.Wait(); delivered != others {
		t.Errorf("%d of %d small events found room", delivered, others)
	}
	close(st.gate)
	synctest.Wait()
	st.mu.Lock()
	const inPipeline = 3 // one in each stage before the last
	for i := range others {
		if n := st.written[events.HeadKey(thread(i+1))]; n == 0 || n > inPipeline+1 {
			t.Errorf("%s is in commit %d, want one up to %d", thread(i+1), n, inPipeline+1)
		}
	}
	st.mu.Unlock()
	if s := p.Stats(); s.Entries != large+others || s.Dead != 0 {
		t.Errorf("Stats() = %+v, want %d entries", s, large+others)
	}
	cancel()
	must.Do(t, <-ended)
}
