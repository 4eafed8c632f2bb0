package bench

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"spool/internal/natsio"
	"spool/pkg/casstore"
	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// Reading is what one reading took.
type Reading struct {
	Seconds float64 `json:"seconds"`
	Packs   int64   `json:"packs"` // asked for, again where the cache had dropped them
	Heap    int64   `json:"heap"`  // live bytes at most, in another run
}

// readings is how often the heap is measured in a reading.
const readings = 16

// sampled measures the live heap at some of the packs that are read.
type sampled struct {
	casstore.PackGetter
	n, every, most int64
}

func (s *sampled) Pack(ctx context.Context, id casstore.PackID) (*casstore.Pack, error) {
	p, err := s.PackGetter.Pack(ctx, id)
	if s.n++; s.n%s.every == 0 {
		s.most = max(s.most, liveHeap())
	}
	return p, err
}

// measure reads twice with empty caches: for time, and for memory.
func measure(ctx context.Context, conn *natsio.Conn, t events.Thread,
	read func(r threads.Reader, head threads.Head) error) (out Reading, err error) {
	cl := client.New(conn)
	began := time.Now()
	head, err := cl.Thread(t).Head(ctx)
	if err != nil {
		return out, err
	}
	counted := &countedPacks{PackGetter: conn.Store(0)}
	if err := read(threads.Reader{Packs: casstore.NewPackCache(counted, readerCache)}, head); err != nil {
		return out, err
	}
	out.Seconds, out.Packs = time.Since(began).Seconds(), counted.n.Load()
	base, s := liveHeap(), &sampled{PackGetter: conn.Store(0), every: max(out.Packs/readings, 1)}
	err = read(threads.Reader{Packs: casstore.NewPackCache(s, readerCache)}, head)
	out.Heap = max(s.most-base, 0)
	return out, err
}

// readerCache is how many bytes of packs a reader keeps.
const readerCache = 64 << 20

// last reads the last entries of a thread, contents too.
func last(ctx context.Context, n int) func(threads.Reader, threads.Head) error {
	return func(r threads.Reader, head threads.Head) error {
		steps, err := r.Last(ctx, head.Head(), n)
		if err != nil {
			return err
		}
		return contents(ctx, steps, int(min(int64(n), head.Entries)))
	}
}

// walk reads a thread whole, entry by entry, contents too.
func walk(ctx context.Context) func(threads.Reader, threads.Head) error {
	return func(r threads.Reader, head threads.Head) error {
		n := int64(0)
		for s, err := range r.Walk(ctx, head.Head()) {
			if err == nil {
				_, err = s.ReadContent(ctx)
			}
			if err != nil {
				return err
			}
			n++
		}
		if n != head.Entries {
			return fmt.Errorf("%w: %d entries on the way, want %d", ErrWrong, n, head.Entries)
		}
		return nil
	}
}

func verify(ctx context.Context) func(threads.Reader, threads.Head) error {
	return func(r threads.Reader, head threads.Head) error { return threads.Verify(ctx, r, head) }
}

// one is a reading to be done.
type one struct {
	into *Reading
	t    events.Thread
	read func(threads.Reader, threads.Head) error
}

func measureAll(ctx context.Context, conn *natsio.Conn, all ...one) (err error) {
	for _, o := range all {
		if *o.into, err = measure(ctx, conn, o.t, o.read); err != nil {
			return err
		}
	}
	return nil
}

// liveHeap is what is reachable, in bytes. The second collection takes what pools held back from the first.
func liveHeap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// rss is the process's resident memory in bytes, once what is free went back to the system; 0 where that cannot be told.
func rss() int64 {
	debug.FreeOSMemory()
	raw, err := os.ReadFile("/proc/self/statm")
	if fields := strings.Fields(string(raw)); err == nil && len(fields) > 1 {
		pages, _ := strconv.ParseInt(fields[1], 10, 64)
		return pages * int64(os.Getpagesize())
	}
	return 0
}
