package offline

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"spool/pkg/events"
)

// Two processes of one producer died one after the other. While somebody drains what the first left, nobody may send what the second left.
func TestSecondPredecessorWaitsForTheFirst(t *testing.T) {
	dir := t.TempDir()
	_ = left(t, dir, "p", 3).lock.Close() // the first is dead
	second := open(t, Config{Dir: dir})
	behind(t, second, "p", true)
	if err := second.Append([]*events.Event{event("p", 4, 10), event("p", 5, 10)}); err != nil {
		t.Fatal(err)
	}
	_ = second.lock.Close() // and so is the second

	one, two, s := open(t, Config{Dir: dir}), open(t, Config{Dir: dir}), &sink{}
	sending, goOn, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		first := true
		done <- one.Drain(context.Background(), func(ctx context.Context, evs []*events.Event) error {
			if first {
				first = false
				close(sending)
				<-goOn
			}
			return s.send(ctx, evs)
		})
	}()
	<-sending
	_ = two.Drain(t.Context(), s.send)
	close(goOn)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	_ = two.Drain(t.Context(), s.send)
	if want := ids("p", 1, 5); !slices.Equal(s.got, want) {
		t.Errorf("sent %v, want %v: a thread takes what comes late for repeats, and drops it", s.got, want)
	}
}

// A process lives on with events of a producer; its successor died behind them. A third process may not send the successor's first.
func TestSuccessorsLeftoversWaitForALivingPredecessor(t *testing.T) {
	dir := t.TempDir()
	living := left(t, dir, "p", 3)
	second := open(t, Config{Dir: dir})
	behind(t, second, "p", true)
	if err := second.Append([]*events.Event{event("p", 4, 10)}); err != nil {
		t.Fatal(err)
	}
	_ = second.lock.Close()
	third, s := open(t, Config{Dir: dir}), &sink{}
	_ = third.Drain(t.Context(), s.send)
	if err := living.Drain(t.Context(), s.send); err != nil {
		t.Fatal(err)
	}
	_ = third.Drain(t.Context(), s.send)
	if want := ids("p", 1, 4); !slices.Equal(s.got, want) {
		t.Errorf("sent %v, want %v", s.got, want)
	}
}

// The successor's process was there before its predecessor's: the names of queues are in the order of their opening, not of their events.
func TestLeftoversInTheOrderOfTheirEvents(t *testing.T) {
	dir := t.TempDir()
	older := open(t, Config{Dir: dir})
	_ = left(t, dir, "p", 3).lock.Close()
	behind(t, older, "p", true)
	if err := older.Append([]*events.Event{event("p", 4, 10)}); err != nil {
		t.Fatal(err)
	}
	_ = older.lock.Close()
	third, s := open(t, Config{Dir: dir}), &sink{}
	if err := third.Drain(t.Context(), s.send); err != nil {
		t.Fatal(err)
	}
	if want := ids("p", 1, 4); !slices.Equal(s.got, want) {
		t.Errorf("sent %v, want %v", s.got, want)
	}
}

// A rotten byte early in the newest segment of a dead process is no torn tail: what is behind it was durable, and must not be dropped.
func TestRotInTheNewestSegmentDropsNothing(t *testing.T) {
	dir := t.TempDir()
	dead := left(t, dir, "p", 5)
	_ = dead.lock.Close()
	names, err := segments(dead.dir())
	if err != nil || len(names) != 1 {
		t.Fatal(names, err)
	}
	path := filepath.Join(dead.dir(), names[0])
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[len(magic)+20] ^= 1 // in the first event
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	q, s := open(t, Config{Dir: dir}), &sink{}
	if err := q.Drain(t.Context(), s.send); err != nil {
		t.Fatal(err)
	}
	kept, _ := filepath.Glob(path + "*")
	if len(s.got) < 4 && len(kept) == 0 {
		t.Errorf("sent %v of 5 events, and the segment is gone", s.got)
	}
}
