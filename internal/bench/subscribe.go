package bench

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"spool/internal/httpapi"
	"spool/internal/natsio"
	"spool/internal/sleep"
	"spool/internal/text"
	"spool/pkg/client"
	"spool/pkg/events"
)

// SubscribeConfig says what of reading live is measured. The zero value is good.
type SubscribeConfig struct {
	Readers int    // of each kind, spread over the sessions; 0 = 1,000
	Slow    int    // readers that stop reading, beside them; 0 = 100
	Seconds int    // of each load; 0 = 5
	Behind  int    // items that a reader catches up with; 0 = 1,000,000
	Dir     string // where the server keeps its data; empty = the system's temporary directory

	Note func(string) // is told what runs now; may be nil
}

// SubscribeReport is what Subscribe found. The names of figures begin with the kind of reader: nats, a subscription on a
// connection of its own; sse, an HTTP event stream of a thread.
type SubscribeReport struct {
	Findings
	Setup   Setup `json:"setup"`
	Readers int   `json:"readers"`
	Behind  int   `json:"items_behind"`
}

// Subscribe measures reading live, with 1,000 readers or so on one machine, and catching up.
//
// The loads are shares of the rate at which the same server, with its readers, takes entries through to all of them when they are published
// as in the loads. Memory is that of reader and server, which are one process here.
func Subscribe(ctx context.Context, cfg SubscribeConfig) (*SubscribeReport, error) {
	for p, v := range map[*int]int{&cfg.Readers: 1000, &cfg.Slow: 100, &cfg.Seconds: 5, &cfg.Behind: 1_000_000} {
		*p = cmp.Or(*p, v)
	}
	if cfg.Readers < 1 || cfg.Slow < 0 || cfg.Seconds < 1 || cfg.Seconds > maxSeconds || cfg.Behind < 1 {
		return nil, fmt.Errorf("%w: use at least 1 reader and 1 item, and 1 to %d seconds", ErrConfig, maxSeconds)
	}
	if cfg.Note == nil {
		cfg.Note = func(string) {}
	}
	rep := &SubscribeReport{Findings: newFindings(), Readers: cfg.Readers, Behind: cfg.Behind, Setup: Setup{
		Seconds: cfg.Seconds, Rounds: 1, EntryBytes: entryBytes, Sessions: sessions, TCP: true, CPUs: runtime.NumCPU(), Load: loadAverage(),
		Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}}
	rep.Floors["catch_up_items_per_s"] = 50_000
	rep.Ceilings = map[string]float64{"nats_slow_readers_ratio": 1.5, "sse_slow_readers_ratio": 1.5, "nats_load80_p99_ms": 50}
	for _, kind := range []string{"nats", "sse"} {
		if err := fan(ctx, cfg, kind, rep.Findings); err != nil {
			return nil, fmt.Errorf("%s readers: %w", kind, err)
		}
	}
	cfg.Note("catching up")
	if err := catchUp(ctx, cfg, rep); err != nil {
		return nil, fmt.Errorf("catching up: %w", err)
	}
	return rep, nil
}

// fanout is one server, and readers of its sessions.
type fanout struct {
	*spool
	flow *flow
	open func(ctx context.Context, session string) (live, error) // connects a reader

	mu      sync.Mutex
	base    map[string]int         // items of each session before the load
	started map[string][]time.Time // when those after them were published
	seen    atomic.Int64           // items that readers have, and count
}

// live is a reader's connection: next blocks for the number of an item. It is one goroutine's, but for close.
type live struct {
	next  func() (n int64, err error)
	close func()
}

