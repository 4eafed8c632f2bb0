package threads

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"spool/internal/family"
	"spool/pkg/casstore"
)

// ErrNoPoint says that a thread cannot be forked where the caller wants. The error it is wrapped in names the choices
// (SPEC C5).
var ErrNoPoint = family.NotFound.New("no such fork point")

// Point says where a thread is forked: the state named becomes the parent of the fork's first. At most one field is set; the
// zero Point is the step before the last, so that the fork tries the last step again.
type Point struct {
	Entry  int64        // index of an entry, from 1
	Item   int64        // number of an item, from 1: the entry that made it
	Node   casstore.Ref // a state
	Source string       // id of an entry at its source; of several, the newest in the thread
	Role   string       // the first state of that role
	Time   int64        // Unix milliseconds: the newest state on the way to the head that is not later
}

// Fork returns the head of a new thread that begins at a point of another one, which may go on running. Nothing is copied:
// the new head has the same start, numbers entries and items on from the fork point, and the caller appends one state to it.
// Producers, counters, times, what a listing shows and the projection memory begin empty. Errors wrap ErrNoPoint or those
// of Reader.
func Fork(ctx context.Context, r Reader, source Head, at Point) (Head, error) {
	point, err := findPoint(ctx, r, source, at)
	if err != nil {
		return Head{}, err
	}
	h := Head{Start: source.Start, Dialect: source.Dialect}
	if point.At.IsZero() {
		return h, nil
	}
	if h.Recent, err = point.recent(MaxRecent); err != nil {
		return Head{}, err
	}
	h.Status, h.Entries = StatusActive, point.Entry.Index
	if point.Entry.Dialect == source.Dialect { // else it is looked up
		h.Leaf = point.Entry.ID
	}
	if h.N, err = r.lastItem(ctx, point.At); err != nil {
		return Head{}, err
	}
	h.Sent = h.N
	return h, nil
}

// ForkWhole returns the head of a new thread that goes on where another one is, with all its branches and its leaf: the same
// entries, each thread going its own way from here (SPEC S9). What begins empty is as with Fork, but for what a listing
// shows. Errors wrap ErrNoPoint.
func ForkWhole(source Head) (Head, error) {
	if len(source.Newest()) == 0 {
		return Head{}, fmt.Errorf("%w: thread has no entries to go on from", ErrNoPoint)
	}
	return Head{
		Start: source.Start, Recent: slices.Clone(source.Recent), Tips: slices.Clone(source.Tips),
		Older: source.Older, OlderTips: source.OlderTips,
		N: source.N, Sent: source.N, Entries: source.Entries, Status: StatusActive, Leaf: source.Leaf, Dialect: source.Dialect,
		Messages: source.Messages, Standing: source.Standing,
	}, nil
}

// MaxTips is how many branches ForkWholeAt takes: as many as a head can note at once.
const MaxTips = tipsOfNode * nodesAtOnce

// MaxForkRead is how many states a persister reads at most for a fork (SPEC P11).
const MaxForkRead = 100_000

// ForkWholeAt is ForkWhole of a thread as it was when that point was its newest state: without what came later, on whatever branch. It
// reads the whole thread. Errors wrap ErrNoPoint or those of Reader.
func ForkWholeAt(ctx context.Context, r Reader, source Head, at Point) (Head, error) {
	h, err := Fork(ctx, r, source, at)
	if err != nil || len(h.Recent) == 0 {
		return h, err
	}
	parents := map[casstore.Ref]bool{h.Recent[0].Ref: true} // of states that were met, and the head
	for s, err := range r.EntriesBack(ctx, source) {
		if err != nil {
			return Head{}, err
		}
		if s.Entry.Index > h.Entries {
			continue
		}
		if !parents[s.At.Ref] {
			h.Tips = append(h.Tips, s.At)
		}
		delete(parents, s.At.Ref)
		parents[s.Parent] = true
	}
	if len(h.Tips) > MaxTips {
		return Head{}, fmt.Errorf("%w: the thread has %d branches there, more than %d", ErrNoPoint, len(h.Tips), MaxTips)
	}
	slices.Reverse(h.Tips)
	return h, nil
}

