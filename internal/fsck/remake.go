package fsck

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"

	"spool/internal/apply"
	"spool/internal/record"
	"spool/pkg/casstore"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// remade is what events make that were applied before.
type remade struct {
	nodes map[casstore.Ref]casstore.Node
	at    map[casstore.Ref]casstore.PackID // where nodes are that these refer to
}

// maxRemade bounds the bodies of the events that fill one gap, in bytes.
const maxRemade = 256 << 20

// mappings are the versions of a dialect's mapping by which the events of a gap are read, one after the other, until they make what is
// missing: this one, then those before it. Their nodes are gone, and with them what says so.
var mappings = []int{0, 2, 1}

// remakeLost finds the nodes that a gap lacks among what its events make, and where else these lead.
func (f *fixer) remakeLost(ctx context.Context, g gap) (
	lost map[casstore.Ref]casstore.Node, at map[casstore.Ref]casstore.PackID, why string, err error,
) {
	for _, mapping := range mappings {
		for _, results := range []bool{true, false} { // a persister without a store for artifacts makes none
			made, why, err := f.remake(ctx, g, mapping, results)
			if err != nil || why != "" {
				return nil, nil, why, err
			}
			nodes, packs := f.c.wanted(g, made)
			if len(nodes) > len(lost) {
				lost, at = nodes, packs
			}
			if _, all := nodes[g.newest]; all || g.newest.IsZero() && len(nodes) > 0 {
				return nodes, packs, "", nil
			}
		}
	}
	return lost, at, "", nil
}

// remake applies the events of a gap again, from the head as it was before it. What they make is kept here alone.
func (f *fixer) remake(ctx context.Context, g gap, mapping int, results bool) (made remade, why string, err error) {
	before, evs, why, err := f.gapEvents(ctx, g)
	if err != nil || why != "" {
		return made, why, err
	}
	r := &remaker{
		f: f, mapping: mapping, rules: apply.Rules{Results: results, Artifacts: f.c.cfg.Artifacts},
		records: map[string]record.Record{}, packs: map[casstore.PackID]*casstore.Pack{},
		thread: apply.Thread{Key: g.h.id, Head: before, AskedLeft: true}, session: apply.Session{ID: g.h.id.Session},
	}
	if err := r.begin(); err != nil {
		return made, "", err
	}
	for i, e := range evs {
		e.Event.Prev = 0 // those before the gap are not applied again
		if err := r.apply(ctx, e, uint64(i+1)); err != nil {
			return made, "", err
		}
	}
	made, err = r.made()
	return made, "", err
}

// gapEvents finds the events that made what a gap has lost, and the head that they were applied to.
func (f *fixer) gapEvents(ctx context.Context, g gap) (before threads.Head, evs []replayed, why string, err error) {
	stored, err := f.events(ctx, g.h.id)
	if err != nil {
		return before, nil, "", err
	}
	index := int64(0)
	if !g.below.IsZero() {
		step, err := f.r.Step(ctx, g.below)
		if err != nil {
			return before, nil, "", err
		}
		if before, err = f.back(ctx, g.h, step); err != nil {
			return before, nil, "", err
		}
		index = step.Entry.Index
		before.Older, before.OlderTips = casstore.Located{}, 0
		before.Tips = slices.DeleteFunc(before.Tips, func(l casstore.Located) bool { return f.c.states[l.Ref].index > index })
		before.Entries, before.N, before.Producers, before.Applied = index, 0, nil, 0
		if last, ok := step.Entry.LastItem(); ok {
			before.N = last
		}
		first := slices.IndexFunc(stored, func(e replayed) bool { return makesState(e.Event) && f.made(ctx, e.Event, step) })
		if first < 0 {
			return before, nil, fmt.Sprintf("SPOOL_EVENTS has not got entry %d any more, to begin behind it", index), nil
		}
		stored = stored[first+1:]
	}
	stored = applied(stored)
	const refused = 64 // events that made no state because they were dead letters of which nothing tells any more
	states, bytes := g.above-1-index, 0
	for i, e := range stored {
		if bytes += len(e.Body); bytes > maxRemade {
			return before, nil, fmt.Sprintf("its events have more than %d MiB", maxRemade>>20), nil
		}
		if makesState(e.Event) {
			states--
		}
		if states <= -refused {
			stored = stored[:i]
			break
		}
	}
	if states > 0 || len(stored) == 0 {
		return before, nil, fmt.Sprintf("SPOOL_EVENTS has not got %d of its entries", max(states, 1)), nil
	}
	return before, stored, "", nil
}

// remaker is a world in which events are applied again: what is stored, under what they make. It implements
// apply.World.
type remaker struct {
	f       *fixer
	mapping int
	rules   apply.Rules
	thread  apply.Thread
	session apply.Session
	records map[string]record.Record // as the events leave them
	packs   map[casstore.PackID]*casstore.Pack

	pack  casstore.PackID // that the next nodes are in
	nodes *casstore.PackBuilder
}

// remadeSeq is above every revision of a stored record.
const remadeSeq = 1 << 62

func (r *remaker) begin() error {
	r.nodes = casstore.NewPackBuilder()
	_, err := rand.Read(r.pack[:])
	return err
}

// errAway: nobody has the body of the event any more.
var errAway = errors.New("its body was not in the event")

