package interchange_test

import (
	"path/filepath"
	"strings"
	"testing"

	"spool/internal/interchange"
	"spool/internal/must"
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
	must.Do(t, client.New(conn).Settled(t.Context(), f.ID()))
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
	must.Get(client.New(conn).Export(t.Context(), f.ID(), &got))(t)
	must.Same(t, got.String(), text+codexSaid(3), "export %q, want %q")
}
