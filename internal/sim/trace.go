package sim

import (
	"crypto/sha256"
	"fmt"
	"hash"
	"strings"
	"sync"
	"time"
)

// Trace is what happened in a run, line by line, with the virtual time, if it is kept. Its digest tells two runs apart.
type Trace struct {
	mu    sync.Mutex
	keep  bool
	lines []string
	sum   hash.Hash
	began time.Time
}

func newTrace(keep bool) *Trace { return &Trace{keep: keep, sum: sha256.New(), began: time.Now()} }

func (t *Trace) add(format string, args ...any) {
	if !t.keep {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	line := fmt.Sprintf("%9.3fs %s", time.Since(t.began).Seconds(), fmt.Sprintf(format, args...))
	t.sum.Write([]byte(line))
	t.lines = append(t.lines, line)
}

// Digest is the same for runs in which the same happened.
func (t *Trace) Digest() string { return fmt.Sprintf("%x", t.sum.Sum(nil)) }

func (t *Trace) String() string { return strings.Join(t.lines, "\n") }
