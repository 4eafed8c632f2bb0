package threads

import (
	"container/heap"
	"context"
	"fmt"
	"iter"

	"spool/internal/family"
	"spool/pkg/casstore"
)

// ErrNoStep says that no state of a thread is what was asked for.
var ErrNoStep = family.NotFound.New("no such step in the thread")

// Entries iterates over all states of a thread, those of tips included, each once, in the order of Record.Index. States
// without an index come where their branch puts them. The first error ends it. It first hops along the ancestors to learn
// where the states are, 49 bytes each in memory, then reads them from the oldest on.
func (r Reader) Entries(ctx context.Context, head Head) iter.Seq2[Step, error] {
	return r.EntriesFrom(ctx, head, 0)
}

// EntriesFrom is Entries without the states that all items of are before that number: what is read for it does not depend on how
// much of the thread is before.
func (r Reader) EntriesFrom(ctx context.Context, head Head, item int64) iter.Seq2[Step, error] {
	return func(yield func(Step, error) bool) {
		branches, err := r.branches(ctx, head, item)
		if err != nil {
			yield(Step{}, err)
			return
		}
		open := earliest[*branch]{before: (*branch).before}
		for i, places := range branches {
			b := &branch{order: i, places: places}
			if err := b.advance(ctx, r); err != nil {
				yield(Step{}, err)
				return
			}
			open.list = append(open.list, b)
		}
		heap.Init(&open)
		for open.Len() > 0 {
			b := open.list[0]
			if !yield(b.step, nil) {
				return
			}
			if len(b.places) == 0 {
				heap.Pop(&open)
				continue
			}
			if err := b.advance(ctx, r); err != nil {
				yield(Step{}, err)
				return
			}
			heap.Fix(&open, 0)
		}
	}
}

// branch is a run of states, each the parent of the next, that no other branch has.
type branch struct {
	order  int
	places []casstore.Located // newest first; those not read yet
	step   Step
}

// advance reads the oldest state not read yet.
func (b *branch) advance(ctx context.Context, r Reader) (err error) {
	last := len(b.places) - 1
	b.step, err = r.next(ctx, b.places[last], b.step.pack)
	b.places = b.places[:last]
	return err
}

// before orders branches by the index of the state they are at.
func (b *branch) before(other *branch) bool {
	i, j := b.step.Entry.Index, other.step.Entry.Index
	return i < j || i == j && b.order < other.order
}

// earliest is a heap: the first of its list is before all others.
type earliest[T any] struct {
	list   []T
	before func(a, b T) bool
}

func (h *earliest[T]) Len() int           { return len(h.list) }
func (h *earliest[T]) Less(i, j int) bool { return h.before(h.list[i], h.list[j]) }
func (h *earliest[T]) Swap(i, j int)      { h.list[i], h.list[j] = h.list[j], h.list[i] }
func (h *earliest[T]) Push(x any)         { h.list = append(h.list, x.(T)) }

func (h *earliest[T]) Pop() any {
	last := h.list[len(h.list)-1]
	h.list = h.list[:len(h.list)-1]
	return last
}

// Branches lists the places of all states of a thread, newest first: those of the head's chain, then for each tip those
// that no chain before it has. It reads one state in eleven.
func (r Reader) Branches(ctx context.Context, head Head) ([][]casstore.Located, error) {
	return r.branches(ctx, head, 0)
}

// branches lists the places of all states: those of the head's chain, then for each tip those no chain before it has; of each
// only down to the item.
func (r Reader) branches(ctx context.Context, head Head, item int64) ([][]casstore.Located, error) {
	seen := make(map[casstore.Ref]bool)
	var all [][]casstore.Located
	for root, err := range r.Newest(ctx, head, item) {
		if err != nil {
			return nil, err
		}
		if seen[root.Ref] {
			continue
		}
		t := r.trail(root)
		own, met := 0, false
		for !t.next.IsZero() && !met {
			added, err := t.extend(ctx)
			if err != nil {
				return nil, err
			}
			if last, ok := t.record.LastItem(); ok && last < item {
				break // so are those before it
			}
			for _, l := range added {
				if met = seen[l.Ref]; met {
					break
				}
				own++
			}
		}
		for _, l := range t.places[:own] {
			seen[l.Ref] = true
		}
		if own > 0 {
			all = append(all, t.places[:own])
		}
	}
	return all, nil
}

// Find returns the first state that matches: from the head back, then from each tip back to what was seen before. Errors
// wrap ErrNoStep.
func (r Reader) Find(ctx context.Context, head Head, match func(State) bool) (Step, error) {
	seen := make(map[casstore.Ref]bool)
	for root, err := range r.Newest(ctx, head, 0) {
		if err != nil {
			return Step{}, err
		}
		if seen[root.Ref] {
			continue
		}
		for s, err := range r.Walk(ctx, root) {
			if err != nil {
				return Step{}, err
			}
			if seen[s.At.Ref] {
				break
			}
			seen[s.At.Ref] = true
			if match(s.State) {
				return s, nil
			}
		}
	}
	return Step{}, fmt.Errorf("%w (%d states searched)", ErrNoStep, len(seen))
}
