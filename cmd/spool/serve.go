package main

import (
	"cmp"
	"fmt"
	"os"

	"golang.org/x/sync/errgroup"

	"spool/internal/service"
	"spool/pkg/events"
)

type serveCmd struct {
	service.WebDoor
	service.Webhooks
	service.Limits
}

func (c *serveCmd) Help() string {
	return "The page and the HTTP API on a NATS system where Spool's daemons run; spool up has them too. Nothing is kept but the prompt " +
		"history, in the state directory, which is made again when it is gone. Any number of these can run."
}

func (c *serveCmd) Run(a *app) error {
	service.IgnoreHangup()
	cfg, err := c.API(a.log)
	if err != nil {
		return err
	}
	cfg.Limits = c.Limits.Limits()
	a.nats.Scope = cmp.Or(a.nats.Scope, string(events.Everywhere)) // what it publishes deletes nothing, but where it is to
	conn, err := a.dial()
	if err != nil {
		return err
	}
	if err := conn.Verify(a.ctx); err != nil {
		return err
	}
	if cfg.History, err = a.historyFile(conn); err != nil {
		return err
	}
	side, reg := service.Side{API: cfg, Whole: true, Webhooks: c.Webhooks}, service.Metrics("serve")
	tasks, ctx := errgroup.WithContext(a.ctx)
	l, err := side.Answer(ctx, tasks, conn, c.HTTP, reg)
	if err != nil {
		return err
	}
	defer service.Observed(conn, reg, "serve", "serves the page, Durable Streams and the HTTP API", side.Refused, a.log)()
	fmt.Fprintf(a.err, "The page is at %s\nStop with: Ctrl-C or kill %d\n", l.URL(), os.Getpid())
	return tasks.Wait()
}
