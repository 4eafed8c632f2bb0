package scrub_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"spool/internal/faulttest"
	"spool/internal/gc"
	"spool/internal/must"
	"spool/internal/natsadmin"
	"spool/internal/natsio"
	"spool/internal/natstest"
	"spool/internal/record"
	"spool/internal/scrub"
	"spool/internal/service"
	"spool/pkg/artifacts"
	"spool/pkg/client"
	"spool/pkg/events"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("time.Sleep"),
		goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server.(*Server).Start"))
}

// open starts a server on a directory; stop ends it.
func open(t *testing.T, dir string) (conn *natsio.Conn, stop func()) {
	t.Helper()
	srv := natstest.ServerIn(t, dir)
	conn = natstest.Dial(t, srv)
	must.Do(t, conn.Ensure(t.Context(), natsio.Limits{EventsBytes: 1 << 28, ItemsBytes: 1 << 28}))
	return conn, func() { conn.Close(); srv.Stop() }
}

// The bytes that are looked for on disk.
var (
	blobText = strings.Repeat("a blob that rots ", 50)
	fileText = strings.Repeat("an artifact that rots ", 50)
)

// fill makes a bit of everything.
func fill(t *testing.T, conn *natsio.Conn) *faulttest.Ledger {
	t.Helper()
	p := faulttest.Start(t, conn, nil)
	l := faulttest.NewLedger(faulttest.Workload{Sessions: 2, ThreadsEach: 2})
	cl := client.New(conn)
	must.Do(t, l.Publish(t.Context(), cl, 40))
	must.Do(t, faulttest.Settle(t.Context(), conn))
	must.Get(cl.PutBlob(t.Context(), []byte(blobText)))(t)
	must.Get(cl.Artifacts().Put(t.Context(), client.NewArtifact{Record: artifacts.Record{Session: l.Sessions()[0],
		Filename: "f.txt"}}, strings.NewReader(fileText)))(t)
	must.Do(t, p.Stop())
	return l
}

func pass(t *testing.T, conn *natsio.Conn, cfg scrub.Config) scrub.Pass {
	t.Helper()
	return must.Get(scrub.Scrub(t.Context(), natsadmin.Of(conn), cfg))(t)
}

// A whole store gives no findings; a pass that is stopped anywhere goes on there and reads nothing twice, but for what it had in
// hand.
func TestGoesOn(t *testing.T) {
	conn, _ := open(t, t.TempDir())
	fill(t, conn)
	whole := pass(t, conn, scrub.Config{})
	if whole.Found != 0 || whole.Packs == 0 || whole.Blobs != 1 || whole.Files != 1 || whole.Messages < 80 ||
		whole.Records < 10 || whole.Ended == 0 {
		t.Fatalf("pass = %+v, want no findings, and everything read", whole)
	}
	stops, ended := 0, false
	var last scrub.Pass
	for !ended { // a run ends at its 20th read
		ctx, cancel := context.WithCancel(t.Context())
		reads := 0
		p, err := scrub.Scrub(ctx, natsadmin.Of(conn), scrub.Config{Progress: func(uint64, uint64) {
			if reads++; reads == 20 {
				cancel()
			}
		}})
		stopped := ctx.Err() != nil
		cancel()
		if last = p; err == nil {
			ended = true
		} else if stops++; !stopped || stops > 100 {
			t.Fatal(err)
		}
	}
	if stops < 3 || last.Found != 0 || last.Blobs != 1 || last.Files != 1 || last.Bytes > 3*whole.Bytes {
		t.Errorf("after %d stops: %+v, want what %+v has", stops, last, whole)
	}
	if last.Began == whole.Began {
		t.Error("it is the same pass")
	}
}

// flipOnDisk changes one byte of what a stream's block files hold, the last place where it stands.
func flipOnDisk(t *testing.T, dir, stream string, what []byte) {
	t.Helper()
	found := false
	must.Do(t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || found || filepath.Ext(path) != ".blk" ||
			!strings.Contains(path, string(filepath.Separator)+stream+string(filepath.Separator)) {
			return err
		}
		raw, err := os.ReadFile(path)
		if i := bytes.LastIndex(raw, what); err == nil && i >= 0 {
			found = true
			raw[i+len(what)/2] ^= 4
			return os.WriteFile(path, raw, 0o600)
		}
		return err
	}))
	if !found {
		t.Fatalf("%d bytes of %s are in no block", len(what), stream)
	}
}

// What rots on the disk, of every kind, is found; it stands as an alarm, and gc deletes nothing while it does.
func TestFindsRot(t *testing.T) {
	type target struct {
		stream string
		record string // of the finding; a prefix
		what   func(t *testing.T, conn *natsio.Conn, l *faulttest.Ledger) []byte
	}
	value := func(filter string) func(*testing.T, *natsio.Conn, *faulttest.Ledger) []byte {
		return func(t *testing.T, conn *natsio.Conn, _ *faulttest.Ledger) []byte {
			rs := must.Get(conn.Records().List(t.Context(), filter))(t)
			return rs[0].Value
		}
	}
	message := func(stream string) func(*testing.T, *natsio.Conn, *faulttest.Ledger) []byte {
		return func(t *testing.T, conn *natsio.Conn, _ *faulttest.Ledger) (data []byte) {
			n := 0
			must.Do(t, natsadmin.New(conn).Messages(t.Context(), stream, 1, func(_ uint64, _ string, b []byte) error {
				if n++; n == 3 {
					data = bytes.Clone(b)
				}
				return nil
			}))
			return data
		}
	}
	for name, c := range map[string]target{
		"blob": {events.ObjectStream(events.BlobsBucket), "blob.",
			func(*testing.T, *natsio.Conn, *faulttest.Ledger) []byte { return []byte(blobText) }},
		"artifact": {events.ObjectStream(events.ArtifactsBucket), "artifact.",
			func(*testing.T, *natsio.Conn, *faulttest.Ledger) []byte { return []byte(fileText) }},
		"pack": {events.ObjectStream(events.NodesBucket), "pack.", func(t *testing.T, conn *natsio.Conn, _ *faulttest.Ledger) (b []byte) {
			rs := must.Get(conn.Records().List(t.Context(), "pack.*"))(t)
			p := must.Get(record.DecodePack(rs[0].Value))(t)
			must.Do(t, conn.Objects().ReadChunks(t.Context(), p.Object, 1, func(c []byte) error { b = bytes.Clone(c); return nil }))
			return b
		}},
		"event":  {events.EventsStream, events.EventsStream, message(events.EventsStream)},
		"item":   {events.ItemsStream, "", message(events.ItemsStream)},
		"record": {events.RecordsStream, "", value("counter.*")},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			conn, stop := open(t, dir)
			l := fill(t, conn)
			what := c.what(t, conn, l)
			must.Get(scrub.Look(t.Context(), natsadmin.Of(conn), natsadmin.Of(conn), slog.New(slog.DiscardHandler)))(t)
			stop()
			flipOnDisk(t, dir, c.stream, what)
			conn, _ = open(t, dir)
			p := pass(t, conn, scrub.Config{})
			if name == "record" { // the server leaves it out, like one that never was: its stream's own account of losses may tell
				return
			}
			if !slices.ContainsFunc(p.Findings, func(f scrub.Finding) bool { return strings.HasPrefix(f.Record, c.record) }) {
				t.Fatalf("findings = %+v, want one at %s…", p.Findings, c.record)
			}
			all := must.Get(scrub.Alarms(t.Context(), natsadmin.Of(conn)))(t)
			if !slices.ContainsFunc(all, func(a scrub.Alarm) bool { return a.Kind == scrub.AlarmScrub }) {
				t.Errorf("alarms = %+v, want the scrub's", all)
			}
			col := must.Get(service.NewCollector(conn, gc.Safe(), nil))(t)
			plan, err := col.Plan(t.Context())
			if err != nil { // some damage ends even the planning
				return
			}
			if !slices.ContainsFunc(plan.Brakes, func(b gc.Braked) bool { return b.Brake == gc.BrakeDamage }) {
				t.Errorf("brakes = %+v, want one for what stands", plan.Brakes)
			}
			if _, err := col.Apply(t.Context(), plan); err == nil {
				t.Error("gc ran beside a finding that stands")
			}
		})
	}
}

// Of two processes that scrub one does.
func TestOneScrubs(t *testing.T) {
	conn, _ := open(t, t.TempDir())
	fill(t, conn)
	first := true
	var second error
	_, err := scrub.Scrub(t.Context(), natsadmin.Of(conn), scrub.Config{Progress: func(uint64, uint64) {
		if first {
			first = false
			_, second = scrub.Scrub(t.Context(), natsadmin.Of(conn), scrub.Config{})
		}
	}})
	if second != nil || !errors.Is(err, record.ErrConflict) {
		t.Errorf("Scrub = %v and %v, want a conflict for the one that another took over from", err, second)
	}
}

// A head whose newest pack is gone is found at a start, once it is gone, and not before; it stops standing when it resolves.
func TestHeads(t *testing.T) {
	conn, _ := open(t, t.TempDir())
	l := fill(t, conn)
	log, store := slog.New(slog.DiscardHandler), conn.Store(0)
	look := func() scrub.HeadsReport {
		t.Helper()
		rep := must.Get(scrub.Heads(t.Context(), natsadmin.Of(conn), natsadmin.Of(conn), store, "a", time.Now(), log))(t)
		return rep
	}
	if rep := look(); rep.Found != 0 || rep.Heads != 4 || rep.Ended == 0 {
		t.Fatalf("a whole store: %+v", rep)
	}
	id := events.Thread{Session: l.Sessions()[0], Name: "main"}
	head := must.Get(client.New(conn).Thread(id).Head(t.Context()))(t)
	key := events.PackKey(head.Head().Pack.String())
	rs := must.Get(conn.Records().Records(t.Context(), key))(t)
	must.Get(conn.Records().Write(t.Context(), record.Put{Key: key, Expect: rs[0].Seq}))(t)
	rep := look()
	if !slices.ContainsFunc(rep.Findings, func(f scrub.Finding) bool { return f.Record == events.HeadKey(id) && f.Kind == scrub.Missing }) {
		t.Fatalf("findings = %+v, want %s", rep.Findings, id)
	}
	all := must.Get(scrub.Alarms(t.Context(), natsadmin.Of(conn)))(t)
	if len(all) != 1 || all[0].Kind != scrub.AlarmHeads || !strings.Contains(all[0].Do, "fsck --repair") {
		t.Errorf("alarms = %+v", all)
	}
	p := must.Get(record.DecodePack(rs[0].Value))(t)
	p.Order = rs[0].Seq
	must.Get(conn.Records().Write(t.Context(), record.Put{Key: key, Value: p.Encode(), Expect: record.Any}))(t)
	if rep := look(); rep.Found != 0 {
		t.Errorf("after it is back: %+v", rep)
	}
	if all, err := scrub.Alarms(t.Context(), natsadmin.Of(conn)); err != nil || len(all) != 0 {
		t.Errorf("alarms = %+v, %v", all, err)
	}
}

// What the server itself says is lost is an alarm.
func TestLost(t *testing.T) {
	conn, _ := open(t, t.TempDir())
	all := must.Get(scrub.Alarms(t.Context(), lossy{natsadmin.Of(conn)}))(t)
	if len(all) != 1 || all[0].Kind != scrub.AlarmLost || all[0].Found != 3 || !strings.Contains(all[0].Detail, events.ItemsStream) {
		t.Errorf("alarms = %+v, want three lost items", all)
	}
	must.Do(t, scrub.Cleared(t.Context(), lossy{natsadmin.Of(conn)}, false))
	if all, err := scrub.Alarms(t.Context(), lossy{natsadmin.Of(conn)}); err != nil || len(all) != 0 {
		t.Errorf("after a clean fsck: %+v, %v", all, err)
	}
}

// lossy is a system whose server has lost items.
type lossy struct{ natsadmin.System }

func (l lossy) StreamStates(ctx context.Context) ([]record.StreamState, error) {
	states, err := l.System.StreamStates(ctx)
	for i := range states {
		if states[i].Stream == events.ItemsStream {
			states[i].Lost, states[i].LostBytes = 3, 300
		}
	}
	return states, err
}
