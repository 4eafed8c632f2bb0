// Package ledger_test runs a whole fleet at length while its processes are killed, and holds every entry against a ledger: exactly
// once, end to end (DESIGN 13.1, 13.2).
package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"spool/e2e/internal/proc"
	"spool/internal/faulttest"
	"spool/internal/must"
	"spool/internal/natsio"
	"spool/pkg/client"
	"spool/pkg/events"
)

func TestMain(m *testing.M) {
	if url := os.Getenv(childEnv); url != "" {
		if err := serveChild(url); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(proc.Main(m, "spool/cmd/persister", "spool/cmd/ingest", "spool/cmd/gc", "spool/e2e/natsd").Run())
}

const (
	short     = 60_000 // entries without SPOOL_LEDGER
	shortKill = 9_000  // entries between two kills then: everything is killed once
	longKill  = 40_000
	sessions  = 12
	inThread  = 2 // threads of a session
	producers = 6 // of a session
)

// TestLedger publishes SPOOL_LEDGER entries in all ways while processes are killed at random, and checks that each is there once.
// SPOOL_LEDGER_SEED repeats the choices of a run, though not its moments.
func TestLedger(t *testing.T) {
	total, every, cycle, pairs := int64(short), int64(shortKill), time.Second, 100
	if text := os.Getenv("SPOOL_LEDGER"); text != "" {
		var err error
		if total, err = strconv.ParseInt(text, 10, 64); err != nil {
			t.Fatalf("SPOOL_LEDGER: %v", err)
		}
		every, cycle, pairs = longKill, 20*time.Second, 250
	} else if testing.Short() {
		t.Skip("takes some 20 s")
	}
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("SPOOL_LEDGER_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("SPOOL_LEDGER_SEED: %v", err)
		}
	}
	t.Logf("seed %d, %d entries", seed, total)

	f := newFleet(t, cycle)
	r := &round{t: t, f: f, total: total, began: time.Now()}
	for range 3 {
		r.children = append(r.children, &child{f: f})
	}
	t.Cleanup(func() {
		for _, c := range r.children {
			c.close()
		}
	})
	conn := r.dial()
	r.ledger = faulttest.NewLedger(faulttest.Workload{
		Seed: seed, Sessions: sessions, ThreadsEach: inThread, ProducersEach: producers, Batch: pairs, Publisher: ways(f, r.children),
		Entry: func(r *rand.Rand) int {
			switch k := r.IntN(1000); {
			case k == 0:
				return 40_000
			case k < 20:
				return 3_000
			}
			return 60 + r.IntN(340)
		},
	})

	var beside sync.WaitGroup
	ctx, done := context.WithCancel(t.Context())
	beside.Go(func() { r.report(ctx) })
	beside.Go(func() { r.churn(ctx, conn) })
	watch, enough := context.WithCancel(t.Context())
	watched := make(chan error, 1)
	go func() { watched <- r.watch(watch, r.dial()) }()
	beside.Go(func() { r.killer(ctx, rand.New(rand.NewPCG(seed, 1)), every) })
	each := (total + sessions*producers - 1) / (sessions * producers)
	must.Is(t, r.ledger.Publish(ctx, client.New(conn), int(each)), nil, "publish")
	done()
	beside.Wait()
	published := time.Now()
	t.Logf("%d entries acked and %d of unknown outcome after %v, %d kills: %s", r.ledger.Acked(), r.ledger.Unknown(),
		published.Sub(r.began).Round(time.Second), r.kills.Load(), r.killed())

	check, cancel := context.WithTimeout(t.Context(), 5*time.Minute+time.Duration(total/5)*time.Millisecond)
	defer cancel()
	if err := faulttest.Settle(check, conn); err != nil {
		t.Error(err)
	}
	t.Logf("all of it applied %v later", time.Since(published).Round(time.Second))
	if err := r.ledger.Check(check, conn); err != nil {
		t.Errorf("the ledger and the threads differ:\n%v", err)
	}
	t.Logf("checked in %v", time.Since(published).Round(time.Second))
	want := must.Get(r.items(check, conn))(t)
	must.Until(t, "the subscriber has all items", func() bool { return r.seen.Load() >= want || len(watched) > 0 })
	enough()
	if err := <-watched; err != nil || r.seen.Load() != want {
		t.Errorf("the subscriber that was there all the time got %d items, %v, want %d", r.seen.Load(), err, want)
	}
	t.Logf("%s; %d items came to the subscriber; the whole of it took %v", r.usage(), want, time.Since(r.began).Round(time.Second))
	conn.Close()
	for _, wrong := range f.stop(syscall.SIGTERM) {
		t.Error(wrong)
	}
}

// round is one run of the test.
type round struct {
	t        *testing.T
	f        *fleet
	total    int64
	began    time.Time
	ledger   *faulttest.Ledger
	children []*child
	kills    atomic.Int64
	seen     atomic.Int64 // items of the ledger's sessions
	removed  atomic.Int64 // threads
}

func (r *round) dial() *natsio.Conn {
	r.t.Helper()
	conn := must.Get(natsio.Dial(r.t.Context(), natsio.Config{URL: r.f.url()}))(r.t)
	r.t.Cleanup(conn.Close)
	return conn
}

