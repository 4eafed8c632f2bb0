package service_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"spool/internal/gc"
	"spool/internal/history"
	"spool/internal/must"
	"spool/internal/natsio"
	"spool/internal/natstest"
	"spool/internal/persist"
	"spool/internal/record"
	"spool/internal/service"
	"spool/pkg/artifacts"
	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// secret is what must not be found. It does not compress, and stands behind the 200 characters of a first prompt that a session's
// record keeps: of that record the server may keep earlier revisions, which the receipt says.
const secret = "zq7Vw0-PXk3mJ9dLr5TbN1yHsGfC4uA8eQ2o"

// holding lists the files below a directory that have a text in them, by their first folder of streams.
func holding(t *testing.T, dir, text string) (streams []string) {
	t.Helper()
	must.Do(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // a block that the server replaced meanwhile
		}
		if bytes.Contains(b, []byte(text)) {
			_, rest, _ := strings.Cut(path, "/streams/")
			name, _, _ := strings.Cut(rest, "/")
			streams = append(streams, name)
		}
		return err
	}))
	slices.Sort(streams)
	return slices.Compact(streams)
}

// An erased session is not in the files of the server any more; what its fork and others have with it is, and is in the receipt.
func TestErase(t *testing.T) {
	dir := t.TempDir()
	conn := natstest.Dial(t, natstest.ServerIn(t, dir))
	ctx := t.Context()
	must.Do(t, conn.Ensure(ctx, natsio.Limits{EventsBytes: 1 << 30, ItemsBytes: 1 << 30}))
	run(t, service.NewPersister(conn, service.PersisterConfig{Config: persist.Config{Lane: -1}}, slog.New(slog.DiscardHandler)))
	cl := client.New(conn)
	pub := cl.Publisher(client.PublisherConfig{Producer: "p"})
	seq := uint64(0)
	say := func(session, text string) {
		t.Helper()
		seq++
		picture := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("picture of "+session+" ", 100) + text))
		body := fmt.Appendf(nil, `{"type":"message","id":"e%d","message":{"role":"user","content":[{"type":"text","text":"%s %s"},{"type":"image","data":%q,"mimeType":"image/png"}]}}`,
			seq, strings.Repeat("Nothing to see here. ", 20), text, picture)
		must.Get(pub.Publish(ctx, client.Entry{Thread: events.Thread{Session: session, Name: "main"}, Dialect: "omp", Body: body, Seq: seq}))(t)
	}
	say("mine", secret)
	must.Do(t, cl.Thread(events.Thread{Session: "mine", Name: "main"}).Await(ctx, "p", 0, 1))
	for i := range 19 {
		say("mine", fmt.Sprintf("%s %d", secret, i))
		say("yours", fmt.Sprint("harmless ", i))
	}
	must.Do(t, cl.Thread(events.Thread{Session: "mine", Name: "main"}).Await(ctx, "p", 0, seq-1))
	say("yours", "the last")
	must.Do(t, cl.Thread(events.Thread{Session: "yours", Name: "main"}).Await(ctx, "p", 0, seq))
	put := client.NewArtifact{Record: artifacts.Record{Session: "mine"}}
	must.Get(cl.Artifacts().Put(ctx, put, strings.NewReader("an output with "+secret)))(t)
	prompts := filepath.Join(t.TempDir(), "history.db")
	err := history.With(prompts, func(db *history.DB) error { return history.NewFollower(db, conn, nil).CatchUp(ctx) })
	must.Do(t, err)
	for _, stream := range []string{"SPOOL_EVENTS", "SPOOL_ITEMS", "OBJ_spool_artifacts", "OBJ_spool_blobs"} {
		if found := holding(t, dir, secret); !slices.Contains(found, stream) {
			t.Fatalf("the secret is in %v, want it in %s: else this test shows nothing", found, stream)
		}
	}
	if len(holding(t, filepath.Dir(prompts), secret)) == 0 {
		t.Fatal("the prompt history does not hold the secret: this test shows nothing")
	}

	e := service.Erasure{Conn: conn, How: client.Deletion{By: "mira"}, Histories: []string{prompts}, Log: slog.New(slog.DiscardHandler)}
	receipts, err := e.Run(ctx, "mine")
	if err != nil || len(receipts) != 1 {
		t.Fatalf("Run = %+v, %v", receipts, err)
	}
	r := receipts[0]
	if !r.Deleted || r.By != "mira" || r.Gone.Entries != 20 || r.Collected == nil || r.Collected.Condemned == 0 || r.Collected.Refused != "" {
		t.Errorf("receipt = %+v, collected %+v", r, r.Collected)
	}
	var over []string
	for _, w := range r.Overwritten {
		over = append(over, w.Stream)
	}
	slices.Sort(over)
	if want := "[OBJ_spool_artifacts OBJ_spool_blobs OBJ_spool_nodes SPOOL_EVENTS SPOOL_ITEMS]"; fmt.Sprint(over) != want {
		t.Errorf("written over in %v, want %s", over, want)
	}
	// The two start nodes are the same bytes, and hold no word of anybody. In one pack they are one.
	if len(r.Kept) > 1 || len(r.Kept) == 1 && (r.Kept[0].What != "nodes" || r.Kept[0].Count != 1 || len(r.Kept[0].Sessions) > 0) {
		t.Errorf("kept = %+v, want nothing but a start node: nobody shares it", r.Kept)
	}
	if found := holding(t, dir, secret); len(found) != 0 {
		t.Errorf("the secret is still in the files of %v", found)
	}
	if found := holding(t, filepath.Dir(prompts), secret); len(found) != 0 {
		t.Error("the secret is still in the files of the prompt history")
	}
	// Packs are compressed, and text in them is not found so: there must be none but those that the other session has now.
	live := map[string]bool{}
	packs := must.Get(conn.Records().List(ctx, events.PackKey("*")))(t)
	for _, rec := range packs {
		if p, err := record.DecodePack(rec.Value); err == nil && !p.Gone {
			live[p.Object.NUID] = true
		}
	}
	stored, err := conn.Objects().Stored(ctx, events.NodesBucket)
	if err != nil || len(stored) != len(live) {
		t.Errorf("%d packs are stored, %v, and %d are live", len(stored), err, len(live))
	}
	for _, s := range stored {
		if !live[s.Object.NUID] {
			t.Errorf("the pack %s is stored, and no record names it", s.Object.NUID)
		}
	}
	if len(r.MayRemain) == 0 {
		t.Error("the receipt does not say where something may remain")
	}
	head, err := cl.Thread(events.Thread{Session: "yours", Name: "main"}).Head(ctx)
	if err == nil {
		err = threads.Verify(ctx, client.New(conn).Reader(), head)
	}
	must.Is(t, err, nil, "the other session")
	must.Is(t, must.Err(e.Run(ctx, "mine")), client.ErrSessionNotFound, "second Run")
}

