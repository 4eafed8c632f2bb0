package faulttest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"spool/internal/sleep"
	"spool/pkg/client"
	"spool/pkg/events"
)

// Workload says what a ledger publishes. The zero value is one producer in one thread.
type Workload struct {
	Name          string                // begins the names of its sessions and producers; "" = "ledger". Two ledgers on one system need two
	Seed          uint64                // other seeds give other entries
	Sessions      int                   // 0 = 1
	ThreadsEach   int                   // threads of a session; each of its producers writes to all of them. 0 = 1
	ProducersEach int                   // producers of a session. 0 = 1
	Entry         func(*rand.Rand) int  // bytes of an entry, about; must depend on nothing else. nil = 60 to 400
	Batch         int                   // entries of one Publish: 1 to so many. 0 = 10
	Pause         time.Duration         // of a producer between two Publish
	GiveUp        time.Duration         // after it a Publish counts as unknown, and the producer goes on with the next entries. 0 = never
	Dead          func(DeadLetter) bool // dead letters of the sessions that are as they should be; nil = none is

	// Publisher gives what a producer publishes by; nil = a publisher of the client.
	Publisher func(producer string, c *client.Client) Publisher
}

// Publisher stores entries as one producer: in order, and durable when it returns. An ErrUnknown means that the first of them may
// be stored, or all; the ledger then goes on with the next ones, and never publishes these again.
type Publisher interface {
	Publish(ctx context.Context, entries ...client.Entry) error
}

// ErrUnknown: a Publisher cannot tell what became of its entries.
var ErrUnknown = errors.New("outcome unknown")

// DeadLetter is an event that could not be applied.
type DeadLetter = client.DeadLetter

// maxUnknown is how many spans of unknown outcome a producer may leave; with more, its Publish is repeated until it is acked.
const maxUnknown = 10_000

// Ledger publishes entries, remembers what was acked, and checks that it is there: once, in its producer's order, and nothing
// else. Run and Publish must not overlap with each other or with Check; Acked and Unknown may be called at any time.
type Ledger struct {
	w       Workload
	writers []*writer
	byName  map[string]*writer
}

// NewLedger makes a ledger of which nothing is published yet.
func NewLedger(w Workload) *Ledger {
	w.Name = cmp.Or(w.Name, "ledger")
	w.Sessions, w.ThreadsEach, w.ProducersEach, w.Batch = max(w.Sessions, 1), max(w.ThreadsEach, 1), max(w.ProducersEach, 1),
		cmp.Or(w.Batch, 10)
	if w.Entry == nil {
		w.Entry = func(r *rand.Rand) int { return 60 + r.IntN(340) }
	}
	l := &Ledger{w: w, byName: map[string]*writer{}}
	for s := range w.Sessions {
		var threads []events.Thread
		for t := range w.ThreadsEach {
			threads = append(threads, events.Thread{Session: fmt.Sprintf("%s-%d", w.Name, s), Name: threadName(t)})
		}
		for p := range w.ProducersEach {
			wr := &writer{w: &l.w, name: fmt.Sprintf("%s-%d-%d", w.Name, s, p), threads: threads, last: make([]uint64, len(threads))}
			wr.seed = seedOf(w.Seed, fmt.Sprint(s, p)) // not the name: the same workload under another name has the same sizes
			l.writers = append(l.writers, wr)
			l.byName[wr.name] = wr
		}
	}
	return l
}

func threadName(t int) string {
	if t == 0 {
		return events.MainThread
	}
	return fmt.Sprintf("t%d", t)
}

func seedOf(seed uint64, name string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name))
	return h.Sum64() ^ seed
}

// Acked is how many entries were acked.
func (l *Ledger) Acked() (n int64) {
	for _, w := range l.writers {
		n += w.acked.Load()
	}
	return n
}

// Unknown is how many entries were published without an answer.
func (l *Ledger) Unknown() (n int64) {
	for _, w := range l.writers {
		n += w.lost.Load()
	}
	return n
}

// Sessions are the names of its sessions.
func (l *Ledger) Sessions() (names []string) {
	for i := range l.w.Sessions {
		names = append(names, fmt.Sprintf("%s-%d", l.w.Name, i))
	}
	return names
}

// Run publishes until ctx ends. An error is one that trying again does not help. It can be called again, and goes on then.
func (l *Ledger) Run(ctx context.Context, c *client.Client) error {
	return l.each(func(w *writer) error {
		pub := w.publisher(c)
		for ctx.Err() == nil {
			if err := w.publish(ctx, pub, w.batch()); err != nil && ctx.Err() == nil {
				return err
			}
			pause(ctx, l.w.Pause)
		}
		return nil
	})
}

// Publish has each producer publish that many entries more. It returns when all are acked or, with GiveUp, given up.
func (l *Ledger) Publish(ctx context.Context, c *client.Client, entries int) error {
	return l.each(func(w *writer) error {
		pub := w.publisher(c)
		for left := entries; left > 0; {
			n := min(left, w.batch())
			if err := w.publish(ctx, pub, n); err != nil {
				return err
			}
			left -= n
			pause(ctx, l.w.Pause)
		}
		return nil
	})
}

func (l *Ledger) each(f func(*writer) error) error {
	var g errgroup.Group
	for _, w := range l.writers {
		g.Go(func() error { return f(w) })
	}
	return g.Wait()
}

func pause(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	sleep.For(ctx, d)
}

