package embedded

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"spool/internal/sleep"
)

// A stream whose store met an error when it wrote or synced takes no write any more, and answers no publish, until its
// server is started again: nats-server does not know what is on the disk. Room alone does not wake it. So the server is
// started again, as soon as its disk takes writes. What comes then is what comes behind any start of a server: clients
// connect again and try again what got no answer, and what the disk forgot is told.

const (
	lookEvery = time.Second // how often the server is looked at
	giveUp    = time.Minute // for how long a start that fails is tried

	// Between two starts is this at least, and each time twice as much: a disk may be full again at once, and where a
	// file has gone bad a start may help nothing.
	againAfter = 10 * time.Second
	againMost  = 10 * time.Minute

	// roomBytes is what a disk must take before a server is started on it: more than a start writes.
	roomBytes = 8 << 20
)

// ErrStopped is wrapped when the server stopped storing and could not be started again.
var ErrStopped = errors.New("the embedded NATS server stopped storing")

// Keep starts the server again whenever it has stopped storing, until ctx ends. An error: it could not be, and serves
// nobody.
func (s *Server) Keep(ctx context.Context) error {
	said, wait := "", againAfter
	var next time.Time // no start before
	for range sleep.Every(ctx, lookEvery) {
		why := s.stopped()
		if why == nil {
			said = ""
			continue
		}
		if why.Error() != said {
			said = why.Error()
			s.cfg.Log.Error("the NATS server stores nothing more in some streams; "+
				"it is started again as soon as its disk takes writes", "error", why)
		}
		if time.Now().Before(next) || s.room() != nil {
			continue
		}
		if time.Since(next) > againMost {
			wait = againAfter
		}
		if err := s.again(ctx); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("%w (%w), and does not start again: %w", ErrStopped, why, err)
		}
		s.cfg.Log.Warn("the NATS server was started again: its disk takes writes")
		said, next, wait = "", time.Now().Add(wait), min(2*wait, againMost)
	}
	return nil
}

// stopped is why the server takes no writes, if it takes none somewhere.
func (s *Server) stopped() error {
	now := s.now.Load()
	if now == nil { // it was ended
		return nil
	}
	if !now.JetStreamEnabled() {
		return errors.New("JetStream has shut itself down: it met a file that it may not write, or a full disk")
	}
	var errs []error
	for _, e := range now.Healthz(&server.HealthzOptions{Details: true}).Errors {
		// Streams that come and go are in there for a moment, too.
		if e.Type == server.HealthzErrorStream && strings.Contains(e.Error, "write error") {
			errs = append(errs, errors.New(e.Error))
		}
	}
	return errors.Join(errs...)
}

// room reports why the disk takes no writes. It takes nothing of the last room.
func (s *Server) room() error {
	if n, err := s.Free(); err == nil && n < 2*roomBytes {
		return fmt.Errorf("%d bytes are free, fewer than %d", n, 2*roomBytes)
	}
	path := filepath.Join(s.cfg.Dir, "room")
	err := writeDurably(path, make([]byte, roomBytes))
	return errors.Join(err, os.Remove(path))
}

// again starts the server once more. A file that it reads may be being changed: what fails is tried again for a while.
func (s *Server) again(ctx context.Context) error {
	s.shutdown()
	for end := time.Now().Add(giveUp); ; {
		opts, err := s.options()
		if err == nil {
			err = s.start(opts)
		}
		if err == nil || ctx.Err() != nil || time.Now().After(end) {
			return err
		}
		sleep.For(ctx, lookEvery)
	}
}