// What a fork shares with an erased session stays, and the receipt counts it.
func TestEraseShared(t *testing.T) {
	conn := natstest.Conn(t)
	ctx := t.Context()
	run(t, service.NewPersister(conn, service.PersisterConfig{Config: persist.Config{Lane: -1}}, slog.New(slog.DiscardHandler)))
	cl := client.New(conn)
	pub := cl.Publisher(client.PublisherConfig{Producer: "p"})
	from := events.Thread{Session: "mine", Name: "main"}
	for seq := range uint64(10) {
		picture := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{byte(seq)}, 2000))
		body := fmt.Appendf(nil, `{"type":"message","id":"e%d","message":{"role":"user","content":[{"type":"image","data":%q,"mimeType":"image/png"}]}}`, seq+1, picture)
		must.Get(pub.Publish(ctx, client.Entry{Thread: from, Dialect: "omp", Body: body, Seq: seq + 1}))(t)
	}
	must.Do(t, cl.Thread(from).Await(ctx, "p", 0, 10))
	to := events.Thread{Session: "child", Name: "main"}
	must.Do(t, cl.Thread(to).Fork(ctx, events.Fork{Session: "mine", Thread: "main", Index: 4}))
	tools := must.Get(conn.Objects().Upload(ctx, events.ArtifactsBucket, "other/art_1/0.tool.log", [][]byte{[]byte("to be registered")}))(t)
	receipts, err := service.Erasure{Conn: conn, Log: slog.New(slog.DiscardHandler)}.Run(ctx, "mine", "nobody")
	if !errors.Is(err, client.ErrSessionNotFound) || len(receipts) != 1 {
		t.Fatalf("Run = %+v, %v, want a receipt, and one session not found", receipts, err)
	}
	kept := map[string]client.Kept{}
	for _, k := range receipts[0].Kept {
		kept[k.What] = k
	}
	if k := kept["blobs"]; k.Count != 4 || k.Bytes != 4*2000 {
		t.Errorf("kept blobs = %+v, want the 4 that the fork has", k)
	}
	if k := kept["nodes"]; k.Count < 8 || fmt.Sprint(k.Sessions) != "[child]" { // states and contents, a start with its prompt
		t.Errorf("kept nodes = %+v, want those of 4 entries, for the session child", k)
	}
	if k := kept["nodes"]; k.Count > 11 {
		t.Errorf("%d nodes are kept, want at most those of 4 entries and the start", k.Count)
	}
	if err := conn.Objects().ReadChunks(ctx, tools, 1, func([]byte) error { return nil }); err != nil {
		t.Errorf("bytes that no record names yet, and that are not the session's: %v", err)
	}
	if !strings.Contains(strings.Join(receipts[0].MayRemain, "\n"), "16 B in 1 objects that no record names") {
		t.Errorf("may remain = %q, want the object that no record names", receipts[0].MayRemain)
	}
	head, err := cl.Thread(to).Head(ctx)
	if err == nil {
		err = threads.Verify(ctx, client.New(conn).Reader(), head)
	}
	must.Is(t, err, nil, "the fork")
}

