package sessionstore

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/natsio"
	"spool/internal/record"
	"spool/pkg/events"
)

// FreeObjects drops bytes whose artifacts' records belong to a session that is being deleted, unless another session
// has a record that names them (SPEC A7). Doing it again changes nothing.
func (st *Store) FreeObjects(ctx context.Context, session string, objects []record.Object) error {
	for _, o := range objects {
		if o.Name == "" { // parts of an output that never ended
			if err := st.objects.Reclaim(ctx, o); err != nil {
				return err
			}
			continue
		}
		users, err := st.artifacts.NamedBy(ctx, o.Name)
		if delete(users, session); err == nil && len(users) == 0 {
			err = st.objects.Reclaim(ctx, o)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// PurgeSession drops what the streams hold of a session that was deleted: events before the one that did it, items and dead letters
// up to where the record says. Doing it again changes nothing more.
func (st *Store) PurgeSession(ctx context.Context, session string, how record.Deleted) error {
	for _, p := range []struct {
		stream, filter string
		below          uint64
	}{
		{events.ItemsStream, events.ItemsOfSession(session), how.Items + 1},
		{events.DeadStream, events.DeadFilter(session), how.Dead + 1},
		{events.EventsStream, events.StoredOfSession(session), how.Seq},
	} {
		s, err := st.js.Stream(ctx, p.stream)
		if err == nil {
			err = s.Purge(ctx, jetstream.WithPurgeSubject(p.filter), jetstream.WithPurgeSequence(p.below))
		}
		if err != nil {
			return fmt.Errorf("purge session %s: purge %s: %w", session, p.stream, natsio.WrapErr(err))
		}
	}
	return nil
}

// SessionEnds is how far the streams of items and of dead letters are now.
func (st *Store) SessionEnds(ctx context.Context) (items, dead uint64, err error) {
	last, err := st.streams.LastSeqs(ctx, events.ItemsStream, events.DeadStream)
	return last[events.ItemsStream], last[events.DeadStream], err
}
