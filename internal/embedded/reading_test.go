package embedded

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// safeBuffer is written by one goroutine and read by another.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// TestSlowStart: whoever waits for a server is told which streams it reads, again and again, and nothing once it is done.
func TestSlowStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said safeBuffer
		r, done := &reading{streams: map[string]bool{}}, make(chan struct{})
		r.Noticef("  Starting restore for stream '%s > %s'", "$G", "KV_spool")
		r.Noticef("  Restored %s messages for stream '%s > %s' in %v", "15", "$G", "KV_spool", time.Second)
		r.Noticef("  Starting restore for stream '%s > %s'", "$G", "SPOOL_EVENTS")
		go r.tell(slog.New(slog.NewTextHandler(&said, nil)), done)
		time.Sleep(slowStart - time.Millisecond)
		if said.String() != "" {
			t.Errorf("after less than %v it says %s", slowStart, said.String())
		}
		time.Sleep(3 * slowStart)
		close(done)
		time.Sleep(time.Hour)
		if got := said.String(); strings.Count(got, "\n") != 2 || strings.Count(got, "streams=[SPOOL_EVENTS]") != 2 {
			t.Errorf("after %v it has said\n%s, want the stream that it reads twice", 4*slowStart, got)
		}
	})
}
