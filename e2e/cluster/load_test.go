package cluster_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"spool/e2e/internal/proc"
	"spool/internal/faulttest"
	"spool/internal/must"
	"spool/internal/natsio"
	"spool/internal/record"
	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// load is everything that goes on while servers fail: eight publishers, three persisters, two collectors, four subscribers, forks,
// deletions, and clients that move heads.
type load struct {
	c     *cluster
	pause time.Duration // of a publisher between two batches

	ledgers   []*faulttest.Ledger
	asyncs    []*async
	followers []*follower
	heads     *recorder
	daemons   []*proc.Process
	names     []string // of the daemons
	gc        []*reports

	forks, deletions, cut atomic.Int64 // operations that were done, and those that a fault cut short

	stop  context.CancelFunc
	group *errgroup.Group
	ctx   context.Context

	stopFollowers context.CancelFunc
	following     *errgroup.Group
}

// newLoad starts it all. Of the publishers, persisters, subscribers and movers of heads some know one server only: they stay on its
// side of a partition. The others go to whichever answers.
func newLoad(c *cluster, pause time.Duration) *load {
	l := &load{c: c, pause: pause, heads: newRecorder(c.t)}
	ctx, stop := context.WithCancel(c.t.Context())
	l.stop = stop
	l.group, l.ctx = errgroup.WithContext(ctx)
	for i := range servers {
		urls := c.urls()
		if i < 2 {
			urls = c.nodes[i].url
		}
		l.daemon("persister", urls, "-replicas", "3", "-log-level", "info")
	}
	for range 2 {
		l.daemon("gc", c.urls(), "-every", "2s", "-json", "-allow", "share", "-log-level", "warn")
	}
	for i, n := range c.nodes {
		l.ledger(fmt.Sprintf("side-%d", i), n.url, 5*time.Second)
		l.ledger(fmt.Sprintf("any-%d", i), c.urls(), 0)
	}
	for i := range 2 {
		a := &async{thread: events.Thread{Session: fmt.Sprintf("async-%d", i), Name: events.MainThread}}
		l.asyncs = append(l.asyncs, a)
		conn := l.dial(c.urls())
		l.group.Go(func() error { return a.run(l.ctx, client.New(conn)) })
	}
	following, stopFollowers := context.WithCancel(c.t.Context())
	l.stopFollowers = stopFollowers
	l.following, following = errgroup.WithContext(following)
	for i := range 4 {
		urls := c.urls()
		if i%2 == 0 {
			urls = c.nodes[i/2].url
		}
		f := &follower{name: fmt.Sprintf("follower-%d", i), durable: i >= 2, last: map[events.Thread]int64{}}
		l.followers = append(l.followers, f)
		conn := l.dial(urls)
		l.following.Go(func() error { return f.run(following, client.New(conn)) })
	}
	for i := range 5 {
		urls := c.urls()
		if i < servers {
			urls = c.nodes[i].url
		}
		conn := l.dial(urls)
		l.group.Go(func() error { return l.heads.run(l.ctx, conn, 40+i) })
	}
	for _, n := range c.nodes { // one at least is not on the lonely side of a partition
		conn := l.dial(n.url)
		l.group.Go(func() error { return l.heads.refill(l.ctx, n.name(), client.New(conn), conn) })
	}
	changer := l.dial(c.urls())
	l.group.Go(func() error { return l.change(l.ctx, client.New(changer)) })
	return l
}

// dial connects, to servers that are up.
func (l *load) dial(urls string) *natsio.Conn {
	l.c.t.Helper()
	var conn *natsio.Conn
	l.c.await("connect to "+urls, func(ctx context.Context) (err error) {
		conn, err = natsio.Dial(ctx, natsio.Config{URL: urls, Timeout: 4 * time.Second, Name: "load"})
		return err
	})
	l.c.t.Cleanup(conn.Close)
	return conn
}

func (l *load) daemon(name, urls string, args ...string) {
	cmd := exec.Command(filepath.Join(l.c.bin, name), args...)
	cmd.Dir = l.c.dir
	cmd.Env = []string{"HOME=" + l.c.dir, "TMPDIR=" + l.c.dir, "NATS_URL=" + urls, "GOMAXPROCS=2"}
	if name == "gc" {
		r := &reports{}
		l.gc, cmd.Stdout = append(l.gc, r), r
	}
	l.daemons, l.names = append(l.daemons, proc.Start(l.c.t, cmd)), append(l.names, fmt.Sprintf("%s %d", name, len(l.daemons)))
}

// entrySize is mostly small; now and then so large that a part of it is moved out, or that it does not fit a message.
func entrySize(r *rand.Rand) int {
	switch n := r.IntN(1000); {
	case n < 2:
		return 1_200_000
	case n < 20:
		return 30_000 + r.IntN(60_000)
	}
	return 60 + r.IntN(800)
}

func (l *load) ledger(name, urls string, giveUp time.Duration) {
	g := faulttest.NewLedger(faulttest.Workload{Name: name, ThreadsEach: 2, Entry: entrySize, Batch: 8, Pause: l.pause, GiveUp: giveUp})
	l.ledgers = append(l.ledgers, g)
	conn := l.dial(urls)
	l.group.Go(func() error { return g.Run(l.ctx, client.New(conn)) })
}

