package threads

import (
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
)

// ID names a thread.
type ID struct{ Session, Thread string }

// String is "<session>/<thread>".
func (id ID) String() string { return id.Session + "/" + id.Thread }

// Revision is the version of a stored head. It grows with every change; 0 stands for a head that does not exist.
type Revision uint64

// The errors of Heads, wrapped with the id.
var (
	// ErrNoThread says that there is no head under that id.
	ErrNoThread = errors.New("no such thread")
	// ErrHeadMoved says that the head is not at the revision the caller expects: read it again and decide anew.
	ErrHeadMoved = errors.New("the head moved")
)

// Heads stores the heads of threads. A change is a compare-and-set, which is the fence between writers: of two that read
// the same revision one gets ErrHeadMoved. Safe for concurrent use. headtest.Run is the conformance suite.
type Heads interface {
	// Get returns the head and its revision. Errors wrap ErrNoThread.
	Get(ctx context.Context, id ID) (Head, Revision, error)
	// List iterates over the heads of a session, or of all sessions if it is empty, ordered by id. A head that changes
	// meanwhile may come in either version. The first error ends it.
	List(ctx context.Context, session string) iter.Seq2[Listed, error]
	// CompareAndSwap stores the head if the stored one is still at revision was, 0 to create it, and returns its new
	// revision once it is durable. Errors wrap ErrHeadMoved; after any other error the head may be stored or not.
	CompareAndSwap(ctx context.Context, id ID, h Head, was Revision) (Revision, error)
}

// Listed is one head of a listing.
type Listed struct {
	ID       ID
	Head     Head
	Revision Revision
}

// MemoryHeads is Heads in memory. The zero value is empty and ready.
type MemoryHeads struct {
	mu    sync.Mutex
	heads map[ID]storedHead // guarded by mu
	last  Revision          // guarded by mu
}

type storedHead struct {
	encoded  []byte
	revision Revision
}

var _ Heads = (*MemoryHeads)(nil)

// Get implements Heads.
func (m *MemoryHeads) Get(ctx context.Context, id ID) (Head, Revision, error) {
	if err := ctx.Err(); err != nil {
		return Head{}, 0, err
	}
	m.mu.Lock()
	stored, ok := m.heads[id]
	m.mu.Unlock()
	if !ok {
		return Head{}, 0, &threadError{id, ErrNoThread}
	}
	h, err := DecodeHead(slices.Clone(stored.encoded))
	if err != nil {
		return Head{}, 0, &threadError{id, err}
	}
	return h, stored.revision, nil
}

// List implements Heads.
func (m *MemoryHeads) List(ctx context.Context, session string) iter.Seq2[Listed, error] {
	return func(yield func(Listed, error) bool) {
		m.mu.Lock()
		ids := slices.SortedFunc(maps.Keys(m.heads), func(a, b ID) int {
			return strings.Compare(a.String(), b.String())
		})
		m.mu.Unlock()
		for _, id := range ids {
			if session != "" && id.Session != session {
				continue
			}
			h, revision, err := m.Get(ctx, id)
			if !yield(Listed{id, h, revision}, err) || err != nil {
				return
			}
		}
	}
}

// CompareAndSwap implements Heads.
func (m *MemoryHeads) CompareAndSwap(ctx context.Context, id ID, h Head, was Revision) (Revision, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.heads[id].revision != was {
		return 0, &threadError{id, ErrHeadMoved}
	}
	if m.heads == nil {
		m.heads = make(map[ID]storedHead)
	}
	m.last++
	m.heads[id] = storedHead{h.Encode(), m.last}
	return m.last, nil
}

// threadError is an error about one thread.
type threadError struct {
	id  ID
	err error
}

func (e *threadError) Error() string { return "thread " + e.id.String() + ": " + e.err.Error() }
func (e *threadError) Unwrap() error { return e.err }
