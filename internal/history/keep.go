package history

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"spool/internal/natsio"
)

// Between a failure and the next try.
const (
	firstWait = time.Second
	mostWait  = time.Minute
)

// Keep keeps the history at a path fed until ctx ends. Nothing that goes wrong with it ends it: it is logged and tried
// again, and a damaged file is moved aside and made anew. The pipeline does not wait for it.
func Keep(ctx context.Context, path string, conn *natsio.Conn, log *slog.Logger) error {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	for wait := firstWait; ; wait = min(2*wait, mostWait) {
		begun := time.Now()
		err := keep(ctx, path, conn, log)
		if ctx.Err() != nil {
			return nil
		}
		if time.Since(begun) > mostWait {
			wait = firstWait
		}
		log.Warn("prompt history stopped, trying again", "wait", wait, "error", err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}

// keep follows until something fails.
func keep(ctx context.Context, path string, conn *natsio.Conn, log *slog.Logger) error {
	return WithSound(path, log, func(db *DB) error {
		if err := db.Check(ctx); err != nil {
			return err
		}
		return NewFollower(db, conn, log).Follow(ctx)
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
