package history_test

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"spool/internal/history"
	"spool/internal/must"
	"spool/pkg/events"
)

// What is added up: turns and tokens of all threads, once where a source was rewritten, tools with the failures of their
// results, divided, and what it cost.
func TestStats(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "items.db"))
	const day = 86_400_000
	main := func(session string) events.Thread { return events.Thread{Session: session, Name: events.MainThread} }
	turn := func(t events.Thread, n, time, life, in, out int64) history.Post {
		return history.Post{Thread: t, N: n, Time: time, Life: life, Kind: events.TypeTurnEnd,
			Stats: events.Stats{InputTokens: in, InputTokensCached: in / 2, OutputTokens: out}}
	}
	tool := func(t events.Thread, n, time int64, name, call string, failed bool) history.Post {
		p := history.Post{Thread: t, N: n, Time: time, Kind: events.TypeToolCall, Tool: name, Call: call, Text: name}
		if name == "" {
			p.Kind, p.Failed = events.TypeToolResult, failed
		}
		return p
	}
	one, two, three := main("one"), main("two"), main("three")
	was := events.FormerThread(one, "0123456789abcdef")
	posts := []history.Post{
		turn(one, 9, 2*day, 5, 1000, 100), turn(was, 9, 2*day, 1, 1000, 100), // of two generations
		tool(one, 2, 2*day, "bash", "c1", false), tool(one, 3, 2*day, "", "c1", true), tool(one, 4, 3*day, "bash", "c2", false),
		tool(one, 5, 3*day, "", "c2", false), tool(one, 6, 3*day, "read", "c3", false), tool(one, 7, 3*day, "", "c9", true),
		turn(two, 1, 3*day, 0, 2000, 10), turn(two, 2, 3*day, 0, 2000, 10), turn(three, 1, 0, 0, 7, 7),
	}
	about := []history.Session{{Name: "one", Cwd: "/a", Model: "opus-4"}, {Name: "two", Cwd: "/b", Model: "sonnet"},
		{Name: "three", Cwd: "/a"}}
	apply(t, db, history.Batch{Posts: posts, Sessions: about})
	ofOne := history.Figures{Sessions: 1, Turns: 1, TokensIn: 1000, TokensCached: 500, TokensOut: 100, Calls: 3, Failures: 2}
	ofTwo := history.Figures{Sessions: 1, Turns: 2, TokensIn: 4000, TokensCached: 2000, TokensOut: 20}
	ofThree := history.Figures{Sessions: 1, Turns: 1, TokensIn: 7, TokensCached: 3, TokensOut: 7}
	all := history.Figures{Sessions: 3, Turns: 4, TokensIn: 5007, TokensCached: 2503, TokensOut: 127, Calls: 3, Failures: 2}
	tools := []history.Tool{{Name: "bash", Calls: 2, Failures: 1}, {Name: "read", Calls: 1}, {Name: "", Failures: 1}}
	a := ofOne
	a.Sessions, a.Turns, a.TokensIn, a.TokensCached, a.TokensOut = 2, 2, 1007, 503, 107
	for by, want := range map[string][]history.Group{
		"project": {{Name: "/b", Figures: ofTwo}, {Name: "/a", Figures: a}},
		"model":   {{Name: "sonnet", Figures: ofTwo}, {Name: "opus-4", Figures: ofOne}, {Name: "", Figures: ofThree}},
		"day": {
			{Name: "1970-01-04", Figures: history.Figures{Sessions: 2, Turns: 2, TokensIn: 4000, TokensCached: 2000, TokensOut: 20,
				Calls: 2, Failures: 1}},
			{Name: "1970-01-03", Figures: history.Figures{Sessions: 1, Turns: 1, TokensIn: 1000, TokensCached: 500, TokensOut: 100,
				Calls: 1, Failures: 1}},
			{Name: "", Figures: ofThree},
		},
	} {
		got := must.Get(db.Stats(t.Context(), history.ItemFilter{}, by, nil))(t)
		if diff := cmp.Diff(history.Report{Figures: all, By: by, Groups: want, Tools: tools}, got); diff != "" {
			t.Errorf("Stats by %s:\n%s", by, diff)
		}
	}
	since := must.Get(db.Stats(t.Context(), history.ItemFilter{From: 3 * day, Filter: history.Filter{Cwd: "/a"}}, "day", nil))(t)
	if len(since.Groups) != 1 || since.Calls != 2 || since.Turns != 0 {
		t.Errorf("Stats of a day in a directory = %+v, want two calls", since)
	}
	prices := history.Prices{"*": {Input: 99}, "opus*": {Input: 10, Cached: 1, Output: 100}, "": {}, "sonnet": {Output: 50_000}}
	r := must.Get(db.Stats(t.Context(), history.ItemFilter{}, "model", prices))(t)
	var costs []float64
	for _, g := range r.Groups {
		costs = append(costs, *g.Cost)
	}
	if want := []float64{1, (500*10 + 500 + 100*100) / 1e6, 0}; !slices.Equal(costs, want) || *r.Cost != want[0]+want[1] || r.Unpriced != nil {
		t.Errorf("costs = %v, in all %v, without a price %q, want %v", costs, *r.Cost, r.Unpriced, want)
	}
	r = must.Get(db.Stats(t.Context(), history.ItemFilter{}, "model", history.Prices{"opus-4": {}, "": {}}))(t)
	if !slices.Equal(r.Unpriced, []string{"sonnet"}) {
		t.Errorf("without a price: %q, want sonnet", r.Unpriced)
	}
	if _, err := db.Stats(t.Context(), history.ItemFilter{}, "tool", nil); err == nil {
		t.Error("Stats divides by what it does not know")
	}
}
