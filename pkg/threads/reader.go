package threads

import (
	"context"
	"fmt"
	"iter"

	"spool/pkg/casstore"
)

// Reader reads threads from packs. It follows locators, keeps no index and checks the hash of every node it reads. Behind a
// casstore.PackCache a pack is fetched once. Errors wrap those of casstore with the ref and the pack asked.
//
// A locator is a hint: a collector that repacks keeps one copy of a node that several packs hold, and what an older pack, in
// a cache, says of the others leads nowhere. So a node that is not where its locator says is looked for elsewhere
// (elsewhere.go); ErrNotFound and ErrGone mean that no pack holds it. Without Nodes they mean only that the locators lead
// to no pack that holds it.
type Reader struct {
	Packs casstore.PackGetter
	Nodes casstore.NodeLocator // nil: locators alone are followed

	// Read is told of each node that was read and checked, as often as it is read. Its error becomes that of the read.
	// nil: nobody is told.
	Read func(casstore.Ref, casstore.Node) error

	// Hold waits until there is room for so many bytes of a large content, from which more is made in memory (Step.Hold), and
	// gives what frees it. nil: there always is.
	Hold func(ctx context.Context, bytes int64) (free func(), err error)
}

// opened is a pack that was read, and the id by which it was asked for. The zero opened is none.
type opened struct {
	*casstore.Pack
	id casstore.PackID
}

func (o opened) holds(ref casstore.Ref) bool { return o.Pack != nil && o.Has(ref) }

// Step is one state of a thread, where it stands, and the pack it was read from.
type Step struct {
	State
	At casstore.Located

	pack opened
	from Reader
}

// Step reads the state at that place.
func (r Reader) Step(ctx context.Context, at casstore.Located) (Step, error) {
	return r.next(ctx, at, opened{})
}

// next reads a state; it takes the pack of an earlier step if the state is in it.
func (r Reader) next(ctx context.Context, at casstore.Located, before opened) (Step, error) {
	n, pack, err := r.node(ctx, at, before)
	if err != nil {
		return Step{}, err
	}
	s, err := ParseState(n)
	if err != nil {
		return Step{}, fmt.Errorf("%s: %w", at, err)
	}
	at.Pack = pack.id
	return Step{State: s, At: at, pack: pack, from: r}, nil
}

// node reads a node from the pack given, if it is there, else from the one that the locator names, else from wherever it
// is. before is the pack whose table the locator comes from, or none.
func (r Reader) node(ctx context.Context, at casstore.Located, before opened) (casstore.Node, opened, error) {
	pack, err := before, error(nil)
	if !pack.holds(at.Ref) {
		pack, err = r.open(ctx, at)
	}
	if isAway(err) {
		pack, err = r.elsewhere(ctx, at, before, err)
	}
	if err != nil {
		return casstore.Node{}, opened{}, err
	}
	n, err := pack.Node(at.Ref)
	if err == nil && r.Read != nil {
		err = r.Read(at.Ref, n)
	}
	if err != nil {
		return casstore.Node{}, opened{}, fmt.Errorf("%s: %w", at, err)
	}
	return n, pack, nil
}

// open reads the pack that a locator names, which must hold the node.
func (r Reader) open(ctx context.Context, at casstore.Located) (opened, error) {
	if at.Pack.IsZero() {
		return opened{}, fmt.Errorf("%s: no pack is named: %w", at.Ref, casstore.ErrNotFound)
	}
	pack, err := r.Packs.Pack(ctx, at.Pack)
	if err != nil {
		return opened{}, fmt.Errorf("open pack for %s: %w", at, err)
	}
	if !pack.Has(at.Ref) {
		return opened{}, fmt.Errorf("%s: %w", at, casstore.ErrNotFound)
	}
	return opened{pack, at.Pack}, nil
}

// State reads the state at that place.
func (r Reader) State(ctx context.Context, at casstore.Located) (State, error) {
	s, err := r.Step(ctx, at)
	return s.State, err
}

// Start reads the start at that place.
func (r Reader) Start(ctx context.Context, at casstore.Located) (Start, error) {
	n, _, err := r.node(ctx, at, opened{})
	if err != nil {
		return Start{}, err
	}
	s, err := ParseStart(n)
	if err != nil {
		return Start{}, fmt.Errorf("%s: %w", at, err)
	}
	return s, nil
}

// Prompt reads the initial task of the start at that place; "" if it has none, or if there is no place.
func (r Reader) Prompt(ctx context.Context, at casstore.Located) (string, error) {
	if at.IsZero() {
		return "", nil
	}
	n, pack, err := r.node(ctx, at, opened{})
	if err != nil {
		return "", err
	}
	s, err := ParseStart(n)
	if err != nil {
		return "", fmt.Errorf("%s: %w", at, err)
	}
	c, err := Step{At: at, pack: pack, from: r}.readContent(ctx, s.Prompt)
	return string(c.Text), err
}

// ReadContent reads the content of the step.
func (s Step) ReadContent(ctx context.Context) (Content, error) {
	return s.readContent(ctx, s.State.Content)
}

// Hold waits until the step's content, if it is large, may be read to make something of it, and gives what says that it is made. A content
// of another pack is not waited for: its size is not known before it is read.
func (s Step) Hold(ctx context.Context) (free func(), err error) {
	if s.from.Hold == nil || !s.pack.holds(s.State.Content) {
		return func() {}, nil
	}
	i, _ := s.pack.Find(s.State.Content)
	return s.from.Hold(ctx, int64(s.pack.NodeLen(i)))
}

// readContent reads a content node that the state refers to.
func (s Step) readContent(ctx context.Context, ref casstore.Ref) (Content, error) {
	at, err := s.Locate(ref)
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
func (s Step) Locate(ref casstore.Ref) (casstore.Located, error) { return s.pack.locate(s.At.Ref, ref) }

// locate says where a node is that a node of the pack refers to.
func (o opened) locate(from, ref casstore.Ref) (casstore.Located, error) {
	if o.Has(ref) {
		return casstore.Located{Ref: ref, Pack: o.id}, nil
	}
	if id, ok := o.Pack.Locate(ref); ok {
		return casstore.Located{Ref: ref, Pack: id}, nil
	}
	return casstore.Located{}, fmt.Errorf("pack %s does not locate %s, which %s refers to: %w", o.id, ref, from, casstore.ErrNotFound)
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
	var pack opened
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
