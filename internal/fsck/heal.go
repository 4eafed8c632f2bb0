package fsck

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/oklog/ulid/v2"

	"spool/internal/record"
	"spool/pkg/casstore"
	"spool/pkg/events"
)

// A gap is nodes that are gone in the middle of a thread: newer states are there, and name what is missing by its hash. So the
// events are applied again (remake.go), and what comes out under a hash that is missing is what was lost. It goes into a new
// pack, to which a moved record leads from each pack that was lost. The head stays, and so does everything else.

// gap is what a thread misses behind a state that can be read.
type gap struct {
	h     *head
	above int64            // the gap ends before the entry of this index
	below casstore.Located // the newest state before it that is good; zero: there is none
}

// gapOf finds what is missing on the way from a thread's head, or a tip, back.
func (c *checker) gapOf(h *head) (g gap, ok bool) {
	for _, root := range h.roots() {
		at := root.Ref
		s := c.states[at]
		if s == nil || s.wrong == nil {
			continue
		}
		for g = (gap{h: h}); s != nil && s.wrong != nil; s = c.states[at] {
			parent := c.states[s.parent]
			switch at = s.parent; {
			case g.above > 0:
			case parent == nil && !s.parent.IsZero():
				g.above = s.index
			case parent == nil || s.wrong != parent.wrong: // it is not that of a state before
				g.above = s.index + 1
			}
		}
		if s != nil {
			g.below = casstore.Located{Ref: at, Pack: c.packs[s.pack].id}
		} else if !at.IsZero() {
			g.below = c.below(h, g.above)
		}
		return g, true
	}
	return g, false
}

// below guesses where a gap begins: at the newest good state under an index with the thread's start that no other thread has
// on its way, else at the newest that one has. A wrong guess shows: what is made from it has other hashes.
func (c *checker) below(h *head, above int64) (at casstore.Located) {
	others := c.others(h)
	best := func(of map[casstore.Ref]bool, want bool) (found casstore.Ref) {
		for ref, s := range c.states {
			if s.start != h.Start.Ref || s.wrong != nil || s.index >= above || of[ref] != want {
				continue
			}
			if found.IsZero() || s.index > c.states[found].index {
				found = ref
			}
		}
		return found
	}
	ref := best(others, false)
	if ref.IsZero() {
		ref = best(others, true)
	}
	if !ref.IsZero() {
		at = casstore.Located{Ref: ref, Pack: c.packs[c.states[ref].pack].id}
	}
	return at
}

// others are the states that other threads have.
func (c *checker) others(h *head) map[casstore.Ref]bool {
	seen := map[casstore.Ref]bool{}
	for i := range c.heads {
		if &c.heads[i] == h {
			continue
		}
		for _, root := range c.heads[i].roots() {
			for at := root.Ref; c.states[at] != nil && !seen[at]; at = c.states[at].parent {
				seen[at] = true
			}
		}
	}
	return seen
}

// what says which entries a gap is in.
func (g *gap) what(c *checker) string {
	first := int64(1)
	if s := c.states[g.below.Ref]; s != nil {
		first = s.index + 1
	}
	return fmt.Sprintf("of the entries %d to %d", first, g.above-1)
}

// filling is a pack that takes the place of lost ones.
type filling struct {
	gaps  []gap
	nodes map[casstore.Ref]casstore.Node
	at    map[casstore.Ref]casstore.PackID // where the nodes are that these refer to
	lost  map[casstore.PackID]bool         // the packs that it stands for
}

// fill fills gaps. What was done, and why nothing was, is a repair each.
func (f *fixer) fill(ctx context.Context, gaps []gap) (done []Repair, err error) {
	var all []*filling
	for _, g := range gaps {
		made, why, err := f.remake(ctx, g)
		if err != nil {
			return nil, err
		}
		p := f.c.filling(g, made)
		if why == "" && len(p.nodes) == 0 {
			why = "what its events make now has other hashes"
		}
		if why != "" {
			done = append(done, g.unfilled(f.c, why))
			continue
		}
		all = append(slices.DeleteFunc(all, func(q *filling) bool { return p.absorb(q) }), p)
	}
	for _, p := range all {
		why, err := f.put(ctx, p)
		if err != nil {
			return nil, err
		}
		for _, g := range p.gaps {
			if why != "" {
				done = append(done, g.unfilled(f.c, why))
				continue
			}
			at := g.h.Head.Head().Ref.String()
			done = append(done, Repair{Record: g.h.key, From: at, To: at, Remade: len(p.nodes), Detail: "what was lost " + g.what(f.c) + " was made again from SPOOL_EVENTS, under the same hashes"})
		}
	}
	return done, nil
}

// unfilled says that a gap stays.
func (g *gap) unfilled(c *checker, why string) Repair {
	return Repair{Record: g.h.key, From: g.h.Head.Head().Ref.String(), Detail: fmt.Sprintf("something is lost %s: %s. Restore the packs from a backup; with --cut the thread goes back before it", g.what(c), why)}
}

// absorb takes another filling in that stands for one of the same packs.
func (p *filling) absorb(q *filling) bool {
	shared := false
	for id := range q.lost {
		shared = shared || p.lost[id]
	}
	if shared {
		p.gaps = append(p.gaps, q.gaps...)
		maps.Copy(p.nodes, q.nodes)
		maps.Copy(p.at, q.at)
		maps.Copy(p.lost, q.lost)
	}
	return shared
}

