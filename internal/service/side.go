package service

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"golang.org/x/sync/errgroup"

	"spool/internal/history"
	"spool/internal/httpapi"
	"spool/internal/metrics"
	"spool/internal/natsio"
	"spool/internal/web"
)

// Side is the HTTP side of spool up, of spool serve and of ingest: one for all, so that what one of them answers the others do.
type Side struct {
	API   httpapi.Config // with the file of the prompt history, which is kept, if there is one
	Whole bool           // with the page, Durable Streams and subscriptions to them
	Webhooks
}

// Answer listens, and answers in tasks until ctx ends. reg counts the requests, and is what /metrics says.
func (s Side) Answer(ctx context.Context, tasks *errgroup.Group, conn *natsio.Conn, addr string, reg *metrics.Registry) (
	l *httpapi.Listener, err error,
) {
	api := s.API
	l, err = httpapi.Listen(addr, api)
	if err != nil {
		return nil, Taken("--http", err)
	}
	reg.Quotas(api.Quotas)
	api.Metrics = reg.Handler()
	if s.Whole {
		streams, subs, err := s.Streams(conn, api.Log)
		if err != nil {
			_ = l.Close()
			return nil, err
		}
		api.Page, api.Streams, api.Subscriptions = web.Handler(), streams, subs
		tasks.Go(func() error { return streams.Run(ctx) })
		tasks.Go(func() error { return subs.Run(ctx) })
	}
	if api.History != "" {
		tasks.Go(func() error { return history.Keep(ctx, api.History, conn, api.Log) })
	}
	tasks.Go(func() error { return httpapi.Serve(ctx, l, httpapi.Server(reg.HTTP(httpapi.For(conn, api)))) })
	return l, nil
}

// Refused is what an HTTP side announces of itself.
func (s Side) Refused() any { return map[string]int64{"over_rates": s.API.Quotas.Refused()} }

// Taken adds to the error of who could not listen, where another one does, which flag says where to.
func Taken(flag string, err error) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		err = fmt.Errorf("%w: is another one running there? Choose another address with %s, or stop it", err, flag)
	}
	return err
}
