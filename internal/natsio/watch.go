package natsio

import (
	"context"
	"iter"
	"math"

	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/record"
	"spool/pkg/events"
)

// From is where a watch begins: FromNow, FromCurrent, or the sequence of the first change.
type From uint64

// Where a watch begins.
const (
	FromNow     From = 0
	FromCurrent From = math.MaxUint64 // with the records that are there
)

// Watch follows the records whose key matches a filter, across reconnects, until ctx ends or the caller stops: every change, also
// removals. Of a record that changes quickly the last value comes for certain. In a
// cluster a change comes when the watch's server has it, which may be after a reader of Records has seen it.
// ready, if not nil, is called once the watch stands.
func (recs Records) Watch(ctx context.Context, filter string, from From, ready func()) iter.Seq2[record.Record, error] {
	return WatchAny(ctx, recs, []string{filter}, from, ready)
}

// WatchAny is Watch of the records whose key matches any of some filters, in the order in which they were written.
func WatchAny(ctx context.Context, recs Records, filters []string, from From, ready func()) iter.Seq2[record.Record, error] {
	return func(yield func(record.Record, error) bool) {
		cfg := jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverNewPolicy}
		for _, filter := range filters {
			cfg.FilterSubjects = append(cfg.FilterSubjects, events.RecordSubject(filter))
		}
		switch from {
		case FromNow:
		case FromCurrent:
			cfg.DeliverPolicy = jetstream.DeliverLastPerSubjectPolicy
		default:
			cfg.DeliverPolicy, cfg.OptStartSeq = jetstream.DeliverByStartSequencePolicy, uint64(from)
		}
		for m, err := range recs.c.Streams().messages(ctx, events.RecordsStream, cfg, pulls{}, ready) {
			var r record.Record
			if err == nil {
				r, err = recs.opened(ctx, m, m.meta.Sequence.Stream)
			}
			if !yield(r, err) {
				return
			}
		}
	}
}
