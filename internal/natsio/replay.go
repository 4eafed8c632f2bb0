package natsio

import (
	"context"
	"errors"
	"fmt"
	"time"

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

// EventOf reads a stored event of a partition from the stream's leader. record.ErrNotFound: it was removed, which a later one of the
// partition shows, or the stream, which has had later ones. Else whoever answers may not have heard of the event yet, or of the stream:
// record.ErrBusy.
func EventOf(ctx context.Context, st Streams, partition int, seq uint64) ([]byte, error) {
	s, err := MessagesOf(ctx, st, events.EventsStream)
	var m *jetstream.RawStreamMsg
	for had := false; err == nil; had = true { // asked again once it has had the event: a leader may be about to store what its log has
		m, err = s.GetMsg(ctx, seq, jetstream.WithGetMsgSubject(events.PartitionFilter(partition)))
		if !errors.Is(err, jetstream.ErrMsgNotFound) {
			break
		}
		if had {
			return nil, fmt.Errorf("%w: event %d", record.ErrNotFound, seq)
		}
		var now jetstream.Stream
		if now, err = st.LeaderStream(ctx, events.EventsStream); err == nil && now.CachedInfo().State.LastSeq < seq {
			return nil, fmt.Errorf("%w: there is no event %d yet", record.ErrBusy, seq)
		}
	}
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return nil, fmt.Errorf("%w: event %d: %w", record.ErrBusy, seq, err)
	case err != nil:
		return nil, WrapErr(err)
	case m.Sequence != seq:
		return nil, fmt.Errorf("%w: event %d", record.ErrNotFound, seq)
	}
	return m.Data, nil
}

// Past reads from the leader what EVENTS holds of one producer's events in a thread, in one epoch, from a sequence up to and without
// another one: no more than most bytes of the thread, in which a message counts 4 KiB at least; 0: all. Past.Before says
// how far.
func (es Events) Past(
	ctx context.Context, t events.Thread, producer string, epoch, from, before uint64, most int,
) (past events.Past, err error) {
	s, err := es.c.Streams().LeaderStream(ctx, events.EventsStream)
	if err != nil {
		return past, fmt.Errorf("read past events of %s: %w", t, WrapErr(err))
	}
	seq := max(from, 1)
	enough := func(size int) bool {
		past.Bytes += max(size, 4<<10)
		return most > 0 && past.Bytes >= most
	}
	past.Before = before
	if (most == 0 || most > fewBytes) && before > seq+fewPast {
		seq, err = es.replay(ctx, s, t, seq, before, func(m jetstream.Msg, at uint64) error {
			past.Add(m.Subject(), m.Data(), at, producer, epoch)
			if enough(len(m.Data())) {
				past.Before = at + 1
				return errBehind
			}
			return nil
		})
		if err != nil {
			return past, fmt.Errorf("read past events of %s: %w", t, WrapErr(err))
		}
	}
	for ; seq < past.Before; seq++ {
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
		if enough(len(m.Data)) {
			past.Before = seq + 1
		}
	}
	// What was trimmed while it was read is not there either: the beginning is looked at last.
	info, err := s.Info(ctx)
	if err != nil {
		return past, fmt.Errorf("read past events of %s: %w", t, WrapErr(err))
	}
	past.From = max(from, info.State.FirstSeq)
	return past, nil
}

// What is read message by message at most: a consumer reads many faster, and has to be made.
const (
	fewPast  = 1 << 7 // sequences
	fewBytes = 4 << 20
)

var errBehind = errors.New("behind what was asked for")

// replay gives the events of a thread to f, from a sequence up to and without another one, as far as the consumer's copy of the
// stream has them, and says where it ended.
func (es Events) replay(
	ctx context.Context, s jetstream.Stream, t events.Thread, from, before uint64, f func(jetstream.Msg, uint64) error,
) (uint64, error) {
	cons, err := s.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{events.StoredFilter(t)}, DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: from,
		InactiveThreshold: 10 * time.Second,
	})
	if err != nil {
		return from, err
	}
	err = es.c.Streams().each(ctx, cons, func(m jetstream.Msg, meta *jetstream.MsgMetadata) error {
		at := meta.Sequence.Stream
		if at >= before {
			return errBehind
		}
		from = at + 1
		return f(m, at)
	})
	if errors.Is(err, errBehind) {
		return before, nil
	}
	return from, err
}
