package natsio

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"spool/pkg/events"
)

// Position is where a subscription starts; the zero value is at the next item.
type Position struct {
	All   bool      // from the first item that ITEMS holds
	Last  bool      // with the newest item of each subject
	Since time.Time // with the first item stored at or after that time
	Seq   uint64    // with that ITEMS sequence
}

func (p Position) config() jetstream.OrderedConsumerConfig {
	switch {
	case p.Seq != 0:
		return jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: p.Seq}
	case !p.Since.IsZero():
		return jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverByStartTimePolicy, OptStartTime: &p.Since}
	case p.Last:
		return jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy}
	case p.All:
		return jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverAllPolicy}
	}
	return jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverNewPolicy}
}

// StoredItem is an item as ITEMS holds it.
type StoredItem struct {
	Subject string
	Seq     uint64 // ITEMS sequence
	N       int64  // number in its thread; 0 if its JSON has none
	Stored  time.Time
	Pending uint64 // items of this subscription that are stored behind it
	Data    []byte
}

// Items follows ITEMS from a position, in order, across reconnects, until ctx ends or the caller stops. ready, if not nil,
// is called once the subscription stands: what is stored from then on will come.
func (c *Conn) Items(ctx context.Context, filters []string, from Position, ready func()) iter.Seq2[StoredItem, error] {
	return func(yield func(StoredItem, error) bool) {
		cfg := from.config()
		cfg.FilterSubjects = filters
		cons, err := c.js.OrderedConsumer(ctx, events.ItemsStream, cfg)
		if err != nil {
			yield(StoredItem{}, wrapErr(err))
			return
		}
		it, err := cons.Messages()
		if err != nil {
			yield(StoredItem{}, wrapErr(err))
			return
		}
		defer it.Stop()
		if ready != nil {
			ready()
		}
		for {
			m, err := it.Next(jetstream.NextContext(ctx))
			if ctx.Err() != nil {
				return
			}
			if err != nil {
				yield(StoredItem{}, wrapErr(err))
				return
			}
			meta, err := m.Metadata()
			if err != nil {
				yield(StoredItem{}, err)
				return
			}
			if !yield(StoredItem{
				Subject: m.Subject(), Seq: meta.Sequence.Stream, N: itemNumber(m.Data()), Stored: meta.Timestamp,
				Pending: meta.NumPending, Data: m.Data(),
			}, nil) {
				return
			}
		}
	}
}

// Newest is the time at which the newest item that matches a filter was stored; zero when there is none.
func (c *Conn) Newest(ctx context.Context, filter string) (time.Time, error) {
	s, err := c.js.Stream(ctx, events.ItemsStream)
	if err != nil {
		return time.Time{}, wrapErr(err)
	}
	m, err := s.GetLastMsgForSubject(ctx, filter)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return time.Time{}, nil
	}
	if err != nil {
		return time.Time{}, wrapErr(err)
	}
	return m.Time, nil
}
