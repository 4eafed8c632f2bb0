package gc

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"spool/internal/must"
	"spool/internal/record"
	"spool/pkg/casstore"
)

// gen draws a store: packs of nodes that refer to each other and to blobs, and heads; then it is collected again and again
// while heads come and go.
type gen struct {
	*fake
	refs  map[casstore.Ref][]casstore.Ref
	blobs []casstore.Ref
	heads map[string]casstore.Located
	packs int
}

func (g *gen) addPack(t *rapid.T) {
	b := casstore.NewPackBuilder()
	id := packID(g.packs)
	g.packs++
	n := rapid.IntRange(1, 6).Draw(t, "nodes")
	found := must.Get(g.walk())(t)
	if rapid.Bool().Draw(t, "any") { // a step may refer to what no thread reaches
		must.Do(t, g.known(func(l casstore.Located) error { found[l.Ref] = l; return nil }))
	}
	there := slices.SortedFunc(maps.Values(found), func(a, b casstore.Located) int { return bytes.Compare(a.Ref[:], b.Ref[:]) })
	var own []casstore.Located
	for i := range n {
		node := casstore.Node{Type: "content", Payload: casstore.AppendText(nil, fmt.Appendf(nil, "%d/%d", g.packs, i))}
		pick := append(slices.Clone(there), own...)
		for range rapid.IntRange(0, 3).Draw(t, "refs") {
			if len(pick) > 0 {
				l := rapid.SampledFrom(pick).Draw(t, "ref")
				node.Refs = append(node.Refs, l.Ref)
				b.Locate(l)
			}
		}
		if len(g.blobs) > 0 && rapid.Bool().Draw(t, "blob") {
			ref := rapid.SampledFrom(g.blobs).Draw(t, "which")
			if g.recs[blobKey(ref.Sum())].Exists() && g.blobLives(ref) {
				node.Refs = append(node.Refs, ref)
			}
		}
		ref := b.AddNode(&node)
		g.refs[ref] = node.Refs
		own = append(own, casstore.Located{Ref: ref, Pack: id})
	}
	g.pack(id, b)
	name := fmt.Sprintf("thread.s.t%d", rapid.IntRange(0, 4).Draw(t, "thread"))
	g.heads[name] = rapid.SampledFrom(own).Draw(t, "head")
	g.head(name, casstore.Located{}, g.heads[name])
}

func (g *gen) blobLives(ref casstore.Ref) bool {
	_, ok := g.reachable()[ref]
	return ok || len(g.refs) == 0
}

// reachable is every ref that a head reaches.
func (g *gen) reachable() map[casstore.Ref]bool {
	seen := map[casstore.Ref]bool{}
	var walk func(casstore.Ref)
	walk = func(r casstore.Ref) {
		if seen[r] {
			return
		}
		seen[r] = true
		for _, to := range g.refs[r] {
			walk(to)
		}
	}
	for _, l := range g.heads {
		walk(l.Ref)
	}
	return seen
}

