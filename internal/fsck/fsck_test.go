package fsck_test

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"spool/internal/fsck"
	"spool/internal/must"
	"spool/internal/natsadmin"
	"spool/internal/natsio"
	"spool/internal/natstest"
	"spool/internal/persist"
	"spool/internal/record"
	"spool/internal/redact"
	"spool/internal/service"
	"spool/pkg/artifacts"
	"spool/pkg/casstore"
	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/threads"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("time.Sleep"),
		goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server.(*Server).Start"))
}

// world is a system with threads in it.
type world struct {
	*testing.T
	conn *natsio.Conn
	cl   *client.Client
	stop func()
}

func newWorld(t *testing.T) *world { return runWorld(t, natstest.Conn(t)) }

// runWorld runs a persister on a connection.
func runWorld(t *testing.T, conn *natsio.Conn) *world {
	w := &world{T: t, conn: conn, cl: client.New(conn), stop: func() {}}
	w.start()
	return w
}

// start runs a persister.
func (w *world) start() { w.startWith(service.PersisterConfig{}) }

func (w *world) startWith(cfg service.PersisterConfig) {
	w.stop = natstest.Run(w, service.NewPersister(w.conn, cfg, slog.New(slog.DiscardHandler)).Run)
}

// steps appends steps to a thread, each in a commit of its own.
func (w *world) steps(id events.Thread, from, to int) {
	w.Helper()
	p := w.cl.Publisher(client.PublisherConfig{Producer: "agent." + id.Name})
	for i := from; i < to; i++ {
		body := fmt.Appendf(nil, `{"id":"%s%d","role":"coder","content":"step %d","timestamp":%d}`, id.Name, i, i, 1795176000000+int64(i))
		e := client.Entry{Thread: id, Dialect: "step", Body: body, Seq: uint64(i)}
		must.Do(w, must.Get(p.Publish(w.Context(), e))(w).Applied(w.Context()))
	}
}

// fill makes a bit of everything.
func (w *world) fill() (id, fork events.Thread) {
	w.Helper()
	ctx := w.Context()
	id, fork = events.Thread{Session: "s", Name: "main"}, events.Thread{Session: "s", Name: "fork"}
	w.steps(id, 1, 15)
	must.Do(w, w.cl.Thread(fork).Fork(ctx, events.Fork{Session: "s", Thread: "main", Index: 9}))
	w.steps(fork, 1, 4)
	must.Do(w, w.cl.Thread(fork).Compact(ctx, "a summary", "fork1"))
	must.Do(w, w.cl.Thread(fork).End(ctx, events.End{Summary: "done"}))
	blob, err := w.cl.PutBlob(ctx, []byte(strings.Repeat("a blob that a step refers to ", 100)))
	must.Do(w, err)
	with := events.Thread{Session: "other", Name: "main"}
	p := w.cl.Publisher(client.PublisherConfig{Producer: "q"})
	must.Do(w, must.Get(p.Publish(ctx, client.Entry{Thread: with, Dialect: "step",
		Body: fmt.Appendf(nil, `{"id":"b","role":"coder","content":"c","refs":[%q]}`, blob), Seq: 1}))(w).Applied(ctx))
	must.Do(w, w.cl.Thread(id).Branch(ctx, "main12"))
	w.steps(id, 15, 17)
	must.Do(w, w.cl.Thread(with).Rename(ctx, "renamed"))
	_, err = w.cl.Artifacts().Put(ctx, client.NewArtifact{Record: artifacts.Record{Session: "s", Filename: "report.txt"}},
		strings.NewReader(strings.Repeat("report ", 50)))
	must.Do(w, err)
	return id, fork
}

func (w *world) check() *fsck.Report {
	w.Helper()
	rep := must.Get(fsck.Check(w.Context(), natsadmin.Of(w.conn), fsck.Config{}))(w)
	return rep
}

// wantClean fails on any finding.
func (w *world) wantClean() *fsck.Report {
	w.Helper()
	rep := w.check()
	for _, f := range rep.Findings {
		w.Errorf("finding: %s", f)
	}
	return rep
}