func fan(ctx context.Context, cfg SubscribeConfig, kind string, rep Findings) (err error) {
	r, err := startRig(Config{Dir: cfg.Dir, Batch: 500, Seconds: 8 * cfg.Seconds, TCP: true}, relaxedSync)
	if err != nil {
		return err
	}
	defer r.stop()
	s, err := newSpool(ctx, r, latencyPublishers)
	if err != nil {
		return err
	}
	defer s.close()
	f := &fanout{spool: s}
	f.flow = newFlow(f, newProse())
	if err := f.flow.warmUp(ctx); err != nil {
		return err
	}
	if kind == "nats" {
		f.open = func(ctx context.Context, session string) (live, error) { return openNATS(ctx, r, session) }
	} else {
		stop, open, err := serveSSE(s.conn)
		if err != nil {
			return err
		}
		defer stop()
		f.open = open
	}
	ctx, cancel := context.WithCancel(ctx)
	readers, rctx := errgroup.WithContext(ctx)
	defer func() {
		cancel()
		if e := readers.Wait(); err == nil {
			err = e
		}
	}()

	cfg.Note(fmt.Sprintf("%s: connecting %d readers", kind, cfg.Readers))
	before := memory()
	took := make([][]time.Duration, cfg.Readers)
	if err := f.connect(rctx, readers, took); err != nil {
		return err
	}
	rep.Figures[kind+"_kib_per_reader"] = float64(memory()-before) / float64(cfg.Readers) / 1024

	cfg.Note(kind + ": the rate that all of them can follow")
	full, err := f.load(rctx, took, 0, time.Duration(cfg.Seconds)*time.Second)
	if err != nil {
		return err
	}
	rep.Figures[kind+"_batches_per_s"] = full.rate
	rate, err := f.followed(rctx, took, full.rate, time.Duration(cfg.Seconds)*time.Second)
	if err != nil {
		return err
	}
	rep.Figures[kind+"_rate_per_s"] = rate
	for _, share := range []int{20, 80} {
		cfg.Note(fmt.Sprintf("%s: %d %% load", kind, share))
		l, err := f.load(rctx, took, rate*float64(share)/100, time.Duration(cfg.Seconds)*time.Second)
		if err != nil {
			return err
		}
		name := fmt.Sprintf("%s_load%d_", kind, share)
		rep.Figures[name+"p50_ms"], rep.Figures[name+"p99_ms"], rep.Figures[name+"rate_per_s"] = l.quantile(0.5), l.quantile(0.99), l.rate
	}
	if cfg.Slow == 0 {
		return nil
	}
	return f.slow(rctx, cfg, kind, rate/5, took, rep)
}

// followed is the rate at which all readers keep up with what comes as the loads do, a few entries a publish: below that of whole batches.
func (f *fanout) followed(ctx context.Context, took [][]time.Duration, rate float64, for_ time.Duration) (float64, error) {
	for {
		l, err := f.load(ctx, took, rate, for_)
		if err != nil || l.rate > 0.95*rate {
			return l.rate, err
		}
		rate = l.rate
	}
}

// slow measures a load with and without readers that stand still, in turns.
func (f *fanout) slow(ctx context.Context, cfg SubscribeConfig, kind string, rate float64, took [][]time.Duration,
	rep Findings) error {
	cfg.Note(fmt.Sprintf("%s: beside %d readers that stand still", kind, cfg.Slow))
	var ratios []float64
	for range 3 {
		alone, err := f.load(ctx, took, rate, time.Duration(cfg.Seconds)*time.Second/2)
		if err != nil {
			return err
		}
		var still []live
		for i := range cfg.Slow {
			l, err := f.open(ctx, f.session(i))
			if err != nil {
				return err
			}
			still = append(still, l)
		}
		beside, err := f.load(ctx, took, rate, time.Duration(cfg.Seconds)*time.Second/2)
		for _, l := range still {
			l.close()
		}
		if err != nil {
			return err
		}
		ratios = append(ratios, beside.quantile(0.5)/max(alone.quantile(0.5), 0.001))
	}
	rep.Ratios[kind+"_slow_readers_ratio"] = median(ratios)
	return nil
}

func (f *fanout) session(reader int) string { return fmt.Sprintf("bench-%03d", reader%sessions) }

// connect starts the readers and returns when all of them stand.
func (f *fanout) connect(ctx context.Context, g *errgroup.Group, took [][]time.Duration) error {
	ready := make(chan error, len(took))
	room := make(chan struct{}, 32)
	for i := range took {
		g.Go(func() error {
			room <- struct{}{}
			l, err := f.open(ctx, f.session(i))
			<-room
			ready <- err
			if err != nil {
				return err
			}
			defer l.close()
			stop := context.AfterFunc(ctx, l.close)
			defer stop()
			for session := f.session(i); ; {
				n, err := l.next()
				if ctx.Err() != nil {
					return nil
				}
				if err != nil {
					return err
				}
				f.note(&took[i], session, n)
			}
		})
	}
	for range took {
		if err := <-ready; err != nil {
			return err
		}
	}
	return nil
}

