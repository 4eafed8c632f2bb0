package offline

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"
	"pgregory.net/rapid"

	"spool/internal/must"
	"spool/internal/record"
	"spool/pkg/events"
)

func event(producer string, seq uint64, size int) *events.Event {
	return &events.Event{
		Producer: producer, Seq: seq, Kind: events.KindEntry, Dialect: "raw", Thread: events.Thread{Session: "s", Name: "main"},
		Body: []byte(strings.Repeat("x", size)),
	}
}

// sink is a server that can be told to fail.
type sink struct {
	got  []string
	fail error
}

func (s *sink) send(_ context.Context, evs []*events.Event) error {
	if s.fail != nil {
		return s.fail
	}
	for _, e := range evs {
		if string(e.Body) == "refuse" {
			return record.ErrRefused
		}
	}
	for _, e := range evs {
		s.got = append(s.got, fmt.Sprintf("%s:%d", e.Producer, e.Seq))
	}
	return nil
}

func open(t *testing.T, cfg Config) *Queue {
	t.Helper()
	return must.Get(Open(cfg))(t)
}

func ids(producer string, from, to int) (out []string) {
	for i := from; i <= to; i++ {
		out = append(out, fmt.Sprintf("%s:%d", producer, i))
	}
	return out
}

// Whatever is appended while others append and the queue is drained again and again is sent: a segment that still grows is not taken.
func TestAppendBesideDrain(t *testing.T) {
	q := open(t, Config{Dir: t.TempDir()})
	const writers, each = 4, 500
	var appends errgroup.Group
	for w := range writers {
		appends.Go(func() error {
			for i := range each {
				if err := q.Append([]*events.Event{event(fmt.Sprintf("p%d", w), uint64(i+1), 10)}); err != nil {
					return err
				}
			}
			return nil
		})
	}
	done := make(chan error, 1)
	go func() { done <- appends.Wait() }()
	s := &sink{}
	for running := true; running; {
		select {
		case err := <-done:
			must.Do(t, err)
			running = false
		default:
		}
		must.Do(t, q.Drain(t.Context(), s.send))
	}
	got := map[string]bool{}
	for _, id := range s.got {
		got[id] = true
	}
	for w := range writers {
		for _, id := range ids(fmt.Sprintf("p%d", w), 1, each) {
			if !got[id] {
				t.Errorf("%s was appended and never sent", id)
			}
		}
	}
	must.Do(t, q.Close())
	must.Is(t, q.Append([]*events.Event{event("p0", each+1, 10)}), os.ErrClosed, "Append to a queue that is closed")
}

func TestDrainInOrder(t *testing.T) {
	q := open(t, Config{Dir: t.TempDir(), Segment: 1000})
	for i := range 50 {
		must.Do(t, q.Append([]*events.Event{event("p", uint64(2*i+1), 100), event("p", uint64(2*i+2), 300)}))
	}
	s := &sink{fail: record.ErrBusy}
	if err := q.Drain(t.Context(), s.send); !errors.Is(err, record.ErrBusy) || q.Empty() {
		t.Fatalf("Drain while the server is away = %v, empty: %v, want ErrBusy and not empty", err, q.Empty())
	}
	s.fail = nil
	must.Do(t, q.Drain(t.Context(), s.send))
	if want := ids("p", 1, 100); !slices.Equal(s.got, want) {
		t.Errorf("drained %v, want 1 to 100 in order", s.got)
	}
	if !q.Empty() || q.used != 0 {
		t.Errorf("after the drain empty is %v, used %d bytes, want true and 0", q.Empty(), q.used)
	}
	<-q.Drained()
	must.Do(t, q.Close())
	if left, err := os.ReadDir(q.cfg.Dir); len(left) != 0 || err != nil {
		t.Errorf("Close left %v, %v, want nothing", left, err)
	}
}

