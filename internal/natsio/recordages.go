package natsio

import (
	"context"
	"encoding/json"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/record"
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
	skew, err := recs.c.Streams().Skew(ctx)
	if err != nil {
		return nil, err
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
			seq := meta.Sequence.Stream
			age := info.TimeStamp.Sub(skew.Since(events.RecordsStream, seq, meta.Timestamp, info.TimeStamp))
			if age >= least && m.Headers().Get(hdrOperation) == "" {
				old[RecordKey(m.Subject())] = Aged{seq, age}
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

// Skew is when the server's clock was behind, as the marks have it (package scrub).
func (ss Streams) Skew(ctx context.Context) (record.Skew, error) {
	rs, err := ss.c.Records().Records(ctx, events.MarksKey)
	if err != nil {
		return record.Skew{}, err
	}
	var marks struct{ Skew record.Skew }
	if len(rs[0].Value) > 0 && json.Unmarshal(rs[0].Value, &marks) != nil { // as good as none, until they are written anew
		return record.Skew{}, nil
	}
	return marks.Skew, nil
}
