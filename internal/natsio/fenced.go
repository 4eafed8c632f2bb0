package natsio

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/record"
	"spool/internal/text"
	"spool/pkg/events"
)

// Chain is events of one thread that are stored all or none, and only if Last is the sequence of the thread's newest stored
// event. So a writer that decides by what the thread holds is told when somebody else wrote.
type Chain struct {
	Last   uint64
	Events []*events.Event
	Scope  events.Scope // of who asks for it

	Seq uint64 // of the last event, once stored
	// Err is nil when it is stored. record.ErrConflict: it is not, the thread moved; in a cluster see record.ErrConflict.
	// record.ErrUnknown: it is or not.
	Err error
}

// PublishChains stores chains of different threads, each by itself, and fills in what became of them. Many go in one atomic
// batch, which costs one sync; when one of them makes the server refuse it, they are sent one by one.
func (es Events) PublishChains(ctx context.Context, chains []*Chain) {
	if total := 0; len(chains) > 1 {
		for _, ch := range chains {
			total += len(ch.Events)
		}
		if total >= batchFrom && total <= maxBatch {
			if err := es.publishChains(ctx, chains); err == nil || record.Temporary(err) {
				return
			}
		}
	}
	var all sync.WaitGroup
	for _, ch := range chains {
		all.Go(func() { _ = es.publishChains(ctx, []*Chain{ch}) })
	}
	all.Wait()
}

// publishChains stores chains all or none; they share the error.
func (es Events) publishChains(ctx context.Context, chains []*Chain) error {
	last, err := es.sendChains(ctx, chains)
	for _, ch := range slices.Backward(chains) {
		if ch.Seq, ch.Err = last, nil; err != nil {
			ch.Seq, ch.Err = 0, text.Errorf("publish %d events of %s: %w", len(ch.Events), ch.Events[0].Thread, err)
		}
		last -= uint64(len(ch.Events))
	}
	return err
}

// sendChains stores the events of chains in one atomic batch, and returns the sequence of the last.
func (es Events) sendChains(ctx context.Context, chains []*Chain) (last uint64, err error) {
	var msgs []*nats.Msg
	for _, ch := range chains {
		first := len(msgs)
		for _, e := range ch.Events {
			data, err := es.encode(ctx, e)
			if err != nil {
				return 0, err
			}
			msgs = append(msgs, &nats.Msg{Subject: es.subject(e, ch.Scope), Data: data}) // ctx is of another's chain, too
		}
		msgs[first].Header = nats.Header{
			hdrExpectSubj: {events.StoredFilter(ch.Events[0].Thread)}, hdrExpectSeq: {strconv.FormatUint(ch.Last, 10)},
		}
	}
	if len(msgs) > 1 {
		return es.c.batch(ctx, msgs)
	}
	seqs, err := es.c.Streams().Send(ctx, msgs)
	if err != nil {
		return 0, err
	}
	return seqs[0], nil
}

// Newest is the newest stored message of a thread.
type Newest struct {
	Seq       uint64 // 0: EVENTS holds none
	Partition int
	Last      events.Event // the last event in it; of no kind if it cannot be read
}

// NewestEvent finds the newest stored message of a thread.
func (es Events) NewestEvent(ctx context.Context, t events.Thread) (Newest, error) {
	found, err := es.c.newest(ctx, events.EventsStream, []string{events.StoredFilter(t)})
	if err != nil {
		return Newest{}, fmt.Errorf("newest event of %s: %w", t, err)
	}
	m := found[0]
	if m.Seq == 0 {
		return Newest{}, nil
	}
	rest := strings.TrimPrefix(m.Subject, strings.TrimSuffix(events.PartitionSubjects, ">"))
	rest, _, _ = strings.Cut(rest, ".")
	n := Newest{Seq: m.Seq}
	if n.Partition, err = strconv.Atoi(rest); err != nil {
		return Newest{}, err
	}
	if e, err := events.Open(m.Subject, m.Data); err == nil {
		all := e.Each()
		n.Last = all[len(all)-1]
	}
	return n, nil
}

// Done reports whether persisters are done with a message and all before it: they are applied, or among the dead letters; or purged, which
// is done last, where there is none.
func (es Events) Done(ctx context.Context, m Newest) (bool, error) {
	if m.Seq == 0 {
		return true, nil
	}
	cons, err := es.c.js.Consumer(ctx, events.EventsStream, events.PartitionConsumer(m.Partition))
	if err != nil {
		return false, fmt.Errorf("partition %d: %w", m.Partition, WrapErr(err))
	}
	info := cons.CachedInfo()
	done := info.AckFloor.Stream >= m.Seq
	es.c.tellUnserved(ctx, m.Partition, info, done)
	return done, nil
}

// unservedFor is how long no persister has a partition that somebody waits for before it is told: one that starts takes it sooner.
const unservedFor = 5 * time.Second

// unserved is since when looks at a partition find no persister, and when the last one was.
type unserved struct{ since, last time.Time }

// tellUnserved says in the log that no persister serves a partition, once that was so for a while at every look.
func (c *Conn) tellUnserved(ctx context.Context, partition int, info *jetstream.ConsumerInfo, done bool) {
	if done || served(info) {
		c.unserved.Delete(partition)
		return
	}
	now := time.Now()
	found := unserved{now, now}
	if was, ok := c.unserved.Load(partition); ok && now.Sub(was.(unserved).last) < unservedFor {
		found.since = was.(unserved).since
	}
	c.unserved.Store(partition, found)
	if now.Sub(found.since) >= unservedFor && c.toldUnserved.now() {
		c.log.WarnContext(ctx, "no persister asks for what was published, which waits: start one with spool up, or persister",
			"partition", partition)
	}
}
