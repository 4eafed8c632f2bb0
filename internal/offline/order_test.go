package offline

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"

	"spool/internal/must"
	"spool/internal/record"
	"spool/pkg/events"
)

// Two processes of one producer died one after the other. While somebody drains what the first left, nobody may send
// what the second left.
func TestSecondPredecessorWaitsForTheFirst(t *testing.T) {
	dir := t.TempDir()
	_ = left(t, dir, "p", 3).lock.Close() // the first is dead
	second := open(t, Config{Dir: dir})
	behind(t, second, "p", true)
	must.Do(t, second.Append([]*events.Event{event("p", 4, 10), event("p", 5, 10)}))
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
	must.Do(t, <-done)
	_ = two.Drain(t.Context(), s.send)
	if want := ids("p", 1, 5); !slices.Equal(s.got, want) {
		t.Errorf("sent %v, want %v: a thread takes what comes late for repeats, and drops it", s.got, want)
	}
}

// A process lives on with events of a producer; its successor died behind them. A third process may not send the
// successor's first.
func TestSuccessorsLeftoversWaitForALivingPredecessor(t *testing.T) {
	dir := t.TempDir()
	living := left(t, dir, "p", 3)
	second := open(t, Config{Dir: dir})
	behind(t, second, "p", true)
	must.Do(t, second.Append([]*events.Event{event("p", 4, 10)}))
	_ = second.lock.Close()
	third, s := open(t, Config{Dir: dir}), &sink{}
	_ = third.Drain(t.Context(), s.send)
	must.Do(t, living.Drain(t.Context(), s.send))
	_ = third.Drain(t.Context(), s.send)
	if want := ids("p", 1, 4); !slices.Equal(s.got, want) {
		t.Errorf("sent %v, want %v", s.got, want)
	}
}

// The successor's process was there before its predecessor's: the names of queues are in the order of their opening,
// not of their events.
func TestLeftoversInTheOrderOfTheirEvents(t *testing.T) {
	dir := t.TempDir()
	older := open(t, Config{Dir: dir})
	_ = left(t, dir, "p", 3).lock.Close()
	behind(t, older, "p", true)
	must.Do(t, older.Append([]*events.Event{event("p", 4, 10)}))
	_ = older.lock.Close()
	third, s := open(t, Config{Dir: dir}), &sink{}
	must.Do(t, third.Drain(t.Context(), s.send))
	if want := ids("p", 1, 4); !slices.Equal(s.got, want) {
		t.Errorf("sent %v, want %v", s.got, want)
	}
}

// Processes append the events of a few producers by turns, each event once, in the order of time; some die, some
// drain, and the server fails now and then. What is sent of a producer for the first time is in its order, and in the
// end everything is.
func TestOrderOfEachProducer(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		dir := must.Get(os.MkdirTemp(t.TempDir(), ""))(rt)
		var live []*Queue
		begin := func() {
			q := must.Get(Open(Config{Dir: dir, Segment: int64(rapid.SampledFrom([]int{60, 200, 10000}).Draw(rt, "segment"))}))(rt)
			live = append(live, q)
		}
		begin()
		appended, sent, fail := map[string]uint64{}, map[string]uint64{}, 0
		send := func(_ context.Context, evs []*events.Event) error {
			if fail--; fail == 0 {
				return record.ErrBusy
			}
			for _, e := range evs {
				if e.Seq > sent[e.Producer]+1 {
					rt.Fatalf("%s:%d is sent behind %d", e.Producer, e.Seq, sent[e.Producer])
				}
				sent[e.Producer] = max(sent[e.Producer], e.Seq)
			}
			return nil
		}
		for range rapid.IntRange(1, 40).Draw(rt, "steps") {
			i := rapid.IntRange(0, len(live)-1).Draw(rt, "process")
			switch rapid.SampledFrom([]string{"append", "append", "append", "begin", "die", "drain"}).Draw(rt, "step") {
			case "append":
				p := rapid.SampledFrom([]string{"p", "q", "r"}).Draw(rt, "producer")
				appended[p]++
				must.Do(rt, live[i].Append([]*events.Event{event(p, appended[p], 10)}))
			case "begin":
				begin()
			case "die":
				_ = live[i].lock.Close()
				if live = slices.Delete(live, i, i+1); len(live) == 0 {
					begin()
				}
			case "drain":
				fail = rapid.IntRange(0, 4).Draw(rt, "fail")
				_ = live[i].Drain(context.Background(), send)
				fail = 0
			}
		}
		drainAll(rt, live, send)
		for p, n := range appended {
			if sent[p] != n {
				rt.Errorf("%d of %d events of %s are sent", sent[p], n, p)
			}
		}
	})
}

