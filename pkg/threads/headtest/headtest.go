// Package headtest is the conformance suite of threads.Heads. Every implementation runs it, the one in memory included.
package headtest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"spool/pkg/casstore"
	"spool/pkg/threads"
)

// Run runs the suite. open returns an empty store, which it closes with t.Cleanup if need be.
func Run(t *testing.T, open func(t *testing.T) threads.Heads) {
	for name, test := range map[string]func(*testing.T, threads.Heads){
		"missing":             missing,
		"round trip":          roundTrip,
		"compare and swap":    compareAndSwap,
		"create once":         createOnce,
		"list":                list,
		"no update is lost":   noUpdateIsLost,
		"cancelled context":   cancelledContext,
		"heads do not alias":  headsDoNotAlias,
		"threads are apart":   threadsAreApart,
		"revision of another": revisionOfAnother,
	} {
		t.Run(name, func(t *testing.T) { test(t, open(t)) })
	}
}

var main = threads.ID{Session: "session-1", Thread: "main"}

// head is a head with something in many fields.
func head(n int64) threads.Head {
	return threads.Head{
		Start:     casstore.Located{Ref: casstore.NodeRef([32]byte{1}), Pack: casstore.PackID{1}},
		Recent:    []casstore.Located{{Ref: casstore.NodeRef([32]byte{2, byte(n)}), Pack: casstore.PackID{2}}},
		Tips:      []casstore.Located{{Ref: casstore.NodeRef([32]byte{3}), Pack: casstore.PackID{3}}},
		Producers: []threads.Producer{{ID: "p", Epoch: 1, Seq: uint64(n), At: 9}},
		N:         n, Status: threads.StatusActive, Memory: []byte("memory"), Batch: [16]byte{4},
	}
}

func mustSwap(t *testing.T, s threads.Heads, id threads.ID, h threads.Head, was threads.Revision) threads.Revision {
	t.Helper()
	now, err := s.CompareAndSwap(t.Context(), id, h, was)
	if err != nil || now <= was {
		t.Fatalf("CompareAndSwap(%s, %d) = %d, %v, want a higher revision", id, was, now, err)
	}
	return now
}

func missing(t *testing.T, s threads.Heads) {
	if _, rev, err := s.Get(t.Context(), main); rev != 0 || !errors.Is(err, threads.ErrNoThread) {
		t.Errorf("Get(missing) = revision %d, %v, want 0, ErrNoThread", rev, err)
	}
	if _, err := s.CompareAndSwap(t.Context(), main, head(1), 7); !errors.Is(err, threads.ErrHeadMoved) {
		t.Errorf("CompareAndSwap(missing, 7) = %v, want ErrHeadMoved", err)
	}
}

func roundTrip(t *testing.T, s threads.Heads) {
	want := head(5)
	rev := mustSwap(t, s, main, want, 0)
	got, at, err := s.Get(t.Context(), main)
	if err != nil || at != rev {
		t.Fatalf("Get = revision %d, %v, want %d, nil", at, err, rev)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Get differs from what was stored (-want +got):\n%s", diff)
	}
}

func compareAndSwap(t *testing.T, s threads.Heads) {
	first := mustSwap(t, s, main, head(1), 0)
	second := mustSwap(t, s, main, head(2), first)
	if _, err := s.CompareAndSwap(t.Context(), main, head(3), first); !errors.Is(err, threads.ErrHeadMoved) {
		t.Errorf("CompareAndSwap(old revision) = %v, want ErrHeadMoved", err)
	}
	got, at, err := s.Get(t.Context(), main)
	if err != nil || at != second || got.N != 2 {
		t.Errorf("Get = n %d, revision %d, %v, want 2, %d, nil", got.N, at, err, second)
	}
}

func createOnce(t *testing.T, s threads.Heads) {
	mustSwap(t, s, main, head(1), 0)
	if _, err := s.CompareAndSwap(t.Context(), main, head(2), 0); !errors.Is(err, threads.ErrHeadMoved) {
		t.Errorf("CompareAndSwap(existing, 0) = %v, want ErrHeadMoved", err)
	}
}

func list(t *testing.T, s threads.Heads) {
	for i, session := range []string{"b", "a", "ab"} {
		for _, thread := range []string{"z", "main"} {
			mustSwap(t, s, threads.ID{Session: session, Thread: thread}, head(int64(i)), 0)
		}
	}
	for session, want := range map[string]string{
		"":  "[a/main a/z ab/main ab/z b/main b/z]",
		"a": "[a/main a/z]", "c": "[]",
	} {
		got := []string{}
		for l, err := range s.List(t.Context(), session) {
			if err != nil {
				t.Fatalf("List(%q) = %v, want nil", session, err)
			}
			if l.Revision == 0 || len(l.Head.Recent) != 1 {
				t.Errorf("List(%q) gives %s with revision %d and %d recent states", session, l.ID, l.Revision, len(l.Head.Recent))
			}
			got = append(got, l.ID.String())
		}
		if fmt.Sprint(got) != want {
			t.Errorf("List(%q) = %v, want %s", session, got, want)
		}
	}
}

// noUpdateIsLost holds what the index of the original program loses: of 40 concurrent updates all are kept.
func noUpdateIsLost(t *testing.T, s threads.Heads) {
	mustSwap(t, s, main, head(0), 0)
	var wg sync.WaitGroup
	for range 40 {
		wg.Go(func() {
			for {
				h, rev, err := s.Get(t.Context(), main)
				if err != nil {
					t.Errorf("Get = %v, want nil", err)
					return
				}
				h.N++
				if _, err = s.CompareAndSwap(t.Context(), main, h, rev); err == nil {
					return
				}
				if !errors.Is(err, threads.ErrHeadMoved) {
					t.Errorf("CompareAndSwap = %v, want nil or ErrHeadMoved", err)
					return
				}
			}
		})
	}
	wg.Wait()
	if h, _, err := s.Get(t.Context(), main); err != nil || h.N != 40 {
		t.Errorf("after 40 updates Get = n %d, %v, want 40, nil", h.N, err)
	}
}

func cancelledContext(t *testing.T, s threads.Heads) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.CompareAndSwap(ctx, main, head(1), 0); !errors.Is(err, context.Canceled) {
		t.Errorf("CompareAndSwap(cancelled) = %v, want context.Canceled", err)
	}
}

func headsDoNotAlias(t *testing.T, s threads.Heads) {
	h := head(1)
	mustSwap(t, s, main, h, 0)
	clear(h.Memory)
	for range 2 {
		got, _, err := s.Get(t.Context(), main)
		if err != nil || string(got.Memory) != "memory" {
			t.Fatalf("Get = memory %q, %v, want what was stored", got.Memory, err)
		}
		clear(got.Memory)
	}
}

func threadsAreApart(t *testing.T, s threads.Heads) {
	other := threads.ID{Session: main.Session, Thread: "other"}
	mustSwap(t, s, main, head(1), 0)
	mustSwap(t, s, other, head(2), 0)
	if h, _, err := s.Get(t.Context(), main); err != nil || h.N != 1 {
		t.Errorf("Get(%s) = n %d, %v, want 1, nil", main, h.N, err)
	}
}

func revisionOfAnother(t *testing.T, s threads.Heads) {
	rev := mustSwap(t, s, main, head(1), 0)
	other := threads.ID{Session: main.Session, Thread: "other"}
	if _, err := s.CompareAndSwap(t.Context(), other, head(2), rev); !errors.Is(err, threads.ErrHeadMoved) {
		t.Errorf("CompareAndSwap(missing thread, revision of another) = %v, want ErrHeadMoved", err)
	}
}
