package natsio

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/record"
	"spool/pkg/events"
)

// What a backup reads, and a restore writes (internal/backup).

// StoredMessage is one message as a stream holds it.
type StoredMessage struct {
	Subject string
	Header  map[string][]string
	Data    []byte
	Seq     uint64
	Time    time.Time
}

// EachMessage gives every message of a stream from a sequence on, up to the newest, in order.
func (c *Conn) EachMessage(ctx context.Context, stream string, from uint64, f func(StoredMessage) error) error {
	err := c.eachMessage(ctx, stream, jetstream.OrderedConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: max(from, 1),
	}, func(m jetstream.Msg, meta *jetstream.MsgMetadata) error {
		return f(StoredMessage{m.Subject(), m.Headers(), m.Data(), meta.Sequence.Stream, meta.Timestamp})
	})
	if err != nil {
		return fmt.Errorf("read stream %s: %w", stream, err)
	}
	return nil
}

// Unapplied is the lowest sequence of EVENTS that some partition may not have applied: what is below is in the threads.
func (c *Conn) Unapplied(ctx context.Context) (uint64, error) {
	s, err := c.js.Stream(ctx, events.EventsStream)
	if err != nil {
		return 0, fmt.Errorf("unapplied events: %w", wrapErr(err))
	}
	return c.unapplied(ctx, s)
}

// Empty tells whether none of Spool's streams is there; what is there is named.
func (c *Conn) Empty(ctx context.Context) (there []string, err error) {
	for _, cfg := range Topology(Limits{EventsBytes: 1, ItemsBytes: 1}) {
		switch _, err := c.js.Stream(ctx, cfg.Name); {
		case err == nil:
			there = append(there, cfg.Name)
		case !errors.Is(err, jetstream.ErrStreamNotFound):
			return nil, fmt.Errorf("stream %s: %w", cfg.Name, wrapErr(err))
		}
	}
	return there, nil
}

// PutMessages stores messages as they were, in order; on an error, some of them.
func (c *Conn) PutMessages(ctx context.Context, msgs []StoredMessage) error {
	out := make([]*nats.Msg, len(msgs))
	for i, m := range msgs {
		out[i] = &nats.Msg{Subject: m.Subject, Header: m.Header, Data: m.Data}
	}
	if _, err := c.publish(ctx, out); err != nil {
		return fmt.Errorf("store %d messages: %w", len(msgs), err)
	}
	return nil
}

// putAhead is how many bytes of chunks are sent before their acks are awaited.
const putAhead = 4 << 20

// PutObject writes an object as another store had it: with its token, its name and its very chunks. Without a name it gets
// no meta message: it is an upload that goes on. It returns the sequences of the first and the last chunk.
func (c *Conn) PutObject(ctx context.Context, o record.Object, chunks iter.Seq2[[]byte, error]) (first, last uint64, err error) {
	var msgs []*nats.Msg
	size := 0
	flush := func() error {
		seqs, err := c.publish(ctx, msgs)
		if err == nil && len(seqs) > 0 {
			if first == 0 {
				first = seqs[0]
			}
			last = seqs[len(seqs)-1]
		}
		msgs, size = msgs[:0], 0
		return err
	}
	for chunk, err := range chunks {
		if err != nil {
			return first, last, err
		}
		msgs = append(msgs, &nats.Msg{Subject: chunkSubject(o.Bucket, o.NUID), Data: slices.Clone(chunk)})
		if size += len(chunk); size >= putAhead {
			if err := flush(); err != nil {
				return first, last, fmt.Errorf("store %s/%s: %w", o.Bucket, o.Name, err)
			}
		}
	}
	if err := flush(); err != nil {
		return first, last, fmt.Errorf("store %s/%s: %w", o.Bucket, o.Name, err)
	}
	if o.Name == "" {
		return first, last, nil
	}
	meta, err := metaMsg(o)
	if err == nil {
		_, err = c.publish(ctx, []*nats.Msg{meta})
	}
	if err != nil {
		return first, last, fmt.Errorf("store %s/%s: meta: %w", o.Bucket, o.Name, err)
	}
	return first, last, nil
}

// PutRecords stores records outside of any commit.
func (c *Conn) PutRecords(ctx context.Context, puts []record.Put) error {
	msgs := make([]*nats.Msg, len(puts))
	for i, p := range puts {
		msgs[i] = putMsg(p)
	}
	if _, err := c.publish(ctx, msgs); err != nil {
		return fmt.Errorf("store %d records: %w", len(puts), err)
	}
	return nil
}
