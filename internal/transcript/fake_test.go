package transcript_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"os"
	"sync"
	"testing"
	"time"

	"spool/internal/must"
	"spool/internal/rehydrate"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// disk is the operating system's files under their own names.
type disk struct{}

func (disk) Open(name string) (fs.File, error)     { return os.Open(name) }
func (disk) Stat(name string) (fs.FileInfo, error) { return os.Stat(name) }

// store plays EVENTS, a persister without delay, and the export. fail, if not nil, is asked before every batch.
type store struct {
	mu      sync.Mutex
	threads map[events.Thread]*stored
	batches [][]*events.Event
	fail    func(evs []*events.Event) error
	exports map[events.Thread]int // how often each was exported
}

type stored struct {
	head    threads.Head
	entries []*events.Event
	order   []*events.Event
}

func newStore() *store {
	return &store{threads: map[events.Thread]*stored{}, exports: map[events.Thread]int{}}
}

func (s *store) PublishEvents(_ context.Context, evs []*events.Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		if err := s.fail(evs); err != nil {
			return err
		}
	}
	s.batches = append(s.batches, evs)
	for _, e := range evs {
		if err := e.Validate(); err != nil {
			return err
		}
		t := s.threads[e.Thread]
		if t == nil {
			t = &stored{head: threads.Head{Leaf: e.Thread.String()}} // tells the reading methods whose head it is
			s.threads[e.Thread] = t
		}
		if t.head.Duplicate(e.Producer, e.Epoch, e.Seq) {
			continue
		}
		t.head.Saw(e.Producer, e.Epoch, e.Seq, uint64(len(t.order)+1))
		t.head.Updated = time.Now().UnixMilli()
		if c := e.Captured; c != nil {
			t.head.Captured = threads.Captured{By: c.By, Host: e.Host, Home: c.Home, Size: c.Size, Modified: c.Modified, Sum: c.Sum}
		}
		t.order = append(t.order, e)
		if e.Kind == events.KindEntry {
			t.entries = append(t.entries, e)
		}
	}
	return nil
}

func (s *store) Thread(_ context.Context, t events.Thread) (threads.Head, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if st := s.threads[t]; st != nil {
		return st.head.Clone(), nil
	}
	return threads.Head{}, fmt.Errorf("%w: %s", threads.ErrNoThread, t)
}

func (s *store) RawEntries(_ context.Context, head threads.Head) iter.Seq2[rehydrate.Line, error] {
	id, _ := events.ParseThread(head.Leaf)
	return func(yield func(rehydrate.Line, error) bool) {
		s.mu.Lock()
		entries := s.threads[id].entries
		s.mu.Unlock()
		for _, e := range entries {
			line := rehydrate.LineOf(e.Body)
			line.Dialect = e.Dialect
			if !yield(line, nil) {
				return
			}
		}
	}
}

func (s *store) Await(context.Context, events.Thread, string, uint64, uint64) error { return nil }

func (s *store) Unapplied(context.Context, events.Thread, threads.Head, string, uint64) ([]events.Linked, error) {
	return nil, nil
}

func (s *store) Settled(context.Context, events.Thread) error { return nil }

func (s *store) Retire(_ context.Context, t events.Thread, _ threads.Head) (events.Thread, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sum := sha256.New()
	for _, e := range s.threads[t].order {
		sum.Write(e.Body)
	}
	was := events.FormerThread(t, hex.EncodeToString(sum.Sum(nil)))
	s.threads[was] = s.threads[t]
	head := threads.Head{Leaf: was.String(), Updated: time.Now().UnixMilli(), Captured: s.threads[t].head.Captured}
	s.threads[was].head = head // a fork has producers of its own
	delete(s.threads, t)
	return was, nil
}

func (s *store) Former(_ context.Context, t events.Thread) (out []events.Thread, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for x := range s.threads {
		if events.HasFormer(t, x) {
			out = append(out, x)
		}
	}
	return out, nil
}

func (s *store) Beside(_ context.Context, t events.Thread) (iter.Seq2[events.Thread, threads.Head], error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[events.Thread]threads.Head{}
	for x, st := range s.threads {
		if x != t && x.Session == t.Session {
			head := st.head.Clone()
			head.Entries = int64(len(st.entries))
			out[x] = head
		}
	}
	return maps.All(out), nil
}

func (s *store) ExportAs(_ context.Context, t events.Thread, _ rehydrate.Form, w io.Writer, _ func(rehydrate.Missing)) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.exports[t]++
	text, err := s.text(t)
	if err == nil {
		_, err = w.Write(text)
	}
	return 0, err
}

// export joins a thread's entries as rehydrate.Source.Export does.
func (s *store) export(t testing.TB, id events.Thread) []byte {
	t.Helper()
	return must.Get(s.text(id))(t)
}

func (s *store) text(id events.Thread) ([]byte, error) {
	st := s.threads[id]
	if st == nil {
		return nil, fmt.Errorf("%w: %s", threads.ErrNoThread, id)
	}
	var out bytes.Buffer
	var tail events.Tail
	glued := true
	for _, e := range st.order {
		if e.Kind == events.KindControl {
			c, err := events.ParseControl(e.Body)
			if err != nil {
				return nil, err
			}
			if c.Op == events.OpTail {
				tail = *c.Tail
			}
			continue
		}
		if !glued && e.Dialect != "part" {
			out.WriteByte('\n')
		}
		out.Write(e.Body)
		glued = e.Dialect == "part"
		tail = events.Tail{}
	}
	if !glued && !tail.Open {
		out.WriteByte('\n')
	}
	out.Write(tail.Bytes)
	return out.Bytes(), nil
}

// events is how many the store has applied.
func (s *store) events() (n int) {
	for _, t := range s.threads {
		n += len(t.order)
	}
	return n
}

func (s *store) OwnHeader(context.Context, threads.Head, string) ([]byte, error) { return nil, nil }

// SessionLines is as if no thread could be exported.
func (s *store) SessionLines(context.Context, threads.Head) ([]rehydrate.Line, bool, error) {
	return nil, false, nil
}
