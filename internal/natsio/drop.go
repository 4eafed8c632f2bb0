package natsio

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/jsonscan"
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

// DropUpload removes the bytes of an upload that no record names. Another upload may have the same name: that one keeps
// it.
func (obs Objects) DropUpload(ctx context.Context, o record.Object) error {
	s, err := MessagesOf(ctx, obs.c.Streams(), events.ObjectStream(o.Bucket))
	if err != nil {
		return fmt.Errorf("drop %s/%s: %w", o.Bucket, o.Name, WrapErr(err))
	}
	subject := metaSubject(o.Bucket, o.Name)
	newest, err := s.GetLastMsgForSubject(ctx, subject)
	var meta objectMeta
	if err == nil {
		err = jsonscan.Decode(newest.Data, &meta)
	}
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		err = nil
	case err == nil && meta.NUID == o.NUID:
		err = s.DeleteMsg(ctx, newest.Sequence) // the one before it, if there is one, names the object again
	case err == nil:
		err = s.Purge(ctx, jetstream.WithPurgeSubject(subject), jetstream.WithPurgeKeep(1))
	}
	if err != nil {
		return fmt.Errorf("drop %s/%s: %w", o.Bucket, o.Name, WrapErr(err))
	}
	return obs.purgeChunks(ctx, o)
}

func (obs Objects) purgeChunks(ctx context.Context, o record.Object) error {
	return obs.purge(ctx, o, ChunkSubject(o.Bucket, o.NUID))
}

// purge removes what an object's bucket holds on a subject.
func (obs Objects) purge(ctx context.Context, o record.Object, subject string) error {
	s, err := MessagesOf(ctx, obs.c.Streams(), events.ObjectStream(o.Bucket))
	if err == nil {
		err = s.Purge(ctx, jetstream.WithPurgeSubject(subject))
	}
	if err != nil {
		return fmt.Errorf("drop %s/%s: %w", o.Bucket, o.Name, WrapErr(err))
	}
	return nil
}