// drainAll lets living processes drain until nothing is left, and closes their queues.
func drainAll(rt *rapid.T, live []*Queue, send func(context.Context, []*events.Event) error) {
	for range 40 { // in each one of them at least has something with nothing before it
		for _, q := range live {
			_ = q.Drain(context.Background(), send)
		}
	}
	for _, q := range live {
		if err := q.Drain(context.Background(), send); err != nil || !q.Empty() {
			rt.Errorf("Drain = %v, empty: %v", err, q.Empty())
		}
		_ = q.Close()
	}
}

// Two queues whose events come behind each other's, against time, do not hold each other for ever.
func TestQueuesBehindEachOther(t *testing.T) {
	dir, s := t.TempDir(), &sink{}
	for _, evs := range [][]*events.Event{{event("p", 2, 1), event("q", 1, 1)}, {event("q", 2, 1), event("p", 1, 1)}} {
		q := open(t, Config{Dir: dir})
		must.Do(t, q.Append(evs))
		_ = q.lock.Close()
	}
	must.Do(t, open(t, Config{Dir: dir}).Drain(t.Context(), s.send))
	if want := "p:2 q:1 q:2 p:1"; strings.Join(s.got, " ") != want {
		t.Errorf("sent %v, want %s", s.got, want)
	}
}

// A rotten byte in the newest segment of a dead process is no torn tail: what is behind it was durable. The whole
// events go where it is clear which they are, and the file stays. In the last event it can be a torn tail, and nobody
// can tell.
func TestRotInTheNewestSegmentDropsNothing(t *testing.T) {
	for name, c := range map[string]struct {
		frame, at int // of the byte, in that frame; frame -1: in the magic
		want      []string
		kept      int
	}{
		"first event":  {0, 20, ids("p", 2, 5), 1},
		"middle event": {2, 20, slices.Concat(ids("p", 1, 2), ids("p", 4, 5)), 1},
		"sum":          {1, 5, slices.Concat(ids("p", 1, 1), ids("p", 3, 5)), 1},
		"length":       {1, 0, ids("p", 1, 1), 1},
		"great length": {1, 3, ids("p", 1, 1), 1},
		"magic":        {-1, 2, nil, 1},
		"last event":   {4, 20, ids("p", 1, 4), 0},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			dead := left(t, dir, "p", 5)
			_ = dead.lock.Close()
			path := filepath.Join(dead.dir(), "00000001.log")
			b := must.Get(os.ReadFile(path))(t)
			at := c.at
			if ends := []int{len(magic)}; c.frame >= 0 {
				scanEnds(b, &ends)
				at += ends[c.frame]
			}
			b[at] ^= 1
			must.Do(t, os.WriteFile(path, b, 0o600))
			q, s := open(t, Config{Dir: dir}), &sink{}
			must.Do(t, q.Drain(t.Context(), s.send))
			must.SameAll(t, s.got, c.want, "sent %v, want %v")
			kept, _ := filepath.Glob(filepath.Join(dir, "*", "*"+damagedSuffix))
			if len(kept) != c.kept {
				t.Fatalf("kept %v, want %d files", kept, c.kept)
			}
			for _, path := range kept {
				if now, err := os.ReadFile(path); err != nil || !slices.Equal(now, b) {
					t.Errorf("%s is not the segment as it was, %v", path, err)
				}
			}
		})
	}
}

// A crash of the machine can leave a file longer than what was written, with zeros.
func TestZerosAreATornTail(t *testing.T) {
	dir := t.TempDir()
	dead := left(t, dir, "p", 2)
	_ = dead.lock.Close()
	path := filepath.Join(dead.dir(), "00000001.log")
	b, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, append(b, make([]byte, 100)...), 0o600)
	}
	must.Do(t, err)
	q, s := open(t, Config{Dir: dir}), &sink{}
	must.Do(t, q.Drain(t.Context(), s.send))
	if _, err := os.Stat(dead.dir()); !slices.Equal(s.got, ids("p", 1, 2)) || !os.IsNotExist(err) {
		t.Errorf("sent %v, the queue: %v; want two events, and it gone", s.got, err)
	}
}

// A process that opened its queue while a dying one still held its own sends what that one left, although it keeps nothing itself.
func TestLeftByAProcessThatDiesLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, server := t.TempDir(), &sink{}
		dying := open(t, Config{Dir: dir})
		must.Do(t, dying.Append([]*events.Event{event("p", 1, 10)}))
		next := open(t, Config{Dir: dir})
		limit, cancel := context.WithTimeout(t.Context(), 2*lookAgain)
		defer cancel()
		must.Do(t, next.Wait(limit))
		must.Do(t, next.Drain(limit, server.send))
		must.Do(t, dying.Close())
		must.Do(t, next.Wait(limit))
		must.Do(t, next.Drain(limit, server.send))
		must.Same(t, fmt.Sprint(server.got), "[p:1]", "%s is sent, want %s")
		must.Do(t, next.Close())
	})
}
