package natsio

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"spool/internal/record"
)

// A reading that breaks off goes on from where it came to, for as long as it gets further.
func TestReadingGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		busy := fmt.Errorf("%w: no answer within 31 s", record.ErrUnknown)
		p := patience{time.Minute, slog.New(slog.DiscardHandler), new(atomic.Bool)}
		never := p.once(t.Context(), "it", func() error { return busy })
		if !errors.Is(never, record.ErrUnknown) || time.Since(start) > 0 {
			t.Errorf("of a server that never answered: %v after %v, want that at once", never, time.Since(start))
		}
		p.answered.Store(true)
		from, at := 1, []int{}
		err := p.read(t.Context(), "it", func() (bool, error) {
			at = append(at, from)
			time.Sleep(31 * time.Second)
			if from < 9 {
				from += 2
				return true, busy
			}
			return false, errWindow
		})
		if want := []int{1, 3, 5, 7, 9}; !errors.Is(err, errWindow) || !slices.Equal(at, want) {
			t.Errorf("it read from %v on, and ended with %v; want %v, %v", at, err, want, errWindow)
		}

		began, tries := time.Now(), 0
		err = p.once(t.Context(), "it", func() error {
			tries++
			time.Sleep(31 * time.Second)
			return busy
		})
		if took := time.Since(began); !errors.Is(err, record.ErrUnknown) || tries < 2 || took > 2*p.most {
			t.Errorf("a reading that gets nowhere was tried %d times in %v: %v", tries, took, err)
		}

		for most, why := range map[time.Duration]error{time.Minute: record.ErrDenied, 0: record.ErrBusy} {
			tries = 0
			err = patience{most, p.log, p.answered}.once(t.Context(), "it", func() error { tries++; return why })
			if !errors.Is(err, why) || tries != 1 {
				t.Errorf("a reading of %v with patience of %v was tried %d times: %v", why, most, tries, err)
			}
		}

		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		err = p.once(ctx, "it", func() error { return busy })
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, record.ErrUnknown) {
			t.Errorf("a reading whose caller goes: %v, want that, and why", err)
		}
	})
}
