// Package sleep lets time pass, unless a context ends before.
package sleep

import (
	"context"
	"iter"
	"time"
)

// For returns after d, or when ctx ends: it reports whether the time passed.
func For(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// Every yields each time that d has passed, until ctx ends. While one is busy with a time, those that pass are left out.
func Every(ctx context.Context, d time.Duration) iter.Seq[time.Time] {
	return func(yield func(time.Time) bool) {
		t := time.NewTicker(d)
		defer t.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case now := <-t.C:
				if !yield(now) {
					return
				}
			}
		}
	}
}
