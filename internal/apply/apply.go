package apply

import (
	"context"
	"fmt"
	"strings"

	"spool/pkg/dialect"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// Event decides what an event does to its thread. An error is for the caller: the event is not judged. The Change is to
// be taken whatever the verdict is: a refused event too is noted.
func Event(ctx context.Context, w World, st State, e Staged) (*Change, Verdict, error) {
	d := begin(w, st, e)
	verdict, err := d.decide(ctx)
	if err != nil && forCaller(err) {
		return nil, Verdict{}, err
	}
	if err != nil {
		verdict = d.refuse(err)
	}
	if why := d.count(); why != nil {
		d.drop()
		d.noteNowhere()
		if verdict.Is != Dead {
			verdict = Refused(why)
		}
	}
	if d.Noted && (d.Leaves == nil || d.Leaves.To != "") {
		d.shrink()
	}
	return &d.Change, verdict, nil
}

// decide is the way of an event.
func (d *draft) decide(ctx context.Context) (Verdict, error) {
	if d.e.Kind == events.KindControl {
		d.op, d.opBad = events.ParseControl(d.e.Body)
	}
	if d.e.Refused != nil {
		return d.refuseAgain(), nil
	}
	if d.e.Bad == nil && d.opBad == nil && d.op.Op == events.OpDelete {
		return d.delete(ctx, *d.op.Delete)
	}
	if d.past() || d.deleting() {
		return Verdict{Is: Repeated}, nil
	}
	if d.st.Latched != nil && !d.removes() {
		d.Doubt = true
		if d.duplicate() && d.wasGood() { // a server that was started again gives what was applied
			if verdict, err := d.repeated(ctx, &d.Head); err != nil || verdict.Is == Repeated {
				return verdict, err
			}
		}
		return Refused(d.st.Latched), nil
	}
	if verdict, skipped, err := d.skip(ctx); skipped || err != nil {
		return verdict, err
	}
	if d.e.Bad != nil {
		return d.refuse(d.e.Bad), nil
	}
	return d.change(ctx)
}

// removes reports whether an event takes its thread away: also one that takes no other is to be got rid of.
func (d *draft) removes() bool { return d.e.Bad == nil && d.opBad == nil && d.op.Op == events.OpRemove }

// past reports whether an event was published before its session was deleted.
func (d *draft) past() bool { return d.st.Session.Deleted.Before(d.e.At, d.e.Stored) }

// deleting reports whether an event has begun to delete its session: it is no dead letter any more, if nobody can go on.
func (d *draft) deleting() bool {
	was := d.st.Session.Deleted
	return was.Is(&d.e.Event) && was.Seq == d.e.At
}

// refuseAgain gives the verdict over an event that was refused before. Its letter is sent again where there is none; if its session was
// deleted, the letter went with it, or need not be.
func (d *draft) refuseAgain() Verdict {
	if d.past() {
		return Verdict{Is: Repeated}
	}
	if !d.saw(d.e.Event.Seq) { // what is linked to it is taken
		d.mark(events.Stands)
	}
	return Refused(d.e.Refused)
}

// refuse drops what was made of an event and notes that it goes to the dead letters.
func (d *draft) refuse(why error) Verdict {
	d.drop()
	d.noteDead()
	return Refused(why)
}

// noteDead sees to it that what is linked to an event that goes to the dead letters is taken. One that is published again from its
// letter is noted only where it is applied: once what was wrong with it is mended, it is published again under the same identity.
func (d *draft) noteDead() {
	if threads.IsReplayer(d.e.Producer) {
		d.mark(events.Stands)
		d.Doubt = true
		return
	}
	if !d.pass() {
		d.noteNowhere()
	}
}

// noteNowhere has the refusal of an event noted where no head is.
func (d *draft) noteNowhere() {
	d.mark(events.Stands)
	d.Doubt, d.Nowhere = true, true
}

// pass notes an event that does nothing in its thread's head, so that those linked to it are taken. A thread whose
// first entry is bad begins with it nevertheless; a name that a control operation failed to take stays free: nothing is
// noted then.
func (d *draft) pass() (noted bool) {
	if d.Head.Start.IsZero() && (d.e.Kind != events.KindEntry || d.renamed()) {
		return false
	}
	d.note(d.Head)
	name := d.e.Dialect
	if _, known := dialect.Lookup(name); !known {
		name = "" // what it says may be anything
	}
	d.start(name, nil)
	d.learn(&dialect.Entry{})
	return true
}

// renamed reports whether the thread that had the name has another one now.
func (d *draft) renamed() bool { return d.Left != nil && d.Left.To != "" }

// change applies an event to its thread.
func (d *draft) change(ctx context.Context) (Verdict, error) {
	if d.renamed() {
		return Verdict{}, d.Left.renamed(d.st.Key)
	}
	if d.e.Kind == events.KindChunk {
		return d.chunk(ctx)
	}
	op := d.op.Op // a run and a session may outlive their thread
	beyond := op == events.OpRemove || op == events.OpRun || op == events.OpName || op == events.OpMove
	if d.Head.Status == threads.StatusCompleted && !beyond {
		return Verdict{}, fmt.Errorf("%w: %s: fork it, or go on in another thread", ErrEnded, d.st.Key)
	}
	switch d.e.Kind {
	case events.KindEntry:
		return Verdict{}, d.entry(ctx)
	case events.KindControl:
		return Verdict{}, d.control(ctx)
	}
	return Verdict{}, fmt.Errorf("%w %q: this version applies entry, chunk and control", events.ErrKind, d.e.Kind)
}

// entry appends one entry to its thread: a content node, a state node, items.
func (d *draft) entry(ctx context.Context) error {
	lang, ok := dialect.Lookup(d.e.Dialect)
	if !ok {
		return fmt.Errorf("unknown dialect %q: use one of %s", d.e.Dialect, strings.Join(dialect.Names(), ", "))
	}
	if earlier, known := dialect.Made(d.e.Dialect, d.e.Mapping); known {
		lang = earlier
	}
	return d.step(ctx, addition{dialect: lang})
}
