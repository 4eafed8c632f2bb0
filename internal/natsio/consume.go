package natsio

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"spool/internal/record"
	"spool/internal/retry"
	"spool/pkg/events"
)

// A partition's consumer. Pinning gives the partition to one persister at a time and to the next at once when that one
// stops cleanly; when it dies, after pinnedTTL. It is no fence: the commit's expectations are.
const (
	ackWait       = 20 * time.Second // then an unacknowledged event comes again: how long a dead owner holds up a quiet partition
	pinnedTTL     = 8 * time.Second
	maxAckPending = 100_000 // of one session at worst: then the others of its partition wait

	pullMessages = 500
	pullBytes    = 4 << 20
)

// How long a consumer that waits for messages asks at a time, and within which time it hears that the server is there.
const (
	PullExpiry    = 5 * time.Second
	PullHeartbeat = 2500 * time.Millisecond
)

func partitionConsumer(p int) jetstream.ConsumerConfig {
	name := events.PartitionConsumer(p)
	return jetstream.ConsumerConfig{
		Name: name, Durable: name, FilterSubject: events.PartitionFilter(p),
		DeliverPolicy: jetstream.DeliverAllPolicy, AckPolicy: jetstream.AckAllPolicy, AckWait: ackWait,
		MaxDeliver: -1, MaxAckPending: maxAckPending,
		PriorityPolicy: jetstream.PriorityPolicyPinned, PriorityGroups: []string{events.PersisterGroup}, PinnedTTL: pinnedTTL,
	}
}

func (c *Conn) ensureConsumers(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(8)
	tell := retry.Tell(c.log, "the consumers")
	for p := range events.Partitions {
		g.Go(func() error {
			return retry.Do(ctx, tell, func() error {
				_, err := c.js.CreateOrUpdateConsumer(ctx, events.EventsStream, partitionConsumer(p))
				if err != nil {
					return fmt.Errorf("consumer of partition %d: %w", p, WrapErr(err))
				}
				return nil
			})
		})
	}
	return g.Wait()
}

// Delivery is one stored event as a partition's consumer gives it.
type Delivery struct {
	Subject   string // as EVENTS stores it: events.ParseStored
	Data      []byte
	Stored    int64 // when the server stored it, Unix nanoseconds
	Partition int

	// Open is the highest sequence that another process was given and may have died over: it did not acknowledge it. It is
	// not above what was given before the term.
	Open uint64

	*Acks
}

// Acks sends the acks of one delivery, and keeps nothing else of its message, neither headers nor body: what waits for its ack
// may be much more than what waits to be applied. Nothing here waits for an answer.
type Acks struct {
	Seq  uint64 // EVENTS stream sequence; 0: it is acknowledged for itself alone
	Link uint64 // over which it came: Events.Link

	// Term numbers the time for which the partition is given to this process without a break. It ends when the partition is
	// pinned anew, when its consumer is reset, by whomever, and when the connection is made again: another process may have
	// applied events in between. A later term has a higher number; no two terms of a Conn share one.
	Term uint64

	feed  *feed
	reply string
}

// What the server takes for an ack.
var (
	ackBytes     = []byte("+ACK")
	workingBytes = []byte("+WPI")
)

// Ack marks the delivery and every one before it in its partition as done. When it is lost, events are delivered again and
// skipped. What came in an earlier term, or over a connection that is gone, comes again, and is acknowledged then.
func (a *Acks) Ack() error {
	if !a.current() {
		return nil
	}
	a.feed.acked.Store(a)
	return a.feed.c.nc.Publish(a.reply, ackBytes)
}

func (a *Acks) current() bool {
	return a.Term == a.feed.term.Load() && a.Link == a.feed.c.Events().Link()
}

// Working asks for another ackWait before the delivery comes again.
func (a *Acks) Working() error {
	return a.feed.c.nc.Publish(a.reply, workingBytes)
}

// Consumed is a partition that is consumed.
type Consumed struct {
	drain, drained, quit, ended signal
}

// signal is a channel that is closed once.
type signal struct {
	c    chan struct{}
	once *sync.Once
}

func newSignal() signal { return signal{make(chan struct{}), new(sync.Once)} }

func (s signal) give() { s.once.Do(func() { close(s.c) }) }

// Drain asks for nothing more, and waits until what was given is delivered, or ctx ends. It stays this process's: what was
// delivered can be acknowledged, before Stop.
func (c *Consumed) Drain(ctx context.Context) {
	c.drain.give()
	select {
	case <-c.drained.c:
	case <-ctx.Done():
	}
}

// Stop ends it, waits for the deliveries to end, and gives the partition to another process.
func (c *Consumed) Stop() {
	c.quit.give()
	<-c.ended.c
}

