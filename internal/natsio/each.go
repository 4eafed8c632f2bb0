package natsio

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/record"
)

// Each gives the messages of a stream that a consumer selects to f, in order, until there is none behind the last. It
// stops at the first error of f, and returns it.
func (st Streams) Each(
	ctx context.Context, stream string, cfg jetstream.OrderedConsumerConfig,
	f func(jetstream.Msg, *jetstream.MsgMetadata) error,
) error {
	cfg.InactiveThreshold = cmp.Or(cfg.InactiveThreshold, 10*time.Second)
	cons, err := st.c.js.OrderedConsumer(ctx, stream, cfg)
	if err != nil {
		return WrapErr(err)
	}
	return st.each(ctx, cons, f)
}

// each gives all messages of a consumer to f, until there is none behind the last. In a cluster the leader decides that: the server of
// the consumer may have yet to take in what was acknowledged before.
func (st Streams) each(
	ctx context.Context, cons jetstream.Consumer, f func(jetstream.Msg, *jetstream.MsgMetadata) error,
) error {
	if !st.c.clustered() {
		return st.follow(ctx, cons, func() (bool, error) { return true, nil }, f)
	}
	info := cons.CachedInfo()
	leader, err := MessagesOf(ctx, st, info.Stream)
	if err != nil {
		return WrapErr(err)
	}
	last := max(info.Config.OptStartSeq, 1) - 1
	filters := info.Config.FilterSubjects
	if len(filters) == 0 {
		filters = []string{cmp.Or(info.Config.FilterSubject, ">")}
	}
	atEnd := func() (bool, error) {
		for _, filter := range filters {
			if _, err := leader.GetMsg(ctx, last+1, jetstream.WithGetMsgSubject(filter)); !errors.Is(err, jetstream.ErrMsgNotFound) {
				return false, WrapErr(err)
			}
		}
		return true, nil
	}
	return st.follow(ctx, cons, atEnd, func(m jetstream.Msg, meta *jetstream.MsgMetadata) error {
		last = meta.Sequence.Stream
		return f(m, meta)
	})
}

// stalls is how many timeouts in a row follow waits for a message that its server says it has. One whose disk cannot be read
// never gives it, and says nothing.
const stalls = 4

// follow gives the messages of a consumer to f; where none seems to be behind the last, atEnd decides. record.ErrBusy: the
// server has more and does not give it. Readers with patience go on behind the last message, by another consumer.
func (st Streams) follow(
	ctx context.Context, cons jetstream.Consumer, atEnd func() (bool, error),
	f func(jetstream.Msg, *jetstream.MsgMetadata) error,
) error {
	it, err := st.c.read(ctx, cons, pulls{messages: scanAhead, bytes: scanBytes})
	if err != nil {
		return WrapErr(err)
	}
	it.began = it.info.Created // what was read before and what comes are one whole
	defer func() {             // else it would be among the stream's consumers for a while
		it.stop()
		_ = st.c.js.DeleteConsumer(context.WithoutCancel(ctx), it.stream, it.info.Name)
	}()
	var why, final error
	waited := st.c.denied.patience(ctx).read(ctx, it.stream, func() (further bool, err error) {
		was := it.last
		if why != nil {
			err = it.again(why, st.c.timeout)
		}
		if err == nil {
			final, err = st.toEnd(ctx, it, atEnd, f)
		}
		why = ownGone(err)
		return it.last > was, why
	})
	return cmp.Or(final, waited)
}

// toEnd reads on. final is what atEnd or f says; err is why nothing comes.
func (st Streams) toEnd(
	ctx context.Context, it *reading, atEnd func() (bool, error), f func(jetstream.Msg, *jetstream.MsgMetadata) error,
) (final, err error) {
	pending := it.info.NumPending
	for idle := 0; ; {
		if pending == 0 {
			if done, err := atEnd(); err != nil || done {
				return err, nil
			}
		}
		m, err := it.next(st.c.timeout)
		if errors.Is(err, nats.ErrTimeout) && ctx.Err() == nil { // those that were counted may have been deleted since
			if err := it.ask(ctx); err != nil {
				return nil, err
			}
			if idle++; idle == stalls {
				return nil, fmt.Errorf("%w: %s: of %d messages behind %d none came in %v: can the server read its disk?",
					record.ErrBusy, it.stream, it.info.NumPending, it.last, stalls*st.c.timeout)
			}
			if pending = it.info.NumPending; pending > 0 && it.info.Config.DeliverPolicy == jetstream.DeliverLastPerSubjectPolicy {
				// The server stands still at a message that it chose for its subject and that was removed since. By sequence it gives older
				// messages of a subject beside the last one.
				if err := it.again(err, st.c.timeout); err != nil {
					return nil, err
				}
			}
			continue
		}
		if err != nil {
			return nil, errors.Join(ctx.Err(), err)
		}
		if err := f(m, &m.meta); err != nil {
			return err, nil
		}
		pending, idle = m.meta.NumPending, 0
	}
}

