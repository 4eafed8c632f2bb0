package history_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"spool/internal/history"
	"spool/internal/must"
	"spool/pkg/events"
)

// TestAsTheProgram holds a history against what the program that SPEC S11 describes gave for the same prompts.
func TestAsTheProgram(t *testing.T) {
	raw := must.Get(os.ReadFile("../../testdata/golden/omp/history/expected.14.9.9.json"))(t)
	var want struct {
		Adds, Recent, Recent3, SearchLimit1 []string
		Search                              []struct {
			Q    string
			Hits []string
		}
	}
	must.Do(t, json.Unmarshal(raw, &want))
	db := open(t, filepath.Join(t.TempDir(), "history.db"))
	var posts []history.Post
	for i, text := range want.Adds {
		posts = append(posts, post("s/main", int64(i+1), 1000, text))
	}
	apply(t, db, history.Batch{Posts: posts})
	check := func(what string, want []string, found []history.Prompt, err error) {
		t.Helper()
		must.Do(t, err)
		if diff := cmp.Diff(want, texts(found)); diff != "" {
			t.Errorf("%s:\n%s", what, diff)
		}
	}
	found, err := db.Recent(t.Context(), history.Filter{}, 100)
	check("Recent(100)", want.Recent, found, err)
	found, err = db.Recent(t.Context(), history.Filter{}, 3)
	check("Recent(3)", want.Recent3, found, err)
	for _, s := range want.Search {
		found, err = db.Search(t.Context(), s.Q, history.Filter{}, 100)
		check("Search("+s.Q+")", s.Hits, found, err)
	}
	found, err = db.Search(t.Context(), "commit", history.Filter{}, 1)
	check("Search(commit), limit 1", want.SearchLimit1, found, err)
	for _, limit := range []int{0, -1} {
		found, err = db.Recent(t.Context(), history.Filter{}, limit)
		check("Recent of nothing", []string{}, found, err)
	}
}

func post(thread string, n, ms int64, text string) history.Post {
	t, err := events.ParseThread(thread)
	if err != nil {
		panic(err)
	}
	return history.Post{Thread: t, N: n, Time: ms, Text: text}
}

// apply adds a batch from where the history is.
func apply(t testing.TB, db *history.DB, b history.Batch) {
	t.Helper()
	var err error
	if b.From, err = db.Position(t.Context()); err != nil {
		t.Fatal(err)
	}
	must.Do(t, db.Apply(t.Context(), b))
}

func texts(found []history.Prompt) []string {
	all := []string{}
	for _, p := range found {
		all = append(all, p.Text)
	}
	return all
}