// apply applies an event again.
func (r *remaker) apply(ctx context.Context, ev replayed, at uint64) error {
	e := apply.Staged{Event: ev.Event, At: at, Stored: ev.Stored, Mapping: r.mapping}
	if e.Ref != nil {
		e.Bad = errAway
	} else {
		apply.Clean(&e, r.f.c.cfg.Secrets)
		e.Bad = apply.Stage(&e)
	}
	st := apply.State{
		Thread: &r.thread, Session: &r.session, Batch: apply.Batch{Pack: r.pack}, Rules: r.rules,
		Output: &apply.Output{Removed: true}, // its record is not there any more
	}
	if e.Kind == events.KindEntry {
		st.Counter = &record.Counter{} // which nothing that is made again depends on
	}
	change, _, err := apply.Event(ctx, r, st, e)
	if errors.Is(err, apply.ErrUnsettled) {
		if err := r.store(); err != nil {
			return err
		}
		st.Batch.Pack = r.pack
		change, _, err = apply.Event(ctx, r, st, e)
	}
	if err != nil {
		return err
	}
	r.take(change)
	return nil
}

// take makes a change so in this world.
func (r *remaker) take(ch *apply.Change) {
	ch.Session(&r.session, apply.Marked{})
	if ch.Noted {
		for _, at := range slices.Concat([]casstore.Located{ch.On.Start}, ch.On.Recent, ch.Locate) {
			if !at.IsZero() && at.Pack != r.pack {
				r.nodes.Locate(at)
			}
		}
		r.nodes.AddDraft(&ch.Nodes)
	}
	for key, put := range ch.Puts {
		r.records[key] = record.Record{Key: key, Value: put.Value, Seq: remadeSeq}
	}
	if ch.Run != nil {
		r.records[ch.Run.Put.Key] = record.Record{Key: ch.Run.Put.Key, Value: ch.Run.Put.Value, Seq: remadeSeq}
	}
	ch.Thread(&r.thread)
	if ch.Leaves != nil { // what comes for the name is another thread's
		r.thread = apply.Thread{Key: r.thread.Key, Left: r.thread.LeaveTo(ch.Leaves.To), AskedLeft: true, Reused: true}
	}
}

// store makes a pack of what was made, so that it can be read, and begins the next one.
func (r *remaker) store() error {
	if r.nodes.Len() == 0 {
		return nil
	}
	header, body, err := r.nodes.Finish()
	if err != nil {
		return err
	}
	p, err := casstore.OpenPack(header, body)
	if err != nil {
		return err
	}
	r.packs[r.pack] = p
	rec := record.Pack{Header: int64(len(header)), Nodes: p.Len(), Raw: p.RawLen()}
	key := events.PackKey(r.pack.String())
	r.records[key] = record.Record{Key: key, Value: rec.Encode(), Seq: remadeSeq}
	return r.begin()
}

// Settle implements apply.World.
func (r *remaker) Settle(context.Context, ...events.Thread) error {
	if r.nodes.Len() > 0 {
		return apply.ErrUnsettled
	}
	return nil
}

// Told implements apply.World: nothing is told.
func (r *remaker) Told(context.Context) error { return nil }

// SettleBefore implements apply.World: events are applied in the order in which they were stored.
func (r *remaker) SettleBefore(ctx context.Context, _ string) error { return r.Settle(ctx) }

// Records implements apply.World.
func (r *remaker) Records(ctx context.Context, keys ...string) ([]record.Record, error) {
	rs, err := r.f.c.s.Records(ctx, keys...)
	if err != nil {
		return nil, err
	}
	for i, key := range keys {
		if own, ok := r.records[key]; ok {
			rs[i] = own
		}
	}
	return rs, nil
}

// FindPack implements apply.World.
func (r *remaker) FindPack(ctx context.Context, id casstore.PackID) (record.FoundPack, error) {
	return record.FindPack(ctx, r.Records, id)
}

// Holds implements apply.World: what records name counts as there.
func (r *remaker) Holds(context.Context, record.Object) (bool, error) { return true, nil }

// Reader implements apply.World.
func (r *remaker) Reader() threads.Reader { return threads.Reader{Packs: r} }

// Pack is a pack that was made here, else one that is stored.
func (r *remaker) Pack(ctx context.Context, id casstore.PackID) (*casstore.Pack, error) {
	if p := r.packs[id]; p != nil {
		return p, nil
	}
	return r.f.r.Packs.Pack(ctx, id)
}

// Near implements apply.World.
func (r *remaker) Near(string) (packs []casstore.PackID) {
	for _, at := range append(r.thread.Head.Located(), r.thread.Head.Tips...) {
		packs = append(packs, at.Pack)
	}
	return packs
}

// Locate implements apply.World.
func (r *remaker) Locate(context.Context, casstore.Ref) (casstore.Located, error) {
	return casstore.Located{}, casstore.ErrNotFound
}

// errUnasked: the rules under which events are applied again do not ask that.
var errUnasked = errors.New("nobody asks that of what is made again")

// SessionKeys implements apply.World.
func (r *remaker) SessionKeys(context.Context, string) ([]string, error) { return nil, errUnasked }

// SessionLive implements apply.World.
func (r *remaker) SessionLive(context.Context, string) (record.Live, error) {
	return record.Live{}, errUnasked
}

func (r *remaker) made() (out remade, err error) {
	if err := r.store(); err != nil {
		return out, err
	}
	out = remade{nodes: map[casstore.Ref]casstore.Node{}, at: map[casstore.Ref]casstore.PackID{}}
	for _, p := range r.packs {
		for i := range p.Len() {
			n, err := p.Node(p.Ref(i))
			if err != nil {
				return out, err
			}
			out.nodes[p.Ref(i)] = n
		}
		for _, l := range p.Outside() {
			if r.packs[l.Pack] == nil && l.Ref.Kind() == casstore.KindNode {
				out.at[l.Ref] = l.Pack
			}
		}
	}
	return out, nil
}
