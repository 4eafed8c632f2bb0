package sessionstore

import (
	"context"
	"fmt"
	"math"

	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/artifactstore"
	"spool/internal/natsio"
	"spool/internal/record"
	"spool/pkg/events"
)

// FreeObjects drops bytes whose artifacts' records belong to a session that is being deleted, unless another session
// has a record that names them (SPEC A7). Doing it again changes nothing.
func (st *Store) FreeObjects(ctx context.Context, session string, objects []record.Object) error {
	for _, o := range objects {
		if o.Name == "" { // parts of an output that never ended
			if err := st.conn.Reclaim(ctx, o); err != nil {
				return err
			}
			continue
		}
		users, err := artifactstore.Of(st.conn, 0).NamedBy(ctx, o.Name)
		if delete(users, session); err == nil && len(users) == 0 {
			err = st.conn.Reclaim(ctx, o)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// PurgeSession drops the items and the dead letters of a session, and its events below a sequence. Doing it again
// changes nothing more.
func (st *Store) PurgeSession(ctx context.Context, session string, below uint64) error {
	for _, p := range []struct {
		stream, filter string
		below          uint64
	}{
		{events.ItemsStream, events.ItemsOfSession(session), math.MaxUint64},
		{events.DeadStream, events.DeadFilter(session), math.MaxUint64},
		{events.EventsStream, events.StoredOfSession(session), below},
	} {
		if err := st.purge(ctx, p.stream, p.filter, p.below); err != nil {
			return fmt.Errorf("purge session %s: %w", session, err)
		}
	}
	return nil
}

func (st *Store) purge(ctx context.Context, stream, filter string, below uint64) error {
	s, err := st.js.Stream(ctx, stream)
	if err == nil {
		opts := []jetstream.StreamPurgeOpt{jetstream.WithPurgeSubject(filter)}
		if below != math.MaxUint64 {
			opts = append(opts, jetstream.WithPurgeSequence(below))
		}
		err = s.Purge(ctx, opts...)
	}
	if err != nil {
		return fmt.Errorf("purge %s: %w", stream, natsio.WrapErr(err))
	}
	return nil
}

// SessionEnds is how far the streams of items and of dead letters are now.
func (st *Store) SessionEnds(ctx context.Context) (items, dead uint64, err error) {
	last, err := st.conn.LastSeqs(ctx, events.ItemsStream, events.DeadStream)
	return last[events.ItemsStream], last[events.DeadStream], err
}
