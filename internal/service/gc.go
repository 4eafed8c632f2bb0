package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"spool/internal/gc"
	"spool/internal/gc/gcnats"
	"spool/internal/natsadmin"
	"spool/internal/natsio"
	"spool/internal/record"
	"spool/internal/retention"
	"spool/internal/retry"
	"spool/internal/scrub"
	"spool/internal/sleep"
	"spool/pkg/events"
)

// NewCollector wires a collector to a connection.
func NewCollector(conn *natsio.Conn, cfg gc.Config, log *slog.Logger) (*gc.Collector, error) {
	deps := gcnats.Deps(conn, cfg.Lane)
	deps.Log = log
	deps.Alarms = alarms(conn)
	c, err := gc.New(deps, cfg)
	if err != nil {
		return nil, UsageError{Err: err}
	}
	return c, nil
}

// alarms is gc.Deps.Alarms.
func alarms(conn *natsio.Conn) func(context.Context) (gc.Alarms, error) {
	return func(ctx context.Context) (out gc.Alarms, err error) {
		sys := natsadmin.Of(conn)
		all, err := scrub.Alarms(ctx, sys)
		if err != nil {
			return out, err
		}
		for _, a := range all {
			if a.Kind != scrub.AlarmGC { // it looks for itself
				out.Standing = append(out.Standing, a.Detail+": "+a.Do)
			}
		}
		marks, err := scrub.ReadMarks(ctx, sys)
		out.Generation, out.Unsure = marks.Generation, marks.Unsure()
		return out, err
	}
}

// TrustClock notes that the server's clock is right as it is (scrub.TrustClock), and has gc's schedule made anew: the server may
// wait with the next request for the time that it had in mind.
func TrustClock(ctx context.Context, conn *natsio.Conn) (now time.Time, err error) {
	if now, err = scrub.TrustClock(ctx, natsadmin.Of(conn)); err != nil {
		return now, err
	}
	return now, gcnats.Of(conn).Reschedule(ctx)
}

// Refuse is why nothing may be deleted: what stands of losses, or looks like one now. It wraps gc.ErrBrake.
func Refuse(ctx context.Context, conn *natsio.Conn) error {
	all, err := alarms(conn)(ctx)
	if err != nil {
		return fmt.Errorf("look for alarms: %w", err)
	}
	var errs []error
	for _, a := range all.Standing {
		errs = append(errs, fmt.Errorf("%w: %s; to go on nevertheless: --allow %s", gc.ErrBrake, a, gc.BrakeDamage))
	}
	return errors.Join(errs...)
}

// Collect runs one cycle and stores its report for whoever watches, or with apply false only plans one. The report is good
// beside an error too: it says why nothing, or not all, was done.
func Collect(ctx context.Context, conn *natsio.Conn, c *gc.Collector, apply bool) (*gc.Plan, gc.Report, error) {
	p, r, err := cycle(ctx, conn, c, apply)
	if !apply { // alarms are of cycles: a plan neither raises one nor ends it
		if err != nil {
			r.Fail(err)
		}
		return p, r, err
	}
	return p, r, StoreReport(ctx, conn, &r, err)
}

// Waits of CollectInTurn. It waits at most twice as long as the longest altogether.
const (
	leastWait = 50 * time.Millisecond
	firstWait = time.Second // at most
	mostWait  = 16 * time.Second
)

// CollectInTurn is Collect with apply for who shares the system with others that collect. Where another cycle begins before its own has
// ended, it says how long it waits for that one, and begins anew. An error that wraps gc.ErrStale: the others do not come to an end;
// it is no state of the system, and is not stored. The first wait is as long as its own cycle took, since the other's takes about that.
func CollectInTurn(ctx context.Context, conn *natsio.Conn, c *gc.Collector, waits func(time.Duration)) (*gc.Plan, gc.Report, error) {
	for wait := time.Duration(0); ; wait *= 2 {
		p, r, err := cycle(ctx, conn, c, true)
		if wait == 0 {
			took := time.Duration(r.Seconds * float64(time.Second)).Round(leastWait)
			wait = max(leastWait, min(took, firstWait))
		}
		switch {
		case !errors.Is(err, gc.ErrStale):
			return p, r, StoreReport(ctx, conn, &r, err)
		case wait > mostWait:
			r.Fail(err)
			return p, r, err
		}
		waits(wait)
		if !sleep.For(ctx, wait) {
			return p, r, ctx.Err()
		}
	}
}

