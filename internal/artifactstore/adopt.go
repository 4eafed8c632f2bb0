package artifactstore

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"slices"

	"spool/internal/record"
	"spool/pkg/artifacts"
	"spool/pkg/events"
)

// Adopt stores an artifact that brings its id, number and file name along from another store (SPEC A1): the session's
// numbers and agents go on above its own. r is complete but for where the bytes are; a tool's output without a number, or
// with one that was taken for another artifact, gets the next. An id that the session has is left as it is and comes back with made false.
func (a *Artifacts) Adopt(ctx context.Context, r artifacts.Record, body io.Reader) (_ artifacts.Record, made bool, err error) {
	if err := r.Validate(); err != nil {
		return r, false, err
	}
	f, err := a.begin(ctx, r)
	if err != nil {
		return r, false, err
	}
	old, err := a.Records(ctx, r.Session, r.ID)
	if err != nil || len(old) > 0 {
		return append(old, r)[0], false, err
	}
	brought := r.Seq
	raise := func(c *record.Counter) {
		switch {
		case brought != "" && !slices.Contains(c.Promised, brought):
			r.Seq = brought
			c.Raise(brought)
		case brought != "" || r.Writer == artifacts.FromOutput:
			r.Seq = c.Take()
		}
		if r.Writer == artifacts.FromAgent {
			c.SeeAgent(r.Agent)
		}
	}
	if err := a.count(ctx, r.Session, f, raise); err != nil {
		return r, false, err
	}
	r.Object, f.adopts = r.ObjectName(), true
	marks, err := a.records.Records(ctx, events.SharedKeys(record.ObjectToken(r.Object)))
	if err != nil {
		return r, false, err
	}
	if marks[0].Seq != 0 {
		r.Object = r.ObjectBeside(rand.Text())
	}
	adopted, err := a.createFrom(ctx, f, r, body)
	if errors.Is(err, artifacts.ErrTaken) { // another import was faster
		if old, e := a.Records(ctx, r.Session, r.ID); e != nil || len(old) > 0 {
			return append(old, r)[0], false, e
		}
	}
	return adopted, err == nil, err
}
