package threads

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"spool/internal/family"
	"spool/pkg/casstore"
)

// ErrInconsistent says that the nodes of a thread are all intact but do not fit together or do not fit the head. It is
// wrapped with the state and what is wrong.
var ErrInconsistent = family.Damaged.New("inconsistent thread")

// maxFindings bounds the errors that Verify collects.
const maxFindings = 100

// Verify reads all that is reachable from a head, but for the bytes of blobs, and checks hashes, positions, ancestors,
// indexes and item numbers, and what the head keeps in nodes. It goes on after an error as far as it can and returns
// the errors joined, at most 100; each wraps ErrInconsistent, ErrShape or an error of casstore.
func Verify(ctx context.Context, r Reader, head Head) error {
	v := &verifier{r: r, head: head, states: make(map[casstore.Ref]verified), nodes: make(map[casstore.Ref]bool)}
	v.start(ctx)
	_, err := r.Recall(ctx, head)
	v.find(head.Seen, err)
	for root, err := range r.Newest(ctx, head, 0) {
		if err != nil {
			v.find(head.Older, err)
			break
		}
		v.chain(ctx, root)
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	v.numbers()
	return errors.Join(v.findings...)
}

type verifier struct {
	r        Reader
	head     Head
	states   map[casstore.Ref]verified
	nodes    map[casstore.Ref]bool // contents and what they refer to
	findings []error
}

// verified is what the checks after the walk need of a state: of each one of the thread, so it is small.
type verified struct {
	at    casstore.Located
	entry entryNumbers
}

// entryNumbers is the part of a record that places it in the thread.
type entryNumbers struct{ index, first, count int64 }

func (v *verifier) find(at casstore.Located, err error) {
	if err != nil && len(v.findings) < maxFindings {
		v.findings = append(v.findings, fmt.Errorf("verify %s: %w", at, err))
	}
}

func (v *verifier) inconsistent(at casstore.Located, format string, args ...any) {
	v.find(at, fmt.Errorf("%w: %s", ErrInconsistent, fmt.Sprintf(format, args...)))
}

// start checks the start and its prompt.
func (v *verifier) start(ctx context.Context) {
	n, pack, err := v.r.node(ctx, v.head.Start, opened{})
	if err == nil {
		_, err = ParseStart(n)
	}
	if err != nil {
		v.find(v.head.Start, err)
		return
	}
	v.closure(ctx, pack, v.head.Start.Ref, n.Refs)
}

// chain checks the states from one back to those checked before.
func (v *verifier) chain(ctx context.Context, from casstore.Located) {
	var child Step
	for s, err := range v.r.Walk(ctx, from) {
		if err != nil {
			v.find(from, err)
			return
		}
		if !child.At.IsZero() {
			v.link(&child, &s)
		}
		if _, before := v.states[s.At.Ref]; before {
			return
		}
		v.states[s.At.Ref] = verified{s.At, entryNumbers{s.Entry.Index, s.Entry.First, s.Entry.Count}}
		v.state(ctx, s)
		child = s
	}
}

// link checks that a state's ancestors are its parent's parent and ancestors, and that numbers grow.
func (v *verifier) link(child, parent *Step) {
	var want []casstore.Ref
	if !parent.Parent.IsZero() {
		want = append([]casstore.Ref{parent.Parent}, parent.Ancestors...)
	}
	if want = want[:min(len(want), MaxAncestors)]; !slices.Equal(child.Ancestors, want) {
		v.inconsistent(child.At, "its ancestors are not those of its parent, shifted by one")
	}
	c, p := child.Entry, parent.Entry
	if c.Index != 0 && c.Index <= p.Index {
		v.inconsistent(child.At, "its index %d is not above its parent's, %d", c.Index, p.Index)
	}
	if c.First != 0 && p.First != 0 && c.First < p.First+p.Count {
		v.inconsistent(child.At, "its items begin at %d, within its parent's", c.First)
	}
}

// state checks one state on its own.
func (v *verifier) state(ctx context.Context, s Step) {
	if len(v.head.Recent) > 0 && s.At.Ref == v.head.Recent[0].Ref {
		v.recent(s)
	}
	if s.Start != v.head.Start.Ref {
		v.inconsistent(s.At, "its start is %s, the head's is %s", s.Start, v.head.Start.Ref)
	}
	content, err := s.ReadContent(ctx)
	if err != nil {
		v.find(s.At, err)
		return
	}
	for name, ref := range map[string]casstore.Ref{"compact": s.Compact, "full": s.Entry.Full} {
		if !ref.IsZero() && !slices.Contains(content.Refs, ref) {
			v.inconsistent(s.At, "%s %s is not among its content's refs", name, ref)
		}
	}
	v.closure(ctx, s.pack, s.At.Ref, []casstore.Ref{s.State.Content})
}

// closure reads all nodes reachable from refs of a node of that pack.
func (v *verifier) closure(ctx context.Context, pack opened, from casstore.Ref, refs []casstore.Ref) {
	type edge struct {
		pack     opened
		from, to casstore.Ref
	}
	var open []edge
	push := func(pack opened, from casstore.Ref, refs []casstore.Ref) {
		for _, ref := range refs {
			if ref.Kind() == casstore.KindNode && !v.nodes[ref] {
				v.nodes[ref] = true
				open = append(open, edge{pack, from, ref})
			}
		}
	}
	for push(pack, from, refs); len(open) > 0; {
		e := open[len(open)-1]
		open = open[:len(open)-1]
		at := casstore.Located{Ref: e.from, Pack: e.pack.id}
		to, err := e.pack.locate(e.from, e.to)
		if err != nil {
			v.find(at, err)
			continue
		}
		n, pack, err := v.r.node(ctx, to, e.pack)
		if err != nil {
			v.find(at, err)
			continue
		}
		push(pack, e.to, n.Refs)
	}
}

// recent checks the head's skip list against the head state.
func (v *verifier) recent(s Step) {
	want := []casstore.Ref{s.At.Ref}
	if !s.Parent.IsZero() {
		want = append(append(want, s.Parent), s.Ancestors...)
	}
	var got []casstore.Ref
	for _, l := range v.head.Recent {
		got = append(got, l.Ref)
	}
	if !slices.Equal(got, want[:min(len(want), MaxRecent)]) {
		v.inconsistent(s.At, "the head's recent states are not its parent and ancestors")
	}
}

// numbers checks indexes and items over all branches.
func (v *verifier) numbers() {
	byIndex := make([]verified, 0, len(v.states))
	for _, s := range v.states {
		if s.entry.index != 0 {
			byIndex = append(byIndex, s)
		}
	}
	slices.SortFunc(byIndex, func(a, b verified) int { return int(a.entry.index - b.entry.index) })
	for i, s := range byIndex {
		e := s.entry
		if e.index > v.head.Entries {
			v.inconsistent(s.at, "its index is %d, the head counts %d entries", e.index, v.head.Entries)
		}
		if last := e.first + e.count - 1; e.first > 0 && last > v.head.N {
			v.inconsistent(s.at, "its last item is %d, the head's is %d", last, v.head.N)
		}
		if i == 0 {
			continue
		}
		before := byIndex[i-1].entry
		next := before.first + before.count
		switch {
		case before.index == e.index:
			v.inconsistent(s.at, "its index %d is also that of %s", e.index, byIndex[i-1].at.Ref)
		case before.first == 0 || e.first == 0:
		case e.first < next, before.index+1 == e.index && e.first != next:
			v.inconsistent(s.at, "its items begin at %d, want %d", e.first, next)
		}
	}
	if len(byIndex) == 0 {
		return
	}
	newest := byIndex[len(byIndex)-1]
	if n := newest.entry.index; n < v.head.Entries {
		v.inconsistent(newest.at, "its index is %d, the newest; the head counts %d entries", n, v.head.Entries)
	}
	if last := newest.entry.first + newest.entry.count - 1; newest.entry.first > 0 && last < v.head.N {
		v.inconsistent(newest.at, "its last item is %d, the newest; the head's is %d", last, v.head.N)
	}
}
