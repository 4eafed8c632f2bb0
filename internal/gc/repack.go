package gc

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"slices"

	"spool/internal/mapped"
	"spool/internal/record"
	"spool/internal/retry"
	"spool/pkg/casstore"
	"spool/pkg/events"
)

const (
	groupPacks = 100 // whose records and moved records fit one atomic batch
	headerRoom = 4096
)

// groups says which packs to repack: those that are less than half live, and small neighbours together. Between two
// neighbours there is no pack in order, so that whatever refers to one is behind both, and what one refers to before. What is in
// quarantine stays in its place: its packs are not repacked, and one that is condemned stands between its neighbours.
func (c *Collector) groups(w *world, m *marker) (out []Group) {
	g := grouping{cfg: c.cfg, header: int64(c.MaxPayload()-headerRoom) / 2}
	for i := len(m.packs) - 1; i >= 0; i-- {
		v, p := m.packs[i], w.packs[m.packs[i].id]
		half := 2*m.raw[i] < p.Raw || c.cfg.Dense && m.count[i] < p.Nodes
		switch s := (Source{v.id.String(), p.seq, p.order(), m.live[i], m.count[i], p.Nodes, p.Object.Size}); {
		case v.young || v.gone || m.held[i] != nil:
			g.end()
		case m.count[i] == 0: // condemned
		case m.raw[i] < c.cfg.Small:
			g.add(s, m.raw[i], p.Header, half)
		default:
			g.end()
			if half {
				g.alone(s)
			}
		}
	}
	g.end()
	for i := range g.out {
		g.out[i].follow(w)
	}
	return g.out
}

// grouping collects neighbours.
type grouping struct {
	cfg    Config
	header int64 // bytes of headers in a group at most: that of the new pack must fit a message

	out    []Group
	open   []Source
	half   []bool
	raw    int64
	tables int64
}

func (g *grouping) add(s Source, raw, header int64, half bool) {
	if g.raw+raw > g.cfg.Target || g.tables+header > g.header || len(g.open) == groupPacks {
		g.end()
	}
	g.open, g.half = append(g.open, s), append(g.half, half)
	g.raw, g.tables = g.raw+raw, g.tables+header
}

func (g *grouping) end() {
	if n := len(g.open); n >= g.cfg.Merge {
		g.out = append(g.out, Group{Packs: g.open, Order: g.open[n-1].Order, Why: "small neighbours"})
	} else {
		for i, s := range g.open {
			if g.half[i] {
				g.alone(s)
			}
		}
	}
	g.open, g.half, g.raw, g.tables = nil, nil, 0, 0
}

func (g *grouping) alone(s Source) {
	why := "less than half of it is live"
	if g.cfg.Dense {
		why = "it holds garbage"
	}
	g.out = append(g.out, Group{Packs: []Source{s}, Order: s.Order, Why: why})
}

// follow notes the moved records that lead to the group's packs, over whatever others: they are to lead to the new one.
func (g *Group) follow(w *world) {
	if w.followers == nil {
		w.followers = map[casstore.PackID][]Old{}
		for from, t := range w.moved {
			end := w.end(from)
			w.followers[end] = append(w.followers[end], Old{Key: events.MovedKey(from.String()), Seq: t.seq})
		}
	}
	for _, s := range g.Packs {
		id, _ := casstore.ParsePackID(s.ID)
		g.Follow = append(g.Follow, w.followers[id]...)
	}
	slices.SortFunc(g.Follow, func(a, b Old) int { return cmp.Compare(a.Seq, b.Seq) })
}

// repack makes one pack of each group's live nodes.
func (r *run) repack(ctx context.Context) error {
	for _, g := range r.plan.Repack {
		if r.hindered(g) {
			r.done.Skipped++
			continue
		}
		moved, err := r.repackGroup(ctx, g)
		if err != nil {
			return fmt.Errorf("repack: %w", err)
		}
		if !moved {
			r.done.Skipped++
			continue
		}
		r.done.Made++
		r.done.Repacked += len(g.Packs)
	}
	return nil
}

// hindered: what was spared may refer to nodes of the group that were to be dropped, or stand between its packs in order.
func (r *run) hindered(g Group) bool {
	return slices.ContainsFunc(g.Packs, func(s Source) bool { return r.spared[events.PackKey(s.ID)] }) ||
		slices.ContainsFunc(r.plan.Condemn, func(v Condemned) bool {
			return r.spared[v.Key] && v.Order > g.Packs[0].Order && v.Order < g.Order
		})
}

// repackGroup reports false when one of the packs is gone, or when what it is to lose is not buried: then somebody may be referring
// to it. That it was touched since the plan was made is nothing: what is live of it goes along.
func (r *run) repackGroup(ctx context.Context, g Group) (bool, error) {
	keys := mapped.List(g.Packs, func(s Source) string { return events.PackKey(s.ID) })
	now, err := r.now(ctx, keys)
	if err != nil {
		return false, err
	}
	b := casstore.NewPackBuilder()
	for i, s := range g.Packs {
		ok, err := s.covered(now[i])
		if err != nil || !ok {
			return false, err
		}
		if err := r.copyLive(ctx, b, s, now[i]); err != nil {
			if e := r.alone(ctx, r.fence); e != nil { // a newer cycle may have repacked it, and reclaimed the bytes since
				return false, e
			}
			return false, fmt.Errorf("%s: %w", keys[i], err)
		}
	}
	b.Cluster()
	header, body, err := b.Finish()
	if err != nil {
		return false, err
	}
	var id casstore.PackID
	if _, err := rand.Read(id[:]); err != nil {
		return false, err
	}
	// A crash from here to the commit leaves a pack that no record names.
	if err := r.At(StepUpload); err != nil {
		return false, err
	}
	var made record.Pack
	if err := retry.Do(ctx, nil, func() (err error) { made, err = r.Packs.UploadPack(ctx, id, header, body); return err }); err != nil {
		return false, err
	}
	made.Order = g.Order
	return r.move(ctx, g, now, id, made)
}

