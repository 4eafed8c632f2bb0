package threads

import (
	"context"
	"fmt"
	"iter"

	"spool/pkg/casstore"
)

// Reader reads threads from packs. It follows locators, keeps no index and checks the hash of every node it reads. Behind a
// casstore.PackCache a pack is fetched once. Errors wrap those of casstore with the ref and the pack asked: a locator is a
// hint, so ErrNotFound there means that another pack may hold the node.
type Reader struct{ Packs casstore.PackGetter }

// Step is one state of a thread, where it stands, and the pack it was read from.
type Step struct {
	State
	At casstore.Located

	pack *casstore.Pack
	from Reader
}

// Step reads the state at that place.
func (r Reader) Step(ctx context.Context, at casstore.Located) (Step, error) {
	return r.next(ctx, at, nil)
}

// next reads a state; it takes the pack of an earlier step if the state is in it.
func (r Reader) next(ctx context.Context, at casstore.Located, before *casstore.Pack) (Step, error) {
	n, pack, err := r.node(ctx, at, before)
	if err != nil {
		return Step{}, err
	}
	s, err := ParseState(n)
	if err != nil {
		return Step{}, fmt.Errorf("%s: %w", at, err)
	}
	return Step{State: s, At: at, pack: pack, from: r}, nil
}

// node reads a node from the pack given, if it is there, else from the one that the locator names.
func (r Reader) node(ctx context.Context, at casstore.Located, before *casstore.Pack) (casstore.Node, *casstore.Pack, error) {
	pack := before
	if pack == nil || !pack.Has(at.Ref) {
		if at.Pack.IsZero() {
			return casstore.Node{}, nil, fmt.Errorf("%s: no pack is named: %w", at.Ref, casstore.ErrNotFound)
		}
		var err error
		if pack, err = r.Packs.Pack(ctx, at.Pack); err != nil {
			return casstore.Node{}, nil, fmt.Errorf("open pack for %s: %w", at, err)
		}
	}
	n, err := pack.Node(at.Ref)
	if err != nil {
		return casstore.Node{}, nil, fmt.Errorf("%s: %w", at, err)
	}
	return n, pack, nil
}

// State reads the state at that place.
func (r Reader) State(ctx context.Context, at casstore.Located) (State, error) {
	s, err := r.Step(ctx, at)
	return s.State, err
}

// Start reads the start at that place.
func (r Reader) Start(ctx context.Context, at casstore.Located) (Start, error) {
	n, _, err := r.node(ctx, at, nil)
	if err != nil {
		return Start{}, err
	}
	s, err := ParseStart(n)
	if err != nil {
		return Start{}, fmt.Errorf("%s: %w", at, err)
	}
	return s, nil
}

// Content reads the content of the state at that place.
func (r Reader) Content(ctx context.Context, state casstore.Located) (Content, error) {
	s, err := r.Step(ctx, state)
	if err != nil {
		return Content{}, err
	}
	return s.ReadContent(ctx)
}

// ReadContent reads the content of the step.
func (s Step) ReadContent(ctx context.Context) (Content, error) {
	at, err := s.Locate(s.State.Content)
	if err != nil {
		return Content{}, err
	}
	n, _, err := s.from.node(ctx, at, s.pack)
	if err != nil {
		return Content{}, err
	}
	c, err := ParseContent(n)
	if err != nil {
		return Content{}, fmt.Errorf("%s: %w", at, err)
	}
	return c, nil
}

// Locate says where a node is that the step refers to. Errors wrap casstore.ErrNotFound.
func (s Step) Locate(ref casstore.Ref) (casstore.Located, error) { return locate(s.pack, s.At, ref) }

// locate says where a node is that a node at that place, in that pack, refers to.
func locate(pack *casstore.Pack, at casstore.Located, ref casstore.Ref) (casstore.Located, error) {
	if pack.Has(ref) {
		return casstore.Located{Ref: ref, Pack: at.Pack}, nil
	}
	if id, ok := pack.Locate(ref); ok {
		return casstore.Located{Ref: ref, Pack: id}, nil
	}
	return casstore.Located{}, fmt.Errorf("pack %s does not locate %s, which %s refers to: %w", at.Pack, ref, at.Ref, casstore.ErrNotFound)
}

// Walk iterates from a state back to the first one of its thread. The first error ends it. A zero place has no steps.
func (r Reader) Walk(ctx context.Context, from casstore.Located) iter.Seq2[Step, error] {
	return func(yield func(Step, error) bool) {
		var s Step
		var err error
		for at := from; !at.IsZero(); {
			if s, err = r.next(ctx, at, s.pack); err != nil {
				yield(Step{}, err)
				return
			}
			if !yield(s, nil) || s.Parent.IsZero() {
				return
			}
			if at, err = s.Locate(s.Parent); err != nil {
				yield(Step{}, err)
				return
			}
		}
	}
}

// Last reads the last k states, newest first; fewer if the thread is shorter.
func (r Reader) Last(ctx context.Context, from casstore.Located, k int) ([]Step, error) {
	var steps []Step
	if k <= 0 {
		return nil, nil
	}
	for s, err := range r.Walk(ctx, from) {
		if err != nil {
			return nil, err
		}
		if steps = append(steps, s); len(steps) == k {
			break
		}
	}
	return steps, nil
}

// Page reads up to limit states, newest first, after skipping that many. It skips by ancestors and so reads one state in
// eleven of those skipped (SPEC C7).
func (r Reader) Page(ctx context.Context, from casstore.Located, skip, limit int) ([]Step, error) {
	at, err := r.Back(ctx, from, skip)
	if err != nil || at.IsZero() {
		return nil, err
	}
	return r.Last(ctx, at, limit)
}

// Back is the place of the state that many steps before the one given; zero if the thread is shorter.
func (r Reader) Back(ctx context.Context, from casstore.Located, steps int) (casstore.Located, error) {
	var pack *casstore.Pack
	for at := from; ; {
		if steps <= 0 || at.IsZero() {
			return at, nil
		}
		s, err := r.next(ctx, at, pack)
		if err != nil {
			return casstore.Located{}, err
		}
		if s.Parent.IsZero() {
			return casstore.Located{}, nil
		}
		pack = s.pack
		hop := min(steps, 1+len(s.Ancestors))
		ref := s.Parent
		if hop > 1 {
			ref = s.Ancestors[hop-2]
		}
		if at, err = s.Locate(ref); err != nil {
			return casstore.Located{}, err
		}
		steps -= hop
	}
}

// Recent is a state and its ancestors, as Head.Recent holds them: what a branch or a fork at that state begins with.
func (r Reader) Recent(ctx context.Context, at casstore.Located) ([]casstore.Located, error) {
	s, err := r.Step(ctx, at)
	if err != nil {
		return nil, err
	}
	return s.recent(MaxRecent)
}

// recent is the step, its parent and its ancestors, cut to that many.
func (s Step) recent(limit int) ([]casstore.Located, error) {
	out := []casstore.Located{s.At}
	if s.Parent.IsZero() {
		return out, nil
	}
	for _, ref := range append([]casstore.Ref{s.Parent}, s.Ancestors...) {
		l, err := s.Locate(ref)
		if err != nil {
			return nil, err
		}
		out = append(out, l)
	}
	return out[:min(len(out), limit)], nil
}
