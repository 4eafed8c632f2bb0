package natsio

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	ages, err := recs.c.Streams().Aging(ctx, s)
	if err != nil {
		return nil, err
	}
	old := map[string]Aged{}
	return old, eachHeader(ctx, recs, filter, func(m jetstream.Msg, meta *jetstream.MsgMetadata) {
		key, age := RecordKey(m.Subject()), ages.Of(meta)
		if delete(old, key); age >= least && m.Headers().Get(hdrOperation) == "" { // one that is written meanwhile comes again
			old[key] = Aged{meta.Sequence.Stream, age}
		}
	})
}

// Aging tells how old messages of a stream are, by the server's clock as far as that can be trusted. Whoever decides by age
// asks it.
type Aging struct {
	stream string
	now    time.Time
	skew   record.Skew
}

// Aging reads what is known of the clock, in both copies of the marks (package scrub), for the stream as it was asked for.
func (ss Streams) Aging(ctx context.Context, s jetstream.Stream) (a Aging, err error) {
	info := s.CachedInfo()
	rs, err := ss.c.Records().Records(ctx, events.MarksKey)
	if err != nil {
		return a, err
	}
	copied, err := StoredMarks(ctx, ss)
	if err != nil && !errors.Is(err, record.ErrNotFound) && !errors.Is(err, record.ErrDenied) { // who may not read it has one copy
		return a, err
	}
	return Aging{info.Config.Name, info.TimeStamp, clockOf(rs[0].Value).Latest(clockOf(copied)).Skew}, nil
}

// clockOf is what marks say; those that cannot be read are as good as none, until they are written anew.
func clockOf(marks []byte) (c record.Clock) {
	if json.Unmarshal(marks, &c) != nil {
		return record.Clock{}
	}
	return c
}

// StoredMarks reads the copy of the marks that is not in the record bucket; nil when there is none.
func StoredMarks(ctx context.Context, ss Streams) ([]byte, error) {
	s, err := MessagesOf(ctx, ss, events.GCStream)
	if err != nil {
		return nil, fmt.Errorf("read the streams' marks: %w", WrapErr(err))
	}
	m, err := newestOn(ctx, s, events.MarksSubject)
	if err != nil {
		return nil, fmt.Errorf("read the streams' marks: %w", err)
	}
	return m.Data, nil
}

// Since is the time from which a message's age counts.
func (a Aging) Since(m *jetstream.MsgMetadata) time.Time {
	return a.skew.Since(a.stream, m.Sequence.Stream, m.Timestamp, a.now)
}

// Of is a message's age.
func (a Aging) Of(m *jetstream.MsgMetadata) time.Duration { return a.now.Sub(a.Since(m)) }
