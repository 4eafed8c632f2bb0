package natsio

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"spool/pkg/events"
)

// PurgeEvents removes the events of a session below a sequence, as far as its partition has acknowledged, and tells whether these are all.
// Doing it again changes nothing more.
//
// When an event that was given and not acknowledged is removed, or is due again and is gone, the server takes that for an ack of it, and
// of all before it in its partition, whosever they are: once who has these in hand dies, nobody is given them. So nothing above the floor
// of the acks is removed, which sinks for nobody but who replays events.
func PurgeEvents(ctx context.Context, es Events, session string, partition int, below uint64) (all bool, err error) {
	s, err := MessagesOf(ctx, es.c.Streams(), events.EventsStream)
	if err != nil {
		return false, WrapErr(err)
	}
	subject := events.StoredOfSession(session)
	oldest := func() (uint64, error) {
		m, err := s.GetMsg(ctx, 1, jetstream.WithGetMsgSubject(subject))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return below, nil
		}
		if err != nil {
			return 0, WrapErr(err)
		}
		return m.Sequence, nil
	}
	first, err := oldest()
	if err != nil || first >= below {
		return err == nil, err
	}
	cons, err := es.c.js.Consumer(ctx, events.EventsStream, events.PartitionConsumer(partition))
	if errors.Is(err, jetstream.ErrConsumerNotFound) { // who makes it again is given all that is there
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("consumer of partition %d: %w", partition, WrapErr(err))
	}
	floor := cons.CachedInfo().AckFloor.Stream
	if first > floor {
		return false, nil
	}
	stream, err := es.c.js.Stream(ctx, events.EventsStream)
	if err == nil {
		err = stream.Purge(ctx, jetstream.WithPurgeSubject(subject), jetstream.WithPurgeSequence(min(below, floor+1)))
	}
	if err != nil {
		return false, WrapErr(err)
	}
	first, err = oldest()
	return err == nil && first >= below, err
}
