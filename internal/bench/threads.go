package bench

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"spool/internal/text"
	"spool/pkg/casstore"
	"spool/pkg/client"
	"spool/pkg/threads"
)

// ThreadsConfig says how large the threads are. The zero value is good.
type ThreadsConfig struct {
	Entries int    // of the long thread; 0 = 100,000
	Rounds  int    // how often each reading runs; 0 = 5; the median counts
	Dir     string // where servers and files are; empty = the system's temporary directory

	Note func(string) // is told what runs now; may be nil
}

// contextEntries is the length of the thread whose whole context is read.
const contextEntries = 10_000

// tailEntries is how many entries are opened at the end of the long thread.
const tailEntries = 50

// ThreadsReport is what reading threads costs, beside the same session as a JSONL file that is parsed. All readings begin with empty
// caches of their own.
type ThreadsReport struct {
	Entries    int `json:"entries"`
	EntryBytes int `json:"entry_bytes"`

	TailSeconds  float64 `json:"tail_seconds"`  // open the last 50 entries of the long thread, contents too
	TailPacks    int64   `json:"tail_packs"`    // packs read for it
	JSONLSeconds float64 `json:"jsonl_seconds"` // read and parse its JSONL whole
	TailVsJSONL  float64 `json:"tail_vs_jsonl"` // how many times faster

	Context10kSeconds float64 `json:"context_10k_seconds"` // all of 10,000 entries, contents too
	ContextVsJSONL    float64 `json:"context_10k_vs_jsonl"`

	BytesVsJSONL float64 `json:"bytes_vs_jsonl"` // of packs, against the JSONL's
}

// Missed says which floors of DESIGN 14 the report misses.
func (r *ThreadsReport) Missed() (list []string) {
	if r.TailVsJSONL < 50 && r.Entries >= 100_000 {
		list = append(list, fmt.Sprintf("tail_vs_jsonl is %.1f, want at least 50", r.TailVsJSONL))
	}
	if r.TailPacks > 3 {
		list = append(list, fmt.Sprintf("tail_packs is %d, want at most 3", r.TailPacks))
	}
	if r.Context10kSeconds > 0.15 {
		list = append(list, fmt.Sprintf("context_10k_seconds is %.3f, want at most 0.15", r.Context10kSeconds))
	}
	return list
}

// Write prints the report for people.
func (r *ThreadsReport) Write(w io.Writer) error {
	t := text.NewTable(w)
	fmt.Fprintf(t, "last %d of %d entries\t%.2f ms, %d packs\t%.0fx parsing the JSONL\n", tailEntries,
		r.Entries, 1e3*r.TailSeconds, r.TailPacks, r.TailVsJSONL)
	fmt.Fprintf(t, "context of %d entries\t%.0f ms\t%.1fx parsing the JSONL\n", contextEntries, 1e3*r.Context10kSeconds, r.ContextVsJSONL)
	fmt.Fprintf(t, "stored bytes\t%.2f of the JSONL\t\n", r.BytesVsJSONL)
	return t.Flush()
}