func TestCleanStore(t *testing.T) {
	w := newWorld(t)
	w.fill()
	rep := w.wantClean()
	if rep.Threads != 3 || rep.Sessions != 2 || rep.States < 23 || rep.Blobs != 1 || rep.Artifacts != 1 || rep.Packs < 20 || rep.Bytes == 0 {
		t.Errorf("report = %+v", rep)
	}
}

// flipped is a store one of whose messages has a bit flipped. Nobody writes to it: it lists once.
type flipped struct {
	natsadmin.System
	lists map[string][]record.Record
	nuid  string
	byte  int
}

func (f flipped) List(ctx context.Context, filter string) (rs []record.Record, err error) {
	if rs, ok := f.lists[filter]; ok {
		return rs, nil
	}
	f.lists[filter], err = f.System.List(ctx, filter)
	return f.lists[filter], err
}

func (f flipped) ReadChunks(ctx context.Context, o record.Object, limit int, use func([]byte) error) error {
	at := 0
	return f.System.ReadChunks(ctx, o, limit, func(b []byte) error {
		if i := f.byte - at; o.NUID == f.nuid && i >= 0 && i < len(b) {
			b = slices.Clone(b)
			b[i] ^= 1 << (f.byte % 8)
		}
		at += len(b)
		return use(b)
	})
}

// Every byte of every pack, blob and artifact is looked at: whichever is flipped is found, at its record.
func TestEveryFlippedByteIsFound(t *testing.T) {
	w := newWorld(t)
	w.fill()
	w.stop()
	ctx := t.Context()
	var objects []struct {
		key string
		o   record.Object
	}
	add := func(key string, o record.Object) {
		objects = append(objects, struct {
			key string
			o   record.Object
		}{key, o})
	}
	for _, filter := range []string{"pack.*", "blob.*", "artifact.>"} {
		rs := must.Get(w.conn.Records().List(ctx, filter))(w)
		for _, r := range rs {
			switch filter {
			case "pack.*":
				p := must.Get(record.DecodePack(r.Value))(w)
				add(r.Key, p.Object)
			case "blob.*":
				b := must.Get(record.DecodeBlob(r.Value))(w)
				add(r.Key, b.Object)
			default:
				a := must.Get(artifacts.DecodeRecord(r.Value))(w)
				o := must.Get(record.DecodeLocator(a.Locator))(w)
				add(r.Key, o)
			}
		}
	}
	step := 97 // every 97th byte of all; SPOOL_TEST_BIG=1 flips more
	if os.Getenv("SPOOL_TEST_BIG") == "1" {
		step = 11
	}
	flips, at, lists := 0, 0, map[string][]record.Record{}
	for _, one := range objects {
		for ; at < int(one.o.Size); at += step {
			rep := must.Get(fsck.Check(ctx, flipped{natsadmin.Of(w.conn), lists, one.o.NUID, at}, fsck.Config{}))(w)
			if !slices.ContainsFunc(rep.Findings, func(f fsck.Finding) bool { return f.Record == one.key && f.Kind == fsck.Corrupt }) {
				t.Errorf("byte %d of %s flipped: not found in %v", at, one.key, rep.Findings)
			}
			flips++
		}
		at -= int(one.o.Size)
	}
	if flips < 20 {
		t.Errorf("%d bytes flipped, want more", flips)
	}
}

// stored writes other bytes in the place of an object's, as a disk that went bad: the record names them now.
func (w *world) spoil(key string, change func([]byte) []byte) {
	w.Helper()
	ctx := w.Context()
	rs := must.Get(w.conn.Records().Records(ctx, key))(w)
	p := must.Get(record.DecodePack(rs[0].Value))(w)
	raw := must.Get(w.conn.Objects().Read(ctx, p.Object))(w)
	raw = change(raw)
	o, err := w.conn.Objects().Upload(ctx, p.Object.Bucket, p.Object.Name+".bad", [][]byte{raw[:p.Header], raw[p.Header:]})
	must.Do(w, err)
	o.Sum = p.Object.Sum
	p.Object, p.Order = o, cmp.Or(p.Order, rs[0].Seq)
	must.Get(w.conn.Records().Write(ctx, record.Put{Key: key, Value: p.Encode(), Expect: rs[0].Seq}))(w)
}

