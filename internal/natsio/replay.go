package natsio

import (
	"context"

	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/record"
	"spool/pkg/events"
)

// ThreadEvents reads the events of a thread that SPOOL_EVENTS still has, in order, one for each entry. What cannot be decoded
// is left out: it never was applied.
func (c *Conn) ThreadEvents(ctx context.Context, t events.Thread) ([]record.StoredEvent, error) {
	var out []record.StoredEvent
	err := c.eachMessage(ctx, events.EventsStream, jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{events.StoredFilter(t)}, DeliverPolicy: jetstream.DeliverAllPolicy,
	}, func(m jetstream.Msg, meta *jetstream.MsgMetadata) error {
		if e, err := events.Open(m.Subject(), m.Data()); err == nil {
			for _, one := range e.Each() {
				out = append(out, record.StoredEvent{Event: one, Seq: meta.Sequence.Stream})
			}
		}
		return nil
	})
	return out, err
}
