package natsio

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"spool/internal/record"
)

// A reading that breaks off goes on from where it came to, for as long as it gets further.
func TestReadingGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		busy := fmt.Errorf("%w: no answer within 31 s", record.ErrUnknown)
		var at []uint64
		err := goOn(t.Context(), 1, func(from uint64) (uint64, error) {
			at = append(at, from)
			time.Sleep(31 * time.Second)
			if from < 9 {
				return from + 2, busy
			}
			return from, errWindow
		})
		if want := []uint64{1, 3, 5, 7, 9}; !errors.Is(err, errWindow) || !slices.Equal(at, want) {
			t.Errorf("it read from %v on, and ended with %v; want %v, %v", at, err, want, errWindow)
		}

		began, tries := time.Now(), 0
		err = goOn(t.Context(), 1, func(from uint64) (uint64, error) {
			tries++
			time.Sleep(31 * time.Second)
			return from, busy
		})
		if took := time.Since(began); !errors.Is(err, record.ErrUnknown) || tries < 2 || took > 2*patience {
			t.Errorf("a reading that gets nowhere was tried %d times in %v: %v", tries, took, err)
		}

		tries = 0
		err = goOn(t.Context(), 1, func(from uint64) (uint64, error) { tries++; return from, record.ErrDenied })
		if !errors.Is(err, record.ErrDenied) || tries != 1 {
			t.Errorf("a reading that is refused was tried %d times: %v", tries, err)
		}

		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		err = goOn(ctx, 1, func(from uint64) (uint64, error) { return from, busy })
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, record.ErrUnknown) {
			t.Errorf("a reading whose caller goes: %v, want that, and why", err)
		}
	})
}
