//go:build !serverless

package transcript_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"spool/internal/must"
	"spool/internal/natsio"
	"spool/internal/natstest"
	"spool/internal/persist"
	"spool/internal/service"
	"spool/internal/transcript"
	"spool/pkg/client"
)

// persister runs one until the test ends.
func persister(t testing.TB, conn *natsio.Conn) {
	t.Helper()
	natstest.Run(t, service.NewPersister(conn, service.PersisterConfig{Config: persist.Config{Lane: -1}}, slog.New(slog.DiscardHandler)).Run)
}

// importAll imports paths and waits until the threads have everything.
func importAll(t testing.TB, conn *natsio.Conn, paths ...string) transcript.Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	sources := must.Get(transcript.Find(disk{}, paths...))(t)
	cl := client.New(conn)
	res := transcript.New(cl.Internal(), conn.Events(), transcript.Config{}).Import(ctx, sources)
	for _, f := range res.Files {
		if f.Err != nil {
			t.Fatalf("%s: %v", f.File, f.Err)
		}
		for _, p := range []transcript.Position{f.Last, f.Tail} {
			if p.Seq == 0 {
				continue
			}
			must.Do(t, cl.Thread(f.ID()).Await(ctx, p.Producer, p.Epoch, p.Seq))
		}
	}
	return res
}

// items and entries of everything that is stored.
func counts(t testing.TB, conn *natsio.Conn) (items, entries int64) {
	t.Helper()
	ts := must.Get(client.New(conn).EverySession().Threads(t.Context()))(t)
	for _, th := range ts {
		items, entries = items+th.Head.N, entries+th.Head.Entries
	}
	return items, entries
}

func exported(t testing.TB, conn *natsio.Conn, f transcript.FileResult) {
	t.Helper()
	want := must.Get(os.ReadFile(f.File))(t)
	var got bytes.Buffer
	if _, err := client.New(conn).Thread(f.ID()).Export(t.Context(), &got); err != nil {
		t.Errorf("%s: export: %v", f.File, err)
		return
	}
	if !bytes.Equal(got.Bytes(), want) {
		at := 0
		for at < min(len(want), got.Len()) && want[at] == got.Bytes()[at] {
			at++
		}
		t.Errorf("%s in %s: the export has %d bytes, want %d; they differ at byte %d: %.60q, want %.60q",
			f.File, f.ID(), got.Len(), len(want), at, got.Bytes()[at:], want[at:])
	}
}

// Every shape goes through a server and a persister and comes back; a second import adds no entry and no item (SPEC X1, X3).
func TestThroughThePersister(t *testing.T) {
	dir := t.TempDir()
	i := 0
	for name, content := range shapes {
		i++ // a session for each
		write(t, filepath.Join(dir, name+".jsonl"), strings.ReplaceAll(content, sessionID, fmt.Sprintf("%s%04d", sessionID[:32], i)))
	}
	through(t, dir)
}

// The same with sessions that real agents wrote, where they are at hand.
func TestRecordedSessions(t *testing.T) {
	dir := filepath.Join("..", "..", "..", "shared", "transcripts")
	if _, err := os.Stat(dir); err != nil {
		return // they are not part of the module
	}
	through(t, dir)
}

func through(t *testing.T, dir string) {
	conn := natstest.Conn(t)
	persister(t, conn)
	start := time.Now()
	first := importAll(t, conn, dir)
	took := time.Since(start)
	for _, f := range first.Files {
		must.Same(t, f.Published, f.Lines, "%s: %d of %d lines published", f.File)
		exported(t, conn, f)
	}
	items, entries := counts(t, conn)
	t.Logf("%d files, %d lines, %d bytes: %d entries and %d items in %v", len(first.Files), first.Lines, first.Bytes, entries, items, took)
	second := importAll(t, conn, dir)
	moreItems, moreEntries := counts(t, conn)
	if second.Published != 0 || moreItems != items || moreEntries != entries {
		t.Errorf("second import: %d lines published, %d items and %d entries, want 0, %d, %d", second.Published, moreItems,
			moreEntries, items, entries)
	}
}

// A file that is imported while it grows is in its thread as if it had been imported once.
func TestGrowingThroughThePersister(t *testing.T) {
	conn := natstest.Conn(t)
	persister(t, conn)
	content := userLines(40) + userLine(41, 700_000) + "\n" + userLines(3)
	path := filepath.Join(t.TempDir(), "a.jsonl")
	for _, n := range []int{500, 1000, 1001, 4000, 9_500, len(content) - 700, len(content) - 1, len(content)} {
		write(t, path, content[:n])
		exported(t, conn, importAll(t, conn, path).Files[0])
	}
}

// Imports of one rewritten file at the same time all end well: what it says now is there once, what it said before too, and no operation
// of theirs is a dead letter.
func TestRewrittenFileImportedAtOnce(t *testing.T) {
	conn := natstest.Conn(t)
	persister(t, conn)
	cl := client.New(conn)
	path := filepath.Join(t.TempDir(), "s.jsonl")
	for round := range 3 {
		text := ompBegin
		for i := range 300 {
			text += ompEntry(fmt.Sprint(round, "-", i))
		}
		write(t, path, text)
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				for _, f := range transcript.New(client.New(conn).Internal(), conn.Events(), transcript.Config{}).
					Import(t.Context(), must.Get(transcript.Find(disk{}, path))(t)).Files {
					must.Is(t, f.Err, nil, "round %d", round)
				}
			})
		}
		all.Wait()
		exported(t, conn, importAll(t, conn, path).Files[0])
		must.Same(t, len(must.Get(cl.Session("s").Threads(t.Context()))(t)), 1+round, "there are %d threads, want %d")
	}
	must.Same(t, len(must.Get(cl.EverySession().DeadLetters(t.Context()))(t)), 0, "there are %d dead letters, want %d")
}
