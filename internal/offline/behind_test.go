package offline

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"spool/internal/must"
	"spool/internal/record"
	"spool/pkg/events"
)

// left makes a queue that holds events of a producer, and that a process has.
func left(t *testing.T, dir, producer string, n int) *Queue {
	t.Helper()
	q := open(t, Config{Dir: dir})
	for i := range n {
		must.Do(t, q.Append([]*events.Event{event(producer, uint64(i+1), 10)}))
	}
	return q
}

// behind holds what Behind says of a producer against what it must say.
func behind(t *testing.T, q *Queue, producer string, want bool) {
	t.Helper()
	must.Same(t, q.Behind(producer), want, "Behind(%s) = %v, want %v", producer)
}

// A successor is behind what its predecessor left until that is published, also when the server goes away in the middle.
func TestBehindAPredecessor(t *testing.T) {
	dir := t.TempDir()
	_ = left(t, dir, "p", 3).lock.Close() // its process is dead
	_ = left(t, dir, "~one", 1).lock.Close()
	q := open(t, Config{Dir: dir})
	behind(t, q, "p", true)
	behind(t, q, "other", false)
	behind(t, q, "~one", false)
	must.Do(t, q.Append([]*events.Event{event("p", 4, 10)}))
	s := &sink{fail: record.ErrBusy}
	must.Is(t, q.Drain(t.Context(), s.send), record.ErrBusy, "Drain without a server")
	behind(t, q, "p", true)
	s.fail = nil
	must.Do(t, q.Drain(t.Context(), s.send))
	if want := slices.Concat(ids("p", 1, 3), ids("~one", 1, 1), ids("p", 4, 4)); !slices.Equal(s.got, want) {
		t.Errorf("drained %v, want %v", s.got, want)
	}
	behind(t, q, "p", false)
}

// While another process drains what a predecessor left, the successor keeps its own events.
func TestBehindAnotherDrain(t *testing.T) {
	dir := t.TempDir()
	_ = left(t, dir, "p", 3).lock.Close()
	other, next := open(t, Config{Dir: dir}), open(t, Config{Dir: dir})
	sending, goOn, s := make(chan struct{}), make(chan struct{}), &sink{}
	done := make(chan error, 1)
	go func() {
		done <- other.Drain(context.Background(), func(ctx context.Context, evs []*events.Event) error {
			close(sending)
			<-goOn
			return s.send(ctx, evs)
		})
	}()
	<-sending
	behind(t, next, "p", true)
	must.Do(t, next.Append([]*events.Event{event("p", 4, 10)}))
	if err := next.Drain(t.Context(), s.send); !errors.Is(err, errBehind) || !record.Temporary(err) {
		t.Errorf("Drain beside another = %v, want errBehind", err)
	}
	close(goOn)
	must.Do(t, <-done)
	must.Do(t, next.Drain(t.Context(), s.send))
	if want := ids("p", 1, 4); !slices.Equal(s.got, want) {
		t.Errorf("drained %v, want %v", s.got, want)
	}
	behind(t, next, "p", false)
}

// A predecessor that has not ended yet holds its successor, and nobody else.
func TestBehindALivingProcess(t *testing.T) {
	dir, s := t.TempDir(), &sink{}
	a := left(t, dir, "p", 2)
	b := open(t, Config{Dir: dir})
	behind(t, b, "q", false)
	behind(t, b, "p", true)
	must.Do(t, a.Drain(t.Context(), s.send))
	must.Do(t, b.Drain(t.Context(), s.send))
	behind(t, b, "p", false)
}

// A torn tail ends what a predecessor left; an event of a later version is not waited for, and what is before it is published.
func TestBehindWhatCannotBeRead(t *testing.T) {
	for name, spoil := range map[string]func(b []byte) []byte{
		"torn":  func(b []byte) []byte { return b[:len(b)-3] },
		"later": func(b []byte) []byte { return appendFrame(b, []byte{0x91, 0x63}) },
	} {
		t.Run(name, func(t *testing.T) {
			dir, s := t.TempDir(), &sink{}
			old := left(t, dir, "p", 3)
			names, _ := segments(old.dir())
			path := filepath.Join(old.dir(), names[0])
			b, err := os.ReadFile(path)
			if err == nil {
				err = os.WriteFile(path, spoil(b), 0o600)
			}
			must.Do(t, err)
			_ = old.lock.Close()
			q := open(t, Config{Dir: dir})
			behind(t, q, "p", true)
			must.Do(t, q.Append([]*events.Event{event("p", 4, 10)}))
			s.fail = record.ErrBusy
			must.Is(t, q.Drain(t.Context(), s.send), record.ErrBusy, "Drain without a server")
			behind(t, q, "p", true)
			s.fail = nil
			must.Do(t, q.Drain(t.Context(), s.send))
			want := ids("p", 1, 4)
			if name == "torn" {
				want = slices.Concat(ids("p", 1, 2), ids("p", 4, 4))
			}
			must.SameAll(t, s.got, want, "drained %v, want %v")
			behind(t, q, "p", false)
		})
	}
}