// killer kills a process each time that so many entries more are published, until all are. First everything once; then at random,
// what others wait for more seldom: a server that comes back reads its streams first.
func (r *round) killer(ctx context.Context, random *rand.Rand, every int64) {
	var victims []func()
	for _, m := range r.f.members {
		victims = append(victims, m.kill)
	}
	victims = append(victims, r.children[0].kill)
	random.Shuffle(len(victims), func(i, j int) { victims[i], victims[j] = victims[j], victims[i] })
	for next := every; ; next += every {
		for r.ledger.Acked()+r.ledger.Unknown() < min(next, r.total) {
			select {
			case <-ctx.Done():
				return
			case <-time.After(10 * time.Millisecond):
			}
		}
		if next >= r.total {
			return
		}
		if len(victims) > 0 {
			victims[0]()
			victims = victims[1:]
		} else if k := random.IntN(40); k < 2 {
			r.f.members[0].kill() // the server
		} else if k < 20 {
			r.f.members[1+random.IntN(len(r.f.members)-1)].kill()
		} else {
			r.children[random.IntN(len(r.children))].kill()
		}
		r.kills.Add(1)
	}
}

func (r *round) killed() string {
	var all []string
	for _, m := range r.f.members {
		m.mu.Lock()
		all = append(all, fmt.Sprintf("%s %d", m.name, m.kills))
		m.mu.Unlock()
	}
	n := 0
	for _, c := range r.children {
		c.mu.Lock()
		n += c.kills
		c.mu.Unlock()
	}
	return strings.Join(append(all, fmt.Sprintf("publishers %d", n)), ", ")
}

// watch follows every item from the first one on, whatever dies, and holds that those of a thread are 1, 2, 3, …
func (r *round) watch(ctx context.Context, conn *natsio.Conn) error {
	c, last, at := client.New(conn), map[events.Thread]int64{}, uint64(0)
	ours := map[string]bool{}
	for _, s := range r.ledger.Sessions() {
		ours[s] = true
	}
	for {
		from := client.Position{Seq: at}
		if at == 0 {
			from = client.Position{All: true}
		}
		for item, err := range c.Subscribe(ctx, client.Filter{}, from) {
			if ctx.Err() != nil {
				return nil
			}
			if err != nil {
				if errors.Is(err, client.ErrGap) {
					return err
				}
				break // the server is away; go on where it was
			}
			at = max(at, item.Seq)
			t := events.Thread{Session: item.Session, Name: item.Thread}
			if !ours[t.Session] || item.N <= last[t] {
				continue
			}
			if item.N != last[t]+1 {
				return fmt.Errorf("%s: item %d came behind item %d", t, item.N, last[t])
			}
			last[t] = item.N
			r.seen.Add(1)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (r *round) items(ctx context.Context, conn *natsio.Conn) (n int64, err error) {
	c := client.New(conn)
	for _, s := range r.ledger.Sessions() {
		list, err := c.Session(s).Threads(ctx)
		if err != nil {
			return 0, err
		}
		for _, t := range list {
			n += t.Head.N
		}
	}
	return n, nil
}

// churn makes garbage in the packs that hold the ledger's entries: threads that are written to and then removed.
func (r *round) churn(ctx context.Context, conn *natsio.Conn) {
	c := client.New(conn)
	for i := 0; ctx.Err() == nil; i++ {
		t := events.Thread{Session: fmt.Sprintf("churn-%d", i%8), Name: fmt.Sprintf("t%d", i)}
		some, cancel := context.WithTimeout(ctx, 10*time.Minute)
		pub := c.Publisher(client.PublisherConfig{})
		var err error
		for n := range 20 {
			body := fmt.Sprintf(`{"content":[{"type":"text","text":"%d %s"}]}`, n, strings.Repeat("soon gone ", 50))
			if _, err = pub.Publish(some, client.Entry{Thread: t, Dialect: "item", Body: []byte(body), Seq: uint64(n + 1)}); err != nil {
				break
			}
		}
		if err == nil {
			err = c.Thread(t).Await(some, pub.Producer(), 0, 20)
		}
		if err == nil {
			err = c.Thread(t).Remove(some, client.Force(true))
		}
		cancel()
		if err == nil {
			r.removed.Add(1)
		}
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// report says every half minute how far it is.
func (r *round) report(ctx context.Context) {
	for tick := time.NewTicker(30 * time.Second); ; {
		select {
		case <-ctx.Done():
			tick.Stop()
			return
		case <-tick.C:
			r.t.Logf("%v: %d acked, %d items seen, %d kills; %s", time.Since(r.began).Round(time.Second), r.ledger.Acked(),
				r.seen.Load(), r.kills.Load(), r.usage())
		}
	}
}

// usage is what the run takes.
func (r *round) usage() string {
	disk := int64(0)
	_ = filepath.WalkDir(r.f.data(), func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if info, err := d.Info(); err == nil {
				disk += info.Size()
			}
		}
		return nil // files go while they are counted
	})
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	s := fmt.Sprintf("disk %d MB, %d threads removed, peak memory of the test %d MiB", disk/1e6, r.removed.Load(), mem.Sys>>20)
	for _, m := range r.f.members {
		m.mu.Lock()
		m.peak = max(m.peak, m.now.Peak())
		s += fmt.Sprintf(", %s %d", m.name, m.peak>>20)
		m.mu.Unlock()
	}
	return s
}