func (f *fanout) note(took *[]time.Duration, session string, n int64) {
	now := time.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	at := int(n) - 1 - f.base[session]
	if started := f.started[session]; at >= 0 && at < len(started) {
		*took = append(*took, now.Sub(started[at]))
		f.seen.Add(1)
	}
}

// loaded is what a load gave.
type loaded struct {
	took []time.Duration // sorted
	rate float64         // entries a second, until every reader had the last one
}

func (l loaded) quantile(q float64) float64 { return (&latency{took: l.took}).quantile(q) }

// load publishes for a time at a rate, 0 for as fast as it goes, and waits until every reader has everything.
func (f *fanout) load(ctx context.Context, took [][]time.Duration, rate float64, for_ time.Duration) (l loaded, err error) {
	f.mu.Lock()
	f.base, f.started = map[string]int{}, map[string][]time.Time{}
	for _, ss := range f.flow.sessions {
		for _, s := range ss {
			f.base[s.thread.Session] = s.n
		}
	}
	for i := range took {
		took[i] = took[i][:0]
	}
	f.seen.Store(0)
	f.mu.Unlock()
	start, before := time.Now(), f.flow.published()
	if rate == 0 {
		_, err = f.flow.push(ctx, for_, fastWindow/4, 0)
	} else {
		err = f.paced(ctx, rate, start, for_)
	}
	if err != nil {
		return l, err
	}
	if err := f.wait(ctx, f.expected(len(took))); err != nil {
		return l, err
	}
	l.rate = float64(f.flow.published()-before) / time.Since(start).Seconds()
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range took {
		l.took = append(l.took, took[i]...)
	}
	slices.Sort(l.took)
	return l, nil
}

// expected is how many items the readers get of what was published.
func (f *fanout) expected(readers int) (n int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range readers {
		n += int64(len(f.started[f.session(i)]))
	}
	return n
}

func (f *fanout) wait(ctx context.Context, want int64) error {
	last, since := int64(0), time.Now()
	for f.seen.Load() < want {
		if now := f.seen.Load(); now != last {
			last, since = now, time.Now()
		}
		if time.Since(since) > drainLimit {
			return fmt.Errorf("%w: the readers have %d of %d items", ErrWrong, last, want)
		}
		if !sleep.For(ctx, look) {
			return context.Cause(ctx)
		}
	}
	return nil
}

