package history_test

import (
	"context"
	"path/filepath"
	"slices"
	"testing"

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
	err := p.Publish(s.t.Context(), client.Entry{Thread: th, Dialect: "item", Body: body})
	if err == nil {
		err = s.Await(s.t.Context(), th, p.Producer(), 0, 1)
	}
	if err != nil {
		s.t.Fatal(err)
	}
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
	must.Do(t, s.Remove(t.Context(), th))
	s.said(th, "prompt b")
	want("after a removal", "prompt a", "prompt b")
	must.Get(s.DeleteSession(t.Context(), "s", client.Deletion{Force: true}))(t)
	s.said(th, "prompt c")
	want("after a deletion", "prompt c")
	stop()
	if err := <-done; err != nil && ctx.Err() == nil {
		t.Fatal(err)
	}
	must.Do(t, s.Remove(t.Context(), th))
	s.said(th, "prompt d")
	want("after a pause", "prompt c", "prompt d")
	must.Do(t, f.Rebuild(t.Context()))
	want("made again", "prompt c", "prompt d")
}
