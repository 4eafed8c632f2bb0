// Package retry repeats what failed for a passing reason, with exponential backoff and jitter.
package retry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"

	"spool/internal/record"
)

// From 10 ms to 2 s between tries.
const (
	first = 10 * time.Millisecond
	most  = 2 * time.Second
)

// Do runs op until it succeeds, fails for good (see record.Again), or ctx ends: then its error has why the last try failed, too. op
// must be safe to repeat when its outcome is unknown. notify, if not nil, is told of every try that failed.
func Do(ctx context.Context, notify func(err error, wait time.Duration), op func() error) error {
	var last error
	b := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(first), backoff.WithMaxInterval(most), backoff.WithMaxElapsedTime(0))
	err := backoff.RetryNotify(func() error {
		err := op()
		if err != nil && !record.Again(err) {
			return backoff.Permanent(err)
		}
		if err != nil && (last == nil || ctx.Err() == nil) { // a try that is cut short says less
			last = err
		}
		return err
	}, backoff.WithContext(b, ctx), notify)
	if last != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return fmt.Errorf("%w: %w", err, last)
	}
	return err
}

// When Tell says that something takes long, and how often.
const (
	toldAfter = 3 * time.Second
	toldEvery = 10 * time.Second
)

// Tell is a notify that logs what is waited for, and why, once that takes long. Several at once may wait for it.
func Tell(log *slog.Logger, what string) func(err error, wait time.Duration) {
	var mu sync.Mutex
	next := time.Now().Add(toldAfter)
	return func(err error, _ time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		if now := time.Now(); !now.Before(next) {
			next = now.Add(toldEvery)
			log.Warn("waiting for an answer", "what", what, "error", err)
		}
	}
}

// Raced makes a lost race a reason to try once more.
func Raced(err error) error {
	if errors.Is(err, record.ErrConflict) {
		return fmt.Errorf("%w: %w", record.ErrBusy, err)
	}
	return err
}
