// Command ingest takes entries from agents that have no Spool client: over HTTP, or from standard input with "ingest -".
package main

import (
	"cmp"
	"os"

	"spool/internal/httpapi"
	"spool/internal/ingest"
	"spool/internal/natsio"
	"spool/internal/service"
	"spool/pkg/client"
	"spool/pkg/events"
)

func main() {
	os.Exit(service.Exit("ingest", service.WantsRole("ingest", run(os.Args[1:])), os.Stderr))
}

func run(args []string) error {
	var (
		lines service.Publishing
		door  service.WebDoor
		most  service.Limits
		fs    = service.NewFlags("ingest")
	)
	fs.Take(&door)
	fs.Take(&most)
	fs.Take(&lines, "with -: ")
	log, err := fs.Parse(args, "-")
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
		return ingest.Pipe(ctx, os.Stdin, conn.Events(), cfg, os.Stderr)
	}
	api, err := door.API(log)
	if err != nil {
		return err
	}
	api.Limits = most.Limits()
	l, err := service.ListenHTTP(door.HTTP, api)
	if err != nil {
		return err
	}
	log.Info("ingest listens", "http", l.Addr().String())
	reg := service.Metrics("ingest")
	api.Metrics = reg.Handler()
	reg.Quotas(api.Quotas)
	defer service.Observed(conn, reg, "ingest", "takes entries and gives what is stored, over HTTP", func() any {
		return map[string]int64{"over_rates": api.Quotas.Refused()}
	}, log)()
	return httpapi.Serve(ctx, l, httpapi.Server(reg.HTTP(httpapi.For(conn, api))))
}
