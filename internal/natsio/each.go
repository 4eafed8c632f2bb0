package natsio

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// eachMessage gives the messages of a stream that a consumer selects to f, in order, until there is none behind the last.
func (c *Conn) eachMessage(
	ctx context.Context, stream string, cfg jetstream.OrderedConsumerConfig,
	f func(jetstream.Msg, *jetstream.MsgMetadata) error,
) error {
	cfg.InactiveThreshold = cmp.Or(cfg.InactiveThreshold, 10*time.Second)
	cons, err := c.js.OrderedConsumer(ctx, stream, cfg)
	if err != nil {
		return wrapErr(err)
	}
	return c.each(ctx, cons, f)
}

// each gives all messages of a consumer to f, until there is none behind the last.
func (c *Conn) each(ctx context.Context, cons jetstream.Consumer, f func(jetstream.Msg, *jetstream.MsgMetadata) error) error {
	return c.follow(ctx, cons, func() (bool, error) { return true, nil }, f)
}

// follow gives the messages of a consumer to f; where none seems to be behind the last, atEnd decides.
func (c *Conn) follow(ctx context.Context, cons jetstream.Consumer, atEnd func() (bool, error), f func(jetstream.Msg, *jetstream.MsgMetadata) error) error {
	pending := cons.CachedInfo().NumPending
	defer func() { // else it would be among the stream's consumers for a while
		info := cons.CachedInfo()
		_ = c.js.DeleteConsumer(context.WithoutCancel(ctx), info.Stream, info.Name)
	}()
	it, err := cons.Messages(jetstream.PullMaxMessagesWithBytesLimit(scanAhead, scanBytes))
	if err != nil {
		return wrapErr(err)
	}
	defer it.Stop()
	defer context.AfterFunc(ctx, it.Stop)()
	for {
		if pending == 0 {
			if done, err := atEnd(); err != nil || done {
				return err
			}
		}
		m, err := it.Next(jetstream.NextMaxWait(c.timeout))
		if errors.Is(err, nats.ErrTimeout) && ctx.Err() == nil { // those that were counted may have been deleted since
			info, err := cons.Info(ctx)
			if err != nil {
				return wrapErr(err)
			}
			pending = info.NumPending
			continue
		}
		if err != nil {
			return wrapErr(errors.Join(ctx.Err(), err))
		}
		meta, err := m.Metadata()
		if err != nil {
			return err
		}
		if err := f(m, meta); err != nil {
			return err
		}
		pending = meta.NumPending
	}
}

// EachUntilNewest gives every message of a stream from a sequence on to f, up to the newest that the leader had when it was asked for
// the stream: the consumer's own copy may be behind, and what it has not got yet is as acknowledged as the rest.
func (c *Conn) EachUntilNewest(
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
		return wrapErr(err)
	}
	atEnd := func() (bool, error) {
		if last >= newest {
			return true, nil
		}
		_, err := s.GetMsg(ctx, last+1, jetstream.WithGetMsgSubject(">"))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return true, nil
		}
		return false, wrapErr(err)
	}
	return c.follow(ctx, cons, atEnd, func(m jetstream.Msg, meta *jetstream.MsgMetadata) error {
		last = meta.Sequence.Stream
		return f(m, meta)
	})
}

// EachFrom is EachUntilNewest for who cannot fail.
func (c *Conn) EachFrom(ctx context.Context, s jetstream.Stream, seq uint64, f func(jetstream.Msg)) error {
	return c.EachUntilNewest(ctx, s, seq, func(m jetstream.Msg, _ *jetstream.MsgMetadata) error {
		f(m)
		return nil
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
			return 0, wrapErr(err)
		case m.Time.Before(since):
			low = m.Sequence + 1
		default:
			high = middle
		}
	}
	return low, nil
}
