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

// TestCollectInTurn: a cycle beside which another one begins is begun anew, and is the newest then.
func TestCollectInTurn(t *testing.T) {
	conn, ctx := natstest.Dial(t, natstest.Server(t)), t.Context()
	must.Do(t, conn.Ensure(ctx, natsio.Limits{}))
	collector := func() *gc.Collector {
		return must.Get(service.NewCollector(conn, gc.Safe(), slog.New(slog.DiscardHandler)))(t)
	}
	daemon, mine := collector(), collector()
	begun := 0
	mine.At = func(s gc.Step) error {
		if s != gc.StepMark || begun > 0 {
			return nil
		}
		begun++
		_, err := daemon.Plan(ctx)
		return err
	}
	if _, r, err := service.Collect(ctx, conn, mine, true); !errors.Is(err, gc.ErrStale) || r.Applied {
		t.Fatalf("Collect beside another cycle = applied %v, %v, want %v", r.Applied, err, gc.ErrStale)
	}
	begun = 0
	var waited []time.Duration
	_, r, err := service.CollectInTurn(ctx, conn, mine, func(d time.Duration) { waited = append(waited, d) })
	if err != nil || !r.Applied || len(waited) != 1 || waited[0] != time.Second {
		t.Errorf("CollectInTurn beside one cycle = applied %v, %v after waits %v, want it applied after one wait of 1s", r.Applied, err, waited)
	}
}