// A flipped byte in a stored chunk is found, told of every thread that needs it, and never returned as data.
func TestFlippedChunkIsNeverData(t *testing.T) {
	w := newWorld(t)
	id, fork := w.fill()
	head := must.Get(w.cl.Thread(fork).Head(t.Context()))(w)
	shared := head.Recent[len(head.Recent)-1].Pack // an ancestor that both have
	w.stop()
	for _, where := range []int{3, 60, -1} {
		w.spoil(events.PackKey(shared.String()), func(b []byte) []byte {
			b = slices.Clone(b)
			b[(where+len(b))%len(b)] ^= 1
			return b
		})
		rep := w.check()
		for _, key := range []string{events.PackKey(shared.String()), events.HeadKey(id)} {
			if !slices.ContainsFunc(rep.Findings, func(f fsck.Finding) bool { return f.Record == key }) {
				t.Errorf("flip at %d: nothing found at %s in %v", where, key, rep.Findings)
			}
		}
		fresh := client.New(w.conn)
		h := must.Get(fresh.Thread(id).Head(t.Context()))(w)
		if err := threads.Verify(t.Context(), fresh.Reader(), h); err == nil {
			t.Errorf("flip at %d: Verify finds nothing", where)
		}
		var out strings.Builder
		if _, err := fresh.Thread(id).Export(t.Context(), &out); err == nil {
			t.Errorf("flip at %d: the export succeeds", where)
		}
		w.spoil(events.PackKey(shared.String()), func(b []byte) []byte {
			b = slices.Clone(b)
			b[(where+len(b))%len(b)] ^= 1
			return b
		})
	}
}

// put writes a record as nobody should.
func (w *world) put(key string, value []byte) {
	w.Helper()
	must.Get(w.conn.Records().Write(w.Context(), record.Put{Key: key, Value: value, Expect: record.Any}))(w)
}

// lose removes a pack's record, and its bytes.
func (w *world) lose(key string) {
	w.Helper()
	rs := must.Get(w.conn.Records().Records(w.Context(), key))(w)
	if rs[0].Exists() { // else it was lost before
		p := must.Get(record.DecodePack(rs[0].Value))(w)
		w.put(key, nil)
		must.Do(w, w.conn.Objects().Reclaim(w.Context(), p.Object))
	}
}

