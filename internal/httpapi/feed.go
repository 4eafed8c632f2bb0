package httpapi

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"spool/internal/jsonscan"
	"spool/internal/view"
	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// moment is something that happened under a filter, as all its readers see it.
type moment struct {
	kind   string // of event
	thread events.Thread
	data   []byte // JSON of the event; of a frame nil: each reader gets the part that it does not have

	n    int64  // of an item: its number in the thread
	life uint64 // of an item: which of the threads that had the name
	seq  uint64 // of an item: where ITEMS has it, 0 if it was made from its node; of a head: its revision

	output string // of a frame
	frame  client.Frame

	left int // readers that have not had it
}

// size is what a moment costs in bytes.
func (m *moment) size() int { return len(m.data) + len(m.frame.Text) + 256 }

// The kinds of event.
const (
	eventItem   = "item"
	eventLive   = "live"
	eventOpen   = "open"
	eventHead   = "head"
	eventReset  = "reset"
	eventFailed = "failed"
)

// What moments that not all readers have had may cost, in bytes. A reader that is slower than that reads on from what is
// stored: it slows nobody, and holds nothing.
const (
	feedBytes = 2 << 20
	hubBytes  = 64 << 20
)

// hub shares one feed for each filter between all its readers.
type hub struct {
	client *client.Client
	log    *slog.Logger
	bytes  atomic.Int64 // of all feeds

	mu    sync.Mutex
	feeds map[any]*feed
}

func newHub(c *client.Client, log *slog.Logger) *hub {
	return &hub{client: c, log: log, feeds: map[any]*feed{}}
}

// The filters of feeds: keys of hub.feeds, each with how it is fed.
type (
	threadFeed struct{ events.Thread }                        // items, frames and head of one thread
	itemFeed   struct{ session, thread, kind, detail string } // items; empty fields choose everything
	headFeed   struct{ session string }                       // heads
)

// feeder puts what happens into a feed until ctx ends; ready is called once all that happens later will be in it.
type feeder interface {
	feed(ctx context.Context, c *client.Client, f *feed, ready func()) error
}

// feed is what happens under one filter, once for all readers.
type feed struct {
	hub    *hub
	key    any
	cancel context.CancelFunc
	ready  chan struct{} // closed when all that happens later will come
	ended  chan struct{} // closed when nothing comes any more
	err    error         // why; valid once ended is closed

	readers int // hub.mu

	mu    sync.Mutex
	ring  []*moment // that not all readers had, oldest first
	first uint64    // place of ring[0]
	bytes int
	here  int           // readers that moments are kept for
	news  chan struct{} // closed when something comes
}

// join gives a reader of the feed, which stands once this returns: all that happens later comes.
func (h *hub) join(ctx context.Context, key feeder) (*reader, error) {
	h.mu.Lock()
	f := h.feeds[key]
	if f == nil {
		run, cancel := context.WithCancel(context.WithoutCancel(ctx))
		f = &feed{hub: h, key: key, cancel: cancel, ready: make(chan struct{}), ended: make(chan struct{}), news: make(chan struct{})}
		h.feeds[key] = f
		go f.run(run, key)
	}
	f.readers++
	h.mu.Unlock()
	r := &reader{feed: f}
	select {
	case <-f.ready:
		r.stand()
		return r, nil
	case <-f.ended:
		defer f.leave()
		return nil, f.err
	case <-ctx.Done():
		defer f.leave()
		return nil, ctx.Err()
	}
}

// run feeds until the last reader has left or something fails: then readers end and come again.
func (f *feed) run(ctx context.Context, from feeder) {
	defer close(f.ended)
	f.err = from.feed(ctx, f.hub.client, f, sync.OnceFunc(func() { close(f.ready) }))
	if f.err == nil {
		f.err = errFeedEnded
	}
	f.hub.forget(f)
	if ctx.Err() == nil {
		f.hub.log.Warn("event stream ended", "error", f.err)
	}
	f.cancel()
}

var errFeedEnded = errors.New("event stream ended")

// forget makes the next reader begin a new feed.
func (h *hub) forget(f *feed) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.feeds[f.key] == f {
		delete(h.feeds, f.key)
	}
}

func (f *feed) leave() {
	f.hub.mu.Lock()
	defer f.hub.mu.Unlock()
	if f.readers--; f.readers == 0 {
		if f.hub.feeds[f.key] == f {
			delete(f.hub.feeds, f.key)
		}
		f.cancel()
	}
}

// push adds a moment and wakes the readers.
func (f *feed) push(m *moment) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if m.left = f.here; m.left == 0 {
		return
	}
	f.ring = append(f.ring, m)
	f.account(m.size())
	for len(f.ring) > 1 && (f.bytes > feedBytes || f.hub.bytes.Load() > hubBytes) {
		f.drop()
	}
	close(f.news)
	f.news = make(chan struct{})
}

func (f *feed) account(n int) {
	f.bytes += n
	f.hub.bytes.Add(int64(n))
}

func (f *feed) drop() {
	f.account(-f.ring[0].size())
	f.ring[0] = nil
	f.ring = f.ring[1:]
	f.first++
}

// release says that a reader is done with all moments from a place to another.
func (f *feed) release(from, to uint64) {
	for at := max(from, f.first); at < to; at++ {
		f.ring[at-f.first].left--
	}
	for len(f.ring) > 0 && f.ring[0].left <= 0 {
		f.drop()
	}
}

