package history_test

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/history"
	"spool/internal/must"
	"spool/internal/natstest"
	"spool/pkg/client"
	"spool/pkg/events"
)

// A thread that was renamed has its prompts once, under the name of now: read as they come, behind, made again, and from the threads. An
// earlier thread of either name keeps its own.
func TestRenamedThread(t *testing.T) {
	s := newSpool(t)
	live, items := open(t, filepath.Join(t.TempDir(), "live.db")), open(t, filepath.Join(t.TempDir(), "items.db"))
	followed := open(t, filepath.Join(t.TempDir(), "followed.db"))
	natstest.Run(t, history.NewFollower(followed, s.conn, nil).Follow)
	draft, final := events.Thread{Session: "one", Name: "draft"}, events.Thread{Session: "one", Name: "final"}
	follower, index := history.NewFollower(live, s.conn, nil), history.NewItemsFollower(items, s.conn, nil)
	for _, f := range []*history.Follower{follower, index} {
		must.Do(t, f.CatchUp(t.Context()))
	}
	s.said(draft, "prompt of an earlier draft")
	must.Do(t, s.Thread(draft).Remove(t.Context()))
	s.said(final, "prompt of an earlier final")
	must.Do(t, s.Thread(final).Remove(t.Context()))
	s.said(draft, "prompt a")
	s.said(draft, "prompt b")
	s.caughtUp(live)
	must.Do(t, s.Thread(draft).Rename(t.Context(), "between"))
	s.caughtUp(live)
	must.Do(t, s.Thread(events.Thread{Session: "one", Name: "between"}).Rename(t.Context(), "final"))
	must.Until(t, "who follows takes the name", func() bool { return slices.Contains(all(t, followed), "one/final 2 prompt b") })
	s.said(final, "prompt c")
	s.said(events.Thread{Session: "one", Name: "other"}, "prompt d")
	want := []string{"one/draft 1 prompt of an earlier draft", "one/final 1 prompt of an earlier final", "one/final 1 prompt a",
		"one/final 2 prompt b", "one/final 3 prompt c", "one/other 1 prompt d"}
	slices.Sort(want)
	check := func(name string, db *history.DB, want []string) {
		t.Helper()
		s.caughtUp(db)
		got := all(t, db)
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("%s: the history has\n%q, want\n%q", name, got, want)
		}
		if n := must.Get(db.Count(t.Context()))(t); n != int64(len(want)) {
			t.Errorf("%s: Count = %d, want %d", name, n, len(want))
		}
	}
	check("live", live, want)
	check("behind", open(t, filepath.Join(t.TempDir(), "behind.db")), want)
	must.Until(t, "who follows has them too", func() bool {
		got := all(t, followed)
		slices.Sort(got)
		return slices.Equal(got, want)
	})
	must.Do(t, follower.Rebuild(t.Context()))
	check("made again", live, want)
	must.Do(t, index.CatchUp(t.Context()))
	for range 2 {
		found := must.Get(items.Find(t.Context(), "prompt", history.ItemFilter{}, 99))(t)
		must.Same(t, len(found), len(want), "an index of all items has %d, want %d")
		must.Do(t, index.Rebuild(t.Context()))
	}
	stream := must.Get(s.conn.JetStream().Stream(t.Context(), events.ItemsStream))(t)
	must.Do(t, stream.Purge(t.Context(), jetstream.WithPurgeKeep(1)))
	check("from the threads", open(t, filepath.Join(t.TempDir(), "threads.db")), slices.DeleteFunc(slices.Clone(want), func(line string) bool {
		return line == "one/draft 1 prompt of an earlier draft" || line == "one/final 1 prompt of an earlier final"
	}))
	must.Get(s.Session("one").Delete(t.Context(), client.Deletion{Plain: true}))(t)
	must.Do(t, follower.CatchUp(t.Context()))
	must.Get(follower.Forget(t.Context(), []string{"one"}))(t)
	check("deleted", live, nil)
}
