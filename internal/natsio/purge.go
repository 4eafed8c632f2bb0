package natsio

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/retry"
	"spool/pkg/events"
)

// PurgeEvents removes the events of a session below a sequence. Doing it again changes nothing more.
//
// When an event that was given and not acknowledged is removed, as the only one of a purge, or is due again and is gone, the server takes
// that for an ack of it, and of all before it in its partition, whosever they are: once who has these in hand dies, nobody is given them.
// So deliveries are taken back before events among them are removed, and none is due for a while; and behind that the floor of the
// acks is set to where it was, whatever became of the purge: what is left comes again. Not defended: both this process and who has the
// others in hand, which may be one, die between the purge and that; ctx ends there, or another purge in the partition begins: what reads
// the floor then takes the raised one for it.
func PurgeEvents(ctx context.Context, es Events, session string, below uint64) error {
	name, floor, err := es.openBefore(ctx, session, below)
	if err != nil {
		return err
	}
	if name != "" {
		if _, err := es.c.js.ResetConsumer(ctx, events.EventsStream, name); err != nil {
			return WrapErr(err)
		}
	}
	s, err := es.c.js.Stream(ctx, events.EventsStream)
	if err == nil {
		err = s.Purge(ctx, jetstream.WithPurgeSubject(events.StoredOfSession(session)), jetstream.WithPurgeSequence(below))
	}
	if name == "" {
		return WrapErr(err)
	}
	return cmp.Or(retry.Do(ctx, retry.Tell(es.c.log, "set the floor of a partition back"), func() error {
		_, err := es.c.js.ResetConsumerToSequence(ctx, events.EventsStream, name, floor+1)
		return WrapErr(err)
	}), WrapErr(err))
}

// openBefore is the consumer of a session's partition, and its ack floor, if an event of the session below a sequence is not acknowledged.
func (es Events) openBefore(ctx context.Context, session string, below uint64) (name string, floor uint64, err error) {
	newest, err := es.NewestEvent(ctx, events.Thread{Session: session, Name: events.EveryThread})
	if err != nil || newest.Seq == 0 {
		return "", 0, err
	}
	name = events.PartitionConsumer(newest.Partition)
	cons, err := es.c.js.Consumer(ctx, events.EventsStream, name)
	if errors.Is(err, jetstream.ErrConsumerNotFound) { // it begins with the first event that is there
		return "", 0, nil
	}
	if err != nil {
		return "", 0, fmt.Errorf("consumer of partition %d: %w", newest.Partition, WrapErr(err))
	}
	s, err := MessagesOf(ctx, es.c.Streams(), events.EventsStream)
	if err != nil {
		return "", 0, WrapErr(err)
	}
	floor = cons.CachedInfo().AckFloor.Stream
	open, err := s.GetMsg(ctx, floor+1, jetstream.WithGetMsgSubject(events.StoredOfSession(session)))
	if errors.Is(err, jetstream.ErrMsgNotFound) || err == nil && open.Sequence >= below {
		return "", 0, nil
	}
	return name, floor, WrapErr(err)
}
