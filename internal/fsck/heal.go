package fsck

import (
	"cmp"
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
	h      *head
	above  int64            // the gap ends before the entry of this index
	newest casstore.Ref     // what is missing and a state that is there names as its parent; or the head does; zero: a part of a state
	below  casstore.Located // the newest state before it that is good; zero: there is none
}

// gapOf finds what is missing on the way from a thread's head, or a tip, back.
func (c *checker) gapOf(h *head) (g gap, ok bool) {
	for _, root := range h.Newest() {
		at := root.Ref
		s := c.stateAt(root)
		if s == nil || s.wrong == nil {
			continue
		}
		lowest := int64(0) // index of the last state that is there
		for g = (gap{h: h}); s != nil && s.wrong != nil; {
			parent := c.parent(s)
			lowest = s.index
			switch at = s.parent; {
			case g.above > 0:
			case parent == nil && !s.parent.IsZero():
				g.above, g.newest = s.index, s.parent
			case parent == nil || s.wrong != parent.wrong: // it is not that of a state before
				g.above = s.index + 1
			}
			s = parent
		}
		if s != nil {
			g.below = casstore.Located{Ref: at, Pack: c.packs[s.pack].id}
		} else if !at.IsZero() {
			g.below = c.below(h, lowest-1)
		}
		return g, true
	}
	return g, false
}