// lastItem is the number of the thread's last item at a state: from its record, or from the nearest one before that says.
func (r Reader) lastItem(ctx context.Context, at casstore.Located) (int64, error) {
	for s, err := range r.Walk(ctx, at) {
		if err != nil {
			return 0, err
		}
		if n, ok := s.Entry.LastItem(); ok {
			return n, nil
		}
	}
	return 0, nil
}

// findPoint is the step a Point means; the zero Step is the place before the first state.
func findPoint(ctx context.Context, r Reader, head Head, at Point) (s Step, err error) {
	var later, match func(State) bool
	wanted := 0
	if at.Entry != 0 {
		wanted++
		later = func(s State) bool { return s.Entry.Index > at.Entry }
		match = func(s State) bool { return s.Entry.Index == at.Entry }
	}
	if at.Item != 0 {
		wanted++
		later = func(s State) bool { return s.Entry.First > at.Item }
		match = func(s State) bool { return at.Item >= s.Entry.First && at.Item < s.Entry.First+s.Entry.Count }
	}
	for _, given := range []bool{at.Source != "", !at.Node.IsZero(), at.Role != "", at.Time != 0} {
		if given {
			wanted++
		}
	}
	switch {
	case wanted > 1:
		return Step{}, fmt.Errorf("%w: a point is an entry, an item, a node, a source id, a role or a time, not several", ErrNoPoint)
	case len(head.Newest()) == 0:
		return Step{}, fmt.Errorf("%w: thread has no completed role steps to fork from", ErrNoPoint)
	case !at.Node.IsZero():
		return r.FindNode(ctx, head, at.Node)
	case at.Role != "":
		return findRole(ctx, r, head, at.Role)
	case at.Time != 0:
		return findTime(ctx, r, head, at.Time)
	case at.Source != "":
		s, err = r.Find(ctx, head, func(s State) bool { return s.Entry.ID == at.Source })
	case match != nil:
		s, err = r.seekPoint(ctx, head, later, match)
	default:
		return findRetry(ctx, r, head)
	}
	if errors.Is(err, ErrNoStep) {
		return Step{}, noPoint(ctx, r, head, at)
	}
	return s, err
}

// FindNode is the state of a thread with that ref; one state in eleven is read. Errors wrap ErrNoPoint and name the choices.
func (r Reader) FindNode(ctx context.Context, head Head, ref casstore.Ref) (Step, error) {
	branches, err := r.branches(ctx, head, 0)
	if err != nil {
		return Step{}, err
	}
	for _, places := range branches {
		if i := slices.IndexFunc(places, func(l casstore.Located) bool { return l.Ref == ref }); i >= 0 {
			return r.Step(ctx, places[i])
		}
	}
	return Step{}, noPoint(ctx, r, head, Point{Node: ref})
}

// FindState is the ref of the thread's only state whose digits begin so; one state in eleven is read. Errors wrap ErrNoPoint and name
// the choices.
func (r Reader) FindState(ctx context.Context, head Head, digits string) (casstore.Ref, error) {
	branches, err := r.branches(ctx, head, 0)
	if err != nil {
		return casstore.Ref{}, err
	}
	var found []casstore.Ref
	var all, fit []string // newest first
	for _, places := range branches {
		for _, l := range places {
			all = append(all, l.Ref.Hex())
			if strings.HasPrefix(l.Ref.Hex(), digits) {
				found, fit = append(found, l.Ref), append(fit, l.Ref.Hex())
			}
		}
	}
	slices.Reverse(all)
	slices.Reverse(fit)
	switch len(found) {
	case 0:
		return casstore.Ref{}, fmt.Errorf("%w: no state of the thread begins with %s (available: %s)", ErrNoPoint, digits, newest(all))
	case 1:
		return found[0], nil
	}
	return casstore.Ref{}, fmt.Errorf("%w: several states of the thread begin with %s (%s)", ErrNoPoint, digits, newest(fit))
}

