package bench

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"time"

	"golang.org/x/sync/errgroup"

	"spool/internal/fsck"
	"spool/internal/gc"
	"spool/internal/natsadmin"
	"spool/internal/natsio"
	"spool/internal/record"
	"spool/internal/service"
	"spool/internal/text"
	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// StoreConfig says how large a store is. The zero value is good.
type StoreConfig struct {
	Nodes int    // 0 = 1,000,000
	Depth int    // threads of which each is forked from the one before; 0 = 1,000
	Forks int    // threads forked from one; 0 = 10,000
	Dir   string // where the server is; empty = the system's temporary directory

	Note func(string) // is told what runs now; may be nil
}

// StoreReport is what a large store takes, and what reading, checking and repacking it costs. Its nodes were made by a
// persister of what publishers sent: two of five in one long thread, the others over 200 sessions, all at the same time, so
// that packs are mixed. All readings begin with empty caches. Memory of the server is that of this process with nothing but
// the server in it, behind a collection; memory of a reading is live heap above that, at its most.
type StoreReport struct {
	Nodes          int64   `json:"nodes"`
	Entries        int64   `json:"entries"`
	Packs          int     `json:"packs"`
	BuildSeconds   float64 `json:"build_seconds"`
	NodesPerSecond float64 `json:"nodes_per_second"`
	RawBytes       int64   `json:"raw_bytes"`    // of the nodes
	PackBytes      int64   `json:"pack_bytes"`   // of the packs
	RecordBytes    int64   `json:"record_bytes"` // of the record bucket

	ServerHeapBefore int64 `json:"server_heap_before"`
	ServerHeapAfter  int64 `json:"server_heap_after"`
	ServerRSSBefore  int64 `json:"server_rss_before"`
	ServerRSSAfter   int64 `json:"server_rss_after"`

	LongEntries int64   `json:"long_entries"`
	Tail        Reading `json:"tail"`        // last 50 entries of the long thread, contents too
	Context     Reading `json:"context_10k"` // last 10,000 entries of it
	Page        Reading `json:"deep_page"`   // 20 entries in its middle
	Walk        Reading `json:"walk"`        // all of it, contents too
	Verify      Reading `json:"verify"`      // all of it
	FsckSeconds float64 `json:"fsck_seconds"`

	ChainDepth   int     `json:"chain_depth"`
	ChainSeconds float64 `json:"chain_seconds"` // until the deepest is there
	ChainTail    Reading `json:"chain_tail"`    // last 50 entries of the deepest, each fork in a pack of its own
	ChainWalk    Reading `json:"chain_walk"`    // all of the deepest
	ChainVerify  Reading `json:"chain_verify"`

	Forks       int     `json:"forks"`
	ForkSeconds float64 `json:"forks_seconds"`
	ForkBytes   float64 `json:"fork_pack_bytes"`   // of packs, a fork
	ForkRecords float64 `json:"fork_record_bytes"` // of records, a fork
	ForkNodes   float64 `json:"fork_nodes"`
	ListSeconds float64 `json:"forks_list_seconds"`

	RemovedThreads int     `json:"removed_threads"` // all of the sessions, so that packs are less than half live
	GCSeconds      float64 `json:"gc_seconds"`      // the cycle that repacks
	RepackedPacks  int     `json:"repacked_packs"`
	IntoPacks      int     `json:"into_packs"`
	BytesAfter     int64   `json:"pack_bytes_after"`
	TailAfter      Reading `json:"tail_after"`
	ChainTailAfter Reading `json:"chain_tail_after"`
}

