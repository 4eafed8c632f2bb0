package threads

import (
	"context"
	"slices"
	"sort"

	"spool/pkg/casstore"
)

// trail is a path that is known from a state back to some place. One state in eleven is read: each names the eleven before
// it (SPEC C7).
type trail struct {
	r      Reader
	next   casstore.Located // read next; zero: the path is known to its first state
	pack   opened
	places []casstore.Located // newest first
	known  map[casstore.Ref]int
	index  int64  // of the state read last
	record Record // of the same
}

func (r Reader) trail(from casstore.Located) *trail {
	return &trail{r: r, next: from, known: make(map[casstore.Ref]int)}
}

// extend reads one state and returns the places that it adds.
func (t *trail) extend(ctx context.Context) ([]casstore.Located, error) {
	s, err := t.r.next(ctx, t.next, t.pack)
	if err != nil {
		return nil, err
	}
	recent, err := s.recent(2 + MaxAncestors)
	if err != nil {
		return nil, err
	}
	t.pack, t.index, t.record, t.next = s.pack, s.Entry.Index, s.Entry, casstore.Located{}
	if last := len(recent) - 1; last > 0 {
		t.next, recent = recent[last], recent[:last]
	}
	for _, l := range recent {
		t.known[l.Ref] = len(t.places)
		t.places = append(t.places, l)
	}
	return recent, nil
}

// meet finds the newest state that both paths have: its place in a and in b, or false. Which path is extended decides about
// time alone: both are known without a gap, so the first state found in both is the newest.
func meet(ctx context.Context, a, b *trail) (inA, inB int, found bool, err error) {
	for !a.next.IsZero() || !b.next.IsZero() {
		from, other := a, b
		if a.next.IsZero() || !b.next.IsZero() && behind(b, a) {
			from, other = b, a
		}
		added, err := from.extend(ctx)
		if err != nil {
			return 0, 0, false, err
		}
		for _, l := range added {
			if _, ok := other.known[l.Ref]; ok {
				return a.known[l.Ref], b.known[l.Ref], true, nil
			}
		}
	}
	return 0, 0, false, nil
}

// behind reports whether a is the one to extend: its end is the newer one.
func behind(a, b *trail) bool {
	if len(a.places) == 0 || len(b.places) == 0 {
		return len(a.places) < len(b.places)
	}
	return a.index > b.index || a.index == b.index && len(a.places) < len(b.places)
}

// Difference is what two paths have after the newest state that both have.
type Difference struct {
	Base casstore.Located   // zero: nothing is common
	A, B []casstore.Located // only on that path, oldest first
}

// Diff compares the paths to two states. It reads one state in eleven, and none before the base.
func (r Reader) Diff(ctx context.Context, a, b casstore.Located) (d Difference, err error) {
	ta, tb := r.trail(a), r.trail(b)
	inA, inB, found, err := meet(ctx, ta, tb)
	if err != nil {
		return d, err
	}
	if found {
		d.Base, ta.places, tb.places = ta.places[inA], ta.places[:inA], tb.places[:inB]
	}
	slices.Reverse(ta.places)
	slices.Reverse(tb.places)
	d.A, d.B = ta.places, tb.places
	return d, nil
}

// At is the state that a point names; the zero Point names the step before the last one, the zero Step is the place before
// the first state. Errors wrap ErrNoPoint, naming the choices, or are those of Reader.
func (r Reader) At(ctx context.Context, head Head, at Point) (Step, error) {
	return findPoint(ctx, r, head, at)
}

// seek finds the newest state, from a place back, that is not later than what is wanted; the zero Step if all are. later must
// not turn true again on the way back. It reads one state in eleven.
func (r Reader) seek(ctx context.Context, from casstore.Located, later func(State) bool) (Step, error) {
	s, err := r.next(ctx, from, opened{})
	for err == nil && later(s.State) {
		if s.Parent.IsZero() {
			return Step{}, nil
		}
		var before []casstore.Located
		if before, err = s.recent(2 + MaxAncestors); err != nil {
			break
		}
		before = before[1:]
		var oldest Step
		oldest, err = r.next(ctx, before[len(before)-1], s.pack)
		if err != nil || later(oldest.State) {
			s = oldest
			continue
		}
		i := sort.Search(len(before)-1, func(i int) bool {
			step, e := r.next(ctx, before[i], s.pack)
			if e != nil {
				err = e
			}
			return e != nil || !later(step.State)
		})
		if err != nil {
			break
		}
		return r.next(ctx, before[i], s.pack)
	}
	return s, err
}

// seekPoint looks for a state on the way to the head, then on the ways to the tips.
func (r Reader) seekPoint(ctx context.Context, head Head, later, match func(State) bool) (Step, error) {
	for root, err := range r.Newest(ctx, head, 0) {
		if err != nil {
			return Step{}, err
		}
		s, err := r.seek(ctx, root, later)
		if err != nil {
			return Step{}, err
		}
		if !s.At.IsZero() && match(s.State) {
			return s, nil
		}
	}
	return r.Find(ctx, head, match) // some states have no number
}
