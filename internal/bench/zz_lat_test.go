package bench

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"runtime/pprof"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"spool/internal/natsio"
	"spool/internal/persist"
	"spool/pkg/casstore"
	"spool/pkg/client"
)

func TestZZLat(t *testing.T) {
	rate, _ := strconv.ParseFloat(os.Getenv("RATE"), 64)
	if rate == 0 {
		t.Skip()
	}
	syncd := 2 * time.Minute
	if os.Getenv("ALWAYS") != "" {
		syncd = 0
	}
	cfg := Config{Seconds: 5, Dir: t.TempDir(), TCP: true, Batch: 500}
	r, err := startRig(cfg, syncd)
	if err != nil {
		t.Fatal(err)
	}
	defer r.stop()
	ctx := t.Context()
	conn, err := r.spool(ctx)
	if err != nil {
		t.Fatal(err)
	}
	store := conn.Store(0)
	var mu sync.Mutex
	last := map[persist.Step]time.Time{}
	took := map[string][]time.Duration{}
	measuring := false
	at := func(s persist.Step) error {
		mu.Lock()
		defer mu.Unlock()
		now := time.Now()
		prev := map[persist.Step]persist.Step{persist.StepBulk: persist.StepFence, persist.StepCommit: persist.StepBulk, persist.StepItems: persist.StepCommit, persist.StepAck: persist.StepItems}[s]
		if measuring && !last[prev].IsZero() {
			k := string(prev) + "→" + string(s)
			took[k] = append(took[k], now.Sub(last[prev]))
		}
		if s == persist.StepFence && measuring && !last[s].IsZero() {
			took["cycle"] = append(took["cycle"], now.Sub(last[s]))
		}
		last[s] = now
		return nil
	}
	p := persist.New(persist.Deps{Records: conn, Bulk: store, Outbox: conn, Inbox: conn, Parts: conn, Wholes: conn, Live: conn, Leases: conn, Packs: casstore.NewPackCache(store, 32<<20), Nodes: store, Log: slog.New(slog.DiscardHandler), At: at}, persist.Config{})
	pctx, stop := context.WithCancel(ctx)
	var g errgroup.Group
	g.Go(func() error { return p.Run(pctx) })
	var stops []func()
	var dmu sync.Mutex
	delivered := map[uint64]time.Time{}
	for i := range 16 {
		st, err := conn.Consume(pctx, i, func(d natsio.Delivery) {
			dmu.Lock()
			delivered[d.Seq] = time.Now()
			dmu.Unlock()
			p.Deliver(pctx, persist.Message{Subject: d.Subject, Data: d.Data, Seq: d.Seq, Partition: d.Partition, Ack: d.Ack, Working: d.Working})
		})
		if err != nil {
			t.Fatal(err)
		}
		stops = append(stops, st)
	}
	s := &spool{conn: conn, size: 500, next: make([]int, latencyPublishers), stop: stop}
	for range latencyPublishers {
		c, err := r.spool(ctx)
		if err != nil {
			t.Fatal(err)
		}
		s.conns = append(s.conns, c)
		s.publishing = append(s.publishing, client.New(c).Publisher(client.PublisherConfig{Host: "bench"}))
	}
	_ = stops
	l := &latency{spool: s, rate: rate}
	ld := &laneDone{spool: s, p: p}
	l.flow = newFlow(ld, newText())
	l.batch = int(rate/float64(publishesRelaxed)) + 1
	if syncd == 0 {
		l.batch = int(rate/float64(publishesAlways)) + 1
	}
	if e := os.Getenv("LBATCH"); e != "" {
		l.batch, _ = strconv.Atoi(e)
	}
	if f := os.Getenv("PROF"); f != "" {
		w, _ := os.Create(f)
		pprof.StartCPUProfile(w)
		defer pprof.StopCPUProfile()
	}
	time.AfterFunc(500*time.Millisecond, func() { mu.Lock(); measuring = true; mu.Unlock() })
	cpu := cpuTime()
	st0 := time.Now()
	if err := l.measure(ctx, 5*time.Second); err != nil {
		t.Fatal(err)
	}
	used := cpuTime() - cpu
	slices.Sort(l.took)
	fmt.Printf("batch %d reached %.0f/s p50 %.2f p90 %.2f p99 %.2f ms; commits %d; cpu %.2f of 2\n", l.batch, l.reached, l.quantile(.5), l.quantile(.9), l.quantile(.99), p.Stats().Commits, used.Seconds()/time.Since(st0).Seconds())
	mu.Lock()
	for k, v := range took {
		slices.Sort(v)
		fmt.Printf("  %-20s n=%d p50 %.2f p90 %.2f p99 %.2f ms\n", k, len(v), ms(v[len(v)/2]), ms(v[len(v)*9/10]), ms(v[len(v)*99/100]))
	}
	mu.Unlock()
	stop()
	for _, st := range stops {
		st()
	}
	g.Wait()
}
func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

type laneDone struct {
	*spool
	p *persist.Persister
}

func (l *laneDone) done() int64 { return l.p.Stats().Items }
