package history_test

import (
	"bytes"
	"database/sql"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"spool/internal/history"
	"spool/internal/must"
	"spool/pkg/events"
)

// TestOrderOfArrival: posts may arrive late, twice, and in any batches; what is stored is what their order in the threads
// makes of them, consecutive equal ones once, and who looks at several threads sees none behind an equal one (SPEC S11).
func TestOrderOfArrival(t *testing.T) {
	dir := t.TempDir()
	files := 0
	rapid.Check(t, func(r *rapid.T) {
		var posts []history.Post
		want := map[string]bool{}
		for _, thread := range []string{"a/main", "b/sub", "two/main", "two/sub"} {
			before := ""
			for n := range rapid.IntRange(0, 8).Draw(r, thread) {
				text := rapid.SampledFrom([]string{"one", "two", " two\n", "", "three"}).Draw(r, "text")
				posts = append(posts, post(thread, int64(n+1), int64(n), text))
				if text = strings.TrimSpace(text); text != "" && text != before && !strings.HasPrefix(thread, "two/") {
					want[fmt.Sprintf("%s %d %s", thread, n+1, text)] = true
					before = text
				}
			}
		}
		arrive := append(slices.Clone(posts), posts[:len(posts)/2]...)
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(r, "seed"), 1))
		rng.Shuffle(len(arrive), func(i, j int) { arrive[i], arrive[j] = arrive[j], arrive[i] })
		files++
		db := must.Get(history.Open(filepath.Join(dir, fmt.Sprint(files))))(r)
		defer db.Close()
		for b := range slices.Chunk(arrive, rapid.IntRange(1, 9).Draw(r, "batch")) {
			apply(t, db, history.Batch{Posts: b})
		}
		for _, session := range []string{"", "two"} {
			shown := must.Get(db.Recent(t.Context(), history.Filter{Session: session}, 100))(r)
			for i := range shown[min(1, len(shown)):] {
				if shown[i].Text == shown[i+1].Text {
					r.Errorf("of session %q: %v and %v behind each other", session, shown[i+1], shown[i])
				}
			}
		}
		found := must.Get(db.Recent(t.Context(), history.Filter{Session: "a"}, 100))(r)
		found = append(found, must.Get(db.Recent(t.Context(), history.Filter{Session: "b"}, 100))(r)...)
		got := map[string]bool{}
		for _, p := range found {
			got[fmt.Sprintf("%s %d %s", p.Thread, p.N, p.Text)] = true
			if hits, err := db.Search(t.Context(), p.Text, history.Filter{Session: p.Thread.Session}, 100); err != nil || !slices.Contains(hits, p) {
				r.Errorf("Search(%q) = %v, %v, want %v among them", p.Text, hits, err, p)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" || len(got) != len(found) {
			r.Errorf("Recent after %v:\n%s", arrive, diff)
		}
	})
}

// Newest first is by time, then by number.
func TestNewestFirst(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "history.db"))
	apply(t, db, history.Batch{Posts: []history.Post{
		post("a/main", 1, 3000, "c"), post("a/main", 2, 3000, "d"), post("b/main", 1, 2000, "b"), post("c/main", 1, -5, "long ago"),
		post("c/main", 2, 1<<60, "a clock that is wrong"), post("b/main", 2, 9000, "e"),
	}})
	found, err := db.Recent(t.Context(), history.Filter{}, 10)
	if want := []string{"a clock that is wrong", "e", "d", "c", "b", "long ago"}; err != nil || !slices.Equal(texts(found), want) {
		t.Errorf("Recent = %q, %v, want %q", texts(found), err, want)
	}
	must.Same(t, found[5].Time, int64(-5), "time = %d, want %d, as it was said")
}

