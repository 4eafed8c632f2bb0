package main

import (
	"cmp"
	"fmt"
	"os"

	"golang.org/x/sync/errgroup"

	"spool/internal/history"
	"spool/internal/httpapi"
	"spool/internal/service"
	"spool/internal/web"
	"spool/pkg/events"
)

type serveCmd struct {
	service.Door
	service.Webhooks
}

func (c *serveCmd) Help() string {
	return "The page and the HTTP API on a NATS system where Spool's daemons run; spool up has them too. Nothing is kept but the prompt " +
		"history, in the state directory, which is made again when it is gone. Any number of these can run."
}

func (c *serveCmd) Run(a *app) error {
	cfg, err := c.API(a.log)
	if err != nil {
		return err
	}
	cfg.Page = web.Handler()
	a.nats.Scope = cmp.Or(a.nats.Scope, string(events.Everywhere)) // what it publishes deletes nothing, but where it is to
	conn, err := a.dial()
	if err != nil {
		return err
	}
	if err := conn.Verify(a.ctx); err != nil {
		return err
	}
	var prompts historyCmd
	kept, err := prompts.kept()
	if err == nil {
		cfg.History, err = prompts.file(a, conn, kept)
	}
	if err != nil {
		return err
	}
	l, err := service.ListenHTTP(c.HTTP, cfg)
	if err != nil {
		return err
	}
	streams, subs, err := c.Streams(conn, a.log)
	if err != nil {
		return err
	}
	cfg.Streams, cfg.Subscriptions = streams, subs
	fmt.Fprintf(a.err, "The page is at %s\nStop with: Ctrl-C or kill %d\n", l.URL(), os.Getpid())
	g, ctx := errgroup.WithContext(a.ctx)
	g.Go(func() error { return httpapi.Serve(ctx, l, httpapi.Server(httpapi.For(conn, cfg))) })
	g.Go(func() error { return streams.Run(ctx) })
	g.Go(func() error { return subs.Run(ctx) })
	g.Go(func() error { return history.Keep(ctx, cfg.History, conn, a.log) })
	return g.Wait()
}