// writer is one producer. Its entries are numbered 1, 2, 3, …, over all its threads.
type writer struct {
	w       *Workload
	name    string
	seed    uint64
	threads []events.Thread

	acked, lost atomic.Int64

	mu      sync.Mutex
	next    uint64   // entries that were handed to Publish
	batches uint64   // Publish calls
	last    []uint64 // by thread, the number of the last acked entry; 0 = none
	unknown []span   // in order, apart from each other
}

// span is a range of numbers, both ends included.
type span struct{ from, to uint64 }

func (w *writer) publisher(c *client.Client) Publisher {
	if w.w.Publisher != nil {
		return w.w.Publisher(w.name, c)
	}
	return ByClient{c.Publisher(client.PublisherConfig{Producer: w.name})}
}

// ByClient is the Publisher that a client has.
type ByClient struct{ *client.Publisher }

// Publish is that of the client, without its ack.
func (p ByClient) Publish(ctx context.Context, entries ...client.Entry) error {
	_, err := p.Publisher.Publish(ctx, entries...)
	return err
}

// batch is how many entries the next Publish has.
func (w *writer) batch() int {
	w.batches++
	return 1 + rand.New(rand.NewPCG(w.seed, ^w.batches)).IntN(w.w.Batch)
}

// publish publishes the next entries and notes what became of them.
func (w *writer) publish(ctx context.Context, pub Publisher, entries int) error {
	from := w.next + 1
	es := make([]client.Entry, entries)
	for i := range es {
		n := from + uint64(i)
		es[i] = client.Entry{Thread: w.threads[w.where(n)], Dialect: "item", Body: w.body(n), Seq: n}
	}
	short, cancel := ctx, context.CancelFunc(func() {})
	if w.w.GiveUp > 0 && len(w.unknown) < maxUnknown {
		short, cancel = context.WithTimeout(ctx, w.w.GiveUp)
	}
	err := pub.Publish(short, es...)
	gaveUp := short.Err() != nil && ctx.Err() == nil
	cancel()
	w.note(entries, err == nil)
	if err != nil && !gaveUp && !errors.Is(err, ErrUnknown) {
		return fmt.Errorf("%s: entries %d to %d: %w", w.name, from, w.next, err)
	}
	return nil
}

// note keeps what became of the next entries.
func (w *writer) note(entries int, acked bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := span{w.next + 1, w.next + uint64(entries)}
	w.next = s.to
	if !acked {
		w.unknown = append(w.unknown, s)
		w.lost.Add(int64(entries))
		return
	}
	for n := s.from; n <= s.to; n++ {
		w.last[w.where(n)] = n
	}
	w.acked.Add(int64(entries))
}

// where is the index of the thread that an entry goes to. Runs of a few go to the same one.
func (w *writer) where(n uint64) int {
	x := (w.seed ^ n>>2) * 0x9e3779b97f4a7c15
	return int((x >> 33) % uint64(len(w.threads)))
}

// The two ends of an entry.
const (
	bodyHead = `{"content":[{"type":"text","text":"`
	bodyTail = `"}]}`
)

// body is the entry of a number: a plain message that says whose it is, and some words.
func (w *writer) body(n uint64) []byte {
	r := rand.New(rand.NewPCG(w.seed, n))
	size := w.w.Entry(r)
	b := make([]byte, 0, size+128)
	b = append(b, bodyHead...)
	b = append(b, w.name...)
	b = append(b, ' ')
	b = strconv.AppendUint(b, n, 10)
	b = append(b, ' ')
	for at := r.IntN(len(words)); len(b) < size-len(bodyTail); at = 0 {
		b = append(b, words[at:min(len(words), at+size-len(bodyTail)-len(b))]...)
	}
	return append(b, bodyTail...)
}

// words is text that compresses about as well as what agents write.
var words = func() string {
	var b strings.Builder
	some := strings.Fields("the agent reads a file and writes two tests before it asks whether all of them pass on every " +
		"machine that runs them")
	for r := rand.New(rand.NewPCG(7, 7)); b.Len() < 64<<10; {
		b.WriteString(some[r.IntN(len(some))])
		b.WriteString(strconv.Itoa(r.IntN(1000)))
		b.WriteByte(' ')
	}
	return b.String()
}()

// errForeign: an entry that no producer of the ledger published.
var errForeign = errors.New("nobody of the ledger published it")

// read says whose entry some bytes are.
func (l *Ledger) read(raw []byte) (*writer, uint64, error) {
	rest, ok := bytes.CutPrefix(raw, []byte(bodyHead))
	name, rest, named := bytes.Cut(rest, []byte{' '})
	number, _, numbered := bytes.Cut(rest, []byte{' '})
	n, err := strconv.ParseUint(string(number), 10, 64)
	w := l.byName[string(name)]
	if !ok || !named || !numbered || err != nil || w == nil {
		return nil, 0, fmt.Errorf("%w: %.80q", errForeign, raw)
	}
	if n == 0 || n > w.next {
		return nil, 0, fmt.Errorf("%w: %s published %d entries: %.80q", errForeign, w.name, w.next, raw)
	}
	if !bytes.Equal(raw, w.body(n)) {
		return nil, 0, fmt.Errorf("entry %d of %s has other bytes: %.80q, want %.80q", n, w.name, raw, w.body(n))
	}
	return w, n, nil
}

// open reports whether nothing is known of an entry, and the span of its Publish.
func (w *writer) open(n uint64) (span, bool) {
	i, found := slices.BinarySearchFunc(w.unknown, n, func(s span, n uint64) int {
		switch {
		case s.to < n:
			return -1
		case s.from > n:
			return 1
		}
		return 0
	})
	if !found {
		return span{}, false
	}
	return w.unknown[i], true
}
