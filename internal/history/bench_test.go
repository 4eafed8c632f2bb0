package history_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"spool/internal/history"
	"spool/internal/must"
	"spool/pkg/events"
)

// many makes a history of 100,000 prompts of some 45 words each over 1,000 sessions.
func many(b *testing.B) *history.DB {
	b.Helper()
	db := open(b, filepath.Join(b.TempDir(), "history.db"))
	rng := rand.New(rand.NewPCG(1, 2))
	words := make([]string, 20_000)
	for i := range words {
		w := make([]byte, 3+rng.IntN(7))
		for j := range w {
			w[j] = "etaoinshrdlucmfw"[int(rng.ExpFloat64()*3)%16]
		}
		words[i] = string(w)
	}
	const count, size = 100_000, 1000
	for i := 0; i < count; i += size {
		batch := history.Batch{To: uint64(i + size)}
		for j := i; j < i+size; j++ {
			text := fmt.Sprintf("task %d: ", j)
			for range 4 + rng.IntN(80) {
				text += words[int(rng.ExpFloat64()*1500)%len(words)] + " "
			}
			batch.Posts = append(batch.Posts, history.Post{
				Thread: events.Thread{Session: fmt.Sprintf("s%d", j%1000), Name: "main"}, N: int64(j), Time: int64(j) * 60_000, Text: text})
		}
		must.Do(b, db.Apply(b.Context(), batch))
	}
	return db
}

// BenchmarkSearch asks 100,000 prompts. Well under 50 ms each is the aim.
func BenchmarkSearch(b *testing.B) {
	db := many(b)
	for _, c := range []struct {
		name, query string
		f           history.Filter
	}{
		{"in-all", "task", history.Filter{}}, {"one-letter", "t", history.Filter{}}, {"two-words", "task 9", history.Filter{}},
		{"in-one", "99123", history.Filter{}}, {"within-words", "asinte", history.Filter{}}, {"in-none", "zzzz", history.Filter{}},
		{"short-in-none", "zq", history.Filter{}}, {"short-and-long-in-none", "zq task", history.Filter{}},
		{"of-a-session", "task", history.Filter{Session: "s7"}},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				must.Get(db.Search(b.Context(), c.query, c.f, 100))(b)
			}
		})
	}
}

// BenchmarkApply stores a prompt a transaction, as it is live.
func BenchmarkApply(b *testing.B) {
	db := open(b, filepath.Join(b.TempDir(), "history.db"))
	for i := 0; b.Loop(); i++ {
		if err := db.Apply(b.Context(), history.Batch{To: uint64(i + 1), Posts: []history.Post{{
			Thread: events.Thread{Session: "s", Name: "main"}, N: int64(i), Time: int64(i), Text: fmt.Sprintf("please look into failure %d of the tests", i)}}}); err != nil {
			b.Fatal(err)
		}
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
