package sessionstore

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/natsio"
	"spool/pkg/events"
)

// Clock is the store's time, by which it stamps what it stores (SPEC P5).
func (st *Store) Clock(ctx context.Context) (time.Time, error) {
	s, err := st.js.Stream(ctx, events.RecordsStream)
	if err != nil {
		return time.Time{}, fmt.Errorf("ask for the store's time: %w", natsio.WrapErr(err))
	}
	return s.CachedInfo().TimeStamp, nil
}

// activity are the records that change when something happens in a session. What streams into an output changes its
// thread's when it ends.
var activity = []string{"thread.>", "history.>", "session.>", "run.>", "artifact.>"}

// Active tells when something happened last in each session, by the store's clock; where that was wrong, when it was
// right again.
func (st *Store) Active(ctx context.Context) (map[string]time.Time, error) {
	s, err := st.js.Stream(ctx, events.RecordsStream)
	if err != nil {
		return nil, fmt.Errorf("ages of sessions: %w", natsio.WrapErr(err))
	}
	ages, err := st.streams.Aging(ctx, s)
	if err != nil {
		return nil, err
	}
	last := map[string]time.Time{}
	for _, filter := range activity {
		err := st.streams.Each(ctx, events.RecordsStream, jetstream.OrderedConsumerConfig{
			FilterSubjects: []string{events.RecordSubject(filter)}, DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy, HeadersOnly: true,
		}, func(m jetstream.Msg, meta *jetstream.MsgMetadata) error {
			at := ages.Since(meta)
			if session := events.SessionOf(natsio.RecordKey(m.Subject())); at.After(last[session]) {
				last[session] = at
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("ages of sessions: %w", err)
		}
	}
	return last, nil
}
