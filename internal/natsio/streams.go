package natsio

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"spool/pkg/events"
)

// Where streams are.

// LastSeqs is the last sequence of a stream of each name.
func (st Streams) LastSeqs(ctx context.Context, streams ...string) (map[string]uint64, error) {
	out := map[string]uint64{}
	for _, name := range streams {
		s, err := st.c.js.Stream(ctx, name)
		if err != nil {
			return nil, fmt.Errorf("stream %s: %w", name, WrapErr(err))
		}
		out[name] = s.CachedInfo().State.LastSeq
	}
	return out, nil
}

// UnappliedOf is the lowest sequence of EVENTS that some partition may not have applied. A partition without its consumer
// may have applied nothing. s is EVENTS: what came behind its cached state is not looked at.
//
// A server tells its consumers of a message after it has acknowledged it. A consumer that has nothing to do may not have heard yet: it
// is done when it has acknowledged the newest event of its partition.
func (st Streams) UnappliedOf(ctx context.Context, s jetstream.Stream) (uint64, error) {
	last := s.CachedInfo().State.LastSeq
	floor, left := last+1, map[string]string{}
	for p := range events.Partitions {
		left[events.PartitionConsumer(p)] = events.PartitionFilter(p)
	}
	var idle []string // subjects, and up to where their consumers have acknowledged
	var acked []uint64
	list := s.ListConsumers(ctx)
	for info := range list.Info() {
		subject, ours := left[info.Name]
		if !ours {
			continue
		}
		delete(left, info.Name)
		switch at := info.AckFloor.Stream; {
		case info.NumPending > 0 || info.NumAckPending > 0:
			floor = min(floor, at+1)
		case at < last:
			idle, acked = append(idle, subject), append(acked, at)
		}
	}
	if err := list.Err(); err != nil {
		return 0, WrapErr(err)
	}
	if len(left) > 0 {
		return 1, nil
	}
	newest, err := st.c.newest(ctx, events.EventsStream, idle)
	if err != nil {
		return 0, fmt.Errorf("newest events of partitions: %w", err)
	}
	for i, m := range newest {
		if m.Seq > acked[i] {
			floor = min(floor, acked[i]+1)
		}
	}
	return floor, nil
}