// Missed says what is not as bounded as it must be, whatever the machine.
func (r *StoreReport) Missed() (list []string) {
	for what, packs := range map[string]int64{"tail": r.Tail.Packs, "tail_after": r.TailAfter.Packs,
		"chain_tail_after": r.ChainTailAfter.Packs} {
		if packs > 3 {
			list = append(list, fmt.Sprintf("%s reads %d packs, want at most 3", what, packs))
		}
	}
	if most := int64(2 * readerCache); r.Walk.Heap > most {
		list = append(list, fmt.Sprintf("walk takes %s, want at most %s", mib(r.Walk.Heap), mib(most)))
	}
	if r.ForkNodes > 2 {
		list = append(list, fmt.Sprintf("fork_nodes is %.2f, want at most 2", r.ForkNodes))
	}
	return list
}

// Write prints the report for people.
func (r *StoreReport) Write(w io.Writer) error {
	t := text.NewTable(w)
	row := func(what, figure, note string, args ...any) {
		fmt.Fprintf(t, "%s\t%s\t%s\n", what, figure, fmt.Sprintf(note, args...))
	}
	ms := func(s float64) string { return fmt.Sprintf("%.1f ms", 1e3*s) }
	sec := func(s float64) string { return fmt.Sprintf("%.1f s", s) }
	row("build", sec(r.BuildSeconds), "%d nodes of %d entries in %d packs, %.0f nodes/s", r.Nodes, r.Entries, r.Packs, r.NodesPerSecond)
	row("stored", mib(r.PackBytes), "%s of nodes, %.0f bytes a node; records %s", mib(r.RawBytes),
		float64(r.PackBytes)/float64(r.Nodes), mib(r.RecordBytes))
	row("server's heap", mib(r.ServerHeapAfter), "before: %s; RSS %s, before: %s", mib(r.ServerHeapBefore),
		mib(r.ServerRSSAfter), mib(r.ServerRSSBefore))
	reading := func(what, note string, r Reading) {
		row(what, ms(r.Seconds), "%s, %d packs, %s of heap at most", note, r.Packs, mib(r.Heap))
	}
	reading("tail", fmt.Sprintf("last %d of %d entries", tailEntries, r.LongEntries), r.Tail)
	reading("context", fmt.Sprintf("last %d entries", contextEntries), r.Context)
	reading("page in the middle", "20 entries", r.Page)
	reading("read it all", fmt.Sprintf("%.0f entries/s", float64(r.LongEntries)/r.Walk.Seconds), r.Walk)
	reading("verify it", fmt.Sprintf("%.0f entries/s", float64(r.LongEntries)/r.Verify.Seconds), r.Verify)
	row("fsck", sec(r.FsckSeconds), "%.0f nodes/s", float64(r.Nodes)/r.FsckSeconds)
	row("forks of forks", sec(r.ChainSeconds), "%d deep", r.ChainDepth)
	reading("tail of the deepest", fmt.Sprintf("last %d entries", tailEntries), r.ChainTail)
	reading("read it all", fmt.Sprintf("%d states", 2*r.ChainDepth+1), r.ChainWalk)
	reading("verify it", fmt.Sprintf("%d states", 2*r.ChainDepth+1), r.ChainVerify)
	row("forks of one", sec(r.ForkSeconds), "%d; each %.0f bytes of packs, %.0f of records, %.2f nodes; listed in %s", r.Forks,
		r.ForkBytes, r.ForkRecords, r.ForkNodes, ms(r.ListSeconds))
	row("gc and repack", sec(r.GCSeconds), "%d threads removed; %d packs into %d, %s left", r.RemovedThreads, r.RepackedPacks,
		r.IntoPacks, mib(r.BytesAfter))
	reading("tail after it", fmt.Sprintf("last %d entries", tailEntries), r.TailAfter)
	reading("tail of the deepest after it", fmt.Sprintf("last %d entries", tailEntries), r.ChainTailAfter)
	return t.Flush()
}

