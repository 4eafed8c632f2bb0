package persist

import (
	"context"

	"spool/pkg/events"
)

// rereads is what was read back of EVENTS, to tell the repeats of a producer from other entries. Of stage 1.
type rereads struct {
	of    map[rereadOf]*stretch
	order []rereadOf // those that were read first come first
	n     int        // how much is remembered
}

// rereadOf is whose events were read: those of a life of a thread from its beginning, or the last ones.
type rereadOf struct {
	thread   events.Thread
	producer string
	epoch    uint64
	from     uint64 // 0: the last ones
}

// stretch is what EVENTS holds of a producer's events up to and without a sequence.
type stretch struct {
	given  events.Given
	former *stretch // what EVENTS holds before it; nil: nothing is linked to that
	before uint64
	bytes  int
	over   bool // it begins behind its beginning, or is too long to be read
}

// len is how much is remembered of it.
func (s *stretch) len() int {
	n := 1 + s.given.Len()
	if s.former != nil {
		n += s.former.given.Len()
	}
	return n
}

// What is read and remembered at most: of a stretch, and of all.
const (
	mostReread  = 4 << 20
	mostGiven   = 1 << 14
	mostRereads = 1 << 18
	lastReread  = 1 << 12 // sequences of EVENTS before an event, in which its producer may have sent the same before
)

// Given implements apply.World.
func (w world) Given(
	ctx context.Context, t events.Thread, producer string, epoch, from, before uint64,
) (*events.Given, error) {
	of := rereadOf{t, producer, epoch, max(from, 1)}
	s := w.l.rereads.stretch(of, of.from)
	if err := w.extend(ctx, of, s, before); err != nil || s.over {
		return nil, err
	}
	return &s.given, nil
}

// Sent implements apply.World.
func (w world) Sent(
	ctx context.Context, t events.Thread, producer string, epoch, seq uint64, is events.Digest, from, before uint64,
) (bool, error) {
	of := rereadOf{thread: t, producer: producer, epoch: epoch}
	from = max(from, before-min(before, lastReread))
	s := w.l.rereads.stretch(of, from)
	if s.over || s.before < from {
		w.l.rereads.n -= s.given.Len()
		*s = stretch{before: max(from, s.before), given: events.Given{Tail: true}}
	}
	err := w.extend(ctx, of, s, before)
	return s.given.Before(seq, is, before), err
}

// stretch gives the one that is remembered, or a new one.
func (r *rereads) stretch(of rereadOf, from uint64) *stretch {
	if s := r.of[of]; s != nil {
		return s
	}
	for len(r.order) > 0 && r.n >= mostRereads {
		r.n -= r.of[r.order[0]].len()
		delete(r.of, r.order[0])
		r.order = r.order[1:]
	}
	if r.of == nil {
		r.of = map[rereadOf]*stretch{}
	}
	s := &stretch{before: from, given: events.Given{Tail: of.from == 0}}
	r.of[of], r.order, r.n = s, append(r.order, of), r.n+1
	return s
}

// extend reads what is missing of a stretch, as far as it pays.
func (w world) extend(ctx context.Context, of rereadOf, s *stretch, before uint64) error {
	if s.over || s.before >= before {
		return nil
	}
	past, err := w.past(ctx, of.thread, of.producer, of.epoch, s.before, before, mostReread-s.bytes)
	if err != nil {
		return err
	}
	n := s.given.Len()
	for _, l := range past.Links {
		if s.given.Add(l) || of.from <= 1 {
			continue
		}
		if stood, err := w.stoodBefore(ctx, of, s, l.Prev); err != nil {
			return err
		} else if stood {
			s.given.Take(l)
		}
	}
	s.bytes += past.Bytes
	s.over = past.From > s.before || past.Before < before || s.given.Len() > mostGiven || s.bytes >= mostReread
	s.before = before
	if s.over && of.from > 0 {
		s.given = events.Given{}
	}
	w.l.rereads.n += s.given.Len() - n
	return nil
}

// stoodBefore reports whether an event to which one of a stretch is linked was stored before the stretch, in an earlier life of the thread,
// or may have been.
func (w world) stoodBefore(ctx context.Context, of rereadOf, s *stretch, prev uint64) (bool, error) {
	if s.former == nil {
		s.former = &stretch{before: 1}
	}
	begin := of.from
	of.from = 1
	if err := w.extend(ctx, of, s.former, begin); err != nil {
		return false, err
	}
	return s.former.over || s.former.given.Names(prev, begin), nil
}
