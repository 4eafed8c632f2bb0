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
		var waits int
		var waited time.Duration
		_, r, err := service.CollectInTurn(ctx, conn, mine, func(d time.Duration) { waits, waited = waits+1, waited+d })
		if err != nil || !r.Applied || waits != others || waited >= time.Duration(1<<others-1)*time.Second {
			t.Errorf("CollectInTurn beside %d short cycles = applied %v, %v after %d waits, %v in all, want it applied", others, r.Applied, err, waits, waited)
		}
	}
}