// covered reports whether a pack is there and nothing can refer to any node that a repack leaves out.
func (s Source) covered(now record.Record) (bool, error) {
	if !now.Exists() {
		return false, nil
	}
	p, err := record.DecodePack(now.Value)
	if err != nil || p.Gone {
		return false, err
	}
	for i := range p.Nodes {
		if !(i/64 < len(s.Keep) && s.Keep.Has(i)) && !p.IsBuried(i) {
			return false, nil
		}
	}
	return true, nil
}

// move puts the new pack in the place of the old ones: all of it or nothing.
func (r *run) move(ctx context.Context, g Group, now []record.Record, id casstore.PackID, made record.Pack) (bool, error) {
	to := record.Moved{To: id}.Encode()
	puts := []record.Put{{Key: packKey(id), Value: made.Encode()}}
	for i, s := range g.Packs {
		stone, _, _, err := tombstone(now[i], true)
		if err != nil {
			return false, err
		}
		puts = append(puts, record.Put{Key: events.MovedKey(s.ID), Value: to, Expect: record.Any},
			record.Put{Key: now[i].Key, Value: stone, Expect: now[i].Seq})
	}
	for {
		if err := r.At(StepRepack); err != nil {
			return false, err
		}
		_, again, err := r.commit(ctx, puts)
		if err == nil && !again {
			return true, r.lead(ctx, g, to)
		}
		if err != nil {
			return false, err
		}
		rs, err := r.now(ctx, []string{packKey(id), now[0].Key})
		switch {
		case err != nil:
			return false, err
		case rs[0].Exists(): // the answer was lost
			return true, r.lead(ctx, g, to)
		}
		same, err := r.unchanged(ctx, now)
		if err != nil || !same {
			return false, err
		}
	}
}

// lead makes the moved records that led to the group's packs lead to the new one. A crash before leaves a way that is one step longer;
// the next repack of the new pack makes all ways short again.
func (r *run) lead(ctx context.Context, g Group, to []byte) error {
	for some := range slices.Chunk(g.Follow, condemnBatch) {
		for again := true; again; {
			if err := r.At(StepFollow); err != nil {
				return err
			}
			var err error
			if again, err = r.leadSome(ctx, some, to); err != nil {
				return fmt.Errorf("lead moved records on: %w", err)
			}
		}
	}
	return nil
}

func (r *run) leadSome(ctx context.Context, some []Old, to []byte) (again bool, err error) {
	keys := mapped.List(some, func(f Old) string { return f.Key })
	now, err := r.now(ctx, keys)
	if err != nil {
		return false, err
	}
	var puts []record.Put
	for i, f := range some {
		if now[i].Seq == f.Seq { // else it is as it should be already, or another cycle has begun
			puts = append(puts, record.Put{Key: f.Key, Value: to, Expect: f.Seq})
		}
	}
	if len(puts) == 0 {
		return false, nil
	}
	_, again, err = r.commit(ctx, puts)
	return again, err
}

// unchanged tells whether the records that a repack expects are still there.
func (r *run) unchanged(ctx context.Context, was []record.Record) (bool, error) {
	keys := mapped.List(was, func(s record.Record) string { return s.Key })
	rs, err := r.now(ctx, keys)
	for i := range rs {
		if rs[i].Seq != was[i].Seq {
			return false, err
		}
	}
	return true, err
}

// copyLive adds the live nodes of a pack to a new one, with where they find what they refer to.
func (r *run) copyLive(ctx context.Context, b *casstore.PackBuilder, s Source, rec record.Record) error {
	old, err := record.DecodePack(rec.Value)
	if err != nil {
		return err
	}
	raw, err := r.Bulk.Read(ctx, old.Object)
	if err != nil {
		return err
	}
	if old.Header > int64(len(raw)) {
		return fmt.Errorf("%w: header of %d bytes in %d", casstore.ErrCorrupt, old.Header, len(raw))
	}
	p, err := casstore.OpenPack(raw[:old.Header], raw[old.Header:])
	if err != nil {
		return err
	}
	if len(s.Keep) != len(casstore.NewBits(p.Len())) {
		return fmt.Errorf("%w: the plan is of a pack of another size", ErrStale)
	}
	used := map[casstore.Located]bool{}
	for i := range p.Len() {
		if !s.Keep.Has(i) {
			continue
		}
		encoded, err := p.EncodedAt(i)
		if err != nil {
			return err
		}
		var refs []casstore.Ref
		for t := range p.Refs(i) {
			at, own := t.Own()
			out, outside := t.Outside()
			switch {
			case own:
				refs = append(refs, p.Ref(at))
			case outside:
				l := p.OutsideAt(out)
				refs = append(refs, l.Ref)
				used[l] = true
			default:
				refs = append(refs, casstore.Ref{})
			}
		}
		b.Add(encoded, refs)
	}
	return r.locate(ctx, b, used)
}

// locate tells the builder where outside nodes are now, so that moved records need not be kept for ever.
func (r *run) locate(ctx context.Context, b *casstore.PackBuilder, used map[casstore.Located]bool) error {
	at := map[casstore.PackID]casstore.PackID{}
	for l := range used {
		if l.Pack.IsZero() {
			continue
		}
		to, ok := at[l.Pack]
		if !ok {
			p, err := r.live(ctx, l.Pack)
			if err != nil && !record.IsGone(err) {
				return err
			}
			to = p.ID
			at[l.Pack] = to
		}
		b.Locate(casstore.Located{Ref: l.Ref, Pack: to})
	}
	return nil
}
