package natsio

import (
	"context"
	"iter"

	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/record"
	"spool/pkg/events"
)

// Watch follows the records whose key matches a filter, across reconnects, until ctx ends or the caller stops: with current
// those that are there, then every change, also removals. Of a record that changes quickly the last value comes for certain. In a
// cluster a change comes when the watch's server has it, which may be after a reader of Records has seen it.
// ready, if not nil, is called once the watch stands.
func (recs Records) Watch(ctx context.Context, filter string, current bool, ready func()) iter.Seq2[record.Record, error] {
	return func(yield func(record.Record, error) bool) {
		cfg := jetstream.OrderedConsumerConfig{
			FilterSubjects: []string{events.RecordSubject(filter)}, DeliverPolicy: jetstream.DeliverNewPolicy,
		}
		if current {
			cfg.DeliverPolicy = jetstream.DeliverLastPerSubjectPolicy
		}
		for m, err := range recs.c.Streams().messages(ctx, events.RecordsStream, cfg, ready) {
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
