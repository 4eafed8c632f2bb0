package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"spool/internal/record"
	"spool/pkg/events"
)

// Delete is the decision that a session is deleted (SPEC A6), or why it is spared.
type Delete struct {
	Rec    record.Deleted // how far it is: the zero state if it begins
	Spared error          // it is not deleted, because it was written to: nothing is lost, so there is no dead letter
	Note   bool           // of a spared one: there is no thread whose head could note the event
}

// delete decides whether an event deletes its session: it does unless that was done, was refused before, or is refused
// now. It was done also where another one deleted the session since: what is there now came behind both.
func (d *draft) delete(ctx context.Context, op events.Delete) (Verdict, error) {
	was := d.st.Session.Deleted
	again := was.Is(&d.e.Event) && was.Seq == d.e.At && was.State != record.Done
	by, known := was.Knows(d.e.Producer, d.e.Epoch, d.e.Event.Seq)
	switch {
	case again:
	case known && !d.past() && d.e.At != was.Seq && (by.Force != op.Force || by.Erase != op.Erase):
		d.Doubt = true // nothing notes it: its sequence is another deletion's
		return Refused(fmt.Errorf("%w: event %d of the producer %s", ErrReused, d.e.Event.Seq, d.e.Producer)), nil
	case known, d.past():
		return Verdict{Is: Repeated}, nil
	}
	if !again {
		if verdict, had, err := d.had(ctx); had || err != nil {
			return verdict, err
		}
		if verdict, again, err := d.repeats(ctx); again || err != nil {
			return verdict, err
		}
	}
	if err := d.w.Settle(ctx); err != nil {
		return Verdict{}, err
	}
	if again {
		d.Delete = &Delete{Rec: *was}
		return Verdict{}, nil
	}
	if err := d.refuseDelete(ctx, op); errors.Is(err, ErrWritten) {
		d.spare(err)
		return Verdict{}, nil
	} else if err != nil {
		return Verdict{}, err
	}
	d.Delete = &Delete{Rec: record.Deleted{
		Seq: d.e.At, Stored: d.e.Stored, Producer: d.e.Producer, Epoch: d.e.Epoch, Event: d.e.Event.Seq, At: d.e.when(),
		Delete: op, Earlier: was.All(),
	}}
	return Verdict{}, nil
}

// Spare is the change by an event that deletes its session, once it is found that the session was written to since.
func Spare(w World, st State, e Staged, why error) *Change {
	d := begin(w, st, e)
	d.Fresh = false
	d.spare(why)
	return &d.Change
}

// spare notes that a session is not deleted. Whoever asked sees that it is refused. There is no dead letter, so it is noted also of a
// deletion that is published again from one.
func (d *draft) spare(why error) {
	d.Delete = &Delete{Spared: why, Note: d.Head.Start.IsZero()}
	if !d.Delete.Note && !d.pass() {
		d.noteNowhere()
	}
}

// refuseDelete says why a session is not deleted.
func (d *draft) refuseDelete(ctx context.Context, op events.Delete) error {
	session := d.st.Key.Session
	if err := d.e.Scope.CheckDestroys(string(events.OpDelete)); err != nil {
		return err
	}
	if !d.st.Rules.Sessions {
		return fmt.Errorf("%w: delete: this persister removes no sessions", events.ErrControl)
	}
	if op.UnchangedSince > 0 {
		if err := d.refuseWritten(ctx, session, op.UnchangedSince); err != nil {
			return err
		}
	}
	if op.Force {
		return nil
	}
	live, err := d.w.SessionLive(ctx, session)
	if err != nil {
		return err
	}
	return live.Activity("", d.e.Now, d.st.Rules.OutputLease).Deletable(d.e.Now)
}

// refuseWritten is ErrWritten if a record of the session was written behind a sequence. All events before the deletion
// are applied.
func (d *draft) refuseWritten(ctx context.Context, session string, since uint64) error {
	keys, err := d.w.SessionKeys(ctx, session)
	if err != nil {
		return err
	}
	for some := range slices.Chunk(keys, mostKeys) {
		rs, err := d.w.Records(ctx, some...)
		if err != nil {
			return err
		}
		for _, r := range rs {
			if r.Seq > since {
				return fmt.Errorf("%w: %s at sequence %d, above %d", ErrWritten, r.Key, r.Seq, since)
			}
		}
	}
	return nil
}