// Store builds a large store on a server of its own, and measures it.
func Store(ctx context.Context, cfg StoreConfig) (*StoreReport, error) {
	for p, v := range map[*int]int{&cfg.Nodes: 1_000_000, &cfg.Depth: 1_000, &cfg.Forks: 10_000} {
		*p = cmp.Or(*p, v)
	}
	if cfg.Nodes < 1_000 || cfg.Depth < 1 || cfg.Forks < 1 {
		return nil, fmt.Errorf("%w: use at least 1000 nodes, a depth of 1 and 1 fork", ErrConfig)
	}
	if cfg.Note == nil {
		cfg.Note = func(string) {}
	}
	r, err := startRig(Config{Dir: cfg.Dir, Batch: 500, Seconds: 8 + cfg.Nodes/100_000}, relaxedSync)
	if err != nil {
		return nil, err
	}
	defer r.stop()
	b := &storeBench{cfg: cfg, rig: r, rep: &StoreReport{ChainDepth: cfg.Depth, Forks: cfg.Forks}}
	for _, step := range []struct {
		what string
		run  func(context.Context) error
	}{{"building", b.build}, {"reading", b.withConn(b.read)}, {"fsck", b.withConn(b.fsck)}, {"forks of forks", b.withSpool(b.chain)},
		{"forks of one", b.withSpool(b.forks)}, {"repacking", b.repack}, {"fsck again", b.withConn(b.clean)}} {
		cfg.Note(step.what)
		if err := step.run(ctx); err != nil {
			return nil, fmt.Errorf("%s: %w", step.what, err)
		}
	}
	return b.rep, nil
}

type storeBench struct {
	cfg           StoreConfig
	rig           *rig
	rep           *StoreReport
	long, deepest events.Thread
	others        []events.Thread
}

// withConn gives a step a connection, and nothing else that runs.
func (b *storeBench) withConn(step func(context.Context, *natsio.Conn) error) func(context.Context) error {
	return func(ctx context.Context) error {
		conn, err := b.rig.spool(ctx)
		if err != nil {
			return err
		}
		defer conn.Close()
		return step(ctx, conn)
	}
}

// withSpool gives a step a persister and publishers.
func (b *storeBench) withSpool(step func(context.Context, *spool) error) func(context.Context) error {
	return func(ctx context.Context) error {
		s, err := newSpool(ctx, b.rig, 2)
		if err != nil {
			return err
		}
		defer s.close()
		return step(ctx, s)
	}
}

// build publishes the entries, and measures the server before and after.
func (b *storeBench) build(ctx context.Context) error {
	if err := b.withConn(func(context.Context, *natsio.Conn) error { return nil })(ctx); err != nil { // streams
		return err
	}
	b.rep.ServerHeapBefore, b.rep.ServerRSSBefore = liveHeap(), rss()
	if err := b.withSpool(b.publish)(ctx); err != nil {
		return err
	}
	b.rep.ServerHeapAfter, b.rep.ServerRSSAfter = liveHeap(), rss()
	return b.withConn(func(ctx context.Context, conn *natsio.Conn) error {
		packs, err := stock(ctx, conn)
		b.rep.Packs, b.rep.Nodes, b.rep.RawBytes, b.rep.PackBytes = packs.n, packs.nodes, packs.raw, packs.bytes
		b.rep.RecordBytes = packs.records
		b.rep.NodesPerSecond = float64(packs.nodes) / b.rep.BuildSeconds
		return err
	})(ctx)
}

