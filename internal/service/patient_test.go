package service_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"spool/internal/gc"
	"spool/internal/memjs"
	"spool/internal/must"
	"spool/internal/natsio"
	"spool/internal/retention"
	"spool/internal/service"
)

// Cycles wait for a server that pauses, also over a connection that others use, which wait no longer than ever: those of spool up go by
// that of its requests.
func TestCyclesWaitForAPause(t *testing.T) {
	const pause = time.Minute
	for name, run := range map[string]func(ctx context.Context, c *natsio.Conn) error{
		"gc": func(ctx context.Context, c *natsio.Conn) error {
			_, _, err := service.Collect(ctx, c, must.Get(service.NewCollector(c, gc.Config{}, slog.New(slog.DiscardHandler)))(t), true)
			return err
		},
		"retention": func(ctx context.Context, c *natsio.Conn) error {
			keep := []retention.Policy{{Name: "all", KeepLast: 1}}
			_, err := service.Retention{Conn: c, Policies: keep, Log: slog.New(slog.DiscardHandler)}.Report(ctx)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			memjs.Bubble(t, func(t *testing.T) {
				s := memjs.New(memjs.Config{})
				defer s.Close()
				c := must.Get(natsio.Dial(t.Context(), natsio.Config{InProcess: s.Process("reader")}))(t)
				defer c.Close()
				must.Do(t, c.Ensure(t.Context(), natsio.Limits{}))
				must.Get(natsio.CountRecords(t.Context(), c.Records()))(t) // a server that never answered is no server that pauses
				began := time.Now()
				s.Freeze("reader")
				time.AfterFunc(pause, func() { s.Thaw("reader") })
				if _, err := c.Records().List(t.Context(), "label.>"); err == nil || time.Since(began) > pause/2 {
					t.Errorf("a request beside it: %v after %v, want that the server does not answer", err, time.Since(began))
				}
				if err := run(t.Context(), c); err != nil || time.Since(began) < pause {
					t.Errorf("%v after %v, want no error after %v", err, time.Since(began), pause)
				}
			})
		})
	}
}
