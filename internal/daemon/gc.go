package daemon

import (
	"encoding/json"
	"errors"

	"golang.org/x/sync/errgroup"

	"spool/internal/gc"
	"spool/internal/retention"
	"spool/internal/service"
	"spool/internal/text"
)

// collect is gc: it collects what no thread reaches.
func collect(fs *service.Flags, c Call) error {
	var (
		by     service.Collecting
		g      = service.GC{AtOnce: true, When: "@every 1h0m0s"}
		once   = fs.Bool("once", false, "run one cycle and end, whoever else is at it")
		asJSON = fs.Bool("json", false, "write each report as one line of JSON")
		scrub  = fs.Duration("scrub-every", 0, "read all that is stored against its digests so often; 0: never")
		rate   = fs.Int64("scrub-rate", 20<<20, "`bytes` that a scrub reads in a second at most; 0: as fast as it goes")
		look   = fs.String("metrics", "", "`address` to answer GET /metrics and /healthz on; empty: none")
	)
	fs.Take(&by)
	fs.Float64Var(&g.RetainShare, "retention-share", retention.DefaultShare,
		"most that retention may remove at a time of all sessions; ten may always go")
	fs.Var(&g.When, "every", "`time` between cycles, of whichever gc runs them; a time of day in UTC (03:30), or a cron (30 3 * * 0): "+
		"the newest one that runs decides")
	fs.BoolVar(&g.DryRun, "dry-run", false, "say what a cycle would do, and delete nothing")
	log, err := fs.Parse(c.Args)
	if err != nil {
		return err
	}
	if g.When == "" {
		return service.UsageError{Err: errors.New("-every 0: at least 1s")}
	}
	g.Config = by.Config()
	if g.Retain, err = fs.Policies(); err != nil {
		return err
	}
	ctx, cancel := service.Signals()
	defer cancel()
	go service.StayLean(ctx)
	conn, err := fs.NATS.Dial(ctx, "spool gc", log)
	if err != nil {
		return err
	}
	defer conn.Close()
	write := func(r gc.Report) error {
		if *asJSON {
			return json.NewEncoder(c.Out).Encode(r)
		}
		return r.Write(text.NewTable(c.Out))
	}
	if *once {
		col, err := service.NewCollector(conn, g.Config, log)
		if err != nil {
			return err
		}
		kept := g.Retention(conn, log).Run(ctx, g.DryRun)
		_, r, err := service.Collect(ctx, conn, col, !g.DryRun)
		return errors.Join(kept, err, write(r))
	}
	if *asJSON || service.IsTerminal(c.Out) {
		g.Report = func(r gc.Report, _ error) {
			if err := write(r); err != nil {
				log.Error("write the report", "error", err)
			}
		}
	}
	log.Info("gc runs", "version", service.Build(), "every", g.When)
	reg := service.Metrics("gc")
	defer service.Observed(conn, reg, "gc", "collects what no thread reaches", nil, log)()
	tasks, ctx := errgroup.WithContext(ctx)
	tasks.Go(func() error { return g.Run(ctx, conn, log) })
	if *scrub > 0 {
		tasks.Go(func() error { service.ScrubEvery(ctx, conn, *scrub, *rate, log); return nil })
	}
	if *look != "" {
		tasks.Go(func() error { return service.Taken("--metrics", reg.Serve(ctx, *look)) })
	}
	return tasks.Wait()
}
