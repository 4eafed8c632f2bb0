package history_test

import (
	"path/filepath"
	"testing"

	"spool/internal/history"
	"spool/internal/must"
	"spool/pkg/events"
)

// Figures are of one moment, while agents work: all of them are what the parts are together.
func TestStatsOfOneMoment(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "items.db"))
	th := events.Thread{Session: "s", Name: events.MainThread}
	const turns = 300
	stored := make(chan error)
	go func() {
		defer close(stored)
		for n := range int64(turns) {
			posts := []history.Post{
				{Thread: th, N: 2*n + 1, Time: n + 1, Kind: events.TypeToolCall, Tool: "bash", Text: "make"},
				{Thread: th, N: 2*n + 2, Time: n + 1, Kind: events.TypeTurnEnd, Stats: events.Stats{InputTokens: 1}},
			}
			at, err := db.Position(t.Context())
			if err == nil {
				err = db.Apply(t.Context(), history.Batch{From: at, Posts: posts, To: at.Seq + 1})
			}
			if err != nil {
				stored <- err
				return
			}
		}
	}()
	for r := (history.Report{}); r.Turns < turns; {
		r = must.Get(db.Stats(t.Context(), history.ItemFilter{}, "day", nil))(t)
		var in, calls int64
		for _, g := range r.Groups {
			in += g.TokensIn
		}
		for _, tool := range r.Tools {
			calls += tool.Calls
		}
		if in != r.TokensIn || calls != r.Calls || r.Calls != r.Turns {
			t.Fatalf("Stats = %+v, whose groups have %d tokens, and tools %d calls", r, in, calls)
		}
		select {
		case err, failed := <-stored:
			if failed {
				t.Fatal(err)
			}
		default:
		}
	}
}
