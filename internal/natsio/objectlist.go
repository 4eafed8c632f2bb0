package natsio

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/jsonscan"
	"spool/internal/record"
	"spool/pkg/events"
)

// Stored lists what an object bucket holds, by the tokens of the chunks: objects, chunks without a meta message, which an
// upload left that died, and meta messages without chunks.
func (obs Objects) Stored(ctx context.Context, bucket string) ([]record.Stored, error) {
	s, err := obs.c.js.Stream(ctx, events.ObjectStream(bucket))
	if err != nil {
		return nil, fmt.Errorf("list bucket %s: %w", bucket, WrapErr(err))
	}
	ages, err := obs.c.Streams().Aging(ctx, s)
	if err != nil {
		return nil, fmt.Errorf("list bucket %s: %w", bucket, err)
	}
	l := storedList{bucket: bucket, at: map[string]int{}, ages: ages}
	for _, part := range []struct {
		filter  string
		headers bool
		take    func(jetstream.Msg, *jetstream.MsgMetadata) error
	}{{"$O." + bucket + ".M.>", false, l.meta}, {"$O." + bucket + ".C.>", true, l.chunk}} {
		if err := obs.lastOfEach(ctx, s, part.filter, part.headers, part.take); err != nil {
			return nil, fmt.Errorf("list bucket %s: %w", bucket, err)
		}
	}
	return l.all, nil
}

type storedList struct {
	bucket string
	all    []record.Stored
	at     map[string]int // by token
	ages   Aging
}

func (l *storedList) entry(token string, meta *jetstream.MsgMetadata) *record.Stored {
	i, ok := l.at[token]
	if !ok {
		i = len(l.all)
		l.at[token] = i
		l.all = append(l.all, record.Stored{Object: record.Object{Bucket: l.bucket, NUID: token}})
	}
	e := &l.all[i]
	if seq := meta.Sequence.Stream; seq >= e.Last {
		e.Last, e.Age = seq, l.ages.Of(meta)
	}
	return e
}

func (l *storedList) meta(m jetstream.Msg, meta *jetstream.MsgMetadata) error {
	var o objectMeta
	if err := jsonscan.Decode(m.Data(), &o); err != nil {
		return fmt.Errorf("%w: meta message %d: %w", record.ErrValue, meta.Sequence.Stream, err)
	}
	if o.Deleted { // by a client of the object store; its chunks are purged
		return nil
	}
	e := l.entry(o.NUID, meta)
	e.Object.Name, e.Object.Size, e.Object.Chunks = o.Name, int64(o.Size), int(o.Chunks)
	return nil
}

func (l *storedList) chunk(m jetstream.Msg, meta *jetstream.MsgMetadata) error {
	l.entry(strings.TrimPrefix(m.Subject(), ChunkSubject(l.bucket, "")), meta)
	return nil
}

// lastOfEach gives the last message of every subject to f, and perhaps older ones before it, where messages are removed
// meanwhile. A subject that is written meanwhile may be left out: it is newer than what was asked for.
func (obs Objects) lastOfEach(ctx context.Context, s jetstream.Stream, filter string, headers bool,
	f func(jetstream.Msg, *jetstream.MsgMetadata) error) error {
	last := uint64(0)
	cfg := jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{filter}, DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy, HeadersOnly: headers,
		InactiveThreshold: 10 * time.Second,
	}
	for range 2 {
		cons, err := s.OrderedConsumer(ctx, cfg)
		if err != nil {
			return WrapErr(err)
		}
		err = obs.c.Streams().each(ctx, cons, func(m jetstream.Msg, meta *jetstream.MsgMetadata) error {
			last = meta.Sequence.Stream
			return f(m, meta)
		})
		if err != nil {
			return err
		}
		// Where messages are removed meanwhile, the server counts too few that are left. By sequence it misses none.
		cfg.DeliverPolicy, cfg.OptStartSeq = jetstream.DeliverByStartSequencePolicy, last+1
	}
	return nil
}