// cycle plans, and with apply carries the plan out.
func cycle(ctx context.Context, conn *natsio.Conn, c *gc.Collector, apply bool) (*gc.Plan, gc.Report, error) {
	ctx = natsio.Patient(ctx)
	began, admin := time.Now(), natsadmin.New(conn)
	before, err := admin.Usage(ctx)
	if err != nil {
		return nil, gc.Report{Refused: err.Error()}, err
	}
	var r gc.Report
	p, err := c.Plan(ctx)
	if err == nil {
		r = c.Report(p)
		if apply {
			r.Done, err = Apply(ctx, conn, c, p)
			r.Applied = !errors.Is(err, gc.ErrNotBegun)
		}
	}
	if err == nil && apply {
		r.Trimmed, err = admin.Trim(ctx)
	}
	r.Before, r.Seconds = before, time.Since(began).Seconds()
	return p, r, err
}

// Apply carries a plan out, and notes it if a person has let go what nothing reaches.
func Apply(ctx context.Context, conn *natsio.Conn, c *gc.Collector, p *gc.Plan) (done gc.Done, err error) {
	if done, err = c.Apply(ctx, p); err == nil && c.Vouches() {
		err = scrub.Trust(ctx, natsadmin.Of(conn))
	}
	return done, err
}

// StoreReport adds the cycle's error and what the streams hold, and stores a report: in the stream of reports, and as a record. It
// returns the cycle's error, or its own.
func StoreReport(ctx context.Context, conn *natsio.Conn, r *gc.Report, cycle error) error {
	if cycle != nil {
		r.Fail(cycle)
	}
	admin := natsadmin.New(conn)
	var err error
	r.Streams, err = admin.Usage(ctx)
	b, e := json.Marshal(r)
	if err == nil && e == nil {
		if err = admin.Report(ctx, b); err == nil {
			_, err = conn.Records().Write(ctx, record.Put{Key: events.GCReportKey, Value: b, Expect: record.Any})
		}
	}
	if cycle != nil {
		return cycle
	}
	return err
}

// Schedule is when cycles are run.
type Schedule = gcnats.Schedule

// NextGC is when a cycle is due by the schedule that the server has, if the last one ended then. Without a schedule
// scheduled is false; where a schedule has no next time, that is zero.
func NextGC(ctx context.Context, conn *natsio.Conn, last time.Time) (due time.Time, scheduled bool, err error) {
	when, since, err := gcnats.Of(conn).Scheduled(ctx)
	if err != nil || when == "" {
		return due, false, err
	}
	if since.After(last) {
		last = since
	}
	return when.After(last), true, nil
}

// GC is a collector that runs every so often.
type GC struct {
	gc.Config
	When        Schedule
	DryRun      bool
	AtOnce      bool                   // the first cycle of all need not wait for its time
	Retain      []retention.Policy     // by which sessions are removed before each cycle, unless it is a dry run
	RetainShare float64                // Retention.Share
	Report      func(gc.Report, error) // is told of each cycle that ran here; nil: nobody
}

// Retention is what removes sessions before a cycle.
func (g GC) Retention(conn *natsio.Conn, log *slog.Logger) Retention {
	return Retention{Conn: conn, Policies: g.Retain, Share: g.RetainShare, By: "gc", Log: log,
		Damaged: slices.Contains(g.Allow, gc.BrakeDamage)}
}

// Run runs the cycles that are asked for, until ctx ends: by the schedule, which the server keeps, or by anybody. Of all that run on
// a system, one runs a cycle, and no two at a time. A cycle that fails is tried again at its next time: it left nothing that the
// next one does not finish.
func (g GC) Run(ctx context.Context, conn *natsio.Conn, log *slog.Logger) error {
	c, err := NewCollector(conn, g.Config, log)
	if err != nil {
		return err
	}
	run := func(ctx context.Context) {
		if err := g.Retention(conn, log).Run(ctx, g.DryRun); err != nil && ctx.Err() == nil {
			log.Error("retention", "error", err)
		}
		_, r, err := Collect(ctx, conn, c, !g.DryRun)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			log.Error("gc cycle", "error", err)
		default:
			log.Info("gc cycle", "seconds", r.Seconds, "condemned", r.Done.Condemned, "reclaimed_bytes", r.Done.Bytes)
		}
		if g.Report != nil {
			g.Report(r, err)
		}
	}
	requests := gcnats.Of(conn)
	again := func(op func(context.Context) error) func() error {
		return func() error {
			err := retry.Do(ctx, func(err error, wait time.Duration) {
				log.Warn("wait for gc requests", "error", err, "again_in", wait)
			}, func() error { return op(ctx) })
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
	}
	tasks, ctx := errgroup.WithContext(ctx)
	tasks.Go(again(func(ctx context.Context) error {
		return requests.Keep(ctx, g.When, func(made bool) error {
			if made && g.AtOnce {
				return requests.Ask(ctx)
			}
			return nil
		})
	}))
	tasks.Go(again(func(ctx context.Context) error { return requests.Runs(ctx, run) }))
	return tasks.Wait()
}
