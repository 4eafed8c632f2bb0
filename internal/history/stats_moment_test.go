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

// A turn that ended while heads were read counts once: its end is there already, and the head, which was read before, says that it is open.
func TestTurnEndsWhileHeadsAreRead(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "items.db"))
	th := events.Thread{Session: "s", Name: events.MainThread}
	seven := events.Stats{InputTokens: 7}
	end := history.Post{Thread: th, N: 3, Time: 2, Kind: events.TypeTurnEnd, Stats: seven}
	apply := func(posts ...history.Post) {
		at := must.Get(db.Position(t.Context()))(t)
		must.Do(t, db.Apply(t.Context(), history.Batch{From: at, Posts: posts, To: at.Seq + 1}))
	}
	figures := func(when string, turns, in, open int64) {
		t.Helper()
		r := must.Get(db.Stats(t.Context(), history.ItemFilter{}, "day", nil))(t)
		if r.Turns != turns || r.TokensIn != in || r.OpenTurns != open {
			t.Errorf("%s: %d turns, %d tokens, %d open; want %d, %d, %d", when, r.Turns, r.TokensIn, r.OpenTurns, turns, in, open)
		}
	}
	apply(history.Post{Thread: th, N: 1, Time: 1, Kind: events.TypeMessage}, end)
	must.Do(t, db.OpenTurn(t.Context(), th, 2, seven))
	figures("its end came first", 1, 7, 0)
	must.Do(t, db.OpenTurn(t.Context(), th, 3, seven)) // what is behind that end
	figures("the next turn", 1, 14, 1)
	end.N = 5
	apply(end)
	figures("its end came behind", 2, 14, 0)
}
