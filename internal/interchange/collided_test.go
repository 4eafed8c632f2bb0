package interchange_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"spool/internal/interchange"
	"spool/internal/must"
	"spool/internal/transcript"
	"spool/pkg/client"
	"spool/pkg/events"
)

// Two imports that begin one session at one moment with different lines publish as one producer, and what came second is refused: then
// neither says that all is well, and what is imported next heals the thread. A letter of before fails nobody.
func TestImportsThatCollide(t *testing.T) {
	conn, dir := system(t), t.TempDir()
	text := codexMeta(codexID, "") + codexSaid(1) + codexSaid(2)
	write(t, filepath.Join(dir, "s.jsonl"), []byte(text))
	res := load(t, conn, dir)
	must.Do(t, interchange.Collided(t.Context(), conn, &res))
	must.Same(t, res.Failed, 0, "%d files failed of an import alone, want %d")

	// What the other import publishes comes to the thread behind that: a line that differs, and one more.
	f, meta := &res.Files[0], len(codexMeta(codexID, ""))
	mixed := events.Event{Kind: events.KindEntry, Thread: f.ID(), Producer: f.Last.Producer, Epoch: f.Last.Epoch, Dialect: "codex", Time: 1}
	second, more := mixed, mixed
	second.Seq, second.Body = uint64(meta)+1, []byte(strings.TrimSpace(codexSaid(8)))
	more.Seq, more.Body = uint64(len(text))+1, []byte(strings.TrimSpace(codexSaid(9)))
	must.Do(t, conn.Events().PublishEvents(t.Context(), []*events.Event{&second, &more}))
	must.Do(t, client.New(conn).Thread(f.ID()).Settled(t.Context()))
	must.Do(t, interchange.Collided(t.Context(), conn, &res))
	if res.Failed != 1 || f.Err == nil || !strings.Contains(f.Error, "import it again") {
		t.Fatalf("%d files failed, %q; want one that is to be imported again", res.Failed, f.Error)
	}

	write(t, filepath.Join(dir, "s.jsonl"), []byte(text+codexSaid(3)))
	res = load(t, conn, dir)
	must.Do(t, interchange.Collided(t.Context(), conn, &res))
	if res.Failed != 0 || res.Files[0].Thread != events.MainThread || res.Files[0].Former == "" {
		t.Errorf("the next import: %+v; want one without an error, in place of the mixture", res.Files[0])
	}
	var got strings.Builder
	must.Get(client.New(conn).Thread(f.ID()).Export(t.Context(), &got))(t)
	must.Same(t, got.String(), text+codexSaid(3), "export %q, want %q")
}

// What is refused of a file for another reason is told as that, also where its bytes are in the inbox; and whoever could
// not learn which dead letters there were before takes none for a new one.
func TestRefusedLineIsNoCollision(t *testing.T) {
	conn, dir := system(t), t.TempDir()
	write(t, filepath.Join(dir, "s.jsonl"), []byte(codexMeta(codexID, "")+codexSaid(1)))
	res := load(t, conn, dir)
	before, f := res, &res.Files[0]
	bad := events.Event{Kind: events.KindControl, Thread: f.ID(), Producer: f.Last.Producer, Epoch: f.Last.Epoch, Seq: f.Last.Seq + 1, Time: 1,
		Body: []byte(`{"op":"dance","with":"` + strings.Repeat("x", 4<<20) + `"}`)}
	must.Do(t, conn.Events().PublishEvents(t.Context(), []*events.Event{&bad}))
	must.Do(t, client.New(conn).Thread(f.ID()).Settled(t.Context()))
	before.Files = []transcript.FileResult{*f}
	must.Do(t, interchange.Collided(t.Context(), conn, &res))
	if res.Failed != 1 || !strings.Contains(f.Error, "refused a line of it") || strings.Contains(f.Error, "another import") {
		t.Errorf("%d files failed, %q; want one, with the reason of the dead letter", res.Failed, f.Error)
	}

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	blind, _, _ := interchange.Import(ctx, conn, nil, transcript.Config{Inbox: conn.Inbox()})
	before.Letters = blind.Letters
	must.Do(t, interchange.Collided(t.Context(), conn, &before))
	must.Same(t, before.Failed, 0, "%d files failed for dead letters of which nobody knows since when, want %d")
}