// A crash can end the newest segment anywhere: what was appended before is drained whole, and nothing else.
func TestTornTail(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		sub := filepath.Join(dir, rapid.StringMatching("[a-z]{12}").Draw(rt, "dir"))
		q := must.Get(Open(Config{Dir: sub, Segment: 600}))(rt)
		n := rapid.IntRange(1, 12).Draw(rt, "events")
		for i := range n {
			must.Do(rt, q.Append([]*events.Event{event("p", uint64(i+1), 50+10*i)}))
		}
		names, _ := segments(q.dir())
		last := filepath.Join(q.dir(), names[len(names)-1])
		whole, _ := os.ReadFile(last)
		cut := rapid.IntRange(0, len(whole)).Draw(rt, "cut")
		kept := n
		var ends []int
		scanEnds(whole, &ends)
		for _, end := range ends {
			if end > cut {
				kept--
			}
		}
		must.Do(rt, os.Truncate(last, int64(cut)))
		_ = q.lock.Close() // the process is dead

		next := must.Get(Open(Config{Dir: sub}))(rt)
		s := &sink{}
		must.Do(rt, next.Drain(context.Background(), s.send))
		if want := ids("p", 1, kept); !slices.Equal(s.got, want) {
			rt.Errorf("cut at byte %d of %d: drained %v, want %v", cut, len(whole), s.got, want)
		}
		must.Do(rt, next.Close())
		if left, _ := filepath.Glob(filepath.Join(sub, "*", "*")); len(left) != 0 {
			rt.Errorf("left behind: %v", left)
		}
		_ = os.RemoveAll(sub)
	})
}

// scanEnds finds where each frame ends.
func scanEnds(b []byte, ends *[]int) {
	at := len(magic)
	scan(b, func(_ int, payload []byte) {
		at += frameHead + len(payload)
		*ends = append(*ends, at)
	})
}

func TestDamageIsKept(t *testing.T) {
	dir := t.TempDir()
	q := open(t, Config{Dir: dir, Segment: 400})
	for i := range 6 {
		must.Do(t, q.Append([]*events.Event{event("p", uint64(i+1), 100)}))
	}
	names, _ := segments(q.dir())
	first := filepath.Join(q.dir(), names[0])
	b, _ := os.ReadFile(first)
	b[len(b)-1] ^= 1
	must.Do(t, os.WriteFile(first, b, 0o600))
	_ = q.lock.Close()
	next, s := open(t, Config{Dir: dir}), &sink{}
	must.Do(t, next.Drain(t.Context(), s.send))
	if len(s.got) != 5 || s.got[4] != "p:6" {
		t.Errorf("drained %v, want the five whole events", s.got)
	}
	must.Is(t, must.Err(os.Stat(first+".damaged")), nil, "Stat(the damaged segment)")
}

func TestLimit(t *testing.T) {
	q := open(t, Config{Dir: t.TempDir(), Limit: 2000})
	var err error
	n := 0
	for ; err == nil; n++ {
		err = q.Append([]*events.Event{event("p", uint64(n+1), 300)})
	}
	if !errors.Is(err, ErrFull) || n < 4 {
		t.Fatalf("Append %d = %v, want ErrFull after some", n, err)
	}
	s := &sink{}
	if err := q.Drain(t.Context(), s.send); err != nil || len(s.got) != n-1 {
		t.Fatalf("Drain = %v with %d events, want %d", err, len(s.got), n-1)
	}
	if err := q.Append([]*events.Event{event("p", uint64(n), 300)}); err != nil {
		t.Errorf("Append after the drain = %v, want room", err)
	}
}

func TestRefusedMovesAside(t *testing.T) {
	q := open(t, Config{Dir: t.TempDir()})
	bad := event("p", 2, 0)
	bad.Body = []byte("refuse")
	must.Do(t, q.Append([]*events.Event{event("p", 1, 1), bad, event("p", 3, 1)}))
	s := &sink{}
	must.Do(t, q.Drain(t.Context(), s.send))
	if want := []string{"p:1", "p:3"}; !slices.Equal(s.got, want) {
		t.Errorf("drained %v, want %v", s.got, want)
	}
	files, _ := filepath.Glob(filepath.Join(q.cfg.Dir, refusedDir, "*"))
	if len(files) != 1 {
		t.Fatalf("%d files in %s, want 1", len(files), refusedDir)
	}
	b, _ := os.ReadFile(files[0])
	scan(b, func(_ int, payload []byte) {
		if e, err := events.Decode(payload); err != nil || e.Seq != 2 {
			t.Errorf("refused event is %v, %v, want seq 2", e, err)
		}
	})
}

