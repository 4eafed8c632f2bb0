package daemon

import (
	"cmp"

	"golang.org/x/sync/errgroup"

	"spool/internal/ingest"
	"spool/internal/natsio"
	"spool/internal/service"
	"spool/pkg/client"
	"spool/pkg/events"
)

// take is ingest: it takes entries over HTTP, or from standard input.
func take(fs *service.Flags, c Call) error {
	var (
		lines service.Publishing
		door  service.WebDoor
		most  service.Limits
	)
	fs.Take(&door)
	fs.Take(&most)
	fs.Take(&lines, "with -: ")
	log, err := fs.Parse(c.Args, "-")
	if err != nil {
		return err
	}
	stdin := fs.NArg() > 0
	cfg, err := lines.Config()
	if stdin && err != nil {
		return err
	}
	ctx, cancel := service.Signals()
	defer cancel()
	fs.NATS.Scope = cmp.Or(fs.NATS.Scope, string(events.Everywhere)) // what it publishes deletes nothing
	conn, err := fs.NATS.Dial(ctx, "spool ingest", log)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := natsio.MayPublish(ctx, conn.Events()); err != nil {
		return err
	}
	if stdin {
		cfg.Inbox, cfg.Check = conn.Inbox(), service.Check(client.New(conn))
		return ingest.Pipe(ctx, c.In, conn.Events(), cfg, c.Err)
	}
	api, err := door.API(log)
	if err != nil {
		return err
	}
	api.Limits = most.Limits()
	side, reg := service.Side{API: api}, service.Metrics("ingest")
	tasks, ctx := errgroup.WithContext(ctx)
	l, err := side.Answer(ctx, tasks, conn, door.HTTP, reg)
	if err != nil {
		return err
	}
	log.Info("ingest listens", "version", service.Build(), "http", l.Addr().String())
	defer service.Observed(conn, reg, "ingest", "takes entries and gives what is stored, over HTTP", side.Refused, log)()
	return tasks.Wait()
}
