package sleep

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"spool/internal/must"
)

func TestFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		must.Same(t, For(t.Context(), time.Minute), true, "For = %v, want %v")
		must.Same(t, time.Since(began), time.Minute, "For took %v, want %v")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		must.Same(t, For(ctx, time.Minute), false, "For, whose context ends before, = %v, want %v")
		must.Same(t, time.Since(began), time.Minute+time.Second, "it took %v, want %v")
	})
}

func TestEvery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 3500*time.Millisecond)
		defer cancel()
		n := 0
		for range Every(ctx, time.Second) {
			n++
		}
		must.Same(t, n, 3, "Every ticked %d times, want %d")
		for range Every(t.Context(), time.Second) {
			break
		}
	})
}