func (f *feed) end() uint64 { return f.first + uint64(len(f.ring)) }

// reader is one reader's place in a feed. It belongs to one goroutine.
type reader struct {
	*feed
	at uint64
}

// stand makes the reader one that moments are kept for, from now on.
func (r *reader) stand() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.here++
	r.at = r.feed.end()
}

// next is what came since the last call; with nothing, a channel that is closed when something comes. behind: some of it was
// not kept, the reader reads what is stored, and goes on with what comes from now on.
func (r *reader) next() (ms []*moment, news <-chan struct{}, behind bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	end := r.feed.end()
	if behind = r.at < r.first; !behind {
		ms = append(ms, r.ring[r.at-r.first:]...)
	}
	news = r.news
	r.release(r.at, end)
	r.at = end
	return ms, news, behind
}

func (r *reader) close() {
	r.mu.Lock()
	r.here--
	r.release(r.at, r.feed.end())
	r.mu.Unlock()
	r.leave()
}

// feed of a thread: its items, what its outputs print, its head.
func (k threadFeed) feed(ctx context.Context, c *client.Client, f *feed, ready func()) error {
	parts := []func(context.Context, *client.Client, *feed, func()) error{k.items, k.outputs, k.moves}
	var missing atomic.Int32
	missing.Store(int32(len(parts)))
	g, ctx := errgroup.WithContext(ctx)
	for _, part := range parts {
		g.Go(func() error {
			return part(ctx, c, f, sync.OnceFunc(func() {
				if missing.Add(-1) == 0 {
					ready()
				}
			}))
		})
	}
	return g.Wait()
}

func (k threadFeed) items(ctx context.Context, c *client.Client, f *feed, ready func()) error {
	for it, err := range c.Thread(k.Thread).Live(ctx, ready) {
		if errors.Is(err, client.ErrGap) {
			continue // each reader finds it, and looks for itself
		}
		if err != nil {
			return err
		}
		f.push(&moment{kind: eventItem, thread: k.Thread, n: it.N, life: it.Life, seq: it.Seq, data: encode(view.OfItem(it.Raw))})
	}
	return ctx.Err()
}

func (k threadFeed) outputs(ctx context.Context, c *client.Client, f *feed, ready func()) error {
	for frame, err := range c.Thread(k.Thread).FollowOutputs(ctx, func([]client.OpenOutput) { ready() }) {
		if err != nil {
			return err
		}
		f.push(&moment{kind: eventLive, thread: k.Thread, output: frame.Output, frame: frame.Frame})
	}
	return ctx.Err()
}

func (k threadFeed) moves(ctx context.Context, c *client.Client, f *feed, ready func()) error {
	for move, err := range c.Moves(ctx, client.HeadFilter{Session: k.Session, Thread: k.Name}, ready) {
		if err != nil {
			return err
		}
		if move.Gone != nil {
			f.push(&moment{kind: eventReset, thread: k.Thread, data: resetJSON(move.Gone)})
			continue
		}
		f.push(&moment{kind: eventHead, thread: k.Thread, seq: move.Rev, data: encode(view.OfThread(move.Thread))})
	}
	return ctx.Err()
}

func (k itemFeed) feed(ctx context.Context, c *client.Client, f *feed, ready func()) error {
	for it, err := range c.SubscribeReady(ctx, k.filter(), client.Position{}, ready) {
		if errors.Is(err, client.ErrGap) {
			continue // each reader finds it, and looks for itself
		}
		if err != nil {
			return err
		}
		t := events.Thread{Session: it.Session, Name: it.Thread}
		f.push(&moment{kind: eventItem, thread: t, n: it.N, life: it.Life, seq: it.Seq, data: encode(view.OfItem(it.Raw))})
	}
	return ctx.Err()
}

// feed of heads: where active threads are (SPEC C10).
func (k headFeed) feed(ctx context.Context, c *client.Client, f *feed, ready func()) error {
	for move, err := range c.Moves(ctx, client.HeadFilter{Session: k.session}, ready) {
		if err != nil {
			return err
		}
		if move.Gone == nil && move.Head.Status != threads.StatusCompleted {
			f.push(&moment{kind: eventHead, thread: move.Thread.Thread, seq: move.Rev, data: encode(view.OfThread(move.Thread))})
		}
	}
	return ctx.Err()
}

// heartbeat is how long a stream is silent at most.
const heartbeat = 15 * time.Second

func (k itemFeed) filter() client.Filter {
	return client.Filter{Session: k.session, Thread: k.thread, Type: k.kind, Detail: k.detail}
}

// takes reports whether an item of the filter's session is one of its items.
func (k itemFeed) takes(raw []byte) bool {
	kind, detail := view.ItemKind(jsonscan.Get(raw, "metadata"))
	return (k.kind == "" || events.Token(cmp.Or(kind, events.TypeMessage)) == k.kind) && (k.detail == "" || events.Token(detail) == k.detail)
}

func (k itemFeed) validate() error {
	var errs []error
	for what, name := range map[string]string{"session": k.session, "thread": k.thread, "type": k.kind, "detail": k.detail} {
		if name != "" {
			errs = append(errs, events.CheckToken(what, name))
		}
	}
	return errors.Join(errs...)
}
