package embedded

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// slowStart is how long a start may take before it is told which streams the server reads. It is told again whenever twice as much time
// has passed.
const slowStart = 3 * time.Second

// reading is the streams whose files a server reads while it starts, by what it logs. A record that rotted can keep it in there for ever:
// nats-server 2.15.2 fills the gap up to whatever sequence a record has, before it looks at the checksum. It implements server.Logger.
type reading struct {
	mu      sync.Mutex
	streams map[string]bool
}

// Noticef implements server.Logger.
func (r *reading) Noticef(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	begun := strings.Contains(line, "Starting restore for stream")
	if !begun && !strings.Contains(line, "Restored") {
		return
	}
	_, rest, _ := strings.Cut(line, "'") // stream 'account > name'
	name, _, _ := strings.Cut(rest, "'")
	_, stream, ok := strings.Cut(name, " > ")
	if !ok {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if begun {
		r.streams[stream] = true
	} else {
		delete(r.streams, stream)
	}
}

func (r *reading) Warnf(string, ...any)  {}
func (r *reading) Fatalf(string, ...any) {}
func (r *reading) Errorf(string, ...any) {}
func (r *reading) Debugf(string, ...any) {}
func (r *reading) Tracef(string, ...any) {}

// tell warns while a start takes long, until it is done.
func (r *reading) tell(log *slog.Logger, done <-chan struct{}) {
	for wait, waited := slowStart, time.Duration(0); ; wait *= 2 {
		select {
		case <-done:
			return
		case <-time.After(wait - waited):
			waited = wait
		}
		r.mu.Lock()
		streams := slices.Sorted(maps.Keys(r.streams))
		r.mu.Unlock()
		log.Warn("the NATS server still reads its files; if it does not end, see \"A server that does not start\" in docs/operations.md",
			"streams", streams, "since", wait)
	}
}
