package natsio

import (
	"context"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"spool/pkg/events"
)

// Aged is where a record stands, and how long it has been there.
type Aged struct {
	Seq uint64
	Age time.Duration
}

// Ages finds the records that match a filter and are at least that old by the server's clock, by the headers
// alone.
func (recs Records) Ages(ctx context.Context, filter string, least time.Duration) (map[string]Aged, error) {
	s, err := recs.c.js.Stream(ctx, events.RecordsStream)
	if err != nil {
		return nil, WrapErr(err)
	}
	cons, err := s.CreateConsumer(ctx, jetstream.ConsumerConfig{
		FilterSubject: events.RecordSubject(filter), DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy, HeadersOnly: true,
		AckPolicy: jetstream.AckNonePolicy, MemoryStorage: true, InactiveThreshold: 10 * time.Second,
	})
	if err != nil {
		return nil, WrapErr(err)
	}
	info := cons.CachedInfo()
	defer func() { _ = s.DeleteConsumer(context.WithoutCancel(ctx), info.Name) }()
	old := map[string]Aged{}
	for left := info.NumPending; left > 0; {
		batch, err := cons.FetchNoWait(int(min(left, 1000)))
		if err != nil {
			return nil, WrapErr(err)
		}
		got := uint64(0)
		for m := range batch.Messages() {
			got++
			meta, err := m.Metadata()
			if err != nil {
				return nil, err
			}
			if age := info.TimeStamp.Sub(meta.Timestamp); age >= least && m.Headers().Get(hdrOperation) == "" {
				old[RecordKey(m.Subject())] = Aged{meta.Sequence.Stream, age}
			}
		}
		if err := batch.Error(); err != nil {
			return nil, WrapErr(err)
		}
		if got == 0 {
			break
		}
		left -= min(got, left)
	}
	return old, nil
}
