package natsio

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/family"
	"spool/pkg/events"
)

// ErrReader: a subscription of that name exists and is to other items.
var ErrReader = family.Conflict.New("the durable subscription is another one")

const (
	readerAcks = 20_000 // how many items may be given and not acknowledged

	// Two of them are missed before a wait for the pin ends (pinnedTTL/2): whoever waits less never asks again, where what
	// it asked is lost.
	readerHeartbeat = 1500 * time.Millisecond
)

// FollowDurable is Follow from a position that the server keeps under a name; from says where it begins the first time, and ready, if it is
// not nil, is told where that was. An item
// is done when the caller comes back for the next one, however long that takes, and then not given again, unless its ack is lost or
// overtaken by a crash. Of several processes under one name one gets the items, and another when that one stops.
//
// Each item has an ack of its own: where an ack is for all before it, the server takes the purge of an item, which a
// deletion of its session is, for the ack of those before it as well, and whoever has those in hand when it dies
// loses them.
func (its Items) FollowDurable(
	ctx context.Context, name string, filters []string, from Position, ready func(begun Position),
) iter.Seq2[StoredItem, error] {
	return func(yield func(StoredItem, error) bool) {
		cons, err := its.readerConsumer(ctx, name, filters, from)
		if err != nil {
			yield(StoredItem{}, fmt.Errorf("durable subscription %q: %w", name, err))
			return
		}
		f := newFeed(its.c, events.ItemsStream, cons)
		f.takeBackOrphans(ctx)
		it, err := cons.Messages(
			jetstream.PullPriorityGroup(events.ReadersGroup), jetstream.PullMaxMessagesWithBytesLimit(readMessages, readBytes),
			jetstream.PullExpiry(PullExpiry), jetstream.PullHeartbeat(readerHeartbeat))
		if err != nil {
			yield(StoredItem{}, WrapErr(err))
			return
		}
		if ready != nil {
			ready(begunAt(cons.CachedInfo()))
		}
		kept, let := context.WithCancel(ctx)
		go f.keepPin(kept)
		defer func() {
			it.Stop()
			let()
			f.unpin()
		}()
		ack := func(m jetstream.Msg) { // each for itself; lost: the item comes again
			_ = (&Acks{Link: its.c.Events().Link(), Term: f.term.Load(), feed: f, reply: m.Reply()}).Ack()
		}
		var pinned string // when done was
		var done uint64   // the last item of SPOOL_ITEMS that is, and all before it
		for {
			wait, cancel := ctx, context.CancelFunc(func() {})
			if f.pin == "" { // another process is at it, and may die with deliveries open
				wait, cancel = context.WithTimeout(ctx, pinnedTTL/2)
			}
			m, err := it.Next(jetstream.NextContext(wait))
			idle := wait.Err() != nil
			cancel()
			if ctx.Err() != nil {
				return
			}
			if err != nil && idle || errors.Is(err, jetstream.ErrNoHeartbeat) {
				if f.pin == "" {
					f.takeBackOrphans(ctx)
				}
				continue // nothing new; without heartbeats another process is pinned, or the server away
			}
			if err != nil {
				yield(StoredItem{}, WrapErr(err))
				return
			}
			meta, err := m.Metadata()
			if err != nil {
				yield(StoredItem{}, err)
				return
			}
			if !f.inOrder(ctx, m, meta) {
				continue
			}
			if pinned != f.pin { // what another process was given in between may not be done
				pinned, done = f.pin, 0
			}
			if meta.Sequence.Stream <= done { // its ack was lost, or it waited here for longer than an ack may take
				ack(m)
				continue
			}
			if !yield(storedItem(m, meta), nil) {
				return
			}
			ack(m)
			done = meta.Sequence.Stream
		}
	}
}