// filling takes what is missing from what was made: the nodes that something names which is there, and all they lead to.
func (c *checker) filling(g gap, made remade) *filling {
	p := &filling{gaps: []gap{g}, nodes: map[casstore.Ref]casstore.Node{}, at: map[casstore.Ref]casstore.PackID{}, lost: map[casstore.PackID]bool{}}
	var open []casstore.Ref
	for ref := range made.nodes {
		if c.missing(ref) {
			open = append(open, ref)
		}
	}
	for len(open) > 0 {
		ref := open[len(open)-1]
		open = open[:len(open)-1]
		n, ok := made.nodes[ref]
		if _, done := p.nodes[ref]; done {
			continue
		}
		if s := c.states[ref]; s != nil { // it was read
			p.at[ref] = c.packs[s.pack].id
			continue
		}
		if !ok || c.starts[ref] && !c.missing(ref) {
			if p.at[ref] = made.at[ref]; ref == g.h.Start.Ref {
				p.at[ref] = g.h.Start.Pack
			}
			continue
		}
		p.nodes[ref] = n
		if id, ok := c.absent[ref]; ok {
			p.lost[c.final(id)] = true
		}
		if i, ok := c.unread[ref]; ok {
			p.lost[c.packs[i].id] = true
		}
		for _, to := range n.Refs {
			if to.Kind() == casstore.KindNode {
				open = append(open, to)
			}
		}
	}
	return p
}

// missing reports whether something names a node that cannot be read.
func (c *checker) missing(ref casstore.Ref) bool {
	_, absent := c.absent[ref]
	_, unread := c.unread[ref]
	return absent || unread
}

// put stores a filling in the place of the packs that it stands for, with what can still be read of those.
func (f *fixer) put(ctx context.Context, p *filling) (why string, err error) {
	if why, err = f.rest(ctx, p); err != nil || why != "" {
		return why, err
	}
	order, why := f.c.place(p)
	if why != "" {
		return why, nil
	}
	fence, err := f.w.Fence(ctx, 0)
	if err != nil {
		return "", err
	}
	b := casstore.NewPackBuilder()
	for ref, n := range p.nodes {
		b.AddNode(&n)
		delete(p.at, ref)
	}
	for ref, id := range p.at {
		b.Locate(casstore.Located{Ref: ref, Pack: id})
	}
	header, body, err := b.Finish()
	if err != nil {
		return "", err
	}
	id := casstore.PackID(ulid.Make())
	// A crash after this leaves bytes that no record names.
	rec, err := f.packs.UploadPack(ctx, id, header, body)
	if errors.Is(err, record.ErrRefused) {
		return err.Error(), nil
	}
	if err != nil {
		return "", err
	}
	rec.Order = order
	puts := []record.Put{{Key: events.PackKey(id.String()), Value: rec.Encode(), Expect: 0}}
	for lost := range p.lost {
		puts = append(puts, record.Put{Key: events.MovedKey(lost.String()), Value: record.Moved{To: id}.Encode(), Expect: record.Any})
		if i, ok := f.c.at[lost]; ok {
			puts = append(puts, record.Put{Key: f.c.packs[i].key(), Value: record.Pack{Gone: true}.Encode(), Expect: f.c.packs[i].seq})
		}
	}
	for _, to := range f.c.bases(p) {
		touched := to.rec
		touched.Order = to.order()
		puts = append(puts, record.Put{Key: to.key(), Value: touched.Encode(), Expect: to.seq})
	}
	// A crash after this leaves whole threads.
	_, err = f.w.Commit(ctx, fence, puts)
	return "", err
}

// rest adds what can still be read of the packs that a filling stands for.
func (f *fixer) rest(ctx context.Context, p *filling) (why string, err error) {
	for id := range p.lost {
		i, ok := f.c.at[id]
		if !ok || f.c.packs[i].lost {
			continue
		}
		open, err := f.c.open(ctx, &f.c.packs[i])
		if err != nil {
			return "", err
		}
		for k := range open.Len() {
			if f.c.packs[i].rec.IsBuried(k) {
				continue
			}
			ref := open.Ref(k)
			n, err := open.Node(ref)
			if _, again := p.nodes[ref]; err != nil && !again {
				return fmt.Sprintf("%s, in the same pack, is corrupt too and belongs to nothing that could be made again", ref), nil
			} else if !again {
				p.nodes[ref] = n
			}
		}
		for _, l := range open.Outside() {
			if _, known := p.at[l.Ref]; !known && l.Ref.Kind() == casstore.KindNode {
				p.at[l.Ref] = l.Pack
			}
		}
	}
	return "", nil
}

// place is the order of a filling: not before what it refers to, not behind what refers to it (DESIGN 7).
func (c *checker) place(p *filling) (order uint64, why string) {
	least, most := uint64(0), ^uint64(0)
	for _, to := range c.bases(p) {
		least = max(least, to.order())
	}
	for id := range p.lost {
		if user, ok := c.users[id]; ok {
			most = min(most, user)
		}
		if i, ok := c.at[id]; ok {
			order = max(order, c.packs[i].order())
		}
	}
	if order = max(order, least+1); order > most {
		return 0, "packs that are there stand between those that are lost"
	}
	return order, ""
}

// bases are the packs that a filling refers to.
func (c *checker) bases(p *filling) (list []pack) {
	seen := map[int]bool{}
	for _, id := range p.at {
		if i, ok := c.at[c.final(id)]; ok && !seen[i] && !p.lost[c.packs[i].id] {
			seen[i] = true
			list = append(list, c.packs[i])
		}
	}
	return list
}
