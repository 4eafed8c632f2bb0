package daemon

import (
	"golang.org/x/sync/errgroup"

	"spool/internal/natsio"
	"spool/internal/service"
)

// apply is persister: it applies events to threads.
func apply(fs *service.Flags, c Call) error {
	var (
		large  service.Artifacts
		secret service.Secrets
		limits natsio.Limits
		most   service.Limits
		users  service.Users
		cfg    service.PersisterConfig
		look   = fs.String("metrics", "", "`address` to answer GET /metrics and /healthz on; empty: none")
	)
	fs.Take(&large)
	fs.Take(&secret)
	fs.Take(&most)
	fs.Take(&users)
	fs.IntVar(&cfg.Lane, "lane", -1, "fence of this process's commits, 0 to 63; -1 = any")
	fs.IntVar(&cfg.BatchEvents, "batch-events", 0, "events in a commit at most (default 1000)")
	fs.IntVar(&cfg.BatchBytes, "batch-bytes", 0, "bytes in a commit at most (default 4 MiB)")
	fs.Int64Var(&cfg.QueueBytes, "queue-bytes", 0, "bytes taken from the stream and not acked yet (default 64 MiB)")
	fs.Int64Var(&cfg.MaxEntry, "max-entry", 0,
		"bytes of an entry after its long strings are cut and its images moved out; a larger one is a dead letter (default 64 MiB)")
	fs.IntVar(&cfg.HeadBytes, "head-bytes", 0, "bytes of heads kept in memory, of threads with their sessions (default 128 MiB)")
	fs.IntVar(&cfg.OutputBytes, "output-bytes", 0, "bytes of open tool outputs kept in memory (default 32 MiB)")
	fs.DurationVar(&cfg.OutputLease, "output-lease", 0, "a tool output that is silent for so long is closed as aborted (default 10m)")
	fs.IntVar(&limits.Replicas, "replicas", 1, "copies of each stream, when this process creates them")
	log, err := fs.Parse(c.Args)
	if err != nil {
		return err
	}
	if cfg.Artifacts, err = large.Thresholds(); err != nil {
		return err
	}
	if cfg.Cuts, err = large.Cuts(); err != nil {
		return err
	}
	cfg.Limits = users.With(most.Limits())
	if cfg.Secrets, err = secret.Open(); err != nil {
		return err
	}
	ctx, cancel := service.Signals()
	defer cancel()
	conn, err := fs.NATS.Dial(ctx, "spool persister", log)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.Ensure(ctx, limits); err != nil {
		return err
	}
	url, version := conn.Server()
	log.Info("persister runs", "version", service.Build(), "nats", url, "server", version)
	cfg.Metrics = service.Metrics("persister")
	p := service.NewPersister(conn, cfg, log)
	defer service.Observed(conn, cfg.Metrics, "persister", "applies events to threads", func() any { return p.Stats() }, log)()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return p.Run(ctx) })
	if *look != "" {
		g.Go(func() error { return service.Taken("--metrics", cfg.Metrics.Serve(ctx, *look)) })
	}
	g.Go(func() error { return service.Trim(ctx, conn, log) })
	err = g.Wait()
	log.Info("persister stopped")
	return err
}