func TestFilters(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "a %3f strange?name#"))
	apply(t, db, history.Batch{
		Posts: []history.Post{post("a/main", 1, 1, "fix the parser"), post("b/main", 1, 2, "fix the lexer"), post("b/sub", 1, 3, "prefix")},
		Sessions: []history.Session{
			{Name: "a", Cwd: "/home/a", Host: "h1", Harness: "claude"}, {Name: "b", Cwd: "/home/b", Harness: "omp"},
		},
	})
	apply(t, db, history.Batch{Sessions: []history.Session{{Name: "b", Host: "h2"}}}) // says nothing of the rest
	for _, c := range []struct {
		f    history.Filter
		want []string
	}{
		{history.Filter{}, []string{"fix the lexer", "fix the parser", "prefix"}},
		{history.Filter{Session: "a"}, []string{"fix the parser"}},
		{history.Filter{Cwd: "/home/b"}, []string{"fix the lexer", "prefix"}},
		{history.Filter{Session: "a", Cwd: "/home/b"}, []string{}},
		{history.Filter{Session: "none"}, []string{}},
	} {
		found, err := db.Search(t.Context(), "fix", c.f, 10)
		if err != nil || !slices.Equal(texts(found), c.want) {
			t.Errorf("Search(fix, %+v) = %q, %v, want %q", c.f, texts(found), err, c.want)
		}
	}
	apply(t, db, history.Batch{Posts: []history.Post{post("a/main", 2, 4, "again"), post("b/main", 2, 5, "again"), post("b/sub", 2, 6, "again")}})
	for _, c := range []struct {
		f    history.Filter
		want []string
	}{ // of repeats the first, among the sessions that are asked for
		{history.Filter{}, []string{"again", "prefix"}},
		{history.Filter{Cwd: "/home/b"}, []string{"again", "prefix"}},
		{history.Filter{Session: "b"}, []string{"again", "prefix"}},
		{history.Filter{Within: []string{"b"}}, []string{"again", "prefix"}},
		{history.Filter{Within: []string{"a", "b"}}, []string{"again", "prefix"}},
	} {
		found, err := db.Recent(t.Context(), c.f, 2)
		if err != nil || !slices.Equal(texts(found), c.want) {
			t.Errorf("Recent(%+v) = %q, %v, want %q", c.f, texts(found), err, c.want)
		}
	}
	found, err := db.Recent(t.Context(), history.Filter{Session: "b", Cwd: "/home/b"}, 2)
	if err != nil || len(found) != 2 || found[0].Text != "again" {
		t.Errorf("Recent(b) = %+v, %v, want the newest first", found, err)
	}
	found, err = db.Recent(t.Context(), history.Filter{Session: "b"}, 2)
	found = found[min(1, len(found)):]
	want := history.Prompt{Thread: events.Thread{Session: "b", Name: "sub"}, N: 1, Time: 3, Text: "prefix", Cwd: "/home/b",
		Host: "h2", Harness: "omp"}
	if err != nil || len(found) != 1 || found[0] != want {
		t.Errorf("Recent(b) = %+v, %v, want %+v", found, err, want)
	}
}

// A word is found inside of others whatever its length, and together with words of another length.
func TestInsideWords(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "history.db"))
	apply(t, db, history.Batch{Posts: []history.Post{post("a/main", 1, 1, "Recompile ÉTÉ café"), post("a/main", 2, 2, `50% "done" _x`)}})
	for query, want := range map[string]int{
		"mpil": 1, "MPIL": 1, "pi": 1, "pi recomp": 1, "mpil caf": 1, "mpil zz": 0, "afé": 1, "%": 0, "on": 1, "done x": 1, "5 done": 1,
		`"`: 0, "one AND": 0, "recompile OR nothing": 0, "été": 1, "\x00\xff": 0,
	} {
		if found, err := db.Search(t.Context(), query, history.Filter{}, 10); err != nil || len(found) != want {
			t.Errorf("Search(%q) = %q, %v, want %d", query, texts(found), err, want)
		}
	}
}

