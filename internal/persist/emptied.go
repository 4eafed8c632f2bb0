package persist

import (
	"context"

	"spool/internal/record"
	"spool/pkg/events"
)

// emptied is a deletion's event: it is not through before what it deleted has no events left.
type emptied struct {
	*delivery
	session string
	stored  int64        // of the event
	outcome chan outcome // of a purge that is under way; nil: none is
}

// outcome says whether nothing is left to be purged, or why the process ends.
type outcome struct {
	done bool
	err  error
}

// deletes reports whether an event is to delete its session, whatever became of that.
func (s *staged) deletes() bool {
	if s.event.Kind != events.KindControl {
		return false
	}
	var op events.Control
	err := safely(func() (err error) { op, err = events.ParseControl(s.event.Body); return err })
	return err == nil && op.Op == events.OpDelete
}

// empty removes the events of a deleted session that came before the one that deleted it, as far as the server has heard that they are
// through, and tells whether that is done. A crash here leaves that one, which is not acknowledged: it is a repeat when it comes again, and
// behind it this is done again.
func (p *Persister) empty(ctx context.Context, d emptied) (done bool, err error) {
	err = p.retry(ctx, "purge the events of a deleted session", func() error {
		rs, err := p.Records.Records(ctx, events.DeletedKey(d.session))
		if err != nil {
			return err
		}
		rec, err := record.DecodeDeleted(rs[0].Value)
		// It may have been refused, before it began or half way, or be published again behind a new life. What cannot be read fsck names.
		refused := rec.Seq == d.seq && rec.State != record.Done
		if !rs[0].Exists() || err != nil || rec.Erase || refused || !rec.Before(d.seq-1, d.stored) {
			done = true
			return nil //nolint:nilerr // see above
		}
		if err = p.At(StepPurge); err == nil {
			done, err = p.Sessions.PurgeEvents(ctx, d.session, d.partition, d.seq)
		}
		return err
	})
	if never(err) {
		p.Log.Error(unfinished, "session", d.session, "error", err)
		return true, nil
	}
	return done && err == nil, err
}

// purge begins to empty the session of a deletion.
func (l *lane) purge(ctx context.Context, d emptied) chan outcome {
	is := make(chan outcome, 1)
	l.purges.Go(func() {
		done, err := l.p.empty(ctx, d)
		is <- outcome{done, err}
		if done || err != nil { // else it is looked again when the next acks are due
			select {
			case l.purged <- struct{}{}:
			default:
			}
		}
	})
	return is
}

// endEmptied ends the deletions of whose sessions nothing is left.
func (l *lane) endEmptied() error {
	waits := l.emptied[:0]
	for _, d := range l.emptied {
		if !l.p.windows.current(d.delivery) { // it comes again
			continue
		}
		select {
		case is := <-d.outcome:
			if is.err != nil {
				return is.err
			}
			if is.done {
				if last := d.end(); last != nil {
					l.acknowledge(last)
				}
				continue
			}
			d.outcome = nil
		default:
		}
		waits = append(waits, d)
	}
	l.emptied = waits
	return nil
}
