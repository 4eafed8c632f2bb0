package history_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/history"
	"spool/internal/must"
	"spool/pkg/client"
	"spool/pkg/events"
)

// itemsOf is an index of all items that has caught up, and what it finds, each item as "thread n type text".
func (s *spool) itemsOf(db *history.DB, query string, f history.ItemFilter) []string {
	s.t.Helper()
	must.Do(s.t, history.NewItemsFollower(db, s.conn, nil).CatchUp(s.t.Context()))
	return matches(s.t, db, query, f)
}

func matches(t testing.TB, db *history.DB, query string, f history.ItemFilter) (lines []string) {
	t.Helper()
	for _, m := range must.Get(db.Find(t.Context(), query, f, history.MaxLimit))(t) {
		lines = append(lines, strings.Join(strings.Fields(fmt.Sprintf("%s %d %s %s %s", m.Thread, m.N, m.Kind, m.Tool, m.Text)), " "))
	}
	return lines
}

// work publishes a turn of Claude Code: a prompt, a thought, a call whose result failed, an answer.
func (s *spool) work(session string, at int, word string) {
	s.t.Helper()
	t := events.Thread{Session: session, Name: events.MainThread}
	line := func(n int, typ, message string) client.Entry {
		when := time.Unix(int64(at+n), 0).UTC().Format(time.RFC3339)
		return client.Entry{Thread: t, Dialect: "claude", Body: fmt.Appendf(nil,
			`{"type":%q,"uuid":"u%d-%d","sessionId":%q,"cwd":"/home/ada","timestamp":%q,"message":%s}`, typ, at, n, session, when, message)}
	}
	must.Get(s.Publish(s.t.Context(),
		line(0, "user", `{"role":"user","content":"prune the `+word+`"}`),
		line(1, "assistant", `{"role":"assistant","id":"m1","model":"opus","usage":{"input_tokens":10,"output_tokens":3},"content":[`+
			`{"type":"thinking","thinking":"which `+word+`?"},{"type":"tool_use","id":"c1","name":"Bash","input":{"command":"ls","note":"`+word+` saw"}}]}`),
		line(2, "user", `{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","is_error":true,"content":"no `+word+` here"}]}`),
		line(3, "assistant", `{"role":"assistant","id":"m2","model":"opus","stop_reason":"end_turn","usage":{"input_tokens":20,`+
			`"cache_read_input_tokens":5,"output_tokens":4},"content":[{"type":"text","text":"The `+word+` is gone"}]}`)))(s.t)
	s.sent(t, 5)
}

// What was said and printed is found, by its words, who said it, by which tool, when and where.
func TestFindItems(t *testing.T) {
	s := newSpool(t)
	db := open(t, filepath.Join(t.TempDir(), "items.db"))
	const day = 1_700_000_000
	s.work("one", day, "papaya")
	s.work("two", day+86400, "quince")
	said := func(session, word string) []string {
		return []string{session + "/main 5 text The " + word + " is gone", session + "/main 4 tool_result Bash no " + word + " here",
			session + "/main 3 tool_call Bash Bash → ls note: " + word + " saw", session + "/main 2 thinking which " + word + "?",
			session + "/main 1 message prune the " + word}
	}
	one, two := said("one", "papaya"), said("two", "quince")
	ms := func(seconds int64) int64 { return (day + seconds) * 1000 }
	var early history.ItemFilter
	must.Do(t, early.Between("1969-12-31", "1970-01-01T00:00:00Z", time.Now()))
	for range 2 { // reading on adds nothing
		for _, c := range []struct {
			query string
			f     history.ItemFilter
			want  []string
		}{
			{"PAPA", history.ItemFilter{}, one},
			{"papaya gone", history.ItemFilter{}, one[:1]},
			{"paya", history.ItemFilter{}, nil},
			{"…", history.ItemFilter{}, nil},
			{"", history.ItemFilter{}, slices.Concat(two, one)},
			{"", history.ItemFilter{Role: "user"}, []string{two[4], one[4]}},
			{"", history.ItemFilter{Role: "assistant", Filter: history.Filter{Session: "one"}}, []string{one[0], one[2], one[3]}},
			{"", history.ItemFilter{Role: "tool", From: ms(86400)}, two[1:2]},
			{"", history.ItemFilter{Tool: "bash"}, []string{two[1], two[2], one[1], one[2]}},
			{"", history.ItemFilter{Tool: "grep"}, nil},
			{"", early, nil},
			{"", history.ItemFilter{From: ms(1), Until: ms(3)}, one[1:4]},
			{"", history.ItemFilter{Filter: history.Filter{Cwd: "/home/ada", Within: []string{"t"}}}, two},
			{"", history.ItemFilter{Filter: history.Filter{Cwd: "/home"}}, nil},
		} {
			if diff := cmp.Diff(c.want, s.itemsOf(db, c.query, c.f)); diff != "" {
				t.Errorf("Find(%q, %+v):\n%s", c.query, c.f, diff)
			}
		}
	}
	if _, err := db.Find(t.Context(), "x", history.ItemFilter{Role: "model"}, 9); err == nil {
		t.Error("Find takes a role that there is not")
	}
	found := must.Get(db.Find(t.Context(), "gone papaya", history.ItemFilter{}, 9))(t)
	want := history.Match{Thread: events.Thread{Session: "one", Name: "main"}, N: 5, Time: ms(3), Kind: "text", Text: "The papaya is gone",
		Cwd: "/home/ada", Host: "build-7", Harness: "claude", Model: "opus"}
	if len(found) != 1 || found[0] != want {
		t.Errorf("Find = %+v, want %+v", found, want)
	}
}