// Consume calls deliver for every event of the partition, in order and without a gap, as long as this process is the pinned
// one. It returns at once. deliver may block: about pullBytes wait behind it. A consumer that somebody deleted is
// made again, and gives every event that is still there; what was applied is skipped by whoever gets it. A stream that was
// deleted is not: that is waited for, and logged.
//
// Over a connection that was made again it begins again, with what is not acknowledged: the server may have been set back, and what
// came before that stands behind what it forgot. begin, if it is not nil, is called over every connection before anything is asked
// for over it; what it has replayed (ReplayEvents) comes first.
func (es Events) Consume(ctx context.Context, partition int, begin func(context.Context), deliver func(Delivery)) (*Consumed, error) {
	if begin == nil {
		begin = func(context.Context) {}
	}
	p := &partitionFeed{
		c: es.c, partition: partition, prelude: begin, deliver: deliver,
		doubt: make(chan struct{}, 1), connected: es.c.nc.StatusChanged(nats.CONNECTED),
	}
	if err := p.beginAnyhow(ctx); err != nil {
		es.c.nc.RemoveStatusListener(p.connected)
		return nil, err
	}
	of := &Consumed{newSignal(), newSignal(), newSignal(), newSignal()}
	go func() {
		defer of.ended.give()
		defer of.drained.give()
		p.keep(ctx, of)
	}()
	return of, nil
}

// partitionFeed is what consumes a partition.
type partitionFeed struct {
	c         *Conn
	partition int
	prelude   func(context.Context)
	deliver   func(Delivery)
	doubt     chan struct{} // something that a consumer which is gone would cause
	connected chan nats.Status

	feed *feed
	pull *pull
	over chan struct{} // is closed when nothing of it is delivered any more
	link uint64        // over which it is consumed
}

func (p *partitionFeed) begin(ctx context.Context) error {
	c, link := p.c, p.c.Events().Link()
	p.prelude(ctx)
	cons, err := c.js.Consumer(ctx, events.EventsStream, events.PartitionConsumer(p.partition))
	if err != nil {
		return fmt.Errorf("consumer of partition %d: %w", p.partition, WrapErr(err))
	}
	f := newFeed(c, events.EventsStream, cons)
	if p.feed != nil {
		p.feed.beginTerm()
	}
	if info := cons.CachedInfo(); info.NumAckPending > 0 {
		f.open = info.Delivered.Stream
		f.takeBack(ctx) // their owner may be dead, and if it is not, it only sees them twice
	}
	pull, err := c.pullOf(events.EventsStream, f.name, pulls{
		messages: pullMessages, bytes: pullBytes, expiry: PullExpiry, beat: PullHeartbeat, group: events.PersisterGroup,
	})
	if err != nil {
		return fmt.Errorf("consume partition %d: %w", p.partition, WrapErr(err))
	}
	p.feed, p.pull, p.over, p.link = f, pull, make(chan struct{}), link
	go p.run(ctx, f, pull, link, p.over)
	return nil
}

// run delivers what is pulled until the pull ends, or the server says that there is nothing to pull from.
func (p *partitionFeed) run(ctx context.Context, f *feed, pull *pull, link uint64, over chan struct{}) {
	defer close(over)
	defer pull.stop()
	for {
		m, err := pull.message(0)
		if err == nil {
			p.give(ctx, f, link, m)
			continue
		}
		p.c.log.Debug("consume", "partition", p.partition, "error", err)
		switch {
		case errors.Is(err, nats.ErrNoResponders), errors.Is(err, jetstream.ErrNoHeartbeat):
			tell(p.doubt)
		case errors.Is(err, errNoPin):
			Unpin(ctx, p.c.Events(), p.partition)
		case errors.Is(err, record.ErrDenied), errors.Is(err, jetstream.ErrBadRequest):
			p.c.log.Error("a partition is not consumed", "partition", p.partition, "error", err)
			select {
			case <-pull.stopped.c:
			case <-time.After(againMost):
			}
			return
		case errors.Is(err, errPullEnded), errors.Is(err, errOverNew), errors.Is(err, jetstream.ErrConsumerDeleted):
			return
		}
	}
}

func (p *partitionFeed) give(ctx context.Context, f *feed, link uint64, m message) {
	if !f.inOrder(ctx, m, &m.meta) {
		return
	}
	defer f.taking()()
	p.deliver(Delivery{
		Subject: m.Subject(), Data: m.Data(), Stored: m.meta.Timestamp.UnixNano(), Partition: p.partition, Open: f.open,
		Acks: &Acks{m.meta.Sequence.Stream, link, f.term.Load(), f, m.Reply()},
	})
}

