package history_test

import (
	"context"
	"path/filepath"
	"slices"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/history"
	"spool/internal/must"
	"spool/pkg/client"
	"spool/pkg/events"
)

// said publishes a user post and waits until its thread has it.
func (s *spool) said(th events.Thread, text string) {
	s.t.Helper()
	p := s.Client.Publisher(client.PublisherConfig{})
	body := []byte(`{"content":[{"type":"text","text":"` + text + `"}]}`)
	_, err := p.Publish(s.t.Context(), client.Entry{Thread: th, Dialect: "item", Body: body})
	if err == nil {
		err = s.Thread(th).Await(s.t.Context(), p.Producer(), 0, 1)
	}
	must.Do(s.t, err)
	head := must.Get(s.Thread(th).Head(s.t.Context()))(s.t)
	must.Until(s.t, "its item is stored", func() bool { // behind the head
		n, life, err := s.conn.Items().LastItem(s.t.Context(), th)
		return err == nil && n == head.N && life == head.Life
	})
}

// A name is used again while the history follows, and while it does not, from the stream and from the threads: prompts of a thread
// that was removed stay beside those of the next one, and those of a deleted session go.
func TestPromptsOfLives(t *testing.T) {
	s := newSpool(t)
	db := open(t, filepath.Join(t.TempDir(), "history.db"))
	f := history.NewFollower(db, s.conn, nil)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- f.Follow(ctx) }()
	want := func(what string, all ...string) {
		t.Helper()
		var got []string
		for range 2000 {
			must.Do(t, f.CatchUp(t.Context()))
			found := must.Get(db.Search(t.Context(), "prompt", history.Filter{}, 99))(t)
			got = texts(found)
			if slices.Sort(got); slices.Equal(got, all) {
				return
			}
		}
		t.Errorf("%s: prompts %q, want %q", what, got, all)
	}
	th := events.Thread{Session: "s", Name: "main"}
	s.said(th, "prompt a")
	want("first life", "prompt a")
	must.Do(t, s.Thread(th).Remove(t.Context()))
	s.said(th, "prompt b")
	want("after a removal", "prompt a", "prompt b")
	must.Get(s.Session("s").Delete(t.Context(), client.Deletion{Force: true}))(t)
	s.said(th, "prompt c")
	want("after a deletion", "prompt c")
	stop()
	if err := <-done; err != nil && ctx.Err() == nil {
		t.Fatal(err)
	}
	must.Do(t, s.Thread(th).Remove(t.Context()))
	s.said(th, "prompt d")
	want("after a pause", "prompt c", "prompt d")
	must.Do(t, f.Rebuild(t.Context()))
	want("made again", "prompt c", "prompt d")
}

// Of a source that was rewritten each prompt stands once, at the item that it is: in the thread of now, else in the former one. It is
// the same read as it comes, behind, and made again from the stream or from the threads alone.
func TestFormerGenerations(t *testing.T) {
	s := newSpool(t)
	db := open(t, filepath.Join(t.TempDir(), "live.db"))
	th := events.Thread{Session: "one", Name: "main"}
	var was []string
	const at = 1_700_000_100
	for i, lines := range [][]string{
		{"user:the papaya", "assistant:a", "user:second"}, {"user:the tests", "assistant:b", "user:second", "user:third"},
		{"user:the linter", "assistant:c", "assistant:d", "user:third"},
	} {
		if i > 0 {
			head := must.Get(s.Thread(th).AwaitHead(t.Context()))(t)
			was = append(was, must.Get(s.Internal().Retire(t.Context(), th, head))(t).Name)
		}
		s.say("one", at, lines...)
		s.caughtUp(db)
	}
	s.say("one/"+was[0], at+300, "user:the papaya again")
	want := []string{"one/main 1 the linter", "one/main 4 third", "one/" + was[0] + " 1 the papaya", "one/" + was[0] + " 4 the papaya again",
		"one/" + was[1] + " 1 the tests", "one/" + was[1] + " 3 second"}
	slices.Sort(want)
	check := func(name string, got []string) {
		t.Helper()
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("%s: the history has\n%q, want\n%q", name, got, want)
		}
	}
	check("live", s.caughtUp(db))
	check("behind", s.caughtUp(open(t, filepath.Join(t.TempDir(), "behind.db"))))
	must.Do(t, history.NewFollower(db, s.conn, nil).Rebuild(t.Context()))
	check("made again", all(t, db))
	items := must.Get(s.conn.JetStream().Stream(t.Context(), events.ItemsStream))(t)
	must.Do(t, items.Purge(t.Context(), jetstream.WithPurgeKeep(7)))
	check("from a part of the stream", s.caughtUp(open(t, filepath.Join(t.TempDir(), "part.db"))))
	must.Do(t, items.Purge(t.Context()))
	check("from the threads", s.caughtUp(open(t, filepath.Join(t.TempDir(), "threads.db"))))
	if n := must.Get(db.Count(t.Context()))(t); n != int64(len(want)) {
		t.Errorf("Count = %d, want %d", n, len(want))
	}
}