// ownGone is WrapErr for whoever reads by a consumer that it made itself: a server that forgot it, because it restarted or
// nobody was heard for a while, does not answer now. That is no word about what the stream holds.
func ownGone(err error) error {
	if errors.Is(err, jetstream.ErrConsumerNotFound) || errors.Is(err, jetstream.ErrConsumerDeleted) {
		return fmt.Errorf("%w: the consumer that reads is gone: %w", record.ErrBusy, err)
	}
	return WrapErr(err)
}

// EachUntilNewest gives every message of a stream from a sequence on to f, up to the newest that the leader had when it was asked for
// the stream: the consumer's own copy may be behind, and what it has not got yet is as acknowledged as the rest.
func (st Streams) EachUntilNewest(
	ctx context.Context, s jetstream.Stream, seq uint64, f func(jetstream.Msg, *jetstream.MsgMetadata) error,
) error {
	last, newest := max(seq, 1)-1, s.CachedInfo().State.LastSeq
	if s.CachedInfo().State.Msgs == 0 || last >= newest {
		return nil
	}
	cons, err := s.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: max(seq, 1), InactiveThreshold: time.Minute,
	})
	if err != nil {
		return WrapErr(err)
	}
	atEnd := func() (bool, error) {
		if last >= newest {
			return true, nil
		}
		_, err := s.GetMsg(ctx, last+1, jetstream.WithGetMsgSubject(">"))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return true, nil
		}
		return false, WrapErr(err)
	}
	return st.follow(ctx, cons, atEnd, func(m jetstream.Msg, meta *jetstream.MsgMetadata) error {
		last = meta.Sequence.Stream
		return f(m, meta)
	})
}

// firstSince is the sequence of the first message of a stream that was stored at or after a time, or one that no message has. A consumer
// that begins by time is not asked: nats-server 2.15.2 can give it nothing where the newest messages of a block were removed.
func firstSince(ctx context.Context, s jetstream.Stream, since time.Time) (uint64, error) {
	state := s.CachedInfo().State
	low, high := max(state.FirstSeq, 1), state.LastSeq+1
	for low < high {
		middle := low + (high-low)/2
		m, err := s.GetMsg(ctx, middle, jetstream.WithGetMsgSubject(">"))
		switch {
		case errors.Is(err, jetstream.ErrMsgNotFound):
			high = middle
		case err != nil:
			return 0, WrapErr(err)
		case m.Time.Before(since):
			low = m.Sequence + 1
		default:
			high = middle
		}
	}
	return low, nil
}

// messages follows the messages of a stream that a consumer selects, in order, across reconnects, until ctx ends or the
// caller stops. ready, if not nil, is called once the consumer stands. The first error is the last of all.
func (st Streams) messages(
	ctx context.Context, stream string, cfg jetstream.OrderedConsumerConfig, of pulls, ready func(),
) iter.Seq2[message, error] {
	return func(yield func(message, error) bool) {
		cons, err := st.c.js.OrderedConsumer(ctx, stream, cfg)
		if err != nil {
			yield(message{}, WrapErr(err))
			return
		}
		it, err := st.c.read(ctx, cons, of)
		if err != nil {
			yield(message{}, WrapErr(err))
			return
		}
		defer it.stop()
		if ready != nil {
			ready()
		}
		for {
			m, err := it.next(0)
			if ctx.Err() != nil {
				return
			}
			if err != nil {
				err = ownGone(err)
			}
			if !yield(m, err) || err != nil {
				return
			}
		}
	}
}