// An index that is behind, made again, fed by two processes at once, or from threads alone holds the same; what was replaced, removed and
// deleted is as in the history.
func TestItemsOfLives(t *testing.T) {
	s := newSpool(t)
	db := open(t, filepath.Join(t.TempDir(), "items.db"))
	th := events.Thread{Session: "one", Name: "main"}
	s.work("one", 1_700_000_000, "papaya")
	s.itemsOf(db, "", history.ItemFilter{})
	head := must.Get(s.Thread(th).AwaitHead(t.Context()))(t)
	was := must.Get(s.Internal().Retire(t.Context(), th, head))(t)
	s.say("one", 1_700_000_000, "user:prune the papaya", "assistant:another papaya")
	s.say("gone", 1_700_000_100, "user:a papaya elsewhere")
	fork := events.Thread{Session: "one", Name: "fork"}
	must.Do(t, s.Thread(fork).Fork(t.Context(), events.Fork{Session: "one", Thread: "main", Item: 2}))
	s.say("one/fork", 1_700_000_200, "user:a papaya beside")
	must.Get(s.Session("gone").Delete(t.Context(), client.Deletion{Force: true}))(t)
	s.say("gone", 1_700_000_300, "user:the next papaya")
	former := "one/" + was.Name
	want := []string{"gone/main 1 message the next papaya", "one/fork 3 message a papaya beside", former + " 5 text The papaya is gone",
		former + " 4 tool_result Bash no papaya here", former + " 3 tool_call Bash Bash → ls note: papaya saw",
		former + " 2 thinking which papaya?", "one/main 2 text another papaya", "one/main 1 message prune the papaya"}
	slices.Sort(want)
	check := func(name string, db *history.DB) {
		t.Helper()
		f := history.NewItemsFollower(db, s.conn, nil)
		must.Do(t, f.CatchUp(t.Context()))
		must.Get(f.Forget(t.Context(), must.Get(db.Sessions(t.Context()))(t)))(t)
		got := matches(t, db, "papaya", history.ItemFilter{})
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("%s: the index has\n%s", name, cmp.Diff(want, got))
		}
	}
	behind := filepath.Join(t.TempDir(), "behind.db")
	other := open(t, behind)
	done := make(chan error, 1)
	go func() { done <- history.NewItemsFollower(other, s.conn, nil).CatchUp(t.Context()) }()
	fresh := open(t, behind)
	check("beside another process", fresh)
	must.Do(t, <-done)
	check("behind it", fresh)
	must.Do(t, history.NewItemsFollower(fresh, s.conn, nil).Rebuild(t.Context()))
	check("made again", fresh)
	items := must.Get(s.conn.JetStream().Stream(t.Context(), events.ItemsStream))(t)
	must.Do(t, items.Purge(t.Context(), jetstream.WithPurgeKeep(4)))
	check("from a part of the stream", open(t, filepath.Join(t.TempDir(), "part.db")))
	must.Do(t, items.Purge(t.Context()))
	check("from the threads", open(t, filepath.Join(t.TempDir(), "threads.db")))
}

// Keep feeds the index beside the history; an erased session leaves nothing in its file.
func TestKeepsItems(t *testing.T) {
	s := newSpool(t)
	path := filepath.Join(t.TempDir(), "history.db")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- history.Keep(ctx, path, s.conn, nil) }()
	s.work("one", 1_700_000_000, "papayasecret")
	file := history.ItemsFile(path)
	for found := 0; found < 5; {
		must.Do(t, history.With(file, func(db *history.DB) error {
			found = len(matches(t, db, "papayasecret", history.ItemFilter{}))
			return nil
		}))
	}
	cancel()
	must.Do(t, <-done)
	must.Do(t, history.With(file, func(db *history.DB) error { return db.Erase(t.Context(), "one") }))
	all := must.Get(filepath.Glob(strings.TrimSuffix(file, ".db") + "*"))(t)
	for _, name := range all {
		if strings.Contains(string(must.Get(os.ReadFile(name))(t)), "papayasecret") {
			t.Errorf("%s still has what an erased session said", filepath.Base(name))
		}
	}
}
