package fsck

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"spool/internal/record"
	"spool/pkg/artifacts"
	"spool/pkg/casstore"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// nodeIn is a node in one of the packs that have it: threads that begin alike have equal starts, each in a pack of its own, and that
// one of them is not good says nothing of the others.
type nodeIn struct {
	ref  casstore.Ref
	pack int // index in packs
}

// state is what is known of a state that could be read.
type state struct {
	pack, node          int // index in packs, and in the pack
	before              int // the pack that has its parent, by its index; -1: none
	start, parent       casstore.Ref
	index, first, count int64
	end                 bool           // its role is that of an end
	result              bool           // it is the result of an output, which may stand behind an end
	entry               entryID        // with Config.Lost
	wrong               *record.Damage // of itself or of a state before it
}

// last is the number of the thread's last item once the state is in; ok is false if it does not say.
func (s *state) last() (n int64, ok bool) { return s.first + s.count - 1, s.first > 0 }

// isResult reports whether a state is the result of an output: Spool's own, and no entry of the agent's.
func isResult(st *threads.State) bool {
	return st.Entry.Dialect == "" && st.Entry.Type == events.TypeToolResult
}

// stateIn is a state in a pack, by its index, or where that has none, an equal one.
func (c *checker) stateIn(ref casstore.Ref, pack int) *state {
	if s := c.equal[nodeIn{ref, pack}]; s != nil {
		return s
	}
	return c.states[ref]
}

// stateAt is the state in the pack that is named for it; nil: it is not there.
func (c *checker) stateAt(l casstore.Located) *state {
	i := c.packAt(l.Pack)
	if s := c.stateIn(l.Ref, i); s != nil && s.pack == i {
		return s
	}
	return nil
}

// parent is the one that a state names, or where that is not there, an equal one.
func (c *checker) parent(s *state) *state { return c.stateIn(s.parent, s.before) }

// good reports whether a state is there in one pack at least, with all that it leads to.
func (c *checker) good(ref casstore.Ref) bool {
	return c.states[ref] != nil && c.states[ref].wrong == nil
}

// spare reports whether the state at a thread's head is not good where it was, and another thread has an equal one that is.
func (c *checker) spare(h *head) bool {
	if len(h.Recent) == 0 || c.lostTip(h) {
		return false
	}
	s := c.stateAt(h.Recent[0])
	return (s == nil || s.wrong != nil) && c.good(h.Recent[0].Ref)
}

// ended reports whether a thread whose newest state that is has ended: outputs that were open then are closed behind it.
func (c *checker) ended(at casstore.Ref) bool {
	for s := c.states[at]; s != nil; s = c.states[s.parent] {
		if s.end || !s.result {
			return s.end
		}
	}
	return false
}

// index takes the nodes of a pack: those that they refer to come first.
func (c *checker) index(ctx context.Context, i int, p *casstore.Pack) error {
	for k := range p.Len() {
		ref := p.Ref(k)
		c.report.Nodes++
		n, err := p.Node(ref)
		if err != nil {
			c.bad[nodeIn{ref, i}] = &record.Damage{Kind: Corrupt, Detail: err.Error()}
			c.unread[ref] = i
			continue
		}
		r := resolver{c: c, ctx: ctx, pack: p, in: i}
		switch n.Type {
		case threads.TypeState:
			c.state(&r, i, k, n)
		case threads.TypeStart:
			if _, read := c.starts[ref]; !read { // equal starts may be in several packs
				c.starts[ref] = i
			}
			_, err = threads.ParseStart(n)
			r.nodes(n.Refs)
		case threads.TypeContent:
			_, err = threads.ParseContent(n)
			r.nodes(n.Refs)
		case threads.TypeArtifact:
			var told threads.Artifact
			told, err = threads.ParseArtifact(n)
			c.pointers[artifacts.ID(told.ID)] = told
		case threads.TypeTips:
			_, err = threads.ParseTips(n)
			r.nodes(n.Refs)
		case threads.TypeProducers:
			_, err = threads.ParseProducers(n)
		default:
			r.nodes(n.Refs)
		}
		if r.failed != nil {
			return r.failed
		}
		if err != nil {
			r.blame(Inconsistent, ref, err.Error())
		}
		if r.wrong != nil && n.Type != threads.TypeState {
			c.bad[nodeIn{ref, i}] = r.wrong
		}
	}
	return nil
}

// state takes a state: it must fit its parent, and all that it refers to must be good.
func (c *checker) state(r *resolver, i, node int, n casstore.Node) {
	c.report.States++
	ref := r.pack.Ref(node)
	st, err := threads.ParseState(n)
	if err != nil {
		c.bad[nodeIn{ref, i}] = &record.Damage{Kind: Inconsistent, Detail: err.Error()}
		return
	}
	s := &state{
		pack: i, node: node, before: r.packOf(st.Parent), start: st.Start, parent: st.Parent, index: st.Entry.Index,
		first: st.Entry.First, count: st.Entry.Count, end: st.Role == threads.RoleEnd,
		result: isResult(&st),
	}
	if c.cfg.Lost != "" {
		s.entry = idOf(&st)
	}
	if other := c.states[ref]; other == nil {
		c.states[ref] = s
	} else {
		c.equal[nodeIn{ref, other.pack}], c.equal[nodeIn{ref, i}] = other, s
		if other.wrong != nil {
			c.states[ref] = s
		}
	}
	r.nodes([]casstore.Ref{st.Content, st.Start})
	if !st.Compact.IsZero() {
		r.nodes([]casstore.Ref{st.Compact})
	}
	c.kept(r, ref, &st)
	if !st.Parent.IsZero() {
		c.link(r, ref, &st)
	}
	s.wrong = r.wrong
}

// seek notes that a node is looked for in vain in a pack.
func (c *checker) seek(ref casstore.Ref, id casstore.PackID) {
	c.absent[ref] = id
	c.sought[casstore.Located{Ref: ref, Pack: id}] = true
}

// kept checks that a collector, which knows refs alone, keeps what a state names: its content refers to it (SPEC C6, T9).
func (c *checker) kept(r *resolver, ref casstore.Ref, st *threads.State) {
	n, err := r.pack.Node(st.Content)
	if err != nil {
		return // it is elsewhere, or told already
	}
	for _, named := range []casstore.Ref{st.Compact, st.Entry.Full} {
		if !named.IsZero() && !slices.Contains(n.Refs, named) {
			r.blame(Inconsistent, ref, named.String()+" is not among its content's refs")
		}
	}
}

// link holds a state against its parent.
func (c *checker) link(r *resolver, ref casstore.Ref, st *threads.State) {
	parent := c.stateIn(st.Parent, r.packOf(st.Parent))
	if parent == nil {
		for _, ref := range append([]casstore.Ref{st.Parent}, st.Ancestors...) {
			if id, ok := r.pack.Locate(ref); ok && c.states[ref] == nil {
				c.seek(ref, id)
			}
		}
		r.blame(Missing, ref, fmt.Sprintf("its parent %s is not there or cannot be read", st.Parent))
		return
	}
	r.placed(st.Parent)
	if r.wrong == nil {
		r.wrong = parent.wrong
	}
	var want []casstore.Ref
	for at := parent; !at.parent.IsZero() && len(want) < threads.MaxAncestors; {
		want = append(want, at.parent)
		if at = c.parent(at); at == nil {
			break
		}
	}
	switch e := st.Entry; {
	case st.Start != parent.start:
		r.blame(Inconsistent, ref, "its start is not that of its parent")
	case !slices.Equal(st.Ancestors, want):
		r.blame(Inconsistent, ref, "its ancestors are not its parent's parent and ancestors")
	case e.Index != 0 && e.Index <= parent.index:
		r.blame(Inconsistent, ref, fmt.Sprintf("its index %d is not above its parent's, %d", e.Index, parent.index))
	case e.First == 0 || parent.first == 0:
	case e.First < parent.first+parent.count, e.Index == parent.index+1 && e.First != parent.first+parent.count:
		r.blame(Inconsistent, ref, fmt.Sprintf("its items begin at %d, want %d", e.First, parent.first+parent.count))
	}
}

// resolver checks what one node refers to, and keeps what is wrong first.
type resolver struct {
	c      *checker
	ctx    context.Context
	pack   *casstore.Pack
	in     int // index of the pack
	wrong  *record.Damage
	failed error // nobody could look
}

func (r *resolver) blame(kind string, ref casstore.Ref, detail string) {
	if r.wrong == nil {
		r.wrong = &record.Damage{Kind: kind, Detail: fmt.Sprintf("%s: %s", ref, detail)}
	}
}

// nodes checks that refs lead to something that is there and good.
func (r *resolver) nodes(refs []casstore.Ref) {
	for _, ref := range refs {
		switch ref.Kind() {
		case casstore.KindBlob:
			b := r.c.blobs[ref.Sum()]
			if b == nil || !b.good {
				r.c.wantBlobs[ref.Sum()] = true
			}
			if b == nil {
				r.blame(Missing, ref, "there is no record of it")
			} else if !b.good {
				r.blame(Corrupt, ref, "its bytes are not good")
			}
		case casstore.KindNode:
			r.node(ref)
		}
	}
}

func (r *resolver) node(ref casstore.Ref) {
	if bad := r.c.bad[nodeIn{ref, r.packOf(ref)}]; bad != nil {
		r.blame(bad.Kind, ref, bad.Detail)
		return
	}
	if s := r.c.stateIn(ref, r.packOf(ref)); s != nil && s.wrong != nil {
		r.blame(s.wrong.Kind, ref, s.wrong.Detail)
		return
	}
	r.placed(ref)
}

// packOf is the index of the pack that this one names for a node; -1: there is none.
func (r *resolver) packOf(ref casstore.Ref) int {
	if r.pack.Has(ref) {
		return r.in
	}
	id, _ := r.pack.Locate(ref)
	return r.c.packAt(id)
}

// packAt is the index of a pack, or of what it was moved to; -1: it is not there.
func (c *checker) packAt(id casstore.PackID) int {
	if i, ok := c.at[c.final(id)]; ok {
		return i
	}
	return -1
}

// placed checks that a node is in the pack that this one names for it: readers go there, and an equal one elsewhere is of no use.
func (r *resolver) placed(ref casstore.Ref) {
	if r.pack.Has(ref) {
		return
	}
	id, ok := r.pack.Locate(ref)
	if !ok {
		r.blame(Missing, ref, "no pack is named")
		return
	}
	there, err := r.c.there(r.ctx, casstore.Located{Ref: ref, Pack: id})
	if err != nil {
		r.failed = err
	} else if !there {
		r.c.seek(ref, id)
		r.blame(Missing, ref, "it is not in pack "+id.String())
	}
}

// there reports whether a node is in the pack that is named for it, or where that was moved to.
func (c *checker) there(ctx context.Context, l casstore.Located) (bool, error) {
	i, ok := c.at[c.final(l.Pack)]
	if !ok || c.packs[i].lost {
		return false, nil
	}
	if c.stateAt(l) != nil {
		return true, nil
	}
	if in, read := c.starts[l.Ref]; read && in == i {
		return true, nil
	}
	h, err := c.headers.open(ctx, c.s, c.packs[i])
	if err != nil || h == nil {
		return false, err
	}
	_, ok = h.Find(l.Ref)
	return ok, nil
}

// headerCache keeps the headers of packs that nodes of others refer to.
type headerCache struct {
	all map[casstore.PackID]*casstore.Header
}

// maxHeaders is how many headers are kept.
const maxHeaders = 256

// open reads a pack's header; nil if it cannot be read.
func (hc *headerCache) open(ctx context.Context, s Store, p pack) (*casstore.Header, error) {
	if h := hc.all[p.id]; h != nil {
		return h, nil
	}
	if hc.all == nil || len(hc.all) >= maxHeaders {
		hc.all = map[casstore.PackID]*casstore.Header{}
	}
	var raw []byte
	err := s.ReadChunks(ctx, p.rec.Object, 1, func(b []byte) error { raw = b; return nil })
	if errors.Is(err, record.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	h, err := casstore.OpenHeader(raw)
	if err != nil {
		return nil, nil
	}
	hc.all[p.id] = h
	return h, nil
}

// others are the states that other threads have; of all threads where h is nil.
func (c *checker) others(h *head) map[casstore.Ref]bool {
	seen := map[casstore.Ref]bool{}
	for i := range c.heads {
		if &c.heads[i] != h {
			c.addStates(&c.heads[i], seen)
		}
	}
	return seen
}

// addStates adds the states that a head and its tips stand on.
func (c *checker) addStates(h *head, seen map[casstore.Ref]bool) {
	for _, root := range h.Newest() {
		for at := root.Ref; c.states[at] != nil && !seen[at]; at = c.states[at].parent {
			seen[at] = true
		}
	}
}
