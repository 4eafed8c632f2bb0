package history

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"spool/internal/natsio"
	"spool/internal/sleep"
)

// Between a failure and the next try.
const (
	firstWait = time.Second
	mostWait  = time.Minute
)

// ItemsFile is the file beside a history that has the index of all items: a database of its own, so that what people asked for is
// known at once, however much was printed.
func ItemsFile(path string) string { return strings.TrimSuffix(path, ".db") + ".items.db" }

// Keep keeps the history at a path, and the index of all items beside it, fed until ctx ends. Nothing that goes wrong with them ends it:
// it is logged and tried again, and a damaged file is moved aside and made anew. The pipeline does not wait for it.
func Keep(ctx context.Context, path string, conn *natsio.Conn, log *slog.Logger) error {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		tend(ctx, ItemsFile(path), conn, log, func(db *DB, conn *natsio.Conn, log *slog.Logger) *Follower {
			f := NewItemsFollower(db, conn, log)
			f.rests = true
			return f
		})
	})
	tend(ctx, path, conn, log, NewFollower)
	wg.Wait()
	return nil
}

// tend is Keep of one file.
func tend(ctx context.Context, path string, conn *natsio.Conn, log *slog.Logger, follower func(*DB, *natsio.Conn, *slog.Logger) *Follower) {
	for wait := firstWait; ; wait = min(2*wait, mostWait) {
		begun := time.Now()
		err := keep(ctx, path, conn, log, follower)
		if ctx.Err() != nil {
			return
		}
		if time.Since(begun) > mostWait {
			wait = firstWait
		}
		log.Warn("prompt history stopped, trying again", "wait", wait, "error", err)
		if !sleep.For(ctx, wait) {
			return
		}
	}
}

// keep follows until something fails.
func keep(ctx context.Context, path string, conn *natsio.Conn, log *slog.Logger,
	follower func(*DB, *natsio.Conn, *slog.Logger) *Follower) error {
	return WithSound(path, log, func(db *DB) error {
		if err := db.Check(ctx); err != nil {
			return err
		}
		return follower(db, conn, log).Follow(ctx)
	})
}

// WithSound opens a history for the time of a call. When it turns out to be damaged it is moved aside, with a warning in the
// log, and the call is made once more, with an empty one.
func WithSound(path string, log *slog.Logger, do func(*DB) error) error {
	err := With(path, do)
	if !errors.Is(err, ErrCorrupt) {
		return err
	}
	aside, moveErr := moveAside(path, time.Now())
	if moveErr != nil {
		return errors.Join(err, moveErr)
	}
	log.Warn("prompt history was damaged and is made anew", "moved_to", aside, "error", err)
	return With(path, do)
}

// With opens a history for the time of a call.
func With(path string, do func(*DB) error) error {
	db, err := Open(path)
	if err != nil {
		return err
	}
	return errors.Join(do(db), db.Close())
}