// Each way in which records can be wrong is found where it is.
func TestFindsWhatDiffers(t *testing.T) {
	w := newWorld(t)
	id, fork := w.fill()
	w.stop()
	good := must.Get(w.cl.Thread(id).Head(t.Context()))(w)
	ended := must.Get(w.cl.Thread(fork).Head(t.Context()))(w)
	key := events.HeadKey(id)
	change := func(f func(*threads.Head)) []byte {
		h := good.Clone()
		f(&h)
		return h.Encode()
	}
	var pack record.Record
	packs := must.Get(w.conn.Records().List(t.Context(), "pack.*"))(w)
	for _, r := range packs {
		if r.Key == events.PackKey(good.Recent[2].Pack.String()) {
			pack = r
		}
	}
	p := must.Get(record.DecodePack(pack.Value))(w)
	blobs := must.Get(w.conn.Records().List(t.Context(), "blob.*"))(w)
	for name, c := range map[string]struct {
		key   string
		value []byte
		want  string // record of a finding
		kind  string
	}{
		"entries":        {key, change(func(h *threads.Head) { h.Entries++ }), key, fsck.Inconsistent},
		"items":          {key, change(func(h *threads.Head) { h.N-- }), key, fsck.Inconsistent},
		"recent":         {key, change(func(h *threads.Head) { h.Recent[1], h.Recent[2] = h.Recent[2], h.Recent[1] }), key, fsck.Inconsistent},
		"locator":        {key, change(func(h *threads.Head) { h.Recent[0].Pack = h.Recent[5].Pack }), key, fsck.Missing},
		"head":           {key, change(func(h *threads.Head) { h.Recent[0].Ref = casstore.NodeRef([32]byte{1}) }), key, fsck.Missing},
		"tip":            {key, change(func(h *threads.Head) { h.Tips[0].Ref = casstore.NodeRef([32]byte{1}) }), key, fsck.Missing},
		"lost tip":       {key, change(func(h *threads.Head) { h.MoveTo(h.Recent[1:]); h.Tips = nil }), key, fsck.Inconsistent},
		"start":          {key, change(func(h *threads.Head) { h.Start.Ref = casstore.NodeRef([32]byte{1}) }), key, fsck.Missing},
		"completed":      {key, change(func(h *threads.Head) { h.Status = threads.StatusCompleted }), key, fsck.Inconsistent},
		"both":           {events.HeadKey(fork), ended.Encode(), events.HeadKey(fork), fsck.Inconsistent},
		"no head":        {key, []byte{1, 2}, key, fsck.Unreadable},
		"no session":     {events.SessionKey("s"), nil, events.SessionKey("s"), fsck.Missing},
		"bad session":    {events.SessionKey("s"), []byte("x"), events.SessionKey("s"), fsck.Unreadable},
		"bad pack":       {pack.Key, []byte("x"), pack.Key, fsck.Unreadable},
		"pack gone":      {pack.Key, nil, key, fsck.Missing},
		"pack tombstone": {pack.Key, record.Pack{Gone: true}.Encode(), key, fsck.Missing},
		"pack's nodes":   {pack.Key, func() []byte { q := p; q.Nodes++; return q.Encode() }(), pack.Key, fsck.Inconsistent},
		"pack's chunks":  {pack.Key, func() []byte { q := p; q.Object.NUID = "nowhere"; return q.Encode() }(), pack.Key, fsck.Missing},
		"pack's order":   {pack.Key, func() []byte { q := p; q.Order = 1; return q.Encode() }(), pack.Key, fsck.Inconsistent},
		"blob gone":      {blobs[0].Key, nil, "thread.other.renamed", fsck.Missing},
		"counter":        {events.CounterKey("s"), record.Counter{}.Encode(), events.CounterKey("s"), fsck.Inconsistent},
		"unknown class":  {"later.s", []byte("x"), "later.s", fsck.Unreadable},
		"left":           {events.LeftKey(events.Thread{Session: "other", Name: "main"}), []byte{9}, "left.other.main", fsck.Unreadable},
	} {
		was := must.Get(w.conn.Records().Records(t.Context(), c.key))(w)
		w.put(c.key, c.value)
		rep := w.check()
		if !slices.ContainsFunc(rep.Findings, func(f fsck.Finding) bool { return f.Record == c.want && f.Kind == c.kind }) {
			t.Errorf("%s: no finding %s at %s in %v", name, c.kind, c.want, rep.Findings)
		}
		w.put(c.key, was[0].Value)
		if strings.HasPrefix(c.key, "pack.") { // its order is that of its record
			p.Order = pack.Seq
			w.put(c.key, p.Encode())
		}
	}
	w.wantClean()
}

// States that are gone at a thread's head, with the records of their packs, are made again from SPOOL_EVENTS: the head stays where it is.
func TestNewestStatesAreMadeAgain(t *testing.T) {
	w := newWorld(t)
	id := events.Thread{Session: "s", Name: "main"}
	w.steps(id, 1, 20)
	want := must.Get(w.cl.Thread(id).Head(t.Context()))(w)
	w.stop()
	for _, l := range want.Recent[:3] { // the packs of the last three entries are lost
		w.lose(events.PackKey(l.Pack.String()))
	}
	if done, ok := w.fix(id, fsck.Config{}); !ok || done.To != want.Head().Ref.String() || done.Lost != 0 ||
		done.Replayed != 0 || done.Remade < 3 {
		t.Fatalf("repair = %+v, %v, want 3 states made again", done, ok)
	}
	got := must.Get(w.cl.Thread(id).Head(t.Context()))(w)
	if got.Head() != want.Head() || got.N != want.N || got.Entries != want.Entries {
		t.Errorf("head %s, %d entries, %d items, want it as it was: %s, %d, %d", got.Head(), got.Entries, got.N, want.Head(),
			want.Entries, want.N)
	}
	w.wantClean()
	w.start()
	w.steps(id, 20, 22)
	w.wantClean()
}

