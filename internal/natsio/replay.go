package natsio

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/record"
	"spool/pkg/events"
)

// ThreadEvents reads the events of a thread that SPOOL_EVENTS still has, in order, one for each entry. What cannot be decoded
// is left out: it never was applied.
func (es Events) ThreadEvents(ctx context.Context, t events.Thread) ([]record.StoredEvent, error) {
	var out []record.StoredEvent
	err := es.c.Streams().Each(ctx, events.EventsStream, jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{events.StoredFilter(t)}, DeliverPolicy: jetstream.DeliverAllPolicy,
	}, func(m jetstream.Msg, meta *jetstream.MsgMetadata) error {
		if e, err := events.Open(m.Subject(), m.Data()); err == nil {
			for _, one := range e.Each() {
				at, stored := meta.Sequence.Stream, meta.Timestamp.UnixNano()
				out = append(out, record.StoredEvent{Event: one, Seq: at, Stored: stored})
			}
		}
		return nil
	})
	return out, err
}

// Past reads from the leader what EVENTS holds of one producer's events in a thread, in one epoch, from a sequence up to and without
// another one.
func (es Events) Past(ctx context.Context, t events.Thread, producer string, epoch, from, before uint64) (past events.Past, err error) {
	s, err := es.c.Streams().LeaderStream(ctx, events.EventsStream)
	if err != nil {
		return past, fmt.Errorf("read past events of %s: %w", t, WrapErr(err))
	}
	for seq := max(from, 1); seq < before; seq++ {
		m, err := s.GetMsg(ctx, seq, jetstream.WithGetMsgSubject(events.StoredFilter(t)))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			break
		}
		if err != nil {
			return past, fmt.Errorf("read past events of %s: %w", t, WrapErr(err))
		}
		if seq = m.Sequence; seq >= before {
			break
		}
		past.Add(m.Subject, m.Data, seq, producer, epoch)
	}
	// What was trimmed while it was read is not there either: the beginning is looked at last.
	info, err := s.Info(ctx)
	if err != nil {
		return past, fmt.Errorf("read past events of %s: %w", t, WrapErr(err))
	}
	past.From = max(from, info.State.FirstSeq)
	return past, nil
}
