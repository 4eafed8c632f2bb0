package apply

import (
	"context"
	"fmt"

	"spool/pkg/events"
	"spool/pkg/threads"
)

// An entry whose sequence a head knows is a repeat if it says what the entry says that has the sequence. Otherwise its
// producer gave the sequence out twice, and the second entry, which was acknowledged, goes to the dead letters. So does
// what comes behind a later epoch of its producer, and is new: whoever sent it was not told that it is replaced. No
// head has a digest of what it has seen: EVENTS is read back, from the beginning of the thread's life, if it pays and
// is there. Where it does not tell, the event is taken for a repeat, and fsck names it.
//
// Operations and pieces of outputs are not held against each other: whoever makes the same one again may word it
// otherwise.

// repeated is the verdict over an event whose sequence a head knows.
func (d *draft) repeated(ctx context.Context, h *threads.Head) (Verdict, error) {
	last, known := h.Last(d.e.Producer)
	if !known || !d.st.Rules.Past || d.e.At <= last.At || d.e.At <= h.Applied { // it comes again itself
		return Verdict{Is: Repeated}, nil
	}
	judge := d.reused
	if d.e.Epoch < last.Epoch {
		judge = d.fenced
	}
	verdict, err := judge(ctx, h, last.At)
	if err == nil && verdict.Is != Repeated {
		d.Doubt = true // nothing notes it: its sequence is another entry's
	}
	return verdict, err
}

// reused is the verdict over an event of the epoch that a head knows, up to the place of the last one that it knows.
func (d *draft) reused(ctx context.Context, h *threads.Head, last uint64) (Verdict, error) {
	repeated := Verdict{Is: Repeated}
	if d.e.Kind != events.KindEntry {
		return repeated, nil
	}
	t, producer, epoch, seq, is := d.st.Key, d.e.Producer, d.e.Epoch, d.e.Event.Seq, d.e.came()
	given, err := d.w.Given(ctx, t, producer, epoch, d.lives(h), last+1)
	if err != nil || given == nil {
		return repeated, err
	}
	if !given.Names(seq, d.e.At) { // the thread had it under another name
		all := events.Thread{Session: t.Session, Name: events.EveryThread}
		given, err = d.w.Given(ctx, all, producer, epoch, d.begins(), last+1)
		if err != nil || given == nil {
			return repeated, err
		}
	}
	if !given.Names(seq, d.e.At) || given.Before(seq, is, d.e.At) {
		return repeated, nil
	}
	// What was refused so is behind the last event that the head knows. It is no other when it is sent again.
	sent, err := d.w.Sent(ctx, t, producer, epoch, seq, is, last+1, d.e.At)
	if err != nil || sent {
		return repeated, err
	}
	return Refused(fmt.Errorf("%w: event %d of the producer %s: give every entry a sequence of its own",
		ErrReused, seq, producer)), nil
}

// fenced is the verdict over an event of an earlier epoch than the one that a head knows.
func (d *draft) fenced(ctx context.Context, h *threads.Head, _ uint64) (Verdict, error) {
	seq := d.e.Event.Seq
	given, err := d.w.Given(ctx, d.st.Key, d.e.Producer, d.e.Epoch, d.lives(h), d.e.At+1)
	if err != nil || given == nil {
		return Verdict{Is: Repeated}, err
	}
	switch {
	case given.Before(seq, d.e.came(), d.e.At), d.e.Kind != events.KindEntry && given.Names(seq, d.e.At):
		return Verdict{Is: Repeated}, nil
	case d.e.Prev != 0 && !given.Names(d.e.Prev, d.e.At+1): // its producer was told
		return Verdict{Is: Superseded}, nil
	case d.e.Bad != nil:
		return Refused(d.e.Bad), nil
	}
	return Refused(fmt.Errorf("%w: event %d of epoch %d of the producer %s",
		ErrFenced, seq, d.e.Epoch, d.e.Producer)), nil
}

// lives is where in EVENTS the life of a thread begins.
func (d *draft) lives(h *threads.Head) uint64 { return max(h.Life, h.Began, d.begins()) }

// came is the digest of an event as it came.
func (e *Staged) came() events.Digest {
	if e.Came != nil {
		return *e.Came
	}
	return e.Event.Digest()
}