// Threads measures reading, on a server of its own.
func Threads(ctx context.Context, cfg ThreadsConfig) (*ThreadsReport, error) {
	set := func(p *int, v int) {
		*p = cmp.Or(*p, v)
	}
	set(&cfg.Entries, 100_000)
	set(&cfg.Rounds, 5)
	if cfg.Entries < tailEntries || cfg.Rounds < 1 {
		return nil, fmt.Errorf("%w: use at least %d entries and 1 round", ErrConfig, tailEntries)
	}
	if cfg.Note == nil {
		cfg.Note = func(string) {}
	}
	b, done, err := openThreads(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer done()
	for _, step := range []struct {
		what string
		run  func(context.Context) error
	}{{"writing", b.write}, {"the tail", b.tail}, {"contexts", b.contexts}} {
		cfg.Note(step.what)
		if err := step.run(ctx); err != nil {
			return nil, fmt.Errorf("%s: %w", step.what, err)
		}
	}
	return b.rep, nil
}

// openThreads starts a server and Spool on it.
func openThreads(ctx context.Context, cfg ThreadsConfig) (b *threadsBench, done func(), err error) {
	r, err := startRig(Config{Dir: cfg.Dir, Batch: 500, Seconds: 8}, relaxedSync)
	if err != nil {
		return nil, nil, err
	}
	s, err := newSpool(ctx, r, 1)
	if err != nil {
		r.stop()
		return nil, nil, err
	}
	b = &threadsBench{cfg: cfg, rig: r, spool: s, rep: &ThreadsReport{Entries: cfg.Entries, EntryBytes: entryBytes}}
	return b, func() { s.close(); r.stop() }, nil
}

type threadsBench struct {
	cfg   ThreadsConfig
	rig   *rig
	spool *spool
	rep   *ThreadsReport

	long, short *session // the threads; short has contextEntries
	jsonl       [2]string
	jsonlBytes  int64
}

// write publishes both threads and writes their files.
func (b *threadsBench) write(ctx context.Context) error {
	text := newProse()
	b.long, b.short = newSession(0, text), newSession(1, text)
	for i, part := range []struct {
		s *session
		n int
	}{{b.long, b.cfg.Entries}, {b.short, contextEntries}} {
		b.jsonl[i] = filepath.Join(b.rig.dir, fmt.Sprintf("session-%d.jsonl", i))
		size, err := b.publish(ctx, part.s, part.n, b.jsonl[i])
		if err != nil {
			return err
		}
		b.jsonlBytes += size
	}
	packs, err := stock(ctx, b.spool.conn)
	b.rep.BytesVsJSONL = float64(packs.bytes) / float64(b.jsonlBytes)
	return err
}

func (b *threadsBench) publish(ctx context.Context, s *session, n int, file string) (size int64, err error) {
	f, err := os.Create(file)
	if err != nil {
		return 0, err
	}
	out := bufio.NewWriterSize(f, 1<<20)
	pub := b.spool.publishing[0]
	for s.n < n {
		entries := make([]client.Entry, min(500, n-s.n))
		for i := range entries {
			entries[i] = client.Entry{Thread: s.thread, Dialect: dialectName, Body: s.next()}
			k, err := fmt.Fprintf(out, "%s\n", entries[i].Body)
			if size += int64(k); err != nil {
				return size, err
			}
		}
		if _, err := pub.Publish(ctx, entries...); err != nil {
			return size, err
		}
	}
	if err := errors.Join(out.Flush(), f.Close()); err != nil {
		return size, err
	}
	for cl := client.New(b.spool.conn); ; time.Sleep(5 * time.Millisecond) {
		head, err := cl.Thread(s.thread).Head(ctx)
		if err == nil && head.Entries == int64(n) {
			return size, nil
		}
		if err != nil && !errors.Is(err, threads.ErrNoThread) {
			return size, err
		}
	}
}

// median runs a reading several times.
func (b *threadsBench) median(read func() error) (float64, error) {
	var took []float64
	for range b.cfg.Rounds {
		start := time.Now()
		if err := read(); err != nil {
			return 0, err
		}
		took = append(took, time.Since(start).Seconds())
	}
	return median(took), nil
}

// countedPacks counts packs that are read.
type countedPacks struct {
	casstore.PackGetter
	n atomic.Int64
}

func (c *countedPacks) Pack(ctx context.Context, id casstore.PackID) (*casstore.Pack, error) {
	c.n.Add(1)
	return c.PackGetter.Pack(ctx, id)
}

// reader reads with an empty cache.
func (b *threadsBench) reader() (threads.Reader, *countedPacks) {
	counted := &countedPacks{PackGetter: b.spool.conn.Store(0)}
	return threads.Reader{Packs: casstore.NewPackCache(counted, 64<<20)}, counted
}

func contents(ctx context.Context, steps []threads.Step, want int) error {
	if len(steps) != want {
		return fmt.Errorf("%w: %d entries, want %d", ErrWrong, len(steps), want)
	}
	for _, s := range steps {
		if _, err := s.ReadContent(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (b *threadsBench) tail(ctx context.Context) (err error) {
	cl := client.New(b.spool.conn)
	b.rep.TailSeconds, err = b.median(func() error {
		head, err := cl.Thread(b.long.thread).Head(ctx)
		if err != nil {
			return err
		}
		r, packs := b.reader()
		steps, err := r.Last(ctx, head.Head(), tailEntries)
		if err == nil {
			err = contents(ctx, steps, tailEntries)
		}
		b.rep.TailPacks = packs.n.Load()
		return err
	})
	if err != nil {
		return err
	}
	if b.rep.JSONLSeconds, err = b.median(func() error { return parseJSONL(b.jsonl[0], b.cfg.Entries) }); err != nil {
		return err
	}
	b.rep.TailVsJSONL = b.rep.JSONLSeconds / b.rep.TailSeconds
	return nil
}

// parseJSONL reads a file as whoever has only a file must.
func parseJSONL(file string, want int) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	lines := bufio.NewScanner(bufio.NewReaderSize(f, 1<<20))
	lines.Buffer(nil, 1<<20)
	n := 0
	for lines.Scan() {
		var entry map[string]any
		if err := json.Unmarshal(lines.Bytes(), &entry); err != nil {
			return err
		}
		n++
	}
	if lines.Err() == nil && n != want {
		return fmt.Errorf("%w: %d lines, want %d", ErrWrong, n, want)
	}
	return lines.Err()
}

func (b *threadsBench) contexts(ctx context.Context) error {
	head, err := client.New(b.spool.conn).Thread(b.short.thread).Head(ctx)
	if err != nil {
		return err
	}
	b.rep.Context10kSeconds, err = b.median(func() error { return b.context(ctx, head) })
	if err != nil {
		return err
	}
	parsed, err := b.median(func() error { return parseJSONL(b.jsonl[1], contextEntries) })
	b.rep.ContextVsJSONL = parsed / b.rep.Context10kSeconds
	return err
}

// context reads the whole context of the short thread.
func (b *threadsBench) context(ctx context.Context, head threads.Head) error {
	r, _ := b.reader()
	c, err := r.Context(ctx, head.Head())
	if err != nil {
		return err
	}
	return contents(ctx, c.Steps, contextEntries)
}
