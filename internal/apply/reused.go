package apply

import (
	"context"
	"fmt"

	"spool/pkg/events"
	"spool/pkg/threads"
)

// An entry whose sequence a head knows is a repeat if it says what the entry says that has the sequence. Otherwise its
// producer gave the sequence out twice, and the second entry, which was acknowledged, goes to the dead letters. No head
// has a digest of what it has seen: EVENTS is read back, from the beginning of the thread's life, if it pays and is there. Where it
// does not tell, the entry is taken for a repeat, and fsck names it.
//
// Operations and pieces of outputs are not held against each other: whoever makes the same one again may word it
// otherwise.

// repeated is the verdict over an event whose sequence a head knows.
func (d *draft) repeated(ctx context.Context, h *threads.Head) (Verdict, error) {
	reused, err := d.reused(ctx, h)
	if err != nil || !reused {
		return Verdict{Is: Repeated}, err
	}
	d.Doubt = true // nothing notes it: its sequence is the other entry's
	return Refused(fmt.Errorf("%w: event %d of the producer %s: give every entry a sequence of its own",
		ErrReused, d.e.Event.Seq, d.e.Producer)), nil
}

// reused reports whether the sequence of an event, which a head knows, is another entry's.
func (d *draft) reused(ctx context.Context, h *threads.Head) (bool, error) {
	last, known := h.Last(d.e.Producer)
	if !known || !d.st.Rules.Past || d.e.Kind != events.KindEntry || last.Epoch != d.e.Epoch || d.e.At <= last.At ||
		d.e.At <= h.Applied { // it comes again itself
		return false, nil
	}
	t, producer, epoch, seq, is := d.st.Key, d.e.Producer, d.e.Epoch, d.e.Event.Seq, d.e.came()
	given, err := d.w.Given(ctx, t, producer, epoch, max(h.Life, h.Began, d.begins()), last.At+1)
	if err != nil || given == nil {
		return false, err
	}
	if _, known := given.Owner(seq); !known || given.Before(seq, is, d.e.At) {
		return false, nil
	}
	// What was refused so is behind the last event that the head knows. It is no other when it is sent again.
	sent, err := d.w.Sent(ctx, t, producer, epoch, seq, is, last.At+1, d.e.At)
	return !sent, err
}

// came is the digest of an event as it came.
func (e *Staged) came() events.Digest {
	if e.Came != nil {
		return *e.Came
	}
	return e.Event.Digest()
}
