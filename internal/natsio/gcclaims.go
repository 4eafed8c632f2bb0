package natsio

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/record"
	"spool/pkg/artifacts"
	"spool/pkg/events"
)

// Claims finds what events that may not be applied yet, and dead letters, hold on to.
func (c *Conn) Claims(ctx context.Context) (*record.Claims, error) {
	claims := &record.Claims{Bodies: map[string]bool{}, Blobs: map[string]bool{}}
	s, err := c.leaderStream(ctx, events.EventsStream)
	if err != nil {
		return nil, fmt.Errorf("read claims: %w", wrapErr(err))
	}
	floor, err := unapplied(ctx, s)
	if err != nil {
		return nil, fmt.Errorf("read claims: %w", err)
	}
	note := func(envelope []byte) {
		e, err := events.Decode(envelope)
		if err != nil {
			return // it goes to the dead letters as it is, and claims nothing
		}
		if e.Ref != nil {
			claims.Bodies[e.Ref.Object] = true
		}
		for _, one := range e.Each() {
			for ref := range artifacts.Mentions(one.Body) {
				claims.Blobs[ref] = true
			}
		}
	}
	if err := c.from(ctx, s, floor, func(m jetstream.Msg) { note(m.Data()) }); err != nil {
		return nil, fmt.Errorf("read claims of events: %w", err)
	}
	dead, err := c.leaderStream(ctx, events.DeadStream)
	if err != nil {
		return nil, fmt.Errorf("read claims: %w", wrapErr(err))
	}
	err = c.from(ctx, dead, 1, func(m jetstream.Msg) {
		if name := m.Headers().Get(HeaderObject); name != "" {
			claims.Bodies[name] = true
		}
		note(m.Data())
	})
	if err != nil {
		return nil, fmt.Errorf("read claims of dead letters: %w", err)
	}
	return claims, nil
}

// unapplied is the lowest sequence that some partition may not have applied. A partition without its consumer may have
// applied nothing.
func unapplied(ctx context.Context, s jetstream.Stream) (uint64, error) {
	floor := s.CachedInfo().State.LastSeq + 1
	left := map[string]bool{}
	for p := range events.Partitions {
		left[events.PartitionConsumer(p)] = true
	}
	list := s.ListConsumers(ctx)
	for info := range list.Info() {
		if !left[info.Name] {
			continue
		}
		delete(left, info.Name)
		if info.NumPending > 0 || info.NumAckPending > 0 {
			floor = min(floor, info.AckFloor.Stream+1)
		}
	}
	if err := list.Err(); err != nil {
		return 0, wrapErr(err)
	}
	if len(left) > 0 {
		return 1, nil
	}
	return floor, nil
}

// from gives every message of a stream from a sequence on to f, up to the newest that the leader had when it was asked: the
// consumer's own copy may be behind, and what it has not got yet is as acknowledged as the rest.
func (c *Conn) from(ctx context.Context, s jetstream.Stream, seq uint64, f func(jetstream.Msg)) error {
	cons, err := s.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: max(seq, 1), InactiveThreshold: 10 * time.Second,
	})
	if err != nil {
		return wrapErr(err)
	}
	last, newest := max(seq, 1)-1, s.CachedInfo().State.LastSeq
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
		f(m)
		return nil
	})
}
