package artifactstore

import (
	"bytes"
	"cmp"
	"context"
	"fmt"

	"spool/internal/record"
	"spool/internal/retry"
	"spool/pkg/artifacts"
	"spool/pkg/events"
)

// TakeNumber takes the session's next artifact number: for NewArtifact.Number of one artifact, or none (SPEC A1).
func (a *Artifacts) TakeNumber(ctx context.Context, session string) (n artifacts.Seq, err error) {
	if err := a.check(ctx, session, ""); err != nil {
		return "", err
	}
	err = a.count(ctx, session, nil, func(c *record.Counter) { n = c.Promise() })
	return n, err
}

// TakeAgent takes the id of the next agent that a parent ("" = the root) starts in a session (SPEC A9).
func (a *Artifacts) TakeAgent(ctx context.Context, session, parent, requested string) (id string, err error) {
	if len(parent) > record.MaxParent {
		return "", fmt.Errorf("%w: parent: %d bytes; at most %d", artifacts.ErrRecord, len(parent), record.MaxParent)
	}
	if err := a.check(ctx, session, ""); err != nil {
		return "", err
	}
	var refused error
	err = a.count(ctx, session, nil, func(c *record.Counter) { id, refused = c.TakeAgent(parent, requested) })
	return id, cmp.Or(err, refused)
}

// SeeAgents makes the indices of a session's agents go on above those of agents that another program started (SPEC A9).
func (a *Artifacts) SeeAgents(ctx context.Context, session string, ids ...string) error {
	return a.count(ctx, session, nil, func(c *record.Counter) {
		for _, id := range ids {
			c.SeeAgent(id)
		}
	})
}

// count changes a session's counter by compare-and-set. f, if not nil, is from then on for a record with a number of it.
func (a *Artifacts) count(ctx context.Context, session string, f *fence, change func(*record.Counter)) error {
	if err := events.CheckToken("session", session); err != nil {
		return err
	}
	key := events.CounterKey(session)
	err := retry.Do(ctx, nil, func() error {
		rs, err := a.records.Records(ctx, key, events.DeletedKey(session))
		if err != nil {
			return err
		}
		if f != nil {
			d, err := record.DecodeDeleted(rs[1].Value)
			switch {
			case err != nil && rs[1].Exists():
				return err
			case d.State == record.Removing:
				return errDeleted
			}
			if f.deleted.Seq != rs[1].Seq || f.session == "" { // it may have gone since it was looked for
				if err := a.check(ctx, session, ""); err != nil {
					return err
				}
			}
			f.session, f.deleted = session, rs[1]
		}
		c, err := record.DecodeCounter(rs[0].Value)
		if err != nil {
			return err
		}
		change(&c)
		if f == nil && bytes.Equal(c.Encode(), rs[0].Value) {
			return nil
		}
		_, err = a.records.Write(ctx, record.Put{Key: key, Value: c.Encode(), Expect: rs[0].Seq})
		return retry.Raced(err)
	})
	if err != nil {
		return fmt.Errorf("take a number of session %s: %w", session, refused(err))
	}
	return nil
}