// publish sends all entries: an entry makes a content and a state.
func (b *storeBench) publish(ctx context.Context, s *spool) error {
	words := newProse()
	long := newSession(0, words)
	others := make([]*session, sessions)
	for i := range others {
		others[i] = newSession(i+1, words)
		b.others = append(b.others, others[i].thread)
	}
	b.long = long.thread
	entries := b.cfg.Nodes / 2
	b.rep.Entries, b.rep.LongEntries = int64(entries), int64(entries*2/5)
	began := time.Now()
	g, gctx := errgroup.WithContext(ctx)
	for by, part := range []struct {
		ss []*session
		n  int64
	}{{[]*session{long}, b.rep.LongEntries}, {others, b.rep.Entries - b.rep.LongEntries}} {
		g.Go(func() error {
			for sent := int64(0); sent < part.n; {
				n := min(200*int64(1+by)-100*int64(by), part.n-sent) // 200 and 300: two to three
				if err := s.publish(gctx, by, part.ss, int(n)); err != nil {
					return err
				}
				sent += n
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	if err := s.await(ctx, b.rep.Entries); err != nil {
		return err
	}
	b.rep.BuildSeconds = time.Since(began).Seconds()
	return nil
}

// await returns when so many entries are done.
func (s *spool) await(ctx context.Context, entries int64) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for s.done() < entries {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
	return nil
}

// packStock is what all packs are together.
type packStock struct {
	n          int
	nodes      int64
	raw, bytes int64
	records    int64 // bytes of the record bucket
}

func stock(ctx context.Context, conn *natsio.Conn) (out packStock, err error) {
	rs, err := conn.Records().List(ctx, events.PackKey("*"))
	if err != nil {
		return out, err
	}
	for _, r := range rs {
		p, err := record.DecodePack(r.Value)
		if err != nil {
			return out, err
		}
		if !p.Gone {
			out.n, out.nodes, out.raw, out.bytes = out.n+1, out.nodes+int64(p.Nodes), out.raw+p.Raw, out.bytes+p.Object.Size
		}
	}
	s, err := conn.JetStream().Stream(ctx, events.RecordsStream)
	if err == nil {
		out.records = int64(s.CachedInfo().State.Bytes)
	}
	return out, err
}

func (b *storeBench) read(ctx context.Context, conn *natsio.Conn) error {
	page := func(r threads.Reader, head threads.Head) error {
		steps, err := r.Page(ctx, head.Head(), int(head.Entries/2), 20)
		if err != nil {
			return err
		}
		return contents(ctx, steps, 20)
	}
	return measureAll(ctx, conn,
		one{&b.rep.Tail, b.long, last(ctx, tailEntries)}, one{&b.rep.Context, b.long, last(ctx, contextEntries)},
		one{&b.rep.Page, b.long, page}, one{&b.rep.Walk, b.long, walk(ctx)}, one{&b.rep.Verify, b.long, verify(ctx)})
}

func (b *storeBench) fsck(ctx context.Context, conn *natsio.Conn) error {
	began := time.Now()
	if err := b.clean(ctx, conn); err != nil {
		return err
	}
	b.rep.FsckSeconds = time.Since(began).Seconds()
	return nil
}

// clean fails on anything that differs.
func (b *storeBench) clean(ctx context.Context, conn *natsio.Conn) error {
	rep, err := fsck.Check(ctx, natsadmin.Of(conn), fsck.Config{})
	if err != nil {
		return err
	}
	if len(rep.Findings) > 0 {
		return fmt.Errorf("%w: %d findings, the first: %s", ErrWrong, len(rep.Findings), rep.Findings[0])
	}
	return nil
}

// repack removes the threads of the sessions and collects.
func (b *storeBench) repack(ctx context.Context) error {
	if err := b.withSpool(b.remove)(ctx); err != nil {
		return err
	}
	return b.withConn(b.collect)(ctx)
}

func (b *storeBench) remove(ctx context.Context, s *spool) error {
	cl := client.New(s.conn)
	b.rep.RemovedThreads = len(b.others)
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(atOnce)
	for _, t := range b.others {
		g.Go(func() error { return cl.Thread(t).Remove(gctx) })
	}
	return g.Wait()
}

// atOnce is how many clients operate at the same time.
const atOnce = 64

func (b *storeBench) collect(ctx context.Context, conn *natsio.Conn) error {
	cfg := gc.Config{Allow: []gc.Brake{gc.BrakeShare}}
	c, err := service.NewCollector(conn, cfg, nil)
	if err != nil {
		return err
	}
	began := time.Now()
	_, rep, err := service.Collect(ctx, conn, c, true)
	if err != nil {
		return err
	}
	b.rep.GCSeconds, b.rep.RepackedPacks, b.rep.IntoPacks = time.Since(began).Seconds(), rep.Done.Repacked, rep.Done.Made
	after, err := stock(ctx, conn)
	if err != nil {
		return err
	}
	b.rep.BytesAfter = after.bytes
	return measureAll(ctx, conn, one{&b.rep.TailAfter, b.long, last(ctx, tailEntries)},
		one{&b.rep.ChainTailAfter, b.deepest, last(ctx, tailEntries)})
}

// chain forks threads from each other: each has an entry of its own, and the next begins there.
func (b *storeBench) chain(ctx context.Context, s *spool) error {
	const session = "chain"
	name := func(i int) events.Thread { return events.Thread{Session: session, Name: fmt.Sprint("f-", i)} }
	pub := s.publishing[0]
	began := time.Now()
	for i := range b.cfg.Depth + 1 {
		if i > 0 {
			from := events.Fork{Session: session, Thread: name(i - 1).Name, Index: int64(2*i - 1)}
			if err := pub.Control(ctx, name(i), 0, events.Control{Op: events.OpFork, Fork: &from}); err != nil {
				return err
			}
		}
		if _, err := pub.Publish(ctx, step(name(i), i)); err != nil {
			return err
		}
	}
	b.deepest = name(b.cfg.Depth)
	if err := s.await(ctx, int64(b.cfg.Depth+1)); err != nil {
		return err
	}
	b.rep.ChainSeconds = time.Since(began).Seconds()
	return measureAll(ctx, s.conn, one{&b.rep.ChainTail, b.deepest, last(ctx, tailEntries)},
		one{&b.rep.ChainWalk, b.deepest, walk(ctx)}, one{&b.rep.ChainVerify, b.deepest, verify(ctx)})
}

// step is a small entry.
func step(t events.Thread, i int) client.Entry {
	return client.Entry{Thread: t, Dialect: "step", Body: fmt.Appendf(nil, `{"role":"coder","content":"step %d of %s"}`, i, t)}
}

// forkedEntries is how many entries the thread has that many are forked from.
const forkedEntries = 200

// forks forks many threads from one, as many clients would: each waits until its fork is durable.
func (b *storeBench) forks(ctx context.Context, s *spool) error {
	main := events.Thread{Session: "wide", Name: events.MainThread}
	entries := make([]client.Entry, forkedEntries)
	for i := range entries {
		entries[i] = step(main, i)
	}
	if _, err := s.publishing[0].Publish(ctx, entries...); err != nil {
		return err
	}
	if err := s.await(ctx, forkedEntries); err != nil {
		return err
	}
	before, err := stock(ctx, s.conn)
	if err != nil {
		return err
	}
	cl := client.New(s.conn)
	began := time.Now()
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(atOnce)
	for i := range b.cfg.Forks {
		g.Go(func() error {
			to := events.Thread{Session: main.Session, Name: fmt.Sprint("fork-", i)}
			return cl.Thread(to).Fork(gctx, events.Fork{Session: main.Session, Thread: main.Name, Index: int64(1 + i%forkedEntries)})
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	b.rep.ForkSeconds = time.Since(began).Seconds()
	after, err := stock(ctx, s.conn)
	if err != nil {
		return err
	}
	n := float64(b.cfg.Forks)
	b.rep.ForkBytes, b.rep.ForkNodes = float64(after.bytes-before.bytes)/n, float64(after.nodes-before.nodes)/n
	b.rep.ForkRecords = float64(after.records-before.records) / n
	began = time.Now()
	list, err := cl.Session(main.Session).Threads(ctx)
	b.rep.ListSeconds = time.Since(began).Seconds()
	if err == nil && len(list) != b.cfg.Forks+1 {
		err = fmt.Errorf("%w: %d threads are listed, want %d", ErrWrong, len(list), b.cfg.Forks+1)
	}
	return err
}

func mib(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }
