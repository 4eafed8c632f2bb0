package natsio

import (
	"context"
	"errors"
	"fmt"
	"io"

	"spool/internal/record"
	"spool/pkg/artifacts"
	"spool/pkg/casstore"
	"spool/pkg/events"
)

// Adopt stores an artifact that brings its id, number and file name along from another store (SPEC A1): the session's numbers
// and agents go on above its own. r is complete but for where the bytes are. An id that the session has is left as it is and comes back
// with made false.
func (a *Artifacts) Adopt(ctx context.Context, r artifacts.Record, body io.Reader) (_ artifacts.Record, made bool, err error) {
	if err := r.Validate(); err != nil {
		return r, false, err
	}
	f, err := a.c.Fence(ctx, a.lane)
	if err != nil {
		return r, false, err
	}
	old, err := a.Records(ctx, r.Session, r.ID)
	if err != nil || len(old) > 0 {
		return append(old, r)[0], false, err
	}
	raise := func(c *record.Counter) {
		c.Raise(r.Seq)
		if r.Writer == artifacts.FromAgent {
			c.SeeAgent(r.Agent)
		}
	}
	if err := a.count(ctx, r.Session, raise); err != nil {
		return r, false, err
	}
	r.Object = r.ObjectName()
	o, err := a.c.UploadFrom(ctx, events.ArtifactsBucket, r.Object, body)
	if err != nil {
		return r, false, err
	}
	r.Size, r.Locator = o.Size, o.Locator()
	adopted, err := a.createOrDrop(ctx, f, r)
	if errors.Is(err, artifacts.ErrTaken) { // another import was faster
		if old, e := a.Records(ctx, r.Session, r.ID); e != nil || len(old) > 0 {
			return append(old, r)[0], false, e
		}
	}
	return adopted, err == nil, err
}

// HasBlob tells whether a blob is stored.
func (s *Store) HasBlob(ctx context.Context, ref casstore.Ref) (bool, error) {
	rs, err := s.c.Records(ctx, events.BlobKey(ref.Hex()))
	if err != nil || !rs[0].Exists() {
		return false, err
	}
	b, err := record.DecodeBlob(rs[0].Value)
	if err != nil {
		return false, fmt.Errorf("%s: %w", ref, err)
	}
	if b.Gone {
		return false, nil
	}
	return s.c.Holds(ctx, b.Object)
}
