package bench

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"spool/internal/natsio"
	"spool/internal/sleep"
	"spool/internal/text"
	"spool/pkg/client"
)

// SoakConfig says how long a load goes on. The zero value is good, but for Up.
type SoakConfig struct {
	For      time.Duration // 0 = one hour
	Rate     float64       // entries a second; 0 = 500
	Sessions int           // 0 = 200
	Dir      string        // where the server keeps its data; empty = the system's temporary directory

	// Up is the command of a server with its persister, on that directory and at that address.
	Up func(dir, listen string) *exec.Cmd

	Note func(string) // is told what runs now; may be nil
}

// SoakReport is what Soak found. There is none where an acked entry is not there, or is another one.
type SoakReport struct {
	Findings
	Entries int64 `json:"entries"` // published and acked, and read again
	Setup   Setup `json:"setup"`
}

// Soak publishes entries one at a time at a rate, each when it is due, whatever the server does; kills the server in the middle and
// starts it again; and at the end reads every entry and compares it with what was published, byte for byte in its order.
func Soak(ctx context.Context, cfg SoakConfig) (*SoakReport, error) {
	cfg.For, cfg.Rate, cfg.Sessions = cmp.Or(cfg.For, time.Hour), cmp.Or(cfg.Rate, 500), cmp.Or(cfg.Sessions, sessions)
	if cfg.For < 2*time.Second || cfg.For > 24*time.Hour || !(cfg.Rate > 0 && cfg.Rate <= 20_000) || cfg.Sessions < latencyPublishers {
		return nil, fmt.Errorf("%w: use 2s to 24h, a rate above 0 and of at most 20000, and at least %d sessions", ErrConfig, latencyPublishers)
	}
	if cfg.Note == nil {
		cfg.Note = func(string) {}
	}
	dir, err := os.MkdirTemp(cfg.Dir, "spool-soak-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	s := &soak{SoakConfig: cfg, dir: dir, due: make([][]time.Time, cfg.Sessions), seen: make([]int, cfg.Sessions), text: newProse()}
	rep := &SoakReport{Findings: newFindings(), Setup: Setup{
		Seconds: int(cfg.For.Seconds()), Rounds: 1, EntryBytes: entryBytes, Sessions: cfg.Sessions, Batch: 1, TCP: true,
		CPUs: runtime.NumCPU(), Load: loadAverage(), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}}
	defer s.end(os.Kill)
	if err := s.run(ctx, rep); err != nil {
		return nil, err
	}
	return rep, nil
}

// soak is a run in progress.
type soak struct {
	SoakConfig
	dir, listen string
	up          *exec.Cmd
	used        time.Duration // processor time of servers that ended
	text        prose

	mu      sync.Mutex
	due     [][]time.Time // of each session's entries, in order
	seen    []int         // items of each session that the subscriber has
	took    []time.Duration
	acked   time.Time // the newest ack
	longest time.Duration
}

func (s *soak) run(ctx context.Context, rep *SoakReport) error {
	l, err := net.Listen("tcp", "127.0.0.1:0") // a port that stays the same when the server is killed
	if err != nil {
		return err
	}
	s.listen = l.Addr().String()
	if err := errors.Join(l.Close(), s.begin()); err != nil {
		return err
	}
	var conns []*natsio.Conn
	defer func() {
		for _, c := range conns {
			c.Close()
		}
	}()
	for range latencyPublishers + 1 {
		c, err := s.dial(ctx)
		if err != nil {
			return err
		}
		conns = append(conns, c)
	}
	reading := client.New(conns[latencyPublishers])
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var subscribed errgroup.Group
	ready := make(chan struct{})
	subscribed.Go(func() error {
		if err := s.subscribe(ctx, reading, sync.OnceFunc(func() { close(ready) })); err != nil {
			cancel(fmt.Errorf("%w: %w", ErrWrong, err))
		}
		return nil
	})
	select {
	case <-ready:
	case <-time.After(time.Minute):
		return errors.New("no subscription within a minute")
	}
	s.Note(fmt.Sprintf("%v at %.0f entries a second; the server is killed in the middle", s.For, s.Rate))
	start, g := time.Now(), new(errgroup.Group)
	s.acked = start
	counts := make([]int, s.Sessions) // entries of each session; each has one publisher
	for by, c := range conns[:latencyPublishers] {
		g.Go(func() error { return s.publish(ctx, by, client.New(c), counts, start) })
	}
	g.Go(func() error {
		if !sleep.For(ctx, s.For/2) {
			return context.Cause(ctx)
		}
		s.Note("kill -9")
		s.end(os.Kill)
		return s.begin()
	})
	if err := g.Wait(); err != nil {
		return err
	}
	took := time.Since(start)
	for _, n := range counts {
		rep.Entries += int64(n)
	}
	s.Note(fmt.Sprintf("%d entries are acked; waiting until all of them are applied", rep.Entries))
	if err := s.applied(ctx, rep.Entries); err != nil {
		return err
	}
	s.Note("reading every entry")
	verify := time.Now()
	if err := s.verify(ctx, reading, counts); err != nil {
		return fmt.Errorf("%w: %w", ErrWrong, err)
	}
	rep.Figures["verified_per_s"] = float64(rep.Entries) / time.Since(verify).Seconds()
	cancel(nil)
	_ = subscribed.Wait()
	if err := context.Cause(ctx); errors.Is(err, ErrWrong) {
		return err
	}
	s.end(syscall.SIGTERM)
	slices.Sort(s.took)
	all := loaded{took: s.took}
	for name, q := range map[string]float64{"p50": 0.5, "p99": 0.99, "p999": 0.999, "max": 1} {
		rep.Figures["latency_"+name+"_ms"] = all.quantile(q)
	}
	rep.Figures["per_s"] = float64(rep.Entries) / took.Seconds()
	rep.Figures["longest_without_ack_s"] = s.longest.Seconds()
	rep.Figures["server_cpu_us_per_entry"] = float64(s.used.Microseconds()) / float64(rep.Entries)
	return nil
}

// begin starts the server.
func (s *soak) begin() error {
	up := s.Up(s.dir, s.listen)
	if err := up.Start(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.up = up
	return nil
}

// end ends it, and adds up what it used. Twice is harmless.
func (s *soak) end(by os.Signal) {
	s.mu.Lock()
	up := s.up
	s.up = nil
	s.mu.Unlock()
	if up == nil {
		return
	}
	_ = up.Process.Signal(by)
	late := time.AfterFunc(time.Minute, func() { _ = up.Process.Kill() })
	_ = up.Wait() // killed: that is an error
	late.Stop()
	if st := up.ProcessState; st != nil {
		s.used += st.UserTime() + st.SystemTime()
	}
}

func (s *soak) dial(ctx context.Context) (*natsio.Conn, error) {
	for until := time.Now().Add(time.Minute); ; {
		c, err := natsio.Dial(ctx, natsio.Config{URL: "nats://" + s.listen, Timeout: 10 * time.Second})
		if err == nil || ctx.Err() != nil || time.Now().After(until) {
			return c, err
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// publish sends the entries of its sessions in turn, each when it is due and again until it is acked.
func (s *soak) publish(ctx context.Context, by int, c *client.Client, counts []int, start time.Time) error {
	p := c.Publisher(client.PublisherConfig{Producer: fmt.Sprintf("soak-%d", by), Host: "bench"})
	var own []*session
	for i := by; i < s.Sessions; i += latencyPublishers {
		own = append(own, newSession(i, s.text))
	}
	every := time.Duration(latencyPublishers / s.Rate * float64(time.Second))
	due := start.Add(every * time.Duration(by) / latencyPublishers)
	for n := 0; due.Sub(start) < s.For; n++ {
		if !sleep.For(ctx, time.Until(due)) {
			return context.Cause(ctx)
		}
		of := own[n%len(own)]
		entry := client.Entry{Thread: of.thread, Dialect: dialectName, Body: of.next(), Seq: uint64(n + 1)}
		s.mu.Lock()
		s.due[of.index] = append(s.due[of.index], due)
		s.mu.Unlock()
		for until := time.Now().Add(drainLimit); ; time.Sleep(50 * time.Millisecond) {
			_, err := p.Publish(ctx, entry)
			if err == nil {
				break
			}
			if ctx.Err() != nil || time.Now().After(until) {
				return fmt.Errorf("publish: %w", err)
			}
		}
		counts[of.index]++
		s.mu.Lock()
		now := time.Now()
		s.longest, s.acked = max(s.longest, now.Sub(s.acked)), now
		s.mu.Unlock()
		due = due.Add(every)
	}
	return nil
}

// subscribe takes items from before the first entry on; each of a session comes once, in order, over the death of the server.
func (s *soak) subscribe(ctx context.Context, c *client.Client, ready func()) error {
	from := client.Position{All: true}
	for ctx.Err() == nil {
		for item, err := range c.SubscribeReady(ctx, client.Filter{}, from, ready) {
			if err != nil {
				break // and again, from where it is
			}
			now := time.Now()
			from = client.Position{Seq: item.Seq + 1}
			if err := s.item(item, now); err != nil {
				return err
			}
		}
		time.Sleep(50 * time.Millisecond)
	}
	return nil
}

func (s *soak) item(item client.Item, now time.Time) error {
	var at int
	if _, err := fmt.Sscanf(item.Session, "bench-%d", &at); err != nil || at < 0 || at >= s.Sessions {
		return fmt.Errorf("an item of session %q", item.Session)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if want := int64(s.seen[at] + 1); item.N != want || int(item.N) > len(s.due[at]) {
		return fmt.Errorf("session %s: item %d, want %d", item.Session, item.N, want)
	}
	s.took = append(s.took, now.Sub(s.due[at][s.seen[at]]))
	s.seen[at]++
	return nil
}

// applied waits until the subscriber has every item, which is behind every head.
func (s *soak) applied(ctx context.Context, want int64) error {
	last, since := int64(-1), time.Now()
	for {
		s.mu.Lock()
		n := int64(len(s.took))
		s.mu.Unlock()
		if n == want {
			return nil
		}
		if n != last {
			last, since = n, time.Now()
		}
		if time.Since(since) > drainLimit {
			return fmt.Errorf("%w: the subscriber has %d of %d items", ErrWrong, n, want)
		}
		if !sleep.For(ctx, 100*time.Millisecond) {
			return context.Cause(ctx)
		}
	}
}

// verify reads every entry of every session and compares it with what its publisher sent, which is made again.
func (s *soak) verify(ctx context.Context, c *client.Client, counts []int) error {
	for i, want := range counts {
		of := newSession(i, s.text)
		head, err := c.Thread(of.thread).Head(ctx)
		if want == 0 && errors.Is(err, client.ErrNotFound) {
			continue
		}
		if err != nil {
			return fmt.Errorf("%s: %w", of.thread, err)
		}
		n := 0
		for line, err := range c.Internal().RawEntries(ctx, head) {
			if err != nil {
				return fmt.Errorf("%s: %w", of.thread, err)
			}
			if n++; n > want {
				break
			}
			if entry := of.next(); !bytes.Equal(line.Head, entry) {
				return fmt.Errorf("%s: entry %d has SHA-256 %x, want %x", of.thread, n, sha256.Sum256(line.Head), sha256.Sum256(entry))
			}
		}
		if n != want {
			return fmt.Errorf("%s has %d entries or more, want %d", of.thread, n, want)
		}
	}
	return nil
}

// Write prints the report for people.
func (r *SoakReport) Write(w io.Writer) error {
	t := text.NewTable(w)
	f := r.Figures
	fmt.Fprintf(t, "%s; %s\n\n", time.Duration(r.Setup.Seconds)*time.Second, r.Setup.machine())
	fmt.Fprintf(t, "entries of %d bytes, each read again and equal\t%d\n", r.Setup.EntryBytes, r.Entries)
	fmt.Fprintf(t, "entries a second\t%.0f\n", f["per_s"])
	fmt.Fprintf(t, "when due to be published, to item seen\tp50 %.1f ms, p99 %.1f ms, p99.9 %.1f ms, most %.1f s\n", f["latency_p50_ms"],
		f["latency_p99_ms"], f["latency_p999_ms"], f["latency_max_ms"]/1000)
	fmt.Fprintf(t, "longest without an ack, the server killed and started\t%.2f s\n", f["longest_without_ack_s"])
	fmt.Fprintf(t, "CPU of the server an entry\t%.0f µs\n", f["server_cpu_us_per_entry"])
	fmt.Fprintf(t, "read again\t%.0f entries/s\n", f["verified_per_s"])
	return t.Flush()
}