// Beside what no server takes, the server is busy for a moment: what it does not take then is not moved aside.
func TestBusyBesideTheRefused(t *testing.T) {
	q := open(t, Config{Dir: t.TempDir()})
	bad := event("p", 2, 0)
	bad.Body = []byte("refuse")
	must.Do(t, q.Append([]*events.Event{event("p", 1, 1), bad, event("p", 3, 1)}))
	s, busy := &sink{}, 1
	send := func(ctx context.Context, evs []*events.Event) error {
		if len(evs) == 1 && evs[0].Seq == 3 && busy > 0 {
			busy--
			return fmt.Errorf("%w: for a moment", record.ErrBusy)
		}
		return s.send(ctx, evs)
	}
	for range 2 { // the first may end with what is passing
		_ = q.Drain(t.Context(), send)
	}
	if !slices.Contains(s.got, "p:1") || !slices.Contains(s.got, "p:3") {
		t.Errorf("drained %v, want p:1 and p:3", s.got)
	}
	files, _ := filepath.Glob(filepath.Join(q.cfg.Dir, refusedDir, "*"))
	for _, f := range files {
		scan(must.Get(os.ReadFile(f))(t), func(_ int, payload []byte) {
			if e, err := events.Decode(payload); err != nil || e.Seq != 2 {
				t.Errorf("moved aside: %v, %v, want seq 2 alone", e.Seq, err)
			}
		})
	}
}

// A process that lives keeps its queue; two processes drain each their own, and a dead one's goes once.
func TestProcessesKeepApart(t *testing.T) {
	dir := t.TempDir()
	a, b := open(t, Config{Dir: dir}), open(t, Config{Dir: dir})
	for _, one := range []struct {
		q *Queue
		p string
	}{{a, "a"}, {b, "b"}} {
		must.Do(t, one.q.Append([]*events.Event{event(one.p, 1, 10), event(one.p, 2, 10)}))
	}
	s := &sink{}
	must.Do(t, b.Drain(t.Context(), s.send))
	if want := ids("b", 1, 2); !slices.Equal(s.got, want) {
		t.Errorf("b drained %v, want its own", s.got)
	}
	_ = a.lock.Close() // a dies
	must.Do(t, b.Drain(t.Context(), s.send))
	if want := slices.Concat(ids("b", 1, 2), ids("a", 1, 2)); !slices.Equal(s.got, want) {
		t.Errorf("b drained %v, want also what a left", s.got)
	}
}

// TestKilled kills a process while it appends, again and again: all that it was told is kept is drained, once and in order.
func TestKilled(t *testing.T) {
	if os.Getenv("SPOOL_OFFLINE_CHILD") != "" {
		child()
		return
	}
	dir, want := t.TempDir(), map[string]int{}
	for round := range 5 {
		producer := fmt.Sprintf("p%d", round)
		cmd := exec.Command(os.Args[0], "-test.run=^TestKilled$")
		cmd.Env = append(os.Environ(), "SPOOL_OFFLINE_CHILD="+producer, "SPOOL_OFFLINE_DIR="+dir)
		out := must.Get(cmd.StdoutPipe())(t)
		must.Do(t, cmd.Start())
		lines := bufio.NewScanner(out)
		for n := 0; n < 20+7*round && lines.Scan(); n++ {
			want[producer]++ // it said that one more is kept
		}
		_ = cmd.Process.Kill()
		for lines.Scan() { // said before it died
			want[producer]++
		}
		_ = cmd.Wait()
	}
	q, s := open(t, Config{Dir: dir}), &sink{}
	must.Do(t, q.Drain(t.Context(), s.send))
	got := map[string]int{}
	for _, id := range s.got {
		var seq int
		producer, n, _ := strings.Cut(id, ":")
		_, _ = fmt.Sscan(n, &seq)
		if got[producer]++; seq != got[producer] {
			t.Fatalf("%s comes as number %d of its producer", id, got[producer])
		}
	}
	for p, n := range want {
		if n == 0 || got[p] < n || got[p] > n+1 {
			t.Errorf("%s: %d drained, want the %d that were acknowledged, or the one under way too", p, got[p], n)
		}
	}
}

func child() {
	q, err := Open(Config{Dir: os.Getenv("SPOOL_OFFLINE_DIR"), Segment: 4000})
	for seq := uint64(1); err == nil; seq++ {
		if err = q.Append([]*events.Event{event(os.Getenv("SPOOL_OFFLINE_CHILD"), seq, 500)}); err == nil {
			fmt.Println("kept")
		}
	}
	fmt.Fprintln(os.Stderr, err)
}
