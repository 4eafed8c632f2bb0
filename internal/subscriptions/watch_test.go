package subscriptions

import (
	"log/slog"
	"math"
	"testing"

	"spool/internal/natstest"
	"spool/internal/record"
	"spool/pkg/events"
)

func newWatch(t testing.TB) *watch {
	t.Helper()
	return &watch{
		Service: &Service{Config: Config{Records: natstest.Conn(t).Records(), Log: slog.New(slog.DiscardHandler)}},
		store:   "s", known: map[string]*followed{}, at: math.MaxUint64, poke: make(chan struct{}, 1), again: func() {},
	}
}

// TestMadeAnew: a subscription that was removed, and made anew with another pattern, before the watch told of either, gets the streams
// that moved in between.
func TestMadeAnew(t *testing.T) {
	w := newWatch(t)
	set := 0
	w.again = func() { set++ }
	learn := func(seq uint64, created int64, pattern string) {
		sub := subscription{ID: "a", Created: created, Config: config{Type: byPull, Pattern: pattern}, Store: "s", Seen: seq}
		w.learn(record.Record{Key: events.SubscriptionKey("a"), Value: sub.encode(), Seq: seq})
	}
	learn(10, 1, "jobs/*")
	set = 0
	w.note(t.Context(), record.Record{Key: events.HeadKey(events.Thread{Session: "tasks", Name: "x"}), Value: []byte("v"), Seq: 20})
	learn(15, 2, "tasks/*")
	if w.at != 15 || set != 1 {
		t.Errorf("streams are watched from %d on, set back %d times, want from 15", w.at, set)
	}
	learn(16, 2, "tasks/*") // its next state tells nothing new
	if w.at != 15 || set != 1 {
		t.Errorf("streams are watched from %d on, set back %d times, want from 15", w.at, set)
	}
}

// BenchmarkNote is a head that moves while a thousand subscriptions look for others.
func BenchmarkNote(b *testing.B) {
	w := newWatch(b)
	for i := range 1000 {
		id := string(rune('a'+i%26)) + string(rune('a'+i/26))
		sub := subscription{ID: id, Config: config{Type: byPull, Pattern: "jobs/" + id + "/**"}, Store: "s", Seen: 1}
		w.learn(record.Record{Key: events.SubscriptionKey(id), Value: sub.encode(), Seq: 1})
	}
	r := record.Record{Key: events.HeadKey(events.Thread{Session: "tasks", Name: "x"}), Value: []byte("v")}
	for b.Loop() {
		r.Seq++
		w.note(b.Context(), r)
	}
}