// What cannot be made again by fsck itself, because it has not got the masks of the persisters, is published again: the head goes back to
// the last state that is there, and afterwards the thread is what it was, to the hash.
func TestRepairReplays(t *testing.T) {
	mask := redact.New(redact.Default(), true)
	w := newWorld(t)
	w.stop()
	w.startWith(service.PersisterConfig{Secrets: mask})
	id := events.Thread{Session: "s", Name: "main"}
	w.steps(id, 1, 17)
	p := w.cl.Publisher(client.PublisherConfig{Producer: "agent.main"})
	for i := 17; i < 20; i++ {
		body := fmt.Appendf(nil, `{"id":"main%d","role":"coder","content":"step %d: %s","timestamp":%d}`, i, i, leaked, 1795176000000+int64(i))
		e := client.Entry{Thread: id, Dialect: "step", Body: body, Seq: uint64(i)}
		must.Do(w, must.Get(p.Publish(t.Context(), e))(w).Applied(t.Context()))
	}
	want := must.Get(w.cl.Thread(id).Head(t.Context()))(w)
	for _, l := range want.Recent[:3] {
		w.lose(events.PackKey(l.Pack.String()))
	}
	done, ok := w.fix(id, fsck.Config{}) // beside the persister
	if !ok || done.To != want.Recent[3].Ref.String() || done.Lost != 3 || done.Replayed != 3 {
		t.Fatalf("repair = %+v, %v, want 3 entries lost and replayed", done, ok)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	must.Do(w, w.cl.Thread(id).Await(ctx, "agent.main", 0, 19))
	got := must.Get(w.cl.Thread(id).Head(t.Context()))(w)
	if got.Head().Ref != want.Head().Ref || got.N != want.N || got.Entries != want.Entries {
		t.Errorf("head %s, %d entries, %d items, want %s, %d, %d", got.Head().Ref, got.Entries, got.N, want.Head().Ref, want.Entries, want.N)
	}
	w.steps(id, 20, 22)
	w.wantClean()
}

// Without its events the thread is shorter and whole, and the repair says what must be published again. When all that the
// head names is gone, the last state that is there is found; when it cannot be told, nothing is changed.
func TestRepairWithoutEvents(t *testing.T) {
	w := newWorld(t)
	id := events.Thread{Session: "s", Name: "main"}
	w.steps(id, 1, 20)
	head := must.Get(w.cl.Thread(id).Head(t.Context()))(w)
	w.stop()
	stream := must.Get(w.conn.JetStream().Stream(t.Context(), events.EventsStream))(w)
	must.Do(w, stream.Purge(t.Context()))
	for _, l := range head.Recent {
		w.lose(events.PackKey(l.Pack.String()))
	}
	fix := func() *fsck.Report {
		rep, err := fsck.Fix(t.Context(), natsadmin.Of(w.conn), natsadmin.Of(w.conn), w.conn.Store(0), fsck.Config{})
		must.Do(w, err)
		return rep
	}
	rep := fix()
	if len(rep.Repairs) != 1 || rep.Repairs[0].To == "" || rep.Repairs[0].Lost != 11 ||
		!strings.Contains(rep.Repairs[0].Detail, "last 11 entries") {
		t.Fatalf("repairs = %+v, want a way back over 11 entries", rep.Repairs)
	}
	got := must.Get(w.cl.Thread(id).Head(t.Context()))(w)
	if got.Entries != 8 || got.N != 8 || got.Leaf != "main8" {
		t.Errorf("head: %d entries, %d items, leaf %s, want 8, 8, main8", got.Entries, got.N, got.Leaf)
	}
	w.wantClean()

	all := must.Get(w.conn.Records().List(t.Context(), "pack.*"))(w)
	for _, r := range all {
		w.lose(r.Key)
	}
	rep = fix()
	if len(rep.Repairs) != 1 || rep.Repairs[0].To != "" || !strings.Contains(rep.Repairs[0].Detail, "backup") {
		t.Errorf("repairs = %+v, want none possible", rep.Repairs)
	}
	if h, err := w.cl.Thread(id).Head(t.Context()); err != nil || h.Head() != got.Head() {
		t.Errorf("head %v, %v, want it unchanged", h.Head(), err)
	}
}

// interleave makes two threads, half of whose packs they share.
func (w *world) interleave(entries int) (a, b events.Thread) {
	w.Helper()
	a, b = events.Thread{Session: "s", Name: "main"}, events.Thread{Session: "s", Name: "other"}
	p, seq := w.cl.Publisher(client.PublisherConfig{Producer: "both"}), uint64(0)
	say := func(i int, ts ...events.Thread) {
		var es []client.Entry
		for _, t := range ts {
			es = append(es, client.Entry{Thread: t, Dialect: "step",
				Body: fmt.Appendf(nil, `{"id":"%s%d","role":"coder","content":"step %d","timestamp":%d}`, t.Name, i, i, 1795176000000+int64(i))})
		}
		must.Get(p.Publish(w.Context(), es...))(w)
		for _, t := range ts {
			seq++
			must.Do(w, w.cl.Thread(t).Await(w.Context(), "both", 0, seq))
		}
	}
	for i := 1; i <= entries; i++ {
		if i%2 == 0 {
			say(i, a)
			say(i, b)
		} else {
			say(i, a, b)
		}
	}
	return a, b
}

// fix repairs, and gives what was done to a thread.
func (w *world) fix(id events.Thread, cfg fsck.Config) (fsck.Repair, bool) {
	w.Helper()
	rep := must.Get(fsck.Fix(w.Context(), natsadmin.Of(w.conn), natsadmin.Of(w.conn), w.conn.Store(0), cfg))(w)
	for _, r := range rep.Repairs {
		if r.Record == events.HeadKey(id) {
			return r, true
		}
	}
	return fsck.Repair{}, false
}

// path are the places of a thread's states, newest first.
func (w *world) path(id events.Thread) []casstore.Located {
	w.Helper()
	head := must.Get(w.cl.Thread(id).Head(w.Context()))(w)
	var at []casstore.Located
	for s, err := range w.cl.Reader().Walk(w.Context(), head.Head()) {
		must.Do(w, err)
		at = append(at, s.At)
	}
	return at
}

// A gap in the middle of threads is filled from SPOOL_EVENTS with nodes of the same hashes: heads, numbers and all that is
// behind the gap stay as they are. Threads that shared the lost packs share the new one.
func TestGapIsFilled(t *testing.T) {
	for name, lose := range map[string]func(w *world, key string){
		"no record": func(w *world, key string) { w.lose(key) },
		"no bytes": func(w *world, key string) {
			w.spoil(key, func(b []byte) []byte { return append([]byte("XXXX"), b[4:]...) })
		},
		"a bad node": func(w *world, key string) { w.spoil(key, func(b []byte) []byte { return flip(b, len(b)-9) }) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			a, b := w.interleave(30)
			w.stop()
			paths := map[events.Thread][]casstore.Located{a: w.path(a), b: w.path(b)}
			lost := map[string]bool{}
			for _, l := range paths[a][12:15] {
				lost[events.PackKey(l.Pack.String())] = true
			}
			for key := range lost {
				lose(w, key)
			}
			if rep := w.check(); len(rep.Findings) == 0 {
				t.Fatal("nothing is found")
			}
			for _, id := range []events.Thread{a, b} {
				before := must.Get(w.cl.Thread(id).Head(t.Context()))(w)
				if id == a {
					done, ok := w.fix(id, fsck.Config{})
					if !ok || done.Remade < 6 || done.To != before.Head().Ref.String() || done.Lost != 0 {
						t.Fatalf("repair = %+v, %v, want the gap filled", done, ok)
					}
				}
				after := must.Get(w.cl.Thread(id).Head(t.Context()))(w)
				if string(after.Encode()) != string(before.Encode()) {
					t.Errorf("%s: the head is another one", id)
				}
			}
			w.wantClean()
			for id, want := range paths {
				w.cl = client.New(w.conn) // nothing cached
				if got := w.path(id); !slices.EqualFunc(got, want, func(a, b casstore.Located) bool { return a.Ref == b.Ref }) {
					t.Errorf("%s: the states are others", id)
				}
			}
			w.start()
			w.steps(events.Thread{Session: "s", Name: "third"}, 1, 3)
			w.wantClean()
		})
	}
}

