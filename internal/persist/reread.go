package persist

import (
	"context"
	"slices"
	"sort"

	"spool/pkg/events"
)

// rereads is what was read back of EVENTS, to tell the repeats of a producer from other entries. Of stage 1.
type rereads struct {
	of    map[rereadOf][]*stretch
	order []rereadOf // those that were read first come first
	links int        // that are remembered
}

// rereadOf is whose events were read.
type rereadOf struct {
	thread   events.Thread
	producer string
	epoch    uint64
}

// stretch is what EVENTS holds of a producer's events from a sequence up to and without another one.
type stretch struct {
	from, before uint64
	links        []events.Linked
	begins       bool // there is nothing before it
	full         bool // it holds as much as it may, and what was before that is dropped
}

// What is remembered at most: of one stretch, and of all; how many stretches there are of a producer's events, and how
// much of EVENTS is read at once.
const (
	mostLinks    = 1 << 14
	allLinks     = 1 << 18
	mostStretch  = 2
	rereadAtOnce = 1 << 8
)

// Reread implements apply.World.
func (w world) Reread(
	ctx context.Context, t events.Thread, producer string, epoch, from, before uint64,
) (links []events.Linked, more bool, err error) {
	of := rereadOf{t, producer, epoch}
	s := w.l.rereads.stretch(of, from, before)
	known := len(s.links)
	read := func(from, before uint64) (events.Past, error) { return w.Past(ctx, t, producer, epoch, from, before) }
	err = s.extend(from, before, read)
	w.l.rereads.grown(of, len(s.links)-known)
	links, earlier := s.within(from, before)
	return links, earlier || !s.begins && s.from > 1, err
}

// stretch gives the one that touches those sequences, or a new one.
func (r *rereads) stretch(of rereadOf, from, before uint64) *stretch {
	known := r.of[of]
	if i := slices.IndexFunc(known, func(s *stretch) bool { return from <= s.before && before >= s.from }); i >= 0 {
		return known[i]
	}
	if r.of == nil {
		r.of = map[rereadOf][]*stretch{}
	}
	if len(known) == 0 {
		r.order = append(r.order, of)
	}
	if len(known) == mostStretch {
		r.links -= 1 + len(known[0].links)
		known = known[1:]
	}
	s := &stretch{from: before, before: before}
	r.of[of] = append(known, s)
	r.links++
	return s
}

// grown counts links that a producer's stretches have got, and forgets others for them.
func (r *rereads) grown(of rereadOf, n int) {
	r.links += n
	for r.links > allLinks {
		i := slices.IndexFunc(r.order, func(other rereadOf) bool { return other != of })
		if i < 0 {
			return
		}
		for _, s := range r.of[r.order[i]] {
			r.links -= 1 + len(s.links)
		}
		delete(r.of, r.order[i])
		r.order = slices.Delete(r.order, i, i+1)
	}
}

// extend reads what is missing of a stretch.
func (s *stretch) extend(from, before uint64, read func(from, before uint64) (events.Past, error)) error {
	for s.before < before {
		past, err := read(s.before, min(before, s.before+rereadAtOnce))
		if err != nil {
			return err
		}
		s.before = min(before, s.before+rereadAtOnce)
		s.links = append(s.links, past.Links...)
		s.bound()
	}
	for from < s.from && !s.begins && !s.full {
		at := max(from, s.from-min(rereadAtOnce, s.from))
		past, err := read(at, s.from)
		if err != nil {
			return err
		}
		s.from, s.begins = at, past.From > at
		s.links = append(past.Links, s.links...)
		s.bound()
	}
	return nil
}

// bound drops the first messages of a stretch that holds too much.
func (s *stretch) bound() {
	if len(s.links) <= mostLinks {
		return
	}
	i := len(s.links) - mostLinks
	for i < len(s.links) && s.links[i].At == s.links[i-1].At {
		i++
	}
	s.from, s.begins, s.full = s.links[i-1].At+1, false, true
	s.links = slices.Clone(s.links[i:])
}

// within is what a stretch holds between two sequences, and whether it holds something before.
func (s *stretch) within(from, before uint64) (links []events.Linked, earlier bool) {
	at := func(seq uint64) int {
		return sort.Search(len(s.links), func(i int) bool { return s.links[i].At >= seq })
	}
	i := at(from)
	return s.links[i:max(i, at(before))], i > 0
}