// walk reads everything that heads reach, the way a reader goes, and says where it found each node.
func (g *gen) walk() (map[casstore.Ref]casstore.Located, error) {
	found := map[casstore.Ref]casstore.Located{}
	var visit func(casstore.Located) error
	visit = func(l casstore.Located) error {
		if _, ok := found[l.Ref]; ok {
			return nil
		}
		at, p, err := g.open(l.Pack)
		if err != nil {
			return fmt.Errorf("%s: %w", l, err)
		}
		n, err := p.Node(l.Ref)
		if err != nil {
			return fmt.Errorf("%s: %w", l, err)
		}
		found[l.Ref] = casstore.Located{Ref: l.Ref, Pack: at}
		for _, ref := range n.Refs {
			next := casstore.Located{Ref: ref, Pack: at}
			if ref.Kind() != casstore.KindNode {
				continue
			}
			if !p.Has(ref) {
				next.Pack, _ = p.Locate(ref)
			}
			if err := visit(next); err != nil {
				return err
			}
		}
		return nil
	}
	for _, l := range g.heads {
		if err := visit(l); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// A cycle keeps what heads reach and, when nothing was written since, nothing else that it could take (DESIGN 13.3, 13.8).
func TestCollectProperty(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		g := &gen{fake: newFake(t), refs: map[casstore.Ref][]casstore.Ref{}, heads: map[string]casstore.Located{}}
		for range rapid.IntRange(1, 4).Draw(rt, "blobs") {
			g.blobs = append(g.blobs, g.blob(fmt.Append(nil, "blob", len(g.blobs))))
		}
		for range rapid.IntRange(2, 5).Draw(rt, "rounds") {
			for range rapid.IntRange(1, 4).Draw(rt, "packs") {
				g.addPack(rt)
			}
			if len(g.heads) > 1 && rapid.Bool().Draw(rt, "remove") {
				name := rapid.SampledFrom(slices.Sorted(maps.Keys(g.heads))).Draw(rt, "which")
				g.put(name, nil)
				delete(g.heads, name)
			}
			cfg := Config{Allow: []Brake{BrakeShare}, Small: rapid.SampledFrom([]int64{1, 60, 1 << 20}).Draw(rt, "small"),
				Target: 1 << 20, Merge: rapid.IntRange(2, 4).Draw(rt, "merge")}
			c := g.collector(cfg)
			p, err := c.Plan(t.Context())
			if err == nil {
				_, err = c.Apply(t.Context(), p)
			}
			must.Do(rt, err)
			g.check(rt, t.Context(), c)
		}
	})
}

func (g *gen) check(t *rapid.T, ctx context.Context, c *Collector) {
	live := g.reachable()
	must.Get(g.walk())(t)
	for _, ref := range g.blobs {
		r := g.recs[blobKey(ref.Sum())]
		b, err := record.DecodeBlob(r.Value)
		there := err == nil && !b.Gone && len(g.objects[b.Object.NUID]) > 0
		if there != live[ref] {
			t.Fatalf("%s: reached %v, stored %v", ref, live[ref], there)
		}
	}
	p := must.Get(c.Plan(ctx))(t)
	must.Do(t, g.sound())
	if len(p.Bury)+len(p.Condemn)+len(p.Repack) > 0 {
		t.Fatalf("a plan right after: %+v, want nothing to condemn or repack", p.Sum(0))
	}
	if len(p.Reclaim) > 0 {
		t.Fatalf("a plan right after: %+v to reclaim, want nothing", p.Reclaim)
	}
}

// sound: what a node in a live pack leads to is there, unless the node is buried: so whoever knows a node may refer to it.
func (g *gen) sound() error {
	whole := map[casstore.Ref]error{}
	var visit func(casstore.Located) error
	visit = func(l casstore.Located) error {
		if err, ok := whole[l.Ref]; ok {
			return err
		}
		whole[l.Ref] = nil
		at, p, err := g.open(l.Pack)
		if err == nil && !p.Has(l.Ref) {
			err = casstore.ErrNotFound
		}
		for _, ref := range g.refs[l.Ref] {
			next := casstore.Located{Ref: ref, Pack: at}
			switch {
			case err != nil:
			case ref.Kind() == casstore.KindBlob:
				if b, e := record.DecodeBlob(g.recs[blobKey(ref.Sum())].Value); e != nil || b.Gone {
					err = fmt.Errorf("%s is gone", ref)
				}
			default:
				if !p.Has(ref) {
					next.Pack, _ = p.Locate(ref)
				}
				err = visit(next)
			}
		}
		if err != nil {
			err = fmt.Errorf("%s: %w", l, err)
		}
		whole[l.Ref] = err
		return err
	}
	return g.known(visit)
}

// known calls f with every node in a live pack that is not buried.
func (g *gen) known(f func(casstore.Located) error) error {
	for key, r := range g.recs {
		id, ok := packIDOf(key)
		if !ok || !r.Exists() {
			continue
		}
		rec, err := record.DecodePack(r.Value)
		if err != nil || rec.Gone {
			continue
		}
		_, p, err := g.open(id)
		if err != nil {
			return err
		}
		for i := range p.Len() {
			if rec.IsBuried(i) {
				continue
			}
			if err := f(casstore.Located{Ref: p.Ref(i), Pack: id}); err != nil {
				return fmt.Errorf("pack %s, node %d: %w", id, i, err)
			}
		}
	}
	return nil
}
