package natsio

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/nats-io/nats.go"

	"spool/internal/record"
	"spool/internal/text"
)

// What a restore writes: objects and records as another system had them.

// putAhead is how many bytes of chunks are sent before their acks are awaited.
const putAhead = 4 << 20

// PutObject writes an object as another store had it: with its token, its name and its very chunks. Without a name it
// gets no meta message: it is an upload that goes on. It returns the sequences of the first and the last chunk.
func (re Restore) PutObject(ctx context.Context, o record.Object, chunks iter.Seq2[[]byte, error]) (first, last uint64, err error) {
	var msgs []*nats.Msg
	size := 0
	flush := func() error {
		seqs, err := re.c.Streams().Send(ctx, msgs)
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
		msgs = append(msgs, &nats.Msg{Subject: ChunkSubject(o.Bucket, o.NUID), Data: slices.Clone(chunk)})
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
	return first, last, re.c.Objects().NameObject(ctx, o)
}

// PutRecords stores records outside of any commit.
func (re Restore) PutRecords(ctx context.Context, puts []record.Put) error {
	msgs, err := re.c.Records().putMsgs(ctx, puts...)
	if err == nil {
		_, err = re.c.Streams().Send(ctx, msgs)
	}
	if err != nil {
		return text.Errorf("store %d records: %w", len(puts), err)
	}
	return nil
}