// paced publishes batches at their time, or at once when they are late: they were due all the same.
func (f *fanout) paced(ctx context.Context, rate float64, start time.Time, for_ time.Duration) error {
	batch := int(rate/publishesRelaxed) + 1
	every := time.Duration(float64(batch*latencyPublishers) / rate * float64(time.Second))
	var g errgroup.Group
	for by, ss := range f.flow.sessions {
		g.Go(func() error {
			for due := start.Add(every * time.Duration(by) / latencyPublishers); due.Sub(start) < for_; due = due.Add(every) {
				if !sleep.For(ctx, time.Until(due)) {
					return context.Cause(ctx)
				}
				f.flow.claimed.Add(int64(batch))
				if err := f.publishDue(ctx, by, ss, batch, due); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return errors.Join(g.Wait(), f.flow.drain(ctx))
}

func (f *fanout) publish(ctx context.Context, by int, ss []*session, n int) error {
	return f.publishDue(ctx, by, ss, n, time.Now())
}

// publishDue notes when each entry was due: a session's k-th entry makes its k-th item.
func (f *fanout) publishDue(ctx context.Context, by int, ss []*session, n int, due time.Time) error {
	f.mu.Lock()
	for i := range n {
		id := ss[(f.next[by]+i)%len(ss)].thread.Session
		if f.started != nil {
			f.started[id] = append(f.started[id], due)
		}
	}
	f.mu.Unlock()
	return f.spool.publish(ctx, by, ss, n)
}

// openNATS is a subscription on a connection of its own.
func openNATS(ctx context.Context, r *rig, session string) (live, error) {
	conn, err := natsio.Dial(ctx, natsio.Config{URL: r.srv.ClientURL(), Timeout: 30 * time.Second})
	if err != nil {
		return live{}, err
	}
	ctx, cancel := context.WithCancel(ctx)
	type one struct {
		n   int64
		err error
	}
	items, ready := make(chan one), make(chan struct{}) // unbuffered: who does not take one stands still
	go func() {
		defer conn.Close()
		defer close(items)
		for item, err := range client.New(conn).Session(session).Live(ctx, func() { close(ready) }) {
			select {
			case items <- one{item.N, err}:
			case <-ctx.Done():
				return
			}
		}
	}()
	select {
	case <-ready:
	case got := <-items:
		cancel()
		return live{}, errors.Join(got.err, errors.New("no subscription"))
	}
	return live{close: cancel, next: func() (int64, error) {
		got, ok := <-items
		if !ok {
			return 0, io.EOF
		}
		return got.n, got.err
	}}, nil
}

// serveSSE serves the API on a port of its own.
func serveSSE(conn *natsio.Conn) (stop func(), open func(context.Context, string) (live, error), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	served := make(chan struct{})
	srv := httpapi.Server(httpapi.For(conn, httpapi.Config{}))
	go func() {
		defer close(served)
		_ = srv.Serve(l)
	}()
	transport := &http.Transport{MaxIdleConnsPerHost: 1, DisableCompression: true, ReadBufferSize: 8 << 10}
	open = func(ctx context.Context, session string) (live, error) {
		ctx, cancel := context.WithCancel(ctx)
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+l.Addr().String()+"/v1/sessions/"+session+
			"/threads/"+events.MainThread+"/live", nil)
		if err != nil {
			cancel()
			return live{}, err
		}
		resp, err := transport.RoundTrip(req)
		if err != nil {
			cancel()
			return live{}, err
		}
		if resp.StatusCode != http.StatusOK {
			cancel()
			return live{}, errors.Join(fmt.Errorf("%s: %s", req.URL, resp.Status), resp.Body.Close())
		}
		return live{close: cancel, next: sseItems(resp.Body)}, nil
	}
	return func() {
		_ = srv.Close()
		transport.CloseIdleConnections()
		<-served
	}, open, nil
}

// sseItems reads the numbers of the items of an event stream.
func sseItems(body io.Reader) func() (int64, error) {
	r := bufio.NewReaderSize(body, 8<<10)
	return func() (int64, error) {
		n, item := int64(0), false
		for {
			line, more, err := r.ReadLine()
			if err != nil {
				return 0, err
			}
			switch {
			case len(line) == 0 && item:
				return n, nil
			case bytes.HasPrefix(line, []byte("event:")):
				item = string(bytes.TrimSpace(line[6:])) == "item"
			case bytes.HasPrefix(line, []byte("id:")):
				id, _, _ := bytes.Cut(bytes.TrimSpace(line[3:]), []byte(";"))
				if n, err = strconv.ParseInt(string(id), 10, 64); err != nil {
					return 0, err
				}
			}
			for more && err == nil { // data is not looked at
				_, more, err = r.ReadLine()
			}
		}
	}
}

// memory is what this process holds, in bytes, once garbage is gone.
func memory() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}

// Write prints the report for a person.
func (r *SubscribeReport) Write(w io.Writer) error {
	t := text.NewTable(w)
	fmt.Fprintf(t, "%d readers\t20 %% load: p50, p99\t80 %% load: p50, p99\tKiB a reader\tbeside slow ones\n", r.Readers)
	for _, kind := range []string{"nats", "sse"} {
		fmt.Fprintf(t, "%s\t%.1f, %.1f ms\t%.1f, %.1f ms\t%.0f\t%.2f of the time\n", kind,
			r.Figures[kind+"_load20_p50_ms"], r.Figures[kind+"_load20_p99_ms"], r.Figures[kind+"_load80_p50_ms"], r.Figures[kind+"_load80_p99_ms"],
			r.Figures[kind+"_kib_per_reader"], r.Ratios[kind+"_slow_readers_ratio"])
	}
	fmt.Fprintf(t, "catching up with %d items\t%.0f items/s\n", r.Behind, r.Figures["catch_up_items_per_s"])
	return t.Flush()
}
