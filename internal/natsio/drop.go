package natsio

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/record"
	"spool/pkg/events"
)

// Reclaim frees the bytes of an object that no record names and none can name any more. Doing it again changes nothing.
func (c *Conn) Reclaim(ctx context.Context, o record.Object) error {
	if o.Name == "" {
		return c.purgeChunks(ctx, o)
	}
	return c.dropObject(ctx, o)
}

// dropObject removes the bytes of an object that no record names, and its name if that is still its own.
func (c *Conn) dropObject(ctx context.Context, o record.Object) error {
	now, err := c.Stat(ctx, o.Bucket, o.Name)
	if err != nil && !errors.Is(err, record.ErrNotFound) {
		return err
	}
	if err == nil && now.NUID == o.NUID {
		s, err := c.js.Stream(ctx, events.ObjectStream(o.Bucket))
		if err == nil {
			err = s.Purge(ctx, jetstream.WithPurgeSubject(metaSubject(o.Bucket, o.Name)))
		}
		if err != nil {
			return fmt.Errorf("drop %s/%s: %w", o.Bucket, o.Name, wrapErr(err))
		}
	}
	return c.purgeChunks(ctx, o)
}

// DropUpload removes the bytes of an upload that no record names. Another upload may have the same name: that one keeps
// it.
func (c *Conn) DropUpload(ctx context.Context, o record.Object) error {
	s, err := c.leaderStream(ctx, events.ObjectStream(o.Bucket))
	if err != nil {
		return fmt.Errorf("drop %s/%s: %w", o.Bucket, o.Name, wrapErr(err))
	}
	subject := metaSubject(o.Bucket, o.Name)
	newest, err := s.GetLastMsgForSubject(ctx, subject)
	var meta objectMeta
	if err == nil {
		err = json.Unmarshal(newest.Data, &meta)
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
		return fmt.Errorf("drop %s/%s: %w", o.Bucket, o.Name, wrapErr(err))
	}
	return c.purgeChunks(ctx, o)
}

func (c *Conn) purgeChunks(ctx context.Context, o record.Object) error {
	s, err := c.js.Stream(ctx, events.ObjectStream(o.Bucket))
	if err == nil {
		err = s.Purge(ctx, jetstream.WithPurgeSubject(chunkSubject(o.Bucket, o.NUID)))
	}
	if err != nil {
		return fmt.Errorf("drop %s/%s: %w", o.Bucket, o.Name, wrapErr(err))
	}
	return nil
}
