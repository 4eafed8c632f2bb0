package retry_test

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"spool/internal/must"
	"spool/internal/record"
	"spool/internal/retry"
)

// What is waited for is logged once that takes long, and then every ten seconds: what passes by itself is not.
func TestTell(t *testing.T) {
	for takes, lines := range map[time.Duration]int{time.Second: 0, 5 * time.Second: 1, 30 * time.Second: 3} {
		synctest.Test(t, func(t *testing.T) {
			var said strings.Builder
			began := time.Now()
			err := retry.Do(t.Context(), retry.Tell(slog.New(slog.NewTextHandler(&said, nil)), "the streams"), func() error {
				if time.Since(began) < takes {
					return record.ErrUnknown
				}
				return errors.New("the end")
			})
			must.Same(t, err.Error(), "the end", "Do() = %v, want %v")
			must.Same(t, strings.Count(said.String(), `what="the streams"`), lines, "%d lines, want %d")
		})
	}
}