// A page that is pasted as a query is no error.
func TestLongQuery(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "history.db"))
	var page strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&page, "word%d; ", i)
	}
	apply(t, db, history.Batch{Posts: []history.Post{post("a/main", 1, 1, page.String()), post("a/main", 2, 2, "word1")}})
	for _, query := range []string{page.String(), strings.ReplaceAll(page.String(), "word", "ord")} {
		if found, err := db.Search(t.Context(), query, history.Filter{}, 10); err != nil || len(found) != 1 {
			t.Errorf("Search(%.20q…) = %d, %v, want 1", query, len(found), err)
		}
	}
}

func TestPrivate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sub", "history.db")
	db := open(t, path)
	apply(t, db, history.Batch{Posts: []history.Post{post("a/main", 1, 1, "one")}})
	for _, name := range []string{path, path + "-wal"} {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("mode of %s = %v, %v, want 0600", filepath.Base(name), info.Mode(), err)
		}
	}
}

func TestMaxLimit(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "history.db"))
	var posts []history.Post
	for i := range history.MaxLimit + 5 {
		posts = append(posts, post("a/main", int64(i+1), int64(i), fmt.Sprintf("prompt %d", i)))
	}
	apply(t, db, history.Batch{Posts: posts})
	found, err := db.Recent(t.Context(), history.Filter{}, 1<<30)
	if err != nil || len(found) != history.MaxLimit {
		t.Errorf("Recent of all = %d, %v, want %d", len(found), err, history.MaxLimit)
	}
}

// A batch that began behind where the history is now would leave a hole.
func TestSetBack(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "history.db"))
	must.Do(t, db.Reset(t.Context(), "s1"))
	from := history.Position{Stream: "s1", Seq: 0}
	apply(t, db, history.Batch{To: 10, Posts: []history.Post{post("a/main", 1, 1, "one")}})
	if err := db.Apply(t.Context(), history.Batch{From: from, To: 5, Posts: []history.Post{post("a/main", 1, 1, "one")}}); err != nil {
		t.Errorf("Apply of what another process applied = %v, want nil", err)
	}
	if at, err := db.Position(t.Context()); err != nil || at.Seq != 10 {
		t.Errorf("Position = %v, %v, want 10", at, err)
	}
	late := history.Batch{From: history.Position{Stream: "s1", Seq: 10}, To: 20, Posts: []history.Post{post("a/main", 2, 2, "two")}}
	for _, stream := range []string{"s1", "s2"} {
		must.Do(t, db.Reset(t.Context(), stream))
		must.Is(t, db.Apply(t.Context(), late), history.ErrMoved, "Apply after Reset(%s)", stream)
	}
	if n, err := db.Count(t.Context()); err != nil || n != 0 {
		t.Errorf("Count = %d, %v, want 0: nothing of a refused batch", n, err)
	}
}

// Two processes that find a history of another stream begin it once: what the first one stored since stays.
func TestBegunByTwo(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "history.db"))
	was := must.Get(db.Position(t.Context()))(t)
	must.Do(t, db.Begin(t.Context(), was, "s1"))
	must.Do(t, db.Apply(t.Context(), history.Batch{From: history.Position{Stream: "s1"}, To: 10,
		Posts: []history.Post{post("a/main", 1, 1, "one")}}))
	must.Is(t, db.Begin(t.Context(), was, "s1"), history.ErrMoved, "Begin of the second")
	if n, err := db.Count(t.Context()); err != nil || n != 1 {
		t.Errorf("Count = %d, %v, want 1", n, err)
	}
}