func (its Items) readerConsumer(
	ctx context.Context, name string, filters []string, from Position,
) (cons jetstream.Consumer, err error) {
	if err := events.CheckToken("durable name", name); err != nil {
		return nil, err
	}
	durable := its.readerConsumers(name)[0]
	cons, err = its.c.js.Consumer(ctx, events.ItemsStream, durable)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		old := ""
		if from, old, err = its.untaggedReader(ctx, name, filters, from); err != nil {
			return nil, err
		}
		if old != "" {
			defer func() { // a crash before leaves one that nobody asks
				if err == nil {
					_ = its.c.js.DeleteConsumer(ctx, events.ItemsStream, old)
				}
			}()
		}
		var policy jetstream.DeliverPolicy
		var seq uint64
		var since *time.Time
		if policy, seq, since, err = its.deliver(ctx, from); err != nil {
			return nil, err
		}
		cons, err = its.c.js.CreateConsumer(ctx, events.ItemsStream, jetstream.ConsumerConfig{
			Durable: durable, FilterSubjects: filters, DeliverPolicy: policy, OptStartSeq: seq, OptStartTime: since,
			AckPolicy: jetstream.AckExplicitPolicy, AckWait: ackWait, MaxDeliver: -1, MaxAckPending: readerAcks,
			PriorityPolicy: jetstream.PriorityPolicyPinned, PriorityGroups: []string{events.ReadersGroup}, PinnedTTL: pinnedTTL,
		})
		if errors.Is(err, jetstream.ErrConsumerExists) { // another process was faster
			cons, err = its.c.js.Consumer(ctx, events.ItemsStream, durable)
		}
	}
	if err != nil {
		return nil, WrapErr(err)
	}
	return cons, checkFilters(cons, filters)
}

// begunAt is where a durable began. Of one that began with the newest item of each subject: with what came since.
func begunAt(info *jetstream.ConsumerInfo) Position {
	switch cfg := info.Config; cfg.DeliverPolicy {
	case jetstream.DeliverAllPolicy:
		return Position{All: true}
	case jetstream.DeliverByStartSequencePolicy:
		return Position{Seq: cfg.OptStartSeq}
	case jetstream.DeliverByStartTimePolicy:
		return Position{Since: *cfg.OptStartTime}
	}
	return Position{Since: info.Created}
}

// checkFilters refuses a consumer that is to other items.
func checkFilters(cons jetstream.Consumer, filters []string) error {
	cfg := cons.CachedInfo().Config
	have := slices.Sorted(slices.Values(append(cfg.FilterSubjects, cfg.FilterSubject)))
	want := slices.Sorted(slices.Values(append(slices.Clone(filters), "")))
	if have = slices.DeleteFunc(have, empty); !slices.Equal(have, slices.DeleteFunc(want, empty)) {
		return fmt.Errorf("%w: it is to %v, not to %v; choose another name, or forget it first", ErrReader, have, filters)
	}
	return nil
}

// untaggedReader finds the consumer that was made under a name before its user had a tag, and where it stands: what is made in
// its place goes on from there.
func (its Items) untaggedReader(ctx context.Context, name string, filters []string, from Position) (Position, string, error) {
	for _, old := range its.readerConsumers(name)[1:] {
		cons, err := its.c.js.Consumer(ctx, events.ItemsStream, old)
		if errors.Is(err, jetstream.ErrConsumerNotFound) {
			continue
		}
		if err != nil {
			return from, "", WrapErr(err)
		}
		if err := checkFilters(cons, filters); err != nil {
			return from, "", err
		}
		return Position{Seq: cons.CachedInfo().AckFloor.Stream + 1}, old, nil
	}
	return from, "", nil
}

// readerConsumers are the consumers that may have the position of a name: the user's own, then the one without a tag.
func (its Items) readerConsumers(name string) []string {
	return slices.Compact([]string{events.ReaderConsumer(name, its.c.readerTag(name)), events.ReaderConsumer(name, "")})
}

func empty(s string) bool { return s == "" }

// ForgetReader drops the position that is kept under a name; before its user's tag was ever used, the one without. What
// others keep under the name stays. record.ErrNotFound: there is none.
func (its Items) ForgetReader(ctx context.Context, name string) error {
	if err := events.CheckToken("durable name", name); err != nil {
		return err
	}
	err := error(jetstream.ErrConsumerNotFound)
	for _, consumer := range its.readerConsumers(name) {
		if err = its.c.js.DeleteConsumer(ctx, events.ItemsStream, consumer); !errors.Is(err, jetstream.ErrConsumerNotFound) {
			break // the one without a tag is not ours any more
		}
	}
	if err != nil {
		return fmt.Errorf("durable subscription %q: %w", name, WrapErr(err))
	}
	return nil
}
