package transcript_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"spool/internal/must"
	"spool/internal/record"
	"spool/internal/transcript"
	"spool/pkg/events"
)

// boxed is a store with an inbox: the entries that come through it are the store's own from then on.
type boxed struct {
	*store
	bodies map[string][]byte
	tries  int
}

func (b *boxed) CheckIn(_ context.Context, body io.Reader) (events.BodyRef, error) {
	if b.tries++; b.tries == 1 {
		_, _ = io.CopyN(io.Discard, body, 100)
		return events.BodyRef{}, fmt.Errorf("%w: now", record.ErrBusy)
	}
	got, err := io.ReadAll(body)
	ref := events.BodyRef{Object: fmt.Sprint(len(b.bodies)), Size: int64(len(got)), Sum: sha256.Sum256(got)}
	b.bodies[ref.Object] = got
	return ref, err
}

func (b *boxed) PublishEvents(ctx context.Context, evs []*events.Event) error {
	whole := make([]*events.Event, len(evs))
	for i, e := range evs {
		one := *e
		if e.Ref != nil {
			one.Body, one.Ref = b.bodies[e.Ref.Object], nil
		} else if len(e.Body) > 4<<20+128<<10 {
			return fmt.Errorf("a body of %d bytes in memory", len(e.Body))
		}
		whole[i] = &one
	}
	return b.store.PublishEvents(ctx, whole)
}

// imports runs an import, and then again from nothing in memory.
func (b *boxed) imports(t *testing.T, path string) transcript.Result {
	t.Helper()
	sources := must.Get(transcript.Find(disk{}, path))(t)
	return transcript.New(b.store, b, transcript.Config{Inbox: b}).Import(t.Context(), sources)
}

// giantLine is a line of Claude Code with that many bytes of text.
func giantLine(n int, size int, letter string) string {
	return fmt.Sprintf(`{"type":"user","uuid":"u%d","parentUuid":null,"sessionId":"%s","timestamp":"2026-11-20T10:00:00.000Z","message":{"role":"user","content":"%s"}}`,
		n, sessionID, strings.Repeat(letter, size))
}

func TestGiantLines(t *testing.T) {
	const size = 6 << 20
	first, small := giantLine(1, size, "x"), giantLine(2, 10, "x")
	broken := giantLine(3, size, "x")[:size-1]
	last := giantLine(4, size+1, "x")
	content := strings.Join([]string{first, small, broken, "", last}, "\n")
	for name, c := range map[string]struct{ file, content string }{
		"plain":                    {"a.jsonl", content + "\n"},
		"no newline at the end":    {"a.jsonl", content},
		"compressed":               {"a.jsonl.zst", content + "\n"},
		"small lines at the end":   {"a.jsonl", content + "\n" + small + "\n"},
		"carriage returns":         {"a.jsonl", strings.ReplaceAll(content, "\n", "\r\n") + "\r\n"},
		"pretty-printed behind it": {"a.jsonl", content + "\n{\n  \"type\": \"user\"\n}\n"},
	} {
		t.Run(name, func(t *testing.T) {
			b := &boxed{store: newStore(), bodies: map[string][]byte{}}
			stored := c.content
			if strings.HasSuffix(c.file, ".zst") {
				w := must.Get(zstd.NewWriter(nil))(t)
				stored = string(w.EncodeAll([]byte(c.content), nil))
			}
			path := write(t, filepath.Join(t.TempDir(), c.file), stored)
			res := b.imports(t, path)
			if f := res.Files[0]; f.Err != nil || f.Raw != 1+1 || f.Thread != "main" || len(b.bodies) != 3 {
				t.Errorf("import = %+v, %d bodies in the inbox, want 3 and 2 lines that are no JSON", f, len(b.bodies))
			}
			same(t, b.export(t, mainThread), c.content)
			n := b.events()
			if again := b.imports(t, path).Files[0]; again.Err != nil || b.events() != n || again.Published != 0 {
				t.Errorf("second import = %+v, %d events, want %d", again, b.events(), n)
			}
		})
	}
}

// TestGiantLineThatChanged: the newest line of a thread is told from another by all of its bytes.
func TestGiantLineThatChanged(t *testing.T) {
	const size = 6 << 20
	for name, c := range map[string]struct {
		now   string
		other bool // it was rewritten
		news  int
	}{
		"the same":      {giantLine(1, size, "x") + "\n", false, 0},
		"it went on":    {giantLine(1, size, "x") + "\n" + giantLine(2, 10, "x") + "\n" + giantLine(3, size, "x") + "\n", false, 2},
		"its last byte": {giantLine(1, size-1, "x")[:size] + `y"}}` + "\n", true, 1},
		"shorter":       {giantLine(1, size-1, "x") + "\n", true, 1},
	} {
		t.Run(name, func(t *testing.T) {
			b := &boxed{store: newStore(), bodies: map[string][]byte{}}
			path := write(t, filepath.Join(t.TempDir(), "a.jsonl"), giantLine(1, size, "x")+"\n")
			if f := b.imports(t, path).Files[0]; f.Err != nil || f.Published != 1 {
				t.Fatalf("import = %+v", f)
			}
			write(t, path, c.now)
			f := b.imports(t, path).Files[0]
			if f.Err != nil || f.Published != c.news || (len(b.threads) > 1) != c.other {
				t.Errorf("import = %+v, want %d lines published, and it was rewritten: %v", f, c.news, c.other)
			}
			same(t, b.export(t, events.Thread{Session: f.Session, Name: f.Thread}), c.now)
		})
	}
}

// TestGiantLineThatIsNotComplete waits: nothing of it is stored, and that is said; complete, it is.
func TestGiantLineThatIsNotComplete(t *testing.T) {
	b := &boxed{store: newStore(), bodies: map[string][]byte{}}
	whole := giantLine(1, 10, "x") + "\n" + giantLine(2, 6<<20, "x") + "\n"
	path := write(t, filepath.Join(t.TempDir(), "a.jsonl"), whole[:5<<20])
	res := b.imports(t, path)
	if res.Files[0].Err != nil || res.Files[0].Published != 1 || !warned(res, "not complete") {
		t.Errorf("import = %+v, want one line and a warning", res.Files[0])
	}
	write(t, path, whole)
	if res = b.imports(t, path); res.Files[0].Published != 1 || len(res.Files[0].Warnings) != 0 {
		t.Errorf("import of the whole = %+v, want one line more", res.Files[0])
	}
	if got := b.export(t, mainThread); !bytes.Equal(got, []byte(whole)) {
		t.Errorf("export = %d bytes, want %d", len(got), len(whole))
	}
}