// below guesses where a gap begins whose newest state, of that index, is missing: at the newest good state before it with the
// thread's start that no other thread has on its way, else at the newest that one has. A wrong guess shows: what is made from it has
// other hashes.
func (c *checker) below(h *head, missing int64) (at casstore.Located) {
	others := c.others(h)
	best := func(of map[casstore.Ref]bool, want bool) (found casstore.Ref) {
		for ref, s := range c.states {
			if s.start != h.Start.Ref || s.wrong != nil || s.index >= missing || of[ref] != want {
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

// what says which entries a gap is in.
func (g *gap) what(c *checker) string {
	first := int64(1)
	if s := c.states[g.below.Ref]; s != nil {
		first = s.index + 1
	}
	return fmt.Sprintf("of the entries %d to %d", first, g.above-1)
}

// filling is a pack that takes the place of a lost one, or of several whose records are gone and with them their order.
type filling struct {
	id    casstore.PackID
	lost  map[casstore.PackID]bool
	nodes map[casstore.Ref]casstore.Node
	at    map[casstore.Ref]casstore.PackID // where the nodes are that these refer to
}

// fill fills gaps. What was done, and why nothing was, is a repair each.
func (f *fixer) fill(ctx context.Context, gaps []gap) (done []Repair, err error) {
	nodes, at := map[casstore.Ref]casstore.Node{}, map[casstore.Ref]casstore.PackID{}
	parts, whys := make([]map[casstore.Ref]casstore.Node, len(gaps)), make([]string, len(gaps))
	for i, g := range gaps {
		wanted, elsewhere, why, err := f.remakeLost(ctx, g)
		if err != nil {
			return nil, err
		}
		_, tips := wanted[g.h.record().Older.Ref]
		if (why != "" || len(wanted) == 0 || g.h.lostTips() && !tips) && !g.below.IsZero() {
			// Where the gap begins was a guess: threads that begin alike have one start. From the beginning it needs
			// none. What a head keeps in nodes depends on all that was before.
			g.below = casstore.Located{}
			if other, at, again, err := f.remakeLost(ctx, g); err != nil {
				return nil, err
			} else if again == "" && len(other) > 0 {
				gaps[i], why, wanted, elsewhere = g, "", other, at
			}
		}
		if whys[i] = why; why == "" && len(wanted) == 0 {
			whys[i] = "what its events make has other hashes, as this version reads them and as those before it did: " +
				"perhaps it was stored under other settings (size of artifacts, secrets), or by several versions"
		}
		parts[i] = wanted
		maps.Copy(nodes, wanted)
		maps.Copy(at, elsewhere)
	}
	owner := f.c.share(nodes)
	failed, err := f.putAll(ctx, f.c.fillings(nodes, at, owner))
	if err != nil {
		return nil, err
	}
	for i, g := range gaps {
		for ref := range parts[i] {
			whys[i] = cmp.Or(whys[i], failed[owner[ref]])
		}
		at := g.h.Head.Head().Ref.String()
		r := Repair{Record: g.h.key, From: at}
		if whys[i] == "" {
			r.To, r.Remade, r.Detail = at, len(parts[i]), "what was lost "+g.what(f.c)+" was made again from SPOOL_EVENTS, under the same hashes"
			if _, all := nodes[g.newest]; !all && !g.newest.IsZero() {
				r.Detail = fmt.Sprintf("of what was lost %s a part was made again from SPOOL_EVENTS, and not its newest state, %s: repair once more",
					g.what(f.c), g.newest)
			}
		} else {
			r.Detail = fmt.Sprintf("something is lost %s: %s. Restore the packs from a backup; with --cut the thread goes back before it",
				g.what(f.c), whys[i])
		}
		done = append(done, r)
	}
	return done, nil
}

// wanted takes what is missing from what was made: the nodes that something names which is there, and all that these lead to;
// and where else they lead.
func (c *checker) wanted(g gap, made remade) (nodes map[casstore.Ref]casstore.Node, at map[casstore.Ref]casstore.PackID) {
	nodes, at = map[casstore.Ref]casstore.Node{}, map[casstore.Ref]casstore.PackID{}
	var open []casstore.Ref
	for ref := range made.nodes {
		if _, missing := c.lostIn(ref); missing {
			open = append(open, ref)
		}
	}
	for len(open) > 0 {
		ref := open[len(open)-1]
		open = open[:len(open)-1]
		if _, done := nodes[ref]; done {
			continue
		}
		n, ok := made.nodes[ref]
		_, missing := c.lostIn(ref)
		_, isStart := c.starts[ref]
		switch s := c.states[ref]; {
		case s != nil && !missing: // it was read
			at[ref] = c.packs[s.pack].id
			continue
		case ref == g.h.Start.Ref && isStart && !missing:
			at[ref] = g.h.Start.Pack
			continue
		case !ok, isStart && !missing:
			at[ref] = made.at[ref]
			continue
		}
		nodes[ref] = n
		for _, to := range n.Refs {
			if to.Kind() == casstore.KindNode {
				open = append(open, to)
			}
		}
	}
	return nodes, at
}

// lostIn is the pack in which something that is there looks for a node in vain.
func (c *checker) lostIn(ref casstore.Ref) (id casstore.PackID, missing bool) {
	if id, ok := c.absent[ref]; ok {
		return c.final(id), true
	}
	if i, ok := c.unread[ref]; ok {
		return c.packs[i].id, true
	}
	return id, false
}

// share gives each node the order of the pack that it is to be in: that of the lost pack which something looks for it in. Where
// the records are gone, and with them the orders, each is the highest at which no pack refers to a newer one.
func (c *checker) share(nodes map[casstore.Ref]casstore.Node) (owner map[casstore.Ref]uint64) {
	order := map[casstore.PackID]uint64{}
	for ref := range nodes {
		if id, ok := c.lostIn(ref); ok {
			order[id] = c.lostOrder(id)
		}
	}
	for changed := true; changed; {
		changed = false
		owner = c.owners(nodes, order)
		for ref, own := range owner {
			for _, to := range nodes[ref].Refs {
				if id, named := c.lostIn(to); named && owner[to] > own {
					order[id], changed = min(order[id], own), true
				}
			}
		}
	}
	return owner
}

// owners is share under given orders. A node that nobody names goes to the oldest pack that leads to it.
func (c *checker) owners(nodes map[casstore.Ref]casstore.Node, order map[casstore.PackID]uint64) map[casstore.Ref]uint64 {
	roots := map[uint64][]casstore.Ref{}
	owner := map[casstore.Ref]uint64{}
	for ref := range nodes {
		if id, ok := c.lostIn(ref); ok {
			owner[ref] = order[id]
			roots[order[id]] = append(roots[order[id]], ref)
		}
	}
	for _, own := range slices.Sorted(maps.Keys(roots)) {
		for open := roots[own]; len(open) > 0; {
			n := nodes[open[len(open)-1]]
			open = open[:len(open)-1]
			for _, to := range n.Refs {
				_, made := nodes[to]
				if _, taken := owner[to]; made && !taken {
					owner[to] = own
					open = append(open, to)
				}
			}
		}
	}
	return owner
}

// fillings are the packs in which the nodes are to be, by order.
func (c *checker) fillings(
	nodes map[casstore.Ref]casstore.Node, at map[casstore.Ref]casstore.PackID, owner map[casstore.Ref]uint64,
) map[uint64]*filling {
	all := map[uint64]*filling{}
	for ref, own := range owner {
		if all[own] == nil {
			all[own] = &filling{id: casstore.PackID(ulid.Make()), lost: map[casstore.PackID]bool{},
				nodes: map[casstore.Ref]casstore.Node{}, at: map[casstore.Ref]casstore.PackID{}}
		}
		if id, ok := c.lostIn(ref); ok {
			all[own].lost[id] = true
		}
		all[own].nodes[ref] = nodes[ref]
	}
	for ref, own := range owner {
		for _, to := range nodes[ref].Refs {
			if other, made := owner[to]; made && other != own {
				all[own].at[to] = all[other].id
			} else if pack, ok := at[to]; ok && !made {
				all[own].at[to] = pack
			}
		}
	}
	c.copies(all, nodes, at, owner)
	return all
}

// copies puts nodes that are looked for in several lost packs into what takes the place of each: threads that begin
// alike have one start, in packs of their own.
func (c *checker) copies(all map[uint64]*filling, nodes map[casstore.Ref]casstore.Node,
	at map[casstore.Ref]casstore.PackID, owner map[casstore.Ref]uint64) {
	sought := slices.Collect(maps.Keys(c.sought))
	for i := range c.heads {
		sought = append(append(sought, c.heads[i].Roots()...), c.heads[i].Start)
	}
	in := map[casstore.PackID]uint64{}
	for order, p := range all {
		for id := range p.lost {
			in[id] = order
		}
	}
	var put func(order uint64, ref casstore.Ref)
	put = func(order uint64, ref casstore.Ref) {
		p := all[order]
		if _, has := p.nodes[ref]; has {
			return
		}
		p.nodes[ref] = nodes[ref]
		delete(p.at, ref)
		for _, to := range nodes[ref].Refs {
			own, made := owner[to]
			switch pack, known := at[to]; {
			case made && own > order: // a pack refers to older ones
				put(order, to)
			case made && own < order:
				p.at[to] = all[own].id
			case !made && known:
				p.at[to] = pack
			}
		}
	}
	for _, l := range sought {
		id := c.final(l.Pack)
		own, made := owner[l.Ref]
		if i, there := c.at[id]; !made || there && !c.packs[i].lost {
			continue
		}
		if order, ok := in[id]; ok {
			put(order, l.Ref)
		} else {
			all[own].lost[id], in[id] = true, own
		}
	}
}

// lostOrder is the order of what takes the place of a lost pack: its record's, or just before the oldest pack or head that refers to
// it, where the commit of that one has no other pack.
func (c *checker) lostOrder(id casstore.PackID) uint64 {
	if i, ok := c.at[id]; ok {
		return c.packs[i].order()
	}
	return c.users[id] - 1
}

// putAll stores fillings, oldest first. failed says why one was not.
func (f *fixer) putAll(ctx context.Context, all map[uint64]*filling) (failed map[uint64]string, err error) {
	failed = map[uint64]string{}
	stored := map[casstore.PackID]bool{}
	for _, p := range all {
		stored[p.id] = false
	}
	for _, order := range slices.Sorted(maps.Keys(all)) {
		p := all[order]
		why, err := f.rest(ctx, p)
		if err == nil && why == "" {
			why = f.c.place(p, order, stored)
		}
		if err == nil && why == "" {
			why, err = f.put(ctx, p, order)
		}
		if err != nil {
			return nil, err
		}
		if stored[p.id] = why == ""; why != "" {
			failed[order] = why
		}
	}
	return failed, nil
}

// put stores a filling in the place of what it stands for.
func (f *fixer) put(ctx context.Context, p *filling, order uint64) (why string, err error) {
	fence, err := f.w.Fence(ctx, 0)
	if err != nil {
		return "", err
	}
	b := casstore.NewPackBuilder()
	for _, n := range p.nodes {
		b.AddNode(&n)
	}
	for ref, id := range p.at {
		b.Locate(casstore.Located{Ref: ref, Pack: id})
	}
	header, body, err := b.Finish()
	if err != nil {
		return "", err
	}
	// A crash after this leaves bytes that no record names.
	rec, err := f.packs.UploadPack(ctx, p.id, header, body)
	if errors.Is(err, record.ErrRefused) {
		return err.Error(), nil
	}
	if err != nil {
		return "", err
	}
	rec.Order = order
	puts := []record.Put{{Key: events.PackKey(p.id.String()), Value: rec.Encode(), Expect: 0}}
	for lost := range p.lost {
		puts = append(puts, record.Put{Key: events.MovedKey(lost.String()), Value: record.Moved{To: p.id}.Encode(), Expect: record.Any})
		if i, ok := f.c.at[lost]; ok {
			gone := f.c.packs[i].rec
			gone.Gone, gone.Order = true, f.c.packs[i].order()
			puts = append(puts, record.Put{Key: f.c.packs[i].key(), Value: gone.Encode(), Expect: f.c.packs[i].seq})
		}
	}
	puts, err = f.touch(ctx, fence, puts, p)
	if err != nil {
		return "", err
	}
	// A crash after this leaves a lost pack less.
	_, err = f.w.Commit(ctx, fence, puts)
	return "", err
}

// touch writes the records again of the packs that a filling refers to, if a collector could take them for old (DESIGN 8).
func (f *fixer) touch(ctx context.Context, fence record.Fence, puts []record.Put, p *filling) ([]record.Put, error) {
	var keys []string
	for _, to := range f.c.bases(p) {
		keys = append(keys, to.key())
	}
	rs, err := f.c.s.Records(ctx, keys...)
	for _, r := range rs {
		rec, e := record.DecodePack(r.Value)
		if put, stale := fence.TouchPack(r, rec); e == nil && !rec.Gone && stale {
			puts = append(puts, put)
		}
	}
	return puts, err
}

// rest adds what can still be read of what a filling stands for.
func (f *fixer) rest(ctx context.Context, p *filling) (why string, err error) {
	for id := range p.lost {
		if i, ok := f.c.at[id]; ok && !f.c.packs[i].lost && err == nil && why == "" {
			why, err = f.restOf(ctx, p, i)
		}
	}
	return why, err
}

func (f *fixer) restOf(ctx context.Context, p *filling, i int) (why string, err error) {
	open, err := f.c.open(ctx, &f.c.packs[i])
	if err != nil {
		return "", err
	}
	for k := range open.Len() {
		ref := open.Ref(k)
		if _, again := p.nodes[ref]; again || f.c.packs[i].rec.IsBuried(k) {
			continue
		}
		n, err := open.Node(ref)
		if err != nil {
			return fmt.Sprintf("%s, in the same pack, is corrupt too and belongs to nothing that could be made again", ref), nil
		}
		p.nodes[ref] = n
	}
	for _, l := range open.Outside() {
		if _, known := p.at[l.Ref]; !known && l.Ref.Kind() == casstore.KindNode {
			p.at[l.Ref] = l.Pack
		}
	}
	return "", nil
}

// place says what is wrong with an order for a filling: it may not be before what the filling refers to (DESIGN 7).
func (c *checker) place(p *filling, order uint64, stored map[casstore.PackID]bool) (why string) {
	for _, to := range c.bases(p) {
		if to.order() > order {
			return "pack " + to.id.String() + ", which it refers to, is newer"
		}
	}
	for _, id := range p.at {
		if done, other := stored[id]; other && !done {
			return "another lost pack, which it refers to, could not be made again"
		}
	}
	return ""
}

// bases are the packs that were there and that a filling refers to.
func (c *checker) bases(p *filling) (list []pack) {
	seen := map[int]bool{}
	for _, id := range p.at {
		if i, ok := c.at[c.final(id)]; ok && !seen[i] {
			seen[i] = true
			list = append(list, c.packs[i])
		}
	}
	return list
}
