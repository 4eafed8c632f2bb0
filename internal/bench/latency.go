package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"spool/internal/sleep"
	"spool/pkg/client"
)

// latencyLoad is the share of Spool's own measured rate at which latency is measured.
const latencyLoad = 0.2

// A server that syncs every write takes some thousands of publishes a second, so its publishers send a few entries at once.
const (
	latencyPublishers = 8
	publishesRelaxed  = 4000 // publishes a second at most, over all publishers
	publishesAlways   = 240
)

// latencyRows are what is measured: at a share of the rate of the same part, and at a rate that every machine reaches, an entry at a
// time.
var latencyRows = []struct {
	prefix, part, what string
	single             float64 // entries a second; 0: latencyLoad
	publishes          int
}{
	{"latency_1000", "spool", "Spool, 1,000 single entries a second", 1000, 0},
	{"latency", "spool", "Spool, 20 % load", 0, publishesRelaxed},
	{"latency_sync_always", "spool_sync_always", "Spool, sync always, 20 % load", 0, publishesAlways},
}

// latencies measures from the time at which an entry was due to be published to the item in a subscriber's hands, of that part.
func (b *bench) latencies(ctx context.Context, rep *Report, p part) error {
	for _, row := range latencyRows {
		if row.part != p.name {
			continue
		}
		b.Note("latency: " + row.what)
		rate, batch := row.single, 1
		if rate == 0 {
			rate = latencyLoad * median(perSec(b.runs[p.name]))
			batch = int(rate/float64(row.publishes)) + 1
		}
		if err := b.latency(ctx, rep.Figures, row.prefix, p.sync, rate, batch); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) latency(ctx context.Context, figures map[string]float64, prefix string, sync time.Duration, rate float64, batch int) error {
	r, err := startRig(b.Config, sync)
	if err != nil {
		return err
	}
	defer r.stop()
	s, err := newSpool(ctx, r, latencyPublishers)
	if err != nil {
		return err
	}
	defer s.close()
	l := &latency{spool: s, flow: newFlow(s, b.text), rate: rate, batch: batch}
	if err := l.measure(ctx, time.Duration(b.Seconds)*time.Second); err != nil {
		return err
	}
	slices.Sort(l.took)
	figures[prefix+"_p50_ms"] = l.quantile(0.50)
	figures[prefix+"_p99_ms"] = l.quantile(0.99)
	figures[prefix+"_rate_per_s"] = l.reached
	if err := l.flow.drain(ctx); err != nil { // a subscriber sees an item before the persister has counted it
		return err
	}
	return s.verify(ctx, l.flow.published())
}

type latency struct {
	spool *spool
	flow  *flow
	rate  float64 // entries a second
	batch int     // entries in one publish

	mu      sync.Mutex
	due     map[string][]time.Time // of each session, by the number of its item
	took    []time.Duration
	reached float64
}

func (l *latency) measure(ctx context.Context, for_ time.Duration) error {
	if err := l.flow.warmUp(ctx); err != nil {
		return err
	}
	l.due = make(map[string][]time.Time, sessions)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ready := make(chan struct{})
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error { return l.subscribe(gctx, func() { close(ready) }) })
	select {
	case <-ready:
	case <-gctx.Done():
		return g.Wait()
	}
	start := time.Now()
	var pub errgroup.Group
	for by, ss := range l.flow.sessions {
		pub.Go(func() error { return l.publish(gctx, by, ss, start, for_) })
	}
	err := pub.Wait()
	published := l.flow.published() - sessions
	l.reached = float64(published) / time.Since(start).Seconds()
	if err == nil {
		err = l.seen(gctx, published)
	}
	cancel()
	return errors.Join(err, g.Wait())
}

// publish sends a batch at its time, or at once when it is late. An entry that is late was due all the same: nothing that makes
// publishers wait is left out.
func (l *latency) publish(ctx context.Context, by int, ss []*session, start time.Time, for_ time.Duration) error {
	every := time.Duration(float64(l.batch*latencyPublishers) / l.rate * float64(time.Second))
	for due := start.Add(every * time.Duration(by) / latencyPublishers); due.Sub(start) < for_; due = due.Add(every) {
		if !sleep.For(ctx, time.Until(due)) {
			return ctx.Err()
		}
		l.mark(ss, l.spool.next[by], due)
		l.flow.claimed.Add(int64(l.batch))
		if err := l.spool.publish(ctx, by, ss, l.batch); err != nil {
			return err
		}
	}
	return nil
}

// mark notes when the entries of the next publish were due: a session's k-th entry makes its k-th item.
func (l *latency) mark(ss []*session, next int, due time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.batch {
		id := ss[(next+i)%len(ss)].thread.Session
		l.due[id] = append(l.due[id], due)
	}
}

// subscribe takes items as any program would.
func (l *latency) subscribe(ctx context.Context, ready func()) error {
	c := client.New(l.spool.conns[0])
	for item, err := range c.SubscribeReady(ctx, client.Filter{}, client.Position{}, ready) {
		if err != nil {
			return err
		}
		now := time.Now()
		l.mu.Lock()
		at := int(item.N) - 2 // the first item was the warm-up's
		if due := l.due[item.Session]; at >= 0 && at < len(due) {
			l.took = append(l.took, now.Sub(due[at]))
		}
		l.mu.Unlock()
	}
	return nil
}

// seen waits until the subscriber has every item.
func (l *latency) seen(ctx context.Context, want int64) error {
	for limit := time.Now().Add(drainLimit); ; time.Sleep(look) {
		l.mu.Lock()
		n := int64(len(l.took))
		l.mu.Unlock()
		switch {
		case n >= want:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case time.Now().After(limit):
			return fmt.Errorf("%w: the subscriber saw %d of %d items", ErrWrong, n, want)
		}
	}
}

// quantile is in milliseconds; took is sorted.
func (l *latency) quantile(q float64) float64 {
	if len(l.took) == 0 {
		return 0
	}
	return float64(l.took[int(q*float64(len(l.took)-1))].Microseconds()) / 1000
}