// findRole finds the first state of a role on the way from the start to the head.
func findRole(ctx context.Context, r Reader, head Head, role string) (Step, error) {
	var found Step
	var roles []string // newest first
	for s, err := range r.Walk(ctx, head.Newest()[0]) {
		if err != nil {
			return Step{}, err
		}
		if s.Role == role {
			found = s
		}
		if s.Role != RoleEnd {
			roles = slices.DeleteFunc(roles, func(x string) bool { return x == s.Role })
			roles = append(roles, s.Role)
		}
	}
	if found.At.IsZero() {
		slices.Reverse(roles)
		return Step{}, fmt.Errorf("%w: role not found in thread: %s (available: %s)", ErrNoPoint, role, strings.Join(roles, ", "))
	}
	return found, nil
}

// findTime finds the state that was the newest one at a time. Where times do not grow along the thread, it is one of those
// that can be meant.
func findTime(ctx context.Context, r Reader, head Head, ms int64) (Step, error) {
	s, err := r.seek(ctx, head.Newest()[0], func(s State) bool { return s.Timestamp > ms })
	if err == nil && s.At.IsZero() {
		first, e := r.first(ctx, head.Newest()[0])
		if e != nil {
			return Step{}, e
		}
		err = fmt.Errorf("%w: the thread begins at %s, after %s", ErrNoPoint, utc(first.Timestamp), utc(ms))
	}
	return s, err
}

// utc writes Unix milliseconds for people.
func utc(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.RFC3339Nano) }

// first reads the first state on the way to another one.
func (r Reader) first(ctx context.Context, from casstore.Located) (Step, error) {
	t := r.trail(from)
	for !t.next.IsZero() {
		if _, err := t.extend(ctx); err != nil {
			return Step{}, err
		}
	}
	return r.Step(ctx, t.places[len(t.places)-1])
}

// findRetry finds the step before the last one; an end is no step.
func findRetry(ctx context.Context, r Reader, head Head) (Step, error) {
	steps := 0
	for s, err := range r.Walk(ctx, head.Newest()[0]) {
		if err != nil {
			return Step{}, err
		}
		if s.Role == RoleEnd {
			continue
		}
		if steps++; steps == 2 {
			return s, nil
		}
	}
	if steps == 0 {
		return Step{}, fmt.Errorf("%w: thread has no completed role steps to fork from", ErrNoPoint)
	}
	return Step{}, nil
}

// noPoint names what was not found, and what there is.
func noPoint(ctx context.Context, r Reader, head Head, at Point) error {
	var indexes, items, ids, refs []string
	for s, err := range r.Entries(ctx, head) {
		if err != nil {
			return err
		}
		if s.Entry.Index > 0 {
			indexes = append(indexes, fmt.Sprint(s.Entry.Index))
		}
		if e := s.Entry; e.Count > 0 {
			items = append(items, fmt.Sprint(e.First), fmt.Sprint(e.First+e.Count-1))
		}
		if s.Entry.ID != "" {
			ids = append(ids, s.Entry.ID)
		}
		refs = append(refs, s.At.Ref.String())
	}
	switch {
	case at.Entry != 0:
		return fmt.Errorf("%w: entry %d not found in thread (available: %s)", ErrNoPoint, at.Entry, span(indexes))
	case at.Item != 0:
		return fmt.Errorf("%w: item %d not found in thread (available: %s)", ErrNoPoint, at.Item, span(items))
	case at.Source != "":
		return fmt.Errorf("%w: source id not found in thread: %.100s (available: %s)", ErrNoPoint, at.Source, newest(ids))
	}
	return fmt.Errorf("%w: %s is not a state of the thread (available: %s)", ErrNoPoint, at.Node, newest(refs))
}

// span is the first and the last of an ordered list.
func span(list []string) string {
	if len(list) == 0 {
		return "none"
	}
	return list[0] + " to " + list[len(list)-1]
}

// newest is the end of a list, in a length that fits an error.
func newest(list []string) string {
	const shown = 10
	switch {
	case len(list) == 0:
		return "none"
	case len(list) > shown:
		return fmt.Sprintf("%d, the last of them %s", len(list), strings.Join(list[len(list)-shown:], ", "))
	}
	return strings.Join(list, ", ")
}
