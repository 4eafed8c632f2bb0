package natsio

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"spool/internal/record"
	"spool/pkg/events"
)

// PutPart stores the next part of an artifact that is being written: behind the chunk at sequence after, 0 for the first.
// The server takes it only while that is the last chunk, so a part that is there already is not stored twice, and its
// sequence is returned: whoever put it made the same bytes. record.ErrRefused: there are other bytes in its place.
func (outs Outputs) PutPart(ctx context.Context, token string, after uint64, part []byte) (uint64, error) {
	seq, err := outs.putOnce(ctx, ChunkSubject(events.ArtifactsBucket, token), after, part)
	if !errors.Is(err, record.ErrConflict) {
		return seq, err
	}
	seq = 0
	o := record.Object{Bucket: events.ArtifactsBucket, NUID: token}
	n, last, readErr := outs.c.Objects().readBatch(ctx, o, after+1, 1, readGroup, func(there []byte) error {
		if !bytes.Equal(there, part) {
			return fmt.Errorf("%w: part of %d bytes behind sequence %d of %s: there are %d other bytes", record.ErrRefused,
				len(part), after, token, len(there))
		}
		return nil
	})
	switch {
	case readErr != nil:
		return 0, readErr
	case n == 0:
		return 0, fmt.Errorf("%w: part behind sequence %d of %s: the parts before it are gone", record.ErrRefused, after, token)
	}
	return last, nil
}

// FinishParts writes the meta message of an object whose chunks are all there, unless it is there already: from then on any
// client of the object store can read it.
func (outs Outputs) FinishParts(ctx context.Context, o record.Object) error {
	meta, err := metaMsg(o)
	if err != nil {
		return err
	}
	if _, err = outs.putOnce(ctx, meta.Subject, 0, meta.Data); errors.Is(err, record.ErrConflict) {
		return nil
	}
	return err
}

// putOnce publishes a message if the last one on its subject has that sequence.
func (outs Outputs) putOnce(ctx context.Context, subject string, last uint64, data []byte) (uint64, error) {
	seqs, err := outs.c.Streams().Send(ctx, []*nats.Msg{{Subject: subject, Data: data, Header: nats.Header{
		hdrExpectSeq: {strconv.FormatUint(last, 10)},
	}}})
	if err != nil {
		return 0, err
	}
	return seqs[0], nil
}

// PublishLive tells live subscribers what an output prints. It does not wait, and a frame can be lost (SPEC O6: they notice).
func (outs Outputs) PublishLive(t events.Thread, output string, frame events.Live) error {
	data, err := json.Marshal(frame)
	if err != nil {
		return err
	}
	return outs.c.nc.Publish(events.LiveSubject(t, output), data)
}

// SilentOutputs lists the open outputs whose record nobody has written for that long, by the clock of the server. Their
// values are not read to find out. Those that a killed server brought back are left out.
func (outs Outputs) SilentOutputs(ctx context.Context, least time.Duration) ([]record.Silent, error) {
	ages, err := outs.c.Records().Ages(ctx, events.OutputKeys(""), least)
	if err != nil || len(ages) == 0 {
		return nil, err
	}
	keys := make([]string, 0, len(ages))
	for key := range ages {
		keys = append(keys, key)
	}
	rs, err := outs.c.Records().Records(ctx, append(keys, events.EndedKey)...)
	if err != nil {
		return nil, err
	}
	ended, rs := record.Ended(rs[len(keys)]), rs[:len(keys)]
	out := make([]record.Silent, 0, len(rs))
	for i, r := range rs {
		session, _, ok := events.ParseOutputKey(r.Key)
		if !ok || !r.Exists() || r.Seq <= ended || r.Seq != ages[keys[i]].Seq { // gone, gc's, or written meanwhile
			continue
		}
		o, err := record.DecodeOutput(r.Value)
		if err != nil { // it has no lease that could be over; the others' are
			outs.c.log.Warn("an open output cannot be read", "record", r.Key, "error", err)
			continue
		}
		out = append(out, record.Silent{Session: session, Output: o, Rev: r.Seq, For: ages[r.Key].Age})
	}
	return out, nil
}

// ReadParts calls f with up to count parts of an artifact that is being written, from the stream sequence from on. next is
// where to go on; fewer parts than asked for are not an error.
func (outs Outputs) ReadParts(
	ctx context.Context, token string, from uint64, count int, f func([]byte) error,
) (n int, next uint64, err error) {
	n, last, err := outs.c.Objects().readBatch(ctx, record.Object{Bucket: events.ArtifactsBucket, NUID: token}, from, count, readGroup, f)
	if err != nil {
		return n, 0, fmt.Errorf("read parts of %s: %w", token, err)
	}
	return n, last + 1, nil
}