// keep sees to it that the partition is consumed until it is stopped: a pull ends when it is told that the consumer was deleted, and goes
// on asking nobody when it was not there to be told.
func (p *partitionFeed) keep(ctx context.Context, of *Consumed) {
	defer p.c.nc.RemoveStatusListener(p.connected)
	for {
		select {
		case <-of.quit.c:
			p.pull.stop()
			<-p.over
			p.feed.unpin()
			return
		case <-of.drain.c:
			p.pull.drain()
			<-p.over
			of.drained.give()
			<-of.quit.c
			p.feed.unpin()
			return
		case <-p.doubt:
			if p.gone(ctx) {
				p.pull.stop()
			}
			continue
		case <-p.connected:
			if p.link == p.c.Events().Link() {
				continue
			}
			p.pull.stop()
			<-p.over
			p.feed.unpin()
		case <-p.over:
			p.feed.unpin() // or the server would wait for its pin
		}
		if p.c.nc.IsClosed() || !p.beginAgain(ctx, of) {
			return
		}
	}
}

// tell has keep look, once.
func tell(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (p *partitionFeed) gone(ctx context.Context) bool {
	_, err := p.feed.cons.Info(ctx)
	return errors.Is(err, jetstream.ErrConsumerNotFound) || errors.Is(err, jetstream.ErrStreamNotFound)
}

// beginAnyhow is begin, and makes the consumer if it is gone.
func (p *partitionFeed) beginAnyhow(ctx context.Context) error {
	err := p.begin(ctx)
	if !errors.Is(err, jetstream.ErrConsumerNotFound) {
		return err
	}
	if _, err = p.c.js.CreateOrUpdateConsumer(ctx, events.EventsStream, partitionConsumer(p.partition)); err != nil {
		return fmt.Errorf("consumer of partition %d: %w", p.partition, WrapErr(err))
	}
	p.c.log.Warn("the consumer of a partition was deleted; made again, its events come again from the first", "partition", p.partition)
	return p.begin(ctx)
}

// beginAgain consumes the partition again; false: it was told to stop before.
func (p *partitionFeed) beginAgain(ctx context.Context, of *Consumed) bool {
	for wait := againFirst; ; wait = min(2*wait, againMost) {
		err := p.beginAnyhow(ctx)
		if err == nil {
			return true
		}
		err = WrapErr(err)
		level := slog.LevelError
		if record.Temporary(err) {
			level = slog.LevelWarn
		}
		p.c.log.Log(ctx, level, "a partition is not consumed", "partition", p.partition, "error", err)
		select {
		case <-of.quit.c:
			return false
		case <-of.drain.c:
			return false
		case <-ctx.Done():
			return false
		case <-time.After(wait):
		}
	}
}

// How long is waited between tries to make a consumer again.
const (
	againFirst = 250 * time.Millisecond
	againMost  = 5 * time.Second
)

// Link numbers the connection: it grows when it is made again, before anything is received over the new one.
func (es Events) Link() uint64 { return es.c.nc.Stats().Reconnects }

// Backlog is how the partitions' consumers stand.
type Backlog struct {
	Pending   uint64 // events that are stored and not delivered
	Unacked   uint64 // events that are delivered and not acknowledged
	Unserved  []int  // partitions that no persister has, or whose consumer is gone
	Gone      int    // of them, those without a consumer
	ServerNow time.Time
}

// Served is how many partitions a persister has.
func (b Backlog) Served() int { return events.Partitions - len(b.Unserved) }

// served reports whether a persister has a partition. One that is busy asks for nothing, but keeps its pin.
func served(of *jetstream.ConsumerInfo) bool {
	pinned := func(g jetstream.PriorityGroupState) bool { return g.PinnedClientID != "" }
	return of.NumWaiting > 0 || slices.ContainsFunc(of.PriorityGroups, pinned)
}

// Backlog asks every partition's consumer.
func (es Events) Backlog(ctx context.Context) (b Backlog, err error) {
	s, err := es.c.js.Stream(ctx, events.EventsStream)
	if err != nil {
		return b, WrapErr(err)
	}
	list, has := s.ListConsumers(ctx), map[string]bool{}
	for info := range list.Info() {
		b.Pending += info.NumPending
		b.Unacked += uint64(info.NumAckPending)
		b.ServerNow = info.TimeStamp
		has[info.Name] = served(info)
	}
	for p := range events.Partitions {
		is, there := has[events.PartitionConsumer(p)]
		if !is {
			b.Unserved = append(b.Unserved, p)
		}
		if !there {
			b.Gone++
		}
	}
	return b, WrapErr(list.Err())
}
