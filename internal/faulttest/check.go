package faulttest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"spool/internal/fsck"
	"spool/internal/natsadmin"
	"spool/internal/natsio"
	"spool/internal/record"
	"spool/internal/retry"
	"spool/internal/sleep"
	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// differences is how many Check tells.
const differences = 20

// found collects what differs. It is safe for concurrent use.
type found struct {
	mu   sync.Mutex
	errs []error
	more int
}

func (f *found) add(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.errs) == differences {
		f.more++
		return
	}
	f.errs = append(f.errs, fmt.Errorf(format, args...))
}

func (f *found) join(other *found) {
	for _, err := range other.errs {
		f.add("%w", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.more += other.more
}

func (f *found) err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.more > 0 {
		return errors.Join(append(f.errs, fmt.Errorf("and %d more", f.more))...)
	}
	return errors.Join(f.errs...)
}

// Check waits until every acked entry is in its thread, which takes a persister that runs, and holds all of the ledger's sessions
// against it:
//
//   - every acked entry is in its thread once, byte for byte, in its producer's order; an entry of unknown outcome at most once, and
//     only behind those that were published with it before it; nothing else is there, no other thread neither;
//   - subscribers get items 1, 2, 3, … without a gap, one an entry, and each is what the nodes give;
//   - there are no dead letters but those that the workload allows;
//   - fsck finds nothing.
//
// The error names the first differences. Its memory does not grow with the entries, but for fsck's, 250 bytes each.
func (l *Ledger) Check(ctx context.Context, conn *natsio.Conn) error {
	if err := l.CheckThreads(ctx, conn); err != nil {
		return err
	}
	report, err := fsck.Check(ctx, natsadmin.Of(conn), fsck.Config{})
	if err != nil {
		return fmt.Errorf("fsck: %w", err)
	}
	var f found
	for _, finding := range report.Findings {
		f.add("fsck: %s", finding)
	}
	return f.err()
}

// checkers is how many sessions are checked at a time: reading waits for the server as long as it computes.
const checkers = 3

// CheckThreads is Check without fsck.
func (l *Ledger) CheckThreads(ctx context.Context, conn *natsio.Conn) error {
	c := client.New(conn)
	for _, w := range l.writers {
		for i, t := range w.threads {
			if w.last[i] == 0 {
				continue
			}
			if err := c.Thread(t).Await(ctx, w.name, 0, w.last[i]); err != nil {
				return fmt.Errorf("entry %d of %s was acked and is not in %s: %w", w.last[i], w.name, t, err)
			}
		}
	}
	var f found
	var some errgroup.Group
	some.SetLimit(checkers)
	for _, session := range l.Sessions() {
		some.Go(func() error { return l.checkSession(ctx, c, session, &f) })
	}
	if err := some.Wait(); err != nil {
		return errors.Join(f.err(), err)
	}
	return f.err()
}

// checkSession looks at one session. An error means that it could not look.
func (l *Ledger) checkSession(ctx context.Context, c *client.Client, session string, f *found) error {
	list, err := c.Session(session).Threads(ctx)
	if err != nil && !errors.Is(err, client.ErrSessionNotFound) {
		return fmt.Errorf("threads of %s: %w", session, err)
	}
	var ours []events.Thread
	var writers []*writer
	for _, w := range l.writers {
		if w.threads[0].Session == session {
			ours, writers = w.threads, append(writers, w)
		}
	}
	for _, t := range list {
		if !slices.Contains(ours, t.Thread) {
			f.add("%s: %w", t.Thread, errForeign)
		}
	}
	for i, t := range ours {
		head, err := c.Thread(t).Head(ctx)
		switch {
		case errors.Is(err, threads.ErrNoThread):
			for _, w := range writers {
				if w.last[i] != 0 {
					f.add("%s: it is gone, and entry %d of %s was acked: %w", t, w.last[i], w.name, err)
				}
			}
			continue
		case err != nil:
			return fmt.Errorf("%s: %w", t, err)
		}
		if err := l.checkThread(ctx, c, t, head, f); err != nil {
			return fmt.Errorf("%s: %w", t, err)
		}
	}
	letters, err := c.Session(session).DeadLetters(ctx)
	if err != nil {
		return err
	}
	for _, d := range letters {
		if l.w.Dead == nil || !l.w.Dead(d) {
			f.add("%s: dead letter %d: %s", d.Thread, d.At, d.Reason)
		}
	}
	return nil
}

// checkThread reads a thread once, from its end to its beginning, and then its items.
func (l *Ledger) checkThread(ctx context.Context, c *client.Client, t events.Thread, head threads.Head, f *found) error {
	var some found
	err := retry.Do(ctx, nil, func() error {
		some = found{}
		err := l.checkEntries(ctx, c, t, head, &some)
		if err != nil && !record.Temporary(err) {
			some.add("%s: %w", t, err)
			return ctx.Err()
		}
		return err
	})
	f.join(&some)
	if err != nil {
		return err
	}
	return l.checkItems(ctx, c, t, head, f)
}

// checkEntries reads a thread. An error means that it could not be read.
func (l *Ledger) checkEntries(ctx context.Context, c *client.Client, t events.Thread, head threads.Head, f *found) error {
	o := l.order(t, f)
	source, entries := c.Internal().Source(), int64(0)
	for step, err := range c.Reader().Walk(ctx, head.Head()) {
		if err != nil {
			return fmt.Errorf("read: %w", err)
		}
		raw, ok, err := source.Raw(ctx, step)
		if err != nil {
			return fmt.Errorf("state %d: %w", step.Entry.Index, err)
		}
		if ok {
			entries++
			o.take(raw)
		}
	}
	o.end()
	if head.N != entries {
		f.add("%s: its head counts %d items, and it has %d entries of one each", t, head.N, entries)
	}
	return nil
}

// order holds the entries of a thread, given from its last to its first, against what was published there.
type order struct {
	l      *Ledger
	f      *found
	thread events.Thread
	seen   map[*writer]*seen
}

// seen is what was read of one producer.
type seen struct {
	index int    // of the thread in the producer's list
	n     uint64 // the number that was read last
	has   span   // the Publish without an answer of which an entry was read last
}

func (l *Ledger) order(t events.Thread, f *found) *order {
	o := &order{l: l, f: f, thread: t, seen: map[*writer]*seen{}}
	for _, w := range l.writers {
		if i := slices.Index(w.threads, t); i >= 0 {
			o.seen[w] = &seen{index: i, n: w.next + 1}
		}
	}
	return o
}

func (o *order) take(raw []byte) {
	w, n, err := o.l.read(raw)
	if err != nil {
		o.f.add("%s: %w", o.thread, err)
		return
	}
	s := o.seen[w]
	switch {
	case s == nil || w.where(n) != s.index:
		o.f.add("%s: entry %d of %s was published to another thread", o.thread, n, w.name)
	case n == s.n:
		o.f.add("%s: entry %d of %s is there twice", o.thread, n, w.name)
	case n > s.n:
		o.f.add("%s: entry %d of %s stands before its entry %d: it is there twice or out of order", o.thread, n, w.name, s.n)
	default:
		o.between(w, s, n)
		s.n, s.has = n, span{}
		if span, open := w.open(n); open {
			s.has = span
		}
	}
}

// end is the beginning of the thread.
func (o *order) end() {
	for w, s := range o.seen {
		o.between(w, s, 0)
	}
}

// between looks at what is not there between an entry and the one that was read before it.
func (o *order) between(w *writer, s *seen, n uint64) {
	for m := s.n - 1; m > n; m-- {
		if w.where(m) != s.index {
			continue
		}
		at, open := w.open(m)
		switch {
		case !open:
			o.f.add("%s: entry %d of %s was acked and is not there", o.thread, m, w.name)
		case at == s.has:
			o.f.add("%s: entry %d of %s is not there, and one that was published with it and behind it is", o.thread, m, w.name)
		}
	}
}

// checkItems reads the items as a subscriber does and as the nodes give them, side by side.
func (l *Ledger) checkItems(ctx context.Context, c *client.Client, t events.Thread, head threads.Head, f *found) error {
	if head.N == 0 {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stuck := time.AfterFunc(Patience, cancel)
	defer stuck.Stop()
	made, stop := iter.Pull2(c.Thread(t).ItemsFrom(ctx, head, 1))
	defer stop()
	last := int64(0)
	for got, err := range c.Subscribe(ctx, client.Filter{Session: t.Session, Thread: t.Name}, client.Position{N: 1}) {
		if err != nil {
			f.add("%s: item %d: %w", t, last+1, err)
			return nil
		}
		stuck.Reset(Patience)
		want, err, _ := made()
		if err != nil {
			f.add("%s: item %d from the nodes: %w", t, last+1, err)
			return nil
		}
		if !sameItem(t, last+1, got.N, got.Raw, want, f) {
			return nil
		}
		if last = got.N; last >= head.N {
			return nil
		}
	}
	f.add("%s: item %d of %d never came to a subscriber", t, last+1, head.N)
	return nil
}

// sameItem compares an item that came with the one that the nodes give, whose number it should have.
func sameItem(t events.Thread, n, got int64, data []byte, want events.Posted, f *found) bool {
	switch {
	case got != n:
		f.add("%s: item %d came where item %d is due", t, got, n)
	case want.N != n:
		f.add("%s: the nodes give item %d where item %d is due", t, want.N, n)
	case !bytes.Equal(data, want.Data):
		f.add("%s: item %d = %.100q, and the nodes give %.100q", t, n, data, want.Data)
	default:
		return true
	}
	return false
}

// Settle waits until every event that the stream holds is acked. It takes a persister that runs.
func Settle(ctx context.Context, conn *natsio.Conn) error {
	for p := range events.Partitions {
		for {
			err := settled(ctx, conn, p)
			if err == nil {
				break
			}
			if !sleep.For(ctx, 20*time.Millisecond) {
				return fmt.Errorf("partition %d is not done: %w", p, errors.Join(err, ctx.Err()))
			}
		}
	}
	return nil
}

// settled returns nil when the newest event of a partition is acked, with all before it. What a consumer says to be pending is not
// enough: a consumer is told of new events after they are acked to their publisher, and says 0 until then.
func settled(ctx context.Context, conn *natsio.Conn, partition int) error {
	newest, err := newestEvent(ctx, conn, partition)
	if err != nil {
		return err
	}
	cons, err := conn.JetStream().Consumer(ctx, events.EventsStream, events.PartitionConsumer(partition))
	if err != nil {
		return err
	}
	info := cons.CachedInfo()
	if info.NumPending > 0 || info.NumAckPending > 0 || info.AckFloor.Stream < newest {
		return fmt.Errorf("%d pending, %d not acked; acked up to %d of %d", info.NumPending, info.NumAckPending, info.AckFloor.Stream, newest)
	}
	return nil
}

// newestEvent is the sequence of the last event of a partition, by the word of the stream's leader; 0: the stream holds none.
func newestEvent(ctx context.Context, conn *natsio.Conn, partition int) (uint64, error) {
	ask, err := json.Marshal(map[string]string{"last_by_subj": events.PartitionFilter(partition)})
	if err != nil {
		return 0, err
	}
	answer, err := conn.JetStream().Conn().RequestWithContext(ctx, "$JS.API.STREAM.MSG.GET."+events.EventsStream, ask)
	if err != nil {
		return 0, err
	}
	var got struct {
		Error   *jetstream.APIError `json:"error"`
		Message struct {
			Seq uint64 `json:"seq"`
		} `json:"message"`
	}
	if err := json.Unmarshal(answer.Data, &got); err != nil {
		return 0, err
	}
	if got.Error != nil && got.Error.ErrorCode != jetstream.JSErrCodeMessageNotFound {
		return 0, got.Error
	}
	return got.Message.Seq, nil
}