func flip(b []byte, at int) []byte {
	b = slices.Clone(b)
	b[at] ^= 1
	return b
}

// A gap that begins a thread is filled, too, and one in a fork that misses what it was forked from.
func TestGapAtTheBeginning(t *testing.T) {
	w := newWorld(t)
	id, fork := events.Thread{Session: "s", Name: "main"}, events.Thread{Session: "s", Name: "fork"}
	w.steps(id, 1, 6)
	must.Do(w, w.cl.Thread(fork).Fork(t.Context(), events.Fork{Session: "s", Thread: "main", Index: 2}))
	w.steps(fork, 1, 20)
	w.steps(id, 6, 30)
	w.stop()
	path := w.path(id)
	for _, l := range path[len(path)-4:] {
		w.lose(events.PackKey(l.Pack.String()))
	}
	done, ok := w.fix(id, fsck.Config{})
	if !ok || done.Remade == 0 {
		t.Fatalf("repair = %+v, %v, want the gap filled", done, ok)
	}
	w.wantClean()
}

// Without its events a gap stays, the head too, and the report says what is lost. Told to, the repair cuts the thread.
func TestGapWithoutEvents(t *testing.T) {
	w := newWorld(t)
	id := events.Thread{Session: "s", Name: "main"}
	w.steps(id, 1, 31)
	w.stop()
	path := w.path(id)
	stream := must.Get(w.conn.JetStream().Stream(t.Context(), events.EventsStream))(w)
	must.Do(w, stream.Purge(t.Context()))
	for _, l := range path[10:13] { // entries 18 to 20
		w.lose(events.PackKey(l.Pack.String()))
	}
	before := must.Get(w.cl.Thread(id).Head(t.Context()))(w)
	done, ok := w.fix(id, fsck.Config{})
	if !ok || done.To != "" || done.Remade != 0 || !strings.Contains(done.Detail, "entries 18 to 20") ||
		!strings.Contains(done.Detail, "--cut") {
		t.Fatalf("repair = %+v, %v, want it to say what is lost", done, ok)
	}
	after := must.Get(w.cl.Thread(id).Head(t.Context()))(w)
	if after.Head() != before.Head() || after.Entries != before.Entries {
		t.Errorf("the head moved to %s", after.Head())
	}
	done, ok = w.fix(id, fsck.Config{Cut: true})
	if !ok || done.To != path[13].Ref.String() || done.Lost != 13 {
		t.Fatalf("repair = %+v, %v, want the thread cut before the gap", done, ok)
	}
	w.wantClean()
}

