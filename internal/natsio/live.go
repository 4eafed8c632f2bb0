package natsio

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/jsonscan"
	"spool/pkg/events"
)

// LiveFrame is a live frame and the output that it belongs to. The zero value says that frames may have been missed.
type LiveFrame struct {
	Output string
	*events.Live
}

// FollowAll follows the frames of all outputs of a thread, as Follow does of one.
func (outs Outputs) FollowAll(ctx context.Context, t events.Thread, silence time.Duration) iter.Seq2[LiveFrame, error] {
	return outs.frames(ctx, events.LiveSubject(t, "*"), silence)
}

// Follow follows the frames of an output. After silence without a frame, and when frames were dropped because the caller
// is too slow, it yields nil: look at what is stored. It does so first of all, once the subscription stands.
func (outs Outputs) Follow(
	ctx context.Context, t events.Thread, output string, silence time.Duration,
) iter.Seq2[*events.Live, error] {
	return func(yield func(*events.Live, error) bool) {
		for f, err := range outs.frames(ctx, events.LiveSubject(t, output), silence) {
			if !yield(f.Live, err) {
				return
			}
		}
	}
}

func (outs Outputs) frames(ctx context.Context, subject string, silence time.Duration) iter.Seq2[LiveFrame, error] {
	return func(yield func(LiveFrame, error) bool) {
		sub, err := outs.c.nc.SubscribeSync(subject)
		if err != nil {
			yield(LiveFrame{}, WrapErr(err))
			return
		}
		defer func() { _ = sub.Unsubscribe() }()
		if _, err := outs.c.nc.RTT(); err != nil { // the server knows of the subscription
			yield(LiveFrame{}, WrapErr(err))
			return
		}
		if !yield(LiveFrame{}, nil) {
			return
		}
		for ctx.Err() == nil {
			wait, cancel := context.WithTimeout(ctx, silence)
			m, err := sub.NextMsgWithContext(wait)
			cancel()
			var frame LiveFrame
			switch {
			case ctx.Err() != nil:
				return
			case err == nil:
				frame = LiveFrame{m.Subject[strings.LastIndexByte(m.Subject, '.')+1:], new(events.Live)}
				if err = jsonscan.Decode(m.Data, frame.Live); err != nil {
					err = fmt.Errorf("live frame on %s: %w", m.Subject, err)
				}
			case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrSlowConsumer):
				err = nil
			default:
				err = WrapErr(err)
			}
			if !yield(frame, err) || err != nil {
				return
			}
		}
	}
}

// UntilNow gives the items of ITEMS from a position on, in order, and ends behind the last one that is stored. It stops at
// the first error of f, and returns it.
func (its Items) UntilNow(ctx context.Context, filters []string, from Position, f func(StoredItem) error) error {
	policy, seq, since, err := its.deliver(ctx, from)
	if err != nil {
		return err
	}
	err = its.c.Streams().Each(ctx, events.ItemsStream, jetstream.OrderedConsumerConfig{
		FilterSubjects: filters, DeliverPolicy: policy, OptStartSeq: seq, OptStartTime: since, InactiveThreshold: time.Minute,
	}, func(m jetstream.Msg, meta *jetstream.MsgMetadata) error {
		return f(storedItem(m, meta))
	})
	if err != nil {
		return fmt.Errorf("read items: %w", err)
	}
	return nil
}

// Span is the sequence of the first item that ITEMS holds, and of the last one that it was given.
func (its Items) Span(ctx context.Context) (first, last uint64, err error) {
	s, err := its.c.js.Stream(ctx, events.ItemsStream)
	if err != nil {
		return 0, 0, fmt.Errorf("read items: %w", WrapErr(err))
	}
	state := s.CachedInfo().State
	return state.FirstSeq, state.LastSeq, nil
}