func TestForget(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "history.db"))
	b := history.Batch{
		Posts:  []history.Post{post("a/main", 1, 1, "keep secret"), post("a/main", 2, 2, "keep secret"), post("b/main", 1, 3, "keep this")},
		Filled: map[events.Thread]history.Filled{{Session: "a", Name: "main"}: {N: 7}, {Session: "b", Name: "main"}: {N: 8}},
	}
	apply(t, db, b)
	must.Do(t, db.Forget(t.Context(), "a"))
	for _, query := range []string{"keep", "ecre"} {
		if found, err := db.Search(t.Context(), query, history.Filter{}, 9); err != nil || slices.Contains(texts(found), "keep secret") {
			t.Errorf("Search(%s) = %q, %v, want nothing of a", query, texts(found), err)
		}
	}
	filled, err := db.Filled(t.Context())
	if want := map[events.Thread]history.Filled{{Session: "b", Name: "main"}: {N: 8}}; err != nil || !cmp.Equal(filled, want) {
		t.Errorf("Filled = %v, %v, want %v", filled, err, want)
	}
	if names, err := db.Sessions(t.Context()); err != nil || !slices.Equal(names, []string{"b"}) {
		t.Errorf("Sessions = %q, %v, want b", names, err)
	}
}

// TestTogether: processes that feed and ask one file at the same time do not disturb each other.
func TestTogether(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history.db")
	const writers, each = 3, 40
	var wg sync.WaitGroup
	for range writers {
		db := open(t, path)
		wg.Go(func() {
			for i := range each {
				b := history.Batch{To: uint64(i + 1), Posts: []history.Post{post("a/main", int64(i+1), int64(i), fmt.Sprint("prompt ", i))}}
				if err := db.Apply(t.Context(), b); err != nil {
					t.Error(err)
				}
				if found, err := db.Search(t.Context(), "prompt", history.Filter{}, each); err != nil || len(found) <= i {
					t.Errorf("Search after %d = %d, %v", i+1, len(found), err)
				}
			}
		})
	}
	wg.Wait()
	if n, err := open(t, path).Count(t.Context()); err != nil || n != each {
		t.Errorf("Count = %d, %v, want %d", n, err, each)
	}
}

// A file that is no good is moved aside, and the history begins anew; a later version's is left alone.
func TestDamaged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history.db")
	must.Do(t, os.WriteFile(path, bytes.Repeat([]byte("no database "), 1000), 0o600))
	var log bytes.Buffer
	add := func(db *history.DB) error {
		apply(t, db, history.Batch{Posts: []history.Post{post("a/main", 1, 1, "one")}})
		return nil
	}
	must.Do(t, history.WithSound(path, slog.New(slog.NewTextHandler(&log, nil)), add))
	aside, err := filepath.Glob(path + ".damaged-*")
	if err != nil || len(aside) != 1 || !strings.Contains(log.String(), aside[0]) {
		t.Errorf("moved aside = %q, log %q, want one file, named in the log", aside, &log)
	}

	db := open(t, path)
	for i := range 200 { // more than a page
		apply(t, db, history.Batch{Posts: []history.Post{post("a/main", int64(i+2), int64(i), strings.Repeat(fmt.Sprint(i, " "), 100))}})
	}
	must.Is(t, db.Check(t.Context()), nil, "Check")
	must.Do(t, db.Close())
	f := must.Get(os.OpenFile(path, os.O_RDWR, 0))(t)
	defer f.Close()
	for at := int64(8192); at < 60_000; at += 4096 {
		must.Get(f.WriteAt(bytes.Repeat([]byte{0xa5}, 2000), at))(t)
	}
	must.Is(t, open(t, path).Check(t.Context()), history.ErrCorrupt, "Check of a damaged file")
}

func TestVersions(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history.db")
	set := func(version int) {
		t.Helper()
		db := must.Get(sql.Open("sqlite", path))(t)
		defer db.Close()
		must.Get(db.Exec(fmt.Sprintf("PRAGMA user_version = %d", version)))(t)
	}
	apply(t, open(t, path), history.Batch{Posts: []history.Post{post("a/main", 1, 1, "one")}})
	set(99)
	must.Is(t, must.Err(history.Open(path)), history.ErrVersion, "Open of version 99")
	set(0)
	if n, err := open(t, path).Count(t.Context()); err != nil || n != 0 {
		t.Errorf("Count of an earlier version = %d, %v, want 0: it is made anew", n, err)
	}
}

func open(t testing.TB, path string) *history.DB {
	t.Helper()
	db := must.Get(history.Open(path))(t)
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}