// What is lost of results that are artifacts, and of images, is made again as the persister made it, if it is told what
// that was told; else the repair says why it is not.
func TestGapOfResults(t *testing.T) {
	for name, c := range map[string]struct {
		stored, told artifacts.Thresholds
		filled       bool
	}{
		"default":      {filled: true},
		"other size":   {artifacts.Thresholds{Bytes: 2000}, artifacts.Thresholds{Bytes: 2000}, true},
		"unknown size": {stored: artifacts.Thresholds{Bytes: 2000}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.stop()
			w.startWith(service.PersisterConfig{Config: persist.Config{Artifacts: c.stored}})
			id := events.Thread{Session: "s", Name: "main"}
			p := w.cl.Publisher(client.PublisherConfig{})
			for i := range 12 {
				body := fmt.Appendf(nil, `{"type":"user","uuid":"u%d","message":{"role":"user","content":[`+
					`{"type":"tool_result","tool_use_id":"t%[1]d","content":[{"type":"text","text":"%[1]d%[2]s"},`+
					`{"type":"image","source":{"data":"%[3]s"}}]}]}}`,
					i, strings.Repeat("x", 70_000), strings.Repeat("A", 2000))
				must.Do(w, must.Get(p.Publish(w.Context(), client.Entry{Thread: id, Dialect: "claude", Body: body}))(w).Applied(w.Context()))
			}
			w.stop()
			lost := w.path(id)[5]
			w.lose(events.PackKey(lost.Pack.String()))
			done, ok := w.fix(id, fsck.Config{Artifacts: c.told})
			says := c.filled || strings.Contains(done.Detail, "size of artifacts")
			if !ok || (done.Remade > 0) != c.filled || !says {
				t.Fatalf("repair = %+v, %v, want the gap filled: %v", done, ok, c.filled)
			}
			if c.filled {
				w.wantClean()
			}
		})
	}
}
