package service

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"

	"golang.org/x/sync/errgroup"

	"spool/internal/metrics"
	"spool/internal/natsadmin"
	"spool/internal/natsio"
	"spool/internal/persist"
	"spool/internal/persist/persistnats"
	"spool/internal/record"
	"spool/internal/retry"
	"spool/internal/share"
	"spool/pkg/events"
)

// PersisterConfig bounds a persister process.
type PersisterConfig struct {
	persist.Config
	PackCache int               // bytes of packs kept for branches and forks; 0 = 32 MiB
	Secrets   persist.Secrets   // in what agents write; nil: nobody looks for them
	Metrics   *metrics.Registry // what it does is added there; nil: nowhere
}

// Persister is a persister with its consumers.
type Persister struct {
	events natsio.Events
	admin  *natsadmin.Admin
	p      *persist.Persister
	watch  *watch
	share  *share.Share
}

// NewPersister wires a persister to a connection.
func NewPersister(conn *natsio.Conn, cfg PersisterConfig, log *slog.Logger) *Persister {
	cfg.PackCache = cmp.Or(cfg.PackCache, 32<<20)
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	s := &Persister{events: conn.Events(), admin: natsadmin.New(conn), watch: &watch{sys: natsadmin.Of(conn), store: conn.Store(0), log: log}}
	deps := persistnats.Deps(conn, max(cfg.Lane, 0), cfg.PackCache)
	deps.Secrets, deps.Link, deps.Reused, deps.Log = cfg.Secrets, s.events.Link, s.watch.reused, log
	if cfg.Metrics != nil {
		deps.Committed = cfg.Metrics.Persister(s.Stats)
	}
	s.p = persist.New(deps, cfg.Config)
	s.share = share.New(share.Config{
		ID: rand.Text(), Peers: natsio.PeersOf(conn), Partitions: partitions(), Begin: s.consume, Log: log,
	})
	if cfg.Metrics != nil {
		cfg.Metrics.Partitions(s.Holds)
	}
	return s
}

// Stats reads the counters.
func (s *Persister) Stats() persist.Stats { return s.p.Stats() }

// Holds is how many partitions it has now.
func (s *Persister) Holds() int { return s.share.Holds() }

// Run consumes this persister's part of the partitions, and all of them while no other one is there, until ctx ends. It stops in
// order: no more events are taken, then what is committed is published and acked. Before, beside, and when the connection was made
// again it watches whether streams lose what they held, and makes consumers for readers.
func (s *Persister) Run(ctx context.Context) error {
	outer := ctx
	s.watch.begin(ctx)
	stopReaders, err := s.admin.ServeReaders()
	if err != nil {
		return err
	}
	defer stopReaders()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { s.watch.run(ctx); return nil })
	g.Go(func() error { return s.p.Run(ctx) })
	g.Go(func() error { return s.share.Run(ctx) })
	err = g.Wait()
	s.share.Bye() // what others are given now is through
	if outer.Err() != nil {
		s.watch.end(outer)
	}
	if outer.Err() == nil || !errors.Is(err, context.Canceled) {
		return err
	}
	return nil // it was told to stop while it still began
}

func partitions() (all []int) {
	for i := range events.Partitions {
		all = append(all, i)
	}
	return all
}

// consume begins a partition, when the server is there.
func (s *Persister) consume(ctx context.Context, partition int, orphan bool) (of share.Partition, err error) {
	if orphan {
		natsio.Unpin(ctx, s.events, partition)
	}
	err = retry.Do(ctx, s.watch.waits, func() error {
		of, err = persistnats.Consume(ctx, s.events, s.p, partition, s.watch.begin)
		if errors.Is(err, record.ErrNotFound) { // a stream that was deleted can be restored
			return fmt.Errorf("%w: %w", record.ErrUnknown, err)
		}
		return err
	})
	return of, err
}
