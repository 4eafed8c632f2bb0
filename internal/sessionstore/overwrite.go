package sessionstore

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/natsio"
	"spool/internal/record"
	"spool/pkg/events"
)

// Overwritten is what was written over with random bytes in a stream's files.
type Overwritten struct {
	Stream   string `json:"stream"`
	Messages int64  `json:"messages"`
	Bytes    int64  `json:"bytes"`
}

// Overwrite writes over every message of a stream that matches a filter, up to a sequence, and drops it. The server
// rewrites a block file, of up to 8 MiB, for each: it is slow. Doing it again goes on where it stopped.
func (st *Store) Overwrite(ctx context.Context, stream, filter string, upTo uint64) (w Overwritten, err error) {
	w.Stream = stream
	s, err := st.streams.LeaderStream(ctx, stream)
	if err != nil {
		return w, fmt.Errorf("overwrite in %s: %w", stream, natsio.WrapErr(err))
	}
	type found struct {
		seq  uint64
		size int64
	}
	var all []found
	err = st.streams.Each(ctx, stream, jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{filter}, DeliverPolicy: jetstream.DeliverAllPolicy,
	}, func(m jetstream.Msg, meta *jetstream.MsgMetadata) error {
		if meta.Sequence.Stream <= upTo {
			all = append(all, found{meta.Sequence.Stream, int64(len(m.Data()))})
		}
		return nil
	})
	if err != nil {
		return w, fmt.Errorf("overwrite in %s: %w", stream, err)
	}
	for _, f := range all {
		if err := s.SecureDeleteMsg(ctx, f.seq); err != nil {
			if _, gone := s.GetMsg(ctx, f.seq); !errors.Is(gone, jetstream.ErrMsgNotFound) {
				return w, fmt.Errorf("overwrite message %d of %s: %w", f.seq, stream, natsio.WrapErr(err))
			}
			continue
		}
		w.Messages, w.Bytes = w.Messages+1, w.Bytes+f.size
	}
	return w, nil
}

// OverwriteObject is Overwrite for the bytes of an object, by its token, and its name if that is still its own.
func (st *Store) OverwriteObject(ctx context.Context, o record.Object) (Overwritten, error) {
	w, err := st.Overwrite(ctx, events.ObjectStream(o.Bucket), natsio.ChunkSubject(o.Bucket, o.NUID), math.MaxUint64)
	if err != nil || o.Name == "" {
		return w, err
	}
	return w, st.objects.Reclaim(ctx, o)
}

// OverwriteDead is Overwrite for the dead letters of a session, and for what they keep in the inbox.
func (st *Store) OverwriteDead(ctx context.Context, session string, upTo uint64) ([]Overwritten, error) {
	inbox := Overwritten{Stream: events.ObjectStream(events.InboxBucket)}
	err := st.dead.EachLetter(ctx, events.Thread{Session: session}, func(d natsio.DeadLetter) error {
		if d.Object() == "" || d.At > upTo {
			return nil
		}
		o, err := st.objects.Stat(ctx, events.InboxBucket, d.Object())
		if errors.Is(err, record.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		w, err := st.OverwriteObject(ctx, o)
		inbox.Messages, inbox.Bytes = inbox.Messages+w.Messages, inbox.Bytes+w.Bytes
		return err
	})
	if err != nil {
		return nil, err
	}
	w, err := st.Overwrite(ctx, events.DeadStream, events.DeadFilter(events.Thread{Session: session}), upTo)
	return []Overwritten{w, inbox}, err
}
