package natsio

import (
	"context"
	"fmt"
	"slices"

	"github.com/nats-io/nats.go/jetstream"

	"spool/pkg/events"
)

// Keys lists the keys of the records that match a filter, also of those that are removed, in order: exactly, by the
// stream's own list of subjects.
func (recs Records) Keys(ctx context.Context, filter string) ([]string, error) {
	s, err := recs.c.js.Stream(ctx, events.RecordsStream)
	if err != nil {
		return nil, fmt.Errorf("list the keys of %s: %w", filter, WrapErr(err))
	}
	info, err := s.Info(ctx, jetstream.WithSubjectFilter(events.RecordSubject(filter)))
	if err != nil {
		return nil, fmt.Errorf("list the keys of %s: %w", filter, WrapErr(err))
	}
	keys := make([]string, 0, len(info.State.Subjects))
	for subject := range info.State.Subjects {
		keys = append(keys, RecordKey(subject))
	}
	slices.Sort(keys)
	return keys, nil
}
