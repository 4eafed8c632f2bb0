package natsio

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"spool/pkg/events"
)

// PurgeEvents removes the events of a session below a sequence. Doing it again changes nothing more.
//
// When an event that was given and not acknowledged is due again, and is gone, the server takes that for an ack of it, and of all before
// it in its partition, whosever they are: once who has these in hand dies, nobody is given them. So deliveries are taken back before
// events among them are removed, and none is due for a while, and again behind that: what is left comes again. A crash in
// between leaves what is gone among the deliveries for ackWait, in which whoever begins the partition takes them back.
func PurgeEvents(ctx context.Context, es Events, session string, below uint64) error {
	takeBack, err := es.takeBack(ctx, session, below)
	if err != nil {
		return err
	}
	s, err := es.c.js.Stream(ctx, events.EventsStream)
	if err == nil {
		err = takeBack()
	}
	if err == nil {
		err = s.Purge(ctx, jetstream.WithPurgeSubject(events.StoredOfSession(session)), jetstream.WithPurgeSequence(below))
	}
	if err == nil {
		err = takeBack()
	}
	return WrapErr(err)
}

// takeBack takes back what was given of a session's partition, if an event of the session below a sequence is not acknowledged.
func (es Events) takeBack(ctx context.Context, session string, below uint64) (takeBack func() error, err error) {
	none := func() error { return nil }
	newest, err := es.NewestEvent(ctx, events.Thread{Session: session, Name: events.EveryThread})
	if err != nil || newest.Seq == 0 {
		return none, err
	}
	name := events.PartitionConsumer(newest.Partition)
	cons, err := es.c.js.Consumer(ctx, events.EventsStream, name)
	if errors.Is(err, jetstream.ErrConsumerNotFound) { // it begins with the first event that is there
		return none, nil
	}
	if err != nil {
		return nil, fmt.Errorf("consumer of partition %d: %w", newest.Partition, WrapErr(err))
	}
	s, err := MessagesOf(ctx, es.c.Streams(), events.EventsStream)
	if err != nil {
		return nil, WrapErr(err)
	}
	floor := cons.CachedInfo().AckFloor.Stream
	open, err := s.GetMsg(ctx, floor+1, jetstream.WithGetMsgSubject(events.StoredOfSession(session)))
	if errors.Is(err, jetstream.ErrMsgNotFound) || err == nil && open.Sequence >= below {
		return none, nil
	}
	if err != nil {
		return nil, WrapErr(err)
	}
	return func() error {
		_, err := es.c.js.ResetConsumer(ctx, events.EventsStream, name)
		return err
	}, nil
}