// acked is how many entries all publishers have got an ack for.
func (l *load) acked() (n int64) {
	for _, g := range l.ledgers {
		n += g.Acked()
	}
	for _, a := range l.asyncs {
		n += a.stored.Load()
	}
	return n
}

// progress is what was acked, and moves of heads that were. Of the publishers, and of those that move heads, some are at each server.
func (l *load) progress() (entries, moves int64) { return l.acked(), l.heads.moves.Load() }

// failed is an error that something of the load ended with.
func (l *load) failed() error {
	for i, d := range l.daemons {
		if d.Ended() {
			return fmt.Errorf("%s ended by itself:\n%s", l.names[i], d.Lines(20))
		}
	}
	if l.ctx.Err() != nil {
		return l.group.Wait()
	}
	return nil
}

// change forks and deletes. What a fault cuts short is counted; what was refused is an error.
func (l *load) change(ctx context.Context, c *client.Client) error {
	source := events.Thread{Session: l.ledgers[0].Sessions()[0], Name: events.MainThread}
	for k := 1; ctx.Err() == nil; k++ {
		wait(ctx, time.Second)
		if err := l.changes(ctx, c, source, k); err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

func (l *load) changes(ctx context.Context, c *client.Client, source events.Thread, k int) error {
	attempt := func(what string, count *atomic.Int64, f func(ctx context.Context) error) error {
		once, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		err := f(once)
		switch {
		case err == nil:
			count.Add(1)
		case once.Err() != nil, record.Temporary(err):
			l.cut.Add(1)
		case errors.Is(err, threads.ErrNoThread) && what == "fork": // nothing was applied to it yet
			l.cut.Add(1)
		default:
			return fmt.Errorf("%s %d: %w", what, k, err)
		}
		return nil
	}
	fork := events.Thread{Session: fmt.Sprintf("fork-%d", k), Name: events.MainThread}
	err := attempt("fork", &l.forks, func(ctx context.Context) error {
		return c.Thread(fork).Fork(ctx, events.Fork{Session: source.Session, Thread: source.Name, Whole: true})
	})
	if err != nil {
		return err
	}
	doomed := events.Thread{Session: fmt.Sprintf("doomed-%d", k), Name: events.MainThread}
	pub := c.Publisher(client.PublisherConfig{Producer: doomed.Session})
	var entries []client.Entry
	for i := range 4 { // with images, which are garbage afterwards
		image := strings.Repeat(fmt.Sprintf("%04d", (k*4+i)%10_000), 512)
		entries = append(entries, client.Entry{Thread: doomed, Dialect: "omp", Seq: uint64(i + 1), Body: fmt.Appendf(nil,
			`{"type":"message","id":"d%d-%d","message":{"role":"user","content":[{"type":"image","mimeType":"image/png","data":%q}]}}`, k, i, image)})
	}
	if _, err := pub.Publish(ctx, entries...); err != nil {
		return err
	}
	return attempt("deletion", &l.deletions, func(ctx context.Context) error {
		if err := c.Thread(doomed).Await(ctx, doomed.Session, 0, 4); err != nil {
			return err
		}
		_, err := c.Session(doomed.Session).Delete(ctx, client.Deletion{Plain: true})
		return err
	})
}

// async is a publisher that does not wait for acks; its entries are 1, 2, 3, …
type async struct {
	thread events.Thread
	taken  int64
	stored atomic.Int64
}

func (a *async) run(ctx context.Context, c *client.Client) error {
	pub := c.Async(client.AsyncConfig{PublisherConfig: client.PublisherConfig{Producer: a.thread.Session},
		Stored: func(n int) { a.stored.Add(int64(n)) }, Window: 1 << 20})
	for ctx.Err() == nil {
		a.taken++
		body := fmt.Appendf(nil, `{"content":[{"type":"text","text":"%d"}]}`, a.taken)
		if err := pub.Publish(ctx, client.Entry{Thread: a.thread, Dialect: "item", Body: body, Seq: uint64(a.taken)}); err != nil {
			a.taken--
			if ctx.Err() == nil {
				return fmt.Errorf("%s: %w", a.thread, err)
			}
			break
		}
		wait(ctx, 15*time.Millisecond)
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	return pub.Close(last)
}

// check: all that was taken was stored, and is there once, in order. It is called when run has ended.
func (a *async) check(ctx context.Context, c *client.Client) error {
	if a.stored.Load() != a.taken {
		return fmt.Errorf("%s: %d entries were taken and %d are durable after Close", a.thread, a.taken, a.stored.Load())
	}
	if err := c.Thread(a.thread).Await(ctx, a.thread.Session, 0, uint64(a.taken)); err != nil {
		return err
	}
	head, err := c.Thread(a.thread).Head(ctx)
	if err != nil || head.N != a.taken || head.Entries != a.taken {
		return fmt.Errorf("%s: %d entries, %d items, %w; want %d", a.thread, head.Entries, head.N, err, a.taken)
	}
	n := int64(0)
	for it, err := range c.Thread(a.thread).ItemsFrom(ctx, head, 1) {
		n++
		var item struct{ Content []struct{ Text string } }
		if err == nil {
			err = json.Unmarshal(it.Data, &item)
		}
		if err != nil || it.N != n || len(item.Content) != 1 || item.Content[0].Text != fmt.Sprint(n) {
			return fmt.Errorf("%s: item %d = %d %.80q, %w", a.thread, n, it.N, it.Data, err)
		}
	}
	if n != a.taken {
		return fmt.Errorf("%s: %d items from the nodes, want %d", a.thread, n, a.taken)
	}
	return nil
}

// follower subscribes to everything, and again when that ends, from where it was.
type follower struct {
	name    string
	durable bool

	mu     sync.Mutex
	last   map[events.Thread]int64 // number of the last item
	seq    uint64                  // of the last item in the stream
	items  int64
	begun  int // subscriptions
	filled int64
	wrong  []error
}

func (f *follower) run(ctx context.Context, c *client.Client) error {
	for ctx.Err() == nil {
		f.begun++
		from := client.Position{All: true}
		if f.seq > 0 && !f.durable {
			from = client.Position{Seq: f.seq + 1}
		}
		items := c.Subscribe(ctx, client.Filter{}, from)
		if f.durable {
			items = c.SubscribeDurable(ctx, f.name, client.Filter{}, from)
		}
		first := map[events.Thread]bool{} // seen since it began anew: a name's last items may come again
		for it, err := range items {
			var gap *client.Gap
			if errors.As(err, &gap) {
				f.note(fmt.Errorf("%s: %w", f.name, gap))
				continue
			}
			if err != nil {
				if !record.Temporary(err) && ctx.Err() == nil {
					return fmt.Errorf("%s: %w", f.name, err)
				}
				break
			}
			f.take(it, first)
		}
		wait(ctx, 200*time.Millisecond)
	}
	return nil
}

func (f *follower) note(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.wrong = append(f.wrong, err)
}

// doomed are sessions that are deleted while they are read: their items may go at any place.
func doomed(session string) bool { return strings.HasPrefix(session, "doomed-") }

// take: item after item, each once. A thread of a fork begins behind its source's items.
func (f *follower) take(it client.Item, first map[events.Thread]bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := events.Thread{Session: it.Session, Name: it.Thread}
	f.items++
	f.seq = max(f.seq, it.Seq)
	if it.Filled {
		f.filled++
	}
	last, known := f.last[t]
	again := f.begun > 1 && !first[t]
	first[t] = true
	switch {
	case doomed(it.Session):
	case !known && it.N != 1 && !strings.HasPrefix(it.Session, "fork-"):
		f.wrong = append(f.wrong, fmt.Errorf("%s: the first item of %s is %d", f.name, t, it.N))
	case known && it.N <= last && !again: // whoever begins anew may get again what is stored twice, or was not acknowledged
		f.wrong = append(f.wrong, fmt.Errorf("%s: item %d of %s came after item %d", f.name, it.N, t, last))
	case known && it.N > last+1:
		f.wrong = append(f.wrong, fmt.Errorf("%s: item %d of %s came after item %d: a gap", f.name, it.N, t, last))
	}
	if it.N > last {
		f.last[t] = it.N
	}
}

// behind names a thread of which it has not got every item.
func (f *follower) behind(want map[events.Thread]int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for t, n := range want {
		if f.last[t] != n {
			return fmt.Errorf("%s has %d items of %s, want %d", f.name, f.last[t], t, n)
		}
	}
	return nil
}

// reports are what a collector writes: a line a cycle.
type reports struct {
	mu                         sync.Mutex
	rest                       []byte
	cycles, applied, condemned int
	refused                    map[string]int
}

func (r *reports) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rest = append(r.rest, p...)
	for {
		line, rest, ok := bytes.Cut(r.rest, []byte("\n"))
		if !ok {
			return len(p), nil
		}
		r.rest = rest
		var cycle struct {
			Applied  bool
			Refused  string
			Dangling int
			Done     struct{ Condemned int }
		}
		if json.Unmarshal(line, &cycle) != nil {
			continue
		}
		r.cycles++
		r.condemned += cycle.Done.Condemned
		switch {
		case cycle.Dangling > 0:
			r.refuse("something refers to what is missing: " + cycle.Refused)
		case cycle.Refused != "":
			r.refuse(cycle.Refused)
		case cycle.Applied:
			r.applied++
		}
	}
}

// collected: a collector has gone through a cycle.
func (l *load) collected(context.Context) error {
	must.Do(l.c.t, l.failed())
	for _, r := range l.gc {
		r.mu.Lock()
		n := r.applied
		r.mu.Unlock()
		if n > 0 {
			return nil
		}
	}
	return errors.New("no cycle was applied")
}

func (r *reports) refuse(why string) {
	if r.refused == nil {
		r.refused = map[string]int{}
	}
	r.refused[why]++
}