func run(t *testing.T, p *service.Persister) {
	t.Helper()
	natstest.Run(t, p.Run)
}

// An erasure that was cut off after the deletion goes on with the streams.
func TestEraseResumed(t *testing.T) {
	conn := natstest.Conn(t)
	ctx := t.Context()
	run(t, service.NewPersister(conn, service.PersisterConfig{Config: persist.Config{Lane: -1}}, slog.New(slog.DiscardHandler)))
	cl := client.New(conn)
	pub := cl.Publisher(client.PublisherConfig{Producer: "p"})
	id := events.Thread{Session: "s", Name: "main"}
	say := func(seq uint64) {
		t.Helper()
		body := []byte(`{"role":"coder","content":"x","timestamp":1795176000000}`)
		must.Do(t, must.Get(pub.Publish(ctx, client.Entry{Thread: id, Dialect: "step", Body: body, Seq: seq}))(t).Applied(ctx))
	}
	say(1)
	say(2)
	must.Get(cl.Session("s").Delete(ctx, client.Deletion{Erase: true}))(t)
	e := service.Erasure{Conn: conn, Log: slog.New(slog.DiscardHandler)}
	receipts, err := e.Run(ctx, "s")
	if !errors.Is(err, gc.ErrBrake) || len(receipts) != 1 || receipts[0].Gone.Entries != 2 || receipts[0].Collected.Refused == "" {
		t.Fatalf("Run = %+v, %v, want the receipt of the deletion, and that gc brakes: nobody knows any more whose garbage it is", receipts, err)
	}
	written := map[string]int64{}
	for _, w := range receipts[0].Overwritten {
		written[w.Stream] = w.Messages
	}
	if written[events.EventsStream] != 3 || written[events.ItemsStream] != 2 {
		t.Errorf("written over: %v, want 2 entries and the operation, and 2 items", written)
	}
	e.Allow = []gc.Brake{gc.BrakeRoots, gc.BrakeShare}
	if receipts, err := e.Run(ctx, "s"); err != nil || len(receipts) != 1 || receipts[0].Collected.Condemned == 0 {
		t.Errorf("Run without brakes = %+v, %v, want the rest to be collected", receipts, err)
	}
	must.Is(t, must.Err(e.Run(ctx, "s")), client.ErrSessionNotFound, "Run when all is done")

	// What begins behind the deletion is not written over by whoever goes on with it.
	say(3)
	must.Get(cl.Session("s").Delete(ctx, client.Deletion{Erase: true}))(t)
	say(4)
	if streams, err := cl.Internal().EraseStreams(ctx, "s"); err != nil || len(streams) == 0 {
		t.Fatalf("EraseStreams = %v, %v", streams, err)
	}
	n := 0
	for it := range must.All(t, cl.Subscribe(ctx, client.Filter{Session: "s"}, client.Position{All: true})) {
		if n++; it.N == 1 {
			break
		}
	}
	if head, err := cl.Thread(id).Head(ctx); err != nil || head.N != 1 {
		t.Errorf("the new life has %d items, %v, want 1", head.N, err)
	}
}
