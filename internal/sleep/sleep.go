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

type asideKey struct{}

// WithAside has whoever waits for others in a context give back meanwhile what the work in it holds: aside calls what it is handed, and
// takes that again behind it.
func WithAside(ctx context.Context, aside func(wait func() error) error) context.Context {
	return context.WithValue(ctx, asideKey{}, aside)
}

// Aside waits for others: what the work in a context holds is given back meanwhile.
func Aside(ctx context.Context, wait func() error) error {
	if aside, ok := ctx.Value(asideKey{}).(func(func() error) error); ok {
		return aside(wait)
	}
	return wait()
}
