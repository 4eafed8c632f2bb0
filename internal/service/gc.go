package service

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"strings"

	"spool/internal/gc"
	"spool/internal/natsio"
	"spool/internal/record"
	"spool/pkg/events"
)

// GCFlags registers what a collector decides by.
func GCFlags(fs *flag.FlagSet, cfg *gc.Config) {
	fs.DurationVar(&cfg.Quarantine, "quarantine", 0, "how long what is condemned can be had back with spool gc undelete")
	fs.DurationVar(&cfg.InboxAge, "inbox-age", cfg.InboxAge, "least age of a body in the inbox that no event claims")
	fs.Float64Var(&cfg.Share, "share", 0.3, "most that one cycle may condemn of all packs and blobs")
	fs.Func("allow", fmt.Sprintf("go on in spite of a `brake`, several separated by commas: %v", gc.Brakes), func(s string) error {
		for name := range strings.SplitSeq(s, ",") {
			cfg.Allow = append(cfg.Allow, gc.Brake(name))
		}
		return nil
	})
}

// NewCollector wires a collector to a connection.
func NewCollector(conn *natsio.Conn, cfg gc.Config, log *slog.Logger) (*gc.Collector, error) {
	c, err := gc.New(gc.Deps{
		Records: conn, Bulk: conn, Packs: conn.Store(cfg.Lane), Queue: conn, Memory: conn, Log: log,
	}, cfg)
	if err != nil {
		return nil, UsageError{err}
	}
	return c, nil
}

// Collect runs one cycle, or with apply false the plan of one, and stores its report for whoever watches. The report is good
// beside an error too: it says why nothing, or not all, was done.
func Collect(ctx context.Context, conn *natsio.Conn, c *gc.Collector, apply bool) (*gc.Plan, gc.Report, error) {
	var r gc.Report
	p, err := c.Plan(ctx)
	if err == nil {
		r = p.Report()
		if apply {
			r.Done, err = c.Apply(ctx, p)
			r.Applied = true
		}
	}
	if err != nil {
		r.Refused = err.Error()
	}
	return p, r, StoreReport(ctx, conn, &r, err)
}

// StoreReport adds what the streams hold and stores a report: in the stream of reports, and as a record. It returns the cycle's
// error, or its own.
func StoreReport(ctx context.Context, conn *natsio.Conn, r *gc.Report, cycle error) error {
	var err error
	r.Streams, err = conn.Usage(ctx)
	b, e := json.Marshal(r)
	if err == nil && e == nil {
		if err = conn.Report(ctx, b); err == nil {
			_, err = conn.Write(ctx, record.Put{Key: events.GCReportKey, Value: b, Expect: record.Any})
		}
	}
	if cycle != nil {
		return cycle
	}
	return err
}
