package bench

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"spool/internal/sleep"
)

// pipeline is something that takes entries in and finishes each of them some time later.
type pipeline interface {
	// publishers is how many goroutines publish, each with sessions of its own.
	publishers() int
	// batch is how many entries one call of publish gets.
	batch() int
	// publish takes n entries in, over the sessions in turn. by is the calling publisher.
	publish(ctx context.Context, by int, ss []*session, n int) error
	// done is how many entries are finished.
	done() int64
	// verify checks what is stored after n entries.
	verify(ctx context.Context, n int64) error
	close()
}

// flow drives a pipeline: publishers that stop when the rest is too far behind, and the wait for the last entry.
type flow struct {
	pl       pipeline
	sessions [][]*session // of each publisher
	claimed  atomic.Int64 // entries given to publish, from the start
	longest  atomic.Int64 // the longest time in which nothing was done, in nanoseconds
}

func newFlow(pl pipeline, t prose) *flow { return newFlowOver(pl, t, sessions) }

// newFlowOver is newFlow over another number of sessions.
func newFlowOver(pl pipeline, t prose, sessions int) *flow {
	f := &flow{pl: pl, sessions: make([][]*session, pl.publishers())}
	for i := range sessions {
		by := i % len(f.sessions)
		f.sessions[by] = append(f.sessions[by], newSession(i, t))
	}
	return f
}

func (f *flow) published() int64 { return f.claimed.Load() }

// warmUp sends one entry of every session through, so that streams, consumers and caches stand when the clock starts.
func (f *flow) warmUp(ctx context.Context) error {
	for by, ss := range f.sessions {
		f.claimed.Add(int64(len(ss)))
		if err := f.pl.publish(ctx, by, ss, len(ss)); err != nil {
			return fmt.Errorf("warm up: %w", err)
		}
	}
	return f.drain(ctx)
}

// push publishes for a time, or until limit entries, and returns when all of them are done.
func (f *flow) push(ctx context.Context, for_ time.Duration, window, limit int64) (n int64, err error) {
	before := f.published()
	deadline := time.Now().Add(for_)
	watched := make(chan struct{})
	defer close(watched)
	go f.watch(watched)
	g, gctx := errgroup.WithContext(ctx)
	for by, ss := range f.sessions {
		g.Go(func() error {
			for {
				n := f.claim(gctx, before, deadline, window, limit)
				if n == 0 {
					return gctx.Err()
				}
				if err := f.pl.publish(gctx, by, ss, n); err != nil {
					return err
				}
			}
		})
	}
	if err := g.Wait(); err != nil {
		return 0, err
	}
	err = f.drain(ctx)
	return f.published() - before, err
}

// watch notes the longest time without progress.
func (f *flow) watch(until <-chan struct{}) {
	t := time.NewTicker(10 * time.Millisecond)
	defer t.Stop()
	last, since := f.pl.done(), time.Now()
	for {
		select {
		case <-until:
			return
		case now := <-t.C:
			if done := f.pl.done(); done != last {
				last, since = done, now
			}
			f.longest.Store(max(f.longest.Load(), int64(now.Sub(since))))
		}
	}
}

// claim waits until there is room for a batch and takes it; 0 when it is time to stop.
func (f *flow) claim(ctx context.Context, before int64, deadline time.Time, window, limit int64) int {
	for ctx.Err() == nil && time.Now().Before(deadline) {
		now := f.claimed.Load()
		n := int64(f.pl.batch())
		if limit > 0 {
			n = min(n, limit-(now-before))
		}
		if n <= 0 {
			return 0
		}
		if now+n-f.pl.done() > window {
			time.Sleep(look)
			continue
		}
		if f.claimed.CompareAndSwap(now, now+n) {
			return int(n)
		}
	}
	return 0
}

const (
	look       = 500 * time.Microsecond // between two looks at a pipeline's progress
	drainLimit = 60 * time.Second       // without any progress
)

// drain waits until everything published is done.
func (f *flow) drain(ctx context.Context) error {
	last, since := f.pl.done(), time.Now()
	for {
		done, want := f.pl.done(), f.published()
		if done >= want {
			return nil
		}
		if done != last {
			last, since = done, time.Now()
		}
		if time.Since(since) > drainLimit {
			return fmt.Errorf("stands still at %d of %d entries", done, want)
		}
		if !sleep.For(ctx, look) {
			return ctx.Err()
		}
	}
}
