package service_test

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"spool/internal/gc"
	"spool/internal/must"
	"spool/internal/natsio"
	"spool/internal/natstest"
	"spool/internal/service"
)

// TestCollectInTurn: a cycle beside which another one begins is begun anew, and is the newest then. Beside short cycles it does not wait long.
func TestCollectInTurn(t *testing.T) {
	conn, ctx := natstest.Dial(t, natstest.Server(t)), t.Context()
	must.Do(t, conn.Ensure(ctx, natsio.Limits{}))
	collector := func() *gc.Collector {
		return must.Get(service.NewCollector(conn, gc.Safe(), slog.New(slog.DiscardHandler)))(t)
	}
	daemon, mine := collector(), collector()
	begun, others := 0, 1
	mine.At = func(s gc.Step) error {
		if s != gc.StepMark || begun == others {
			return nil
		}
		begun++
		_, err := daemon.Plan(ctx)
		return err
	}
	if _, r, err := service.Collect(ctx, conn, mine, true); !errors.Is(err, gc.ErrStale) || r.Applied {
		t.Fatalf("Collect beside another cycle = applied %v, %v, want %v", r.Applied, err, gc.ErrStale)
	}
	for _, others = range []int{1, 4} {
		begun = 0
		var waits []time.Duration
		began, cycle := time.Now(), time.Duration(0)
		_, r, err := service.CollectInTurn(ctx, conn, mine, func(d time.Duration) {
			if waits = append(waits, d); len(waits) == 1 {
				cycle = time.Since(began)
			}
		})
		if err != nil || !r.Applied || len(waits) != others {
			t.Errorf("CollectInTurn beside %d short cycles = applied %v, %v after waits of %v, want it applied", others, r.Applied, err, waits)
			continue
		}
		for i, d := range waits {
			if i == 0 && d > cycle+time.Second/2 || i > 0 && d != 2*waits[i-1] {
				t.Errorf("waits of %v after a cycle of %v, want about as long as that, then twice as long each", waits, cycle)
			}
		}
	}
}
