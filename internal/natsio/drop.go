package natsio

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/record"
	"spool/pkg/events"
)

// Reclaim frees the bytes of an object that no record names and none can name any more. Doing it again changes nothing.
func (obs Objects) Reclaim(ctx context.Context, o record.Object) error {
	if o.Name == "" {
		return obs.purgeChunks(ctx, o)
	}
	now, err := obs.Stat(ctx, o.Bucket, o.Name)
	switch {
	case err == nil && now.NUID == o.NUID:
		return obs.drop(ctx, o)
	case err == nil || errors.Is(err, record.ErrNotFound): // the name is another's by now, or nobody's
		return obs.purgeChunks(ctx, o)
	}
	return err
}

// discard removes the bytes of an object that no record can name: an inbox body after its commit. Never anything else.
func (obs Objects) discard(ctx context.Context, bucket, name string) error {
	o, err := obs.Stat(ctx, bucket, name)
	if err != nil {
		return err
	}
	return obs.drop(ctx, o)
}

// drop removes an object's name, then its bytes.
func (obs Objects) drop(ctx context.Context, o record.Object) error {
	if err := obs.purge(ctx, o, metaSubject(o.Bucket, o.Name)); err != nil {
		return err
	}
	return obs.purgeChunks(ctx, o)
}

func (obs Objects) purgeChunks(ctx context.Context, o record.Object) error {
	return obs.purge(ctx, o, ChunkSubject(o.Bucket, o.NUID))
}

// purge removes what an object's bucket holds on a subject.
func (obs Objects) purge(ctx context.Context, o record.Object, subject string) error {
	if err := Usable(ctx, obs.c); err != nil {
		return fmt.Errorf("drop %s/%s: %w", o.Bucket, o.Name, err)
	}
	s, err := MessagesOf(ctx, obs.c.Streams(), events.ObjectStream(o.Bucket))
	if err == nil {
		err = s.Purge(ctx, jetstream.WithPurgeSubject(subject))
	}
	if err != nil {
		return fmt.Errorf("drop %s/%s: %w", o.Bucket, o.Name, WrapErr(err))
	}
	return nil
}
