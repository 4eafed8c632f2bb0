package natsio

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/record"
	"spool/pkg/events"
)

// Position is where a subscription starts; the zero value is at the next item.
type Position struct {
	All   bool      // from the first item that ITEMS holds
	Last  bool      // with the newest item of each subject
	Since time.Time // with the first item stored at or after that time
	Seq   uint64    // with that ITEMS sequence
}

// deliver is the position as a consumer has it. What is next is a sequence too: a consumer that is made anew after a
// disconnection, before its first item, must not begin later.
func (its Items) deliver(ctx context.Context, p Position) (policy jetstream.DeliverPolicy, seq uint64, since *time.Time, err error) {
	switch {
	case p.Seq != 0:
		return jetstream.DeliverByStartSequencePolicy, p.Seq, nil, nil
	case !p.Since.IsZero():
		return jetstream.DeliverByStartTimePolicy, 0, &p.Since, nil
	case p.Last:
		return jetstream.DeliverLastPerSubjectPolicy, 0, nil, nil
	case p.All:
		return jetstream.DeliverAllPolicy, 0, nil, nil
	}
	s, err := its.c.Streams().LeaderStream(ctx, events.ItemsStream)
	if err != nil {
		return 0, 0, nil, WrapErr(err)
	}
	return jetstream.DeliverByStartSequencePolicy, s.CachedInfo().State.LastSeq + 1, nil, nil
}

// What a subscription asks for ahead: a reader that is behind gets a window at a time, and a slow one holds no more.
const (
	readMessages = 2000
	readBytes    = 8 << 20
)

// StoredItem is an item as ITEMS holds it.
type StoredItem struct {
	Subject string
	Seq     uint64 // ITEMS sequence
	N       int64  // number in its thread; 0 if its JSON has none
	Life    uint64 // which of the threads that had its name: threads.Head.Life
	Stored  time.Time
	Pending uint64 // items of this subscription that are stored behind it
	Data    []byte
	Trace   string // trace context of its event; "" = none
}

// Follow follows ITEMS from a position, in order, across reconnects, until ctx ends or the caller stops. ready, if not nil,
// is called once the subscription stands: what is stored from then on will come.
func (its Items) Follow(ctx context.Context, filters []string, from Position, ready func()) iter.Seq2[StoredItem, error] {
	return func(yield func(StoredItem, error) bool) {
		if from.Last {
			last, err := its.newestOfEach(ctx, filters, ready, func(it StoredItem) bool { return yield(it, nil) })
			switch {
			case errors.Is(err, errEnough) || ctx.Err() != nil:
				return
			case record.Temporary(err) && last > 0: // what comes by sequence is no less
			case err != nil:
				yield(StoredItem{}, err)
				return
			}
			from, ready = Position{Seq: last + 1}, nil
		}
		policy, seq, since, err := its.deliver(ctx, from)
		if err != nil {
			yield(StoredItem{}, err)
			return
		}
		cfg := jetstream.OrderedConsumerConfig{FilterSubjects: filters, DeliverPolicy: policy, OptStartSeq: seq, OptStartTime: since}
		of := pulls{messages: readMessages, bytes: readBytes}
		for m, err := range its.c.Streams().messages(ctx, events.ItemsStream, cfg, of, ready) {
			var it StoredItem
			if err == nil {
				it = storedItem(m, &m.meta)
			}
			if !yield(it, err) {
				return
			}
		}
	}
}

// errEnough ends what its caller wants no more of.
var errEnough = errors.New("enough")

// newestOfEach gives the newest item of each subject until f wants no more, and says where the last of them is. What is behind it came
// since, or was passed over: where items are removed meanwhile, the server counts too few that are left. Older ones may come before it
// then. ready, if not nil, is called before the first.
func (its Items) newestOfEach(ctx context.Context, filters []string, ready func(), f func(StoredItem) bool) (last uint64, err error) {
	cons, err := its.c.js.OrderedConsumer(ctx, events.ItemsStream, jetstream.OrderedConsumerConfig{
		FilterSubjects: filters, DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy,
		InactiveThreshold: 5 * time.Minute, // of a reader that pauses
	})
	if err != nil {
		return 0, WrapErr(err)
	}
	if ready != nil {
		ready()
	}
	err = its.c.Streams().each(ctx, cons, func(m jetstream.Msg, meta *jetstream.MsgMetadata) error {
		if last = meta.Sequence.Stream; !f(storedItem(m, meta)) {
			return errEnough
		}
		return nil
	})
	return last, err
}

func storedItem(m jetstream.Msg, meta *jetstream.MsgMetadata) StoredItem {
	return StoredItem{
		Subject: m.Subject(), Seq: meta.Sequence.Stream, N: itemNumber(m.Data()), Life: itemLife(m.Headers()), Stored: meta.Timestamp,
		Pending: meta.NumPending, Data: m.Data(), Trace: m.Headers().Get(events.HeaderTrace),
	}
}

// First is the first item that ITEMS holds of a life of a thread whose number is at least n, or of a later life; Seq 0: it holds
// none. It looks for it by halves, some twenty reads: behind the items of one life come those of the next.
func (its Items) First(ctx context.Context, t events.Thread, life uint64, n int64) (first StoredItem, err error) {
	s, err := its.c.Streams().LeaderStream(ctx, events.ItemsStream)
	if err != nil {
		return first, WrapErr(err)
	}
	state, filter := s.CachedInfo().State, events.ItemFilter(t.Session, t.Name, "")
	for low, high := max(state.FirstSeq, 1), state.LastSeq+1; low < high; {
		middle := low + (high-low)/2
		m, err := s.GetMsg(ctx, middle, jetstream.WithGetMsgSubject(filter))
		switch {
		case errors.Is(err, jetstream.ErrMsgNotFound):
			high = middle
			continue
		case err != nil:
			return first, fmt.Errorf("find item %d of %s: %w", n, t, WrapErr(err))
		}
		got, of := itemNumber(m.Data), itemLife(m.Header)
		if of == life && got >= n || of > life {
			first, high = itemOf(m), middle
		} else {
			low = m.Sequence + 1
		}
	}
	return first, nil
}

// LastBefore is the last item that ITEMS holds before a sequence of those that match a filter and were stored from a position on; Seq 0: it
// holds none. It looks for it by halves, some twenty reads.
func (its Items) LastBefore(ctx context.Context, filter string, before uint64, from Position) (last StoredItem, err error) {
	s, err := its.c.Streams().LeaderStream(ctx, events.ItemsStream)
	if err != nil {
		return last, WrapErr(err)
	}
	for low, high := max(s.CachedInfo().State.FirstSeq, from.Seq, 1), before; low < high; {
		middle := low + (high-low)/2
		m, err := s.GetMsg(ctx, middle, jetstream.WithGetMsgSubject(filter))
		switch {
		case err != nil && !errors.Is(err, jetstream.ErrMsgNotFound):
			return StoredItem{}, fmt.Errorf("last item of %s before %d: %w", filter, before, WrapErr(err))
		case err != nil || m.Sequence >= before:
			high = middle
		default:
			last, low = itemOf(m), m.Sequence+1
		}
	}
	if last.Stored.Before(from.Since) {
		last = StoredItem{}
	}
	return last, nil
}

// itemOf is an item that was read by its sequence.
func itemOf(m *jetstream.RawStreamMsg) StoredItem {
	return StoredItem{Subject: m.Subject, Seq: m.Sequence, N: itemNumber(m.Data), Life: itemLife(m.Header), Stored: m.Time, Data: m.Data}
}
