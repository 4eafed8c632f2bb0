package natsio

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"spool/pkg/events"
)

// keysInTime is how many keys a server lists in the time for one request, even one that is busy.
const keysInTime = 50_000

// Keys lists the keys of the records that match a filter, also of those that are removed, in order: exactly, by the
// stream's own list of subjects.
func (recs Records) Keys(ctx context.Context, filter string) ([]string, error) {
	known := recs.c.keys.Load()
	if known == nil {
		s, err := recs.c.js.Stream(ctx, events.RecordsStream)
		if err != nil {
			return nil, fmt.Errorf("list the keys of %s: %w", filter, WrapErr(err))
		}
		known = &s
		recs.c.keys.Store(known)
	}
	s := *known
	// The server gives a page of 100,000 at a time, and looks at all of them for each. How many there are it said last
	// time.
	ctx, cancel := context.WithTimeout(ctx, recs.c.timeout*time.Duration(1+s.CachedInfo().State.Msgs/keysInTime))
	defer cancel()
	info, err := s.Info(ctx, jetstream.WithSubjectFilter(events.RecordSubject(filter)))
	if err != nil {
		recs.c.keys.Store(nil) // there may be far more now
		return nil, fmt.Errorf("list the keys of %s: %w", filter, WrapErr(err))
	}
	keys := make([]string, 0, len(info.State.Subjects))
	for subject := range info.State.Subjects {
		keys = append(keys, RecordKey(subject))
	}
	slices.Sort(keys)
	return keys, nil
}
