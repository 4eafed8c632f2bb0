package history_test

import (
	"path/filepath"
	"testing"

	"spool/internal/history"
	"spool/internal/must"
	"spool/pkg/client"
	"spool/pkg/events"
)

// TestOpenTurnOfTheRemoved: a turn that was open when its thread was removed is open no more, whoever looked before.
func TestOpenTurnOfTheRemoved(t *testing.T) {
	s := newSpool(t)
	th := events.Thread{Session: "one", Name: "side"}
	s.said(events.Thread{Session: "one", Name: "main"}, "hello")
	p := s.Client.Publisher(client.PublisherConfig{})
	for _, line := range []string{
		`{"type":"user","uuid":"u1","sessionId":"one","cwd":"/w","timestamp":"2026-11-20T12:00:00.000Z","message":{"role":"user","content":"prune"}}`,
		`{"type":"assistant","uuid":"a1","sessionId":"one","cwd":"/w","timestamp":"2026-11-20T12:00:01.000Z","message":{"id":"a1","role":"assistant","model":"opus-4","content":[{"type":"text","text":"a1"}],"stop_reason":null,"usage":{"input_tokens":10,"cache_read_input_tokens":90,"output_tokens":7}}}`,
	} {
		must.Get(p.Publish(t.Context(), client.Entry{Thread: th, Dialect: "claude", Body: []byte(line)}))(t)
	}
	must.Do(t, s.Thread(th).Settled(t.Context()))
	figures := func(file string) history.Report {
		db := open(t, filepath.Join(t.TempDir(), file))
		return statsOf(t, s, db)
	}
	db := open(t, filepath.Join(t.TempDir(), "looked-before.db"))
	before := statsOf(t, s, db)
	must.Same(t, before.OpenTurns, 1, "before: %d open turns, want %d")
	must.Do(t, s.Thread(th).Remove(t.Context()))
	must.Do(t, s.Thread(th).Settled(t.Context()))
	after, anew := statsOf(t, s, db), figures("anew.db")
	if after.OpenTurns != anew.OpenTurns || after.TokensIn != anew.TokensIn {
		t.Errorf("behind the removal an index that was asked before says %d open turns, %d tokens; one made anew %d, %d",
			after.OpenTurns, after.TokensIn, anew.OpenTurns, anew.TokensIn)
	}
}

func statsOf(t *testing.T, s *spool, db *history.DB) history.Report {
	t.Helper()
	f := history.NewItemsFollower(db, s.conn, nil)
	must.Do(t, f.ForgetDeleted(t.Context()))
	must.Do(t, f.CatchUp(t.Context()))
	must.Do(t, db.LearnOpenTurns(t.Context(), s.Client))
	return must.Get(db.Stats(t.Context(), history.ItemFilter{}, "project", nil))(t)
}
