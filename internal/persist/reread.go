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
	recent *stretch // its end, that is looked at before all of it is read
	before uint64
	bytes  int    // that were read for the events of EVENTS …
	since  uint64 // … from here on
	over   bool   // it begins behind its beginning; of the last ones: they are too many to be read
}

// len is how much is remembered of it.
func (s *stretch) len() int {
	n := 1 + s.given.Len()
	for _, of := range []*stretch{s.former, s.recent} {
		if of != nil {
			n += of.given.Len()
		}
	}
	return n
}

// What is read of a stretch at most while EVENTS grows by so many messages of leastBytes, and how many things that sequences were given to
// are told apart. Other sessions wait meanwhile, and who sends what is not new may send it again and again.
var mostBytes, mostGiven = 256 << 20, 1 << 14

// What is read at once, and remembered at most: of a stretch, and of all.
const (
	leastBytes  = 4 << 10 // what a message counts at least
	fewBytes    = 4 << 20
	manyBytes   = 64 << 20
	mostRereads = 1 << 18
	lastReread  = 1 << 12 // sequences of EVENTS before an event, in which its producer may have sent the same before
)

// Given implements apply.Back. What is sent again was sent a moment ago, or comes again from its beginning on: where it is much, its end
// is looked at first, and then as much from its beginning on as it takes to find the event.
func (w world) Given(
	ctx context.Context, t events.Thread, producer string, epoch, seq uint64, is *events.Digest, from, before uint64,
) (*events.Given, error) {
	of := rereadOf{t, producer, epoch, max(from, 1)}
	s := w.l.rereads.stretch(of, of.from)
	n := s.len()
	defer func() { w.l.rereads.n += s.len() - n }()
	if at := w.l.deciding.msg.Seq; at >= s.since+uint64(mostBytes/leastBytes) {
		s.bytes, s.since = 0, at
	}
	narrow := func() {
		*s = stretch{former: s.former, recent: s.recent, before: of.from, bytes: s.bytes, since: s.since,
			given: events.GivenAround(seq, uint64(mostGiven))}
	}
	if !s.given.Tells(seq) {
		if s.bytes >= mostBytes {
			return nil, nil
		}
		narrow()
	}
	found := func() bool { return is != nil && s.given.Before(seq, *is, before) }
	for !s.over && s.bytes < mostBytes && s.before < before && !found() {
		most := fewBytes - s.bytes
		if most <= 0 {
			most = manyBytes
			if is != nil {
				if recent, err := w.recent(ctx, of, s, before); err != nil || recent.Before(seq, *is, before) {
					return recent, err
				}
			}
		}
		if err := w.extend(ctx, of, s, before, most); err != nil {
			return nil, err
		}
		if s.given.All() && s.given.Len() > mostGiven {
			narrow()
		}
	}
	if s.over || s.before < before && !found() {
		return nil, nil
	}
	return &s.given, nil
}

// recent is what the end of a stretch says by itself.
func (w world) recent(ctx context.Context, of rereadOf, s *stretch, before uint64) (*events.Given, error) {
	if s.recent == nil {
		s.recent = &stretch{}
	}
	from := max(of.from, before-min(before, lastReread))
	of.from = 1
	err := w.last(ctx, of, s.recent, from, before)
	return &s.recent.given, err
}

// Sent implements apply.Back.
func (w world) Sent(
	ctx context.Context, t events.Thread, producer string, epoch, seq uint64, is events.Digest, from, before uint64,
) (bool, error) {
	of := rereadOf{thread: t, producer: producer, epoch: epoch}
	from = max(from, before-min(before, lastReread))
	s := w.l.rereads.stretch(of, from)
	n := s.len()
	err := w.last(ctx, of, s, from, before)
	w.l.rereads.n += s.len() - n
	return s.given.Before(seq, is, before), err
}

// last reads what is missing of the last events before a place, if they are few.
func (w world) last(ctx context.Context, of rereadOf, s *stretch, from, before uint64) error {
	if s.over || s.before < from {
		*s = stretch{before: max(from, s.before), given: events.Given{Tail: of.from == 0}}
	}
	if s.before >= before {
		return nil
	}
	err := w.extend(ctx, of, s, before, fewBytes-s.bytes)
	s.over = s.over || err == nil && s.before < before || s.bytes >= fewBytes || s.given.Len() > mostGiven
	if err == nil {
		s.before = before
	}
	return err
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

// extend reads what is missing of a stretch: most bytes of it.
func (w world) extend(ctx context.Context, of rereadOf, s *stretch, before uint64, most int) error {
	past, err := w.past(ctx, of.thread, of.producer, of.epoch, s.before, before, most)
	if err != nil {
		return err
	}
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
	s.over = past.From > s.before
	s.before = past.Before
	return nil
}

// stoodBefore reports whether an event to which one of a stretch is linked was stored before the stretch, in an earlier life of the thread,
// or may have been.
func (w world) stoodBefore(ctx context.Context, of rereadOf, s *stretch, prev uint64) (bool, error) {
	if s.former == nil {
		s.former = &stretch{before: 1, given: events.GivenAround(0, 0)}
	}
	begin := of.from
	of.from = 1
	for !s.former.over && s.former.bytes < mostBytes && s.former.before < begin {
		if err := w.extend(ctx, of, s.former, begin, manyBytes); err != nil {
			return false, err
		}
	}
	return s.former.over || s.former.before < begin || s.former.given.Stood(prev), nil
}
