package threads

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"

	"spool/internal/runes"
	"spool/pkg/casstore"
)

// A head has a bound (SPEC P11): what of it grows with what agents do goes into nodes, which the head refers to, once
// there is more than a few of it. What is used next stays in the head.
//
//	tips       tips that were left long ago, and the node of those that were left before: a chain, newest first
//	producers  all producers but those that were seen last; the head says of a producer what it says anew
//
// Both are nodes as states are: in the pack of the commit that writes the head, roots of a collector, shared by forks.

// The types of the nodes that hold the rest of a head.
const (
	TypeTips      = "tips"
	TypeProducers = "producers"
)

// MaxHead is how many bytes an encoded head has at most, but for fields of a later writer, once an event was applied
// to it.
const MaxHead = 64 << 10

// HeadRoom is how much a head itself may name, before some of it goes into nodes. The zero value is good, another one
// for tests.
type HeadRoom struct {
	Tips      int // half of them stay, one at least; 0 = 32, at most that
	Producers int // a quarter of them stays; 0 = 64, at most that
}

func (r HeadRoom) withDefaults() HeadRoom {
	if r.Tips <= 0 || r.Tips > 32 {
		r.Tips = 32
	}
	if r.Producers <= 0 || r.Producers > 64 {
		r.Producers = 64
	}
	return r
}

const (
	tipsOfNode, nodesAtOnce = 64, 16 // tips of a node, and nodes that one event makes, at most
	maxLeaf, maxFailure     = 1 << 10, 4 << 10
)

// Tips are tips that a head does not name itself: what the node of a head holds.
type Tips struct {
	Before  casstore.Ref   // the node of those that were left before; nil: there are none
	States  []casstore.Ref // those that were left first come first
	Entries int64          // no state of these, or of those before, has a higher index
	Items   int64          // nor an item of a higher number
}

// Node encodes the tips.
func (t Tips) Node() casstore.Node {
	p := casstore.AppendMapHeader(make([]byte, 0, 32), 2)
	p = casstore.AppendInt(casstore.AppendString(p, "entries"), t.Entries)
	p = casstore.AppendInt(casstore.AppendString(p, "items"), t.Items)
	return casstore.Node{Type: TypeTips, Payload: p, Refs: append([]casstore.Ref{t.Before}, t.States...)}
}

// ParseTips is the opposite of Node. Keys of a later writer are ignored. Errors wrap ErrShape or casstore.ErrMalformed.
func ParseTips(n casstore.Node) (t Tips, err error) {
	if err := checkType(n, TypeTips); err != nil {
		return t, err
	}
	for i, ref := range n.Refs {
		if ref.Kind() != casstore.KindNode && (i > 0 || !ref.IsZero()) {
			return t, fmt.Errorf("tips: %w: refs[%d] is no node", ErrShape, i)
		}
	}
	if len(n.Refs) < 2 {
		return t, fmt.Errorf("tips: %w: there are none", ErrShape)
	}
	t.Before, t.States = n.Refs[0], n.Refs[1:]
	c := casstore.NewCursor(n.Payload)
	for range c.Map() {
		switch c.String() {
		case "entries":
			t.Entries = c.Int()
		case "items":
			t.Items = c.Int()
		default:
			c.Value()
		}
	}
	if err := c.Done(); err != nil {
		return t, fmt.Errorf("tips: %w", err)
	}
	return t, nil
}

// producersNode encodes producers, which are sorted by their ids.
func producersNode(list []Producer) casstore.Node {
	p := appendProducers(make([]byte, 0, 8+48*len(list)), list)
	return casstore.Node{Type: TypeProducers, Payload: p}
}

// ParseProducers reads the node of producers. Errors wrap ErrShape or casstore.ErrMalformed.
func ParseProducers(n casstore.Node) ([]Producer, error) {
	if err := checkType(n, TypeProducers); err != nil {
		return nil, err
	}
	c := casstore.NewCursor(n.Payload)
	list := parseProducers(c)
	if err := c.Done(); err != nil {
		return nil, fmt.Errorf("producers: %w", err)
	}
	for i := range list {
		if list[i].Stored = true; i > 0 && list[i].ID <= list[i-1].ID {
			return nil, fmt.Errorf("producers: %w: they are not in the order of their ids", ErrShape)
		}
	}
	return list, nil
}

// Shrink keeps a head within MaxHead: it moves what is too much into nodes of the pack that is being made, and gives
// what they refer to. A head of many tips shrinks with several calls. The producers must be all of them, as Recall
// gives them. Equal calls make equal nodes.
func (h *Head) Shrink(room HeadRoom, nodes *casstore.Draft, pack casstore.PackID) (refers []casstore.Located) {
	room = room.withDefaults()
	for range nodesAtOnce {
		if len(h.Tips) <= room.Tips {
			break
		}
		some := h.Tips[:min(len(h.Tips)-max(room.Tips/2, 1), tipsOfNode)]
		t := Tips{Before: h.Older.Ref, Entries: h.Entries, Items: h.N}
		if refers = append(refers, some...); !h.Older.IsZero() {
			refers = append(refers, h.Older)
		}
		for _, l := range some {
			t.States = append(t.States, l.Ref)
		}
		n := t.Node()
		h.Older = casstore.Located{Ref: nodes.AddNode(&n), Pack: pack}
		h.OlderTips += int64(len(some))
		h.Tips = slices.Clone(h.Tips[len(some):])
	}
	h.storeProducers(room.Producers, nodes, pack)
	if len(h.Leaf) > maxLeaf {
		h.Leaf = "" // it is looked up
	}
	h.Failure = runes.Head(h.Failure, maxFailure)
	return refers
}

// storeProducers makes a node of all producers but those that were seen last, when the head tells of too many.
func (h *Head) storeProducers(most int, nodes *casstore.Draft, pack casstore.PackID) {
	var own []int
	for i := range h.Producers {
		if h.Seen.IsZero() || !h.Producers[i].Stored {
			own = append(own, i)
		}
	}
	if len(own) <= most {
		return
	}
	kept := most / 4
	slices.SortFunc(own, func(a, b int) int {
		p, q := &h.Producers[a], &h.Producers[b]
		return cmp.Or(cmp.Compare(p.At, q.At), cmp.Compare(p.ID, q.ID))
	})
	for _, i := range own[len(own)-kept:] {
		h.Producers[i].Stored = false
	}
	for _, i := range own[:len(own)-kept] {
		h.Producers[i].Stored = true
	}
	list := slices.DeleteFunc(slices.Clone(h.Producers), func(p Producer) bool { return !p.Stored })
	slices.SortFunc(list, func(p, q Producer) int { return cmp.Compare(p.ID, q.ID) })
	n := producersNode(list)
	h.Seen = casstore.Located{Ref: nodes.AddNode(&n), Pack: pack}
}

// own lists the producers that the head itself tells of.
func (h *Head) own() []Producer {
	if h.Seen.IsZero() {
		return h.Producers
	}
	return slices.DeleteFunc(slices.Clone(h.Producers), func(p Producer) bool { return p.Stored })
}

// Recall gives a head with all its producers: a decoded one may have some of them alone. What it does not tell itself
// is read. Errors are those of Reader.
func (r Reader) Recall(ctx context.Context, h Head) (Head, error) {
	if h.Seen.IsZero() {
		return h, nil
	}
	n, _, err := r.node(ctx, h.Seen, opened{})
	if err != nil {
		return h, fmt.Errorf("producers of a head: %w", err)
	}
	list, err := ParseProducers(n)
	if err != nil {
		return h, fmt.Errorf("%s: %w", h.Seen, err)
	}
	return h.WithProducers(list), nil
}

// WithProducers is the head with those of its node, as Recall gives it.
func (h Head) WithProducers(stored []Producer) Head {
	own := make(map[string]bool, len(h.Producers))
	for _, p := range h.Producers {
		own[p.ID] = true
	}
	all := slices.Clone(h.Producers)
	for _, p := range stored {
		if !own[p.ID] {
			all = append(all, p)
		}
	}
	h.Producers = all
	for len(h.Producers) > MaxProducers { // they were forgotten since the node was made
		h.forgetOne(func(p *Producer) bool { return p.Stored })
	}
	return h
}

// Newest iterates over the newest state of each branch: the head state if there is one, the tips that the head names,
// those that it does not, left last first. One that was gone back to since may come twice, and be on the way to
// another one. Branches that have no item from that number on may be left out. The first error ends it.
func (r Reader) Newest(ctx context.Context, h Head, item int64) iter.Seq2[casstore.Located, error] {
	return func(yield func(casstore.Located, error) bool) {
		for _, l := range h.Newest() {
			if !yield(l, nil) {
				return
			}
		}
		for l, err := range r.olderFrom(ctx, h, item) {
			if !yield(l, err) || err != nil {
				return
			}
		}
	}
}

// Older iterates over the tips that a head does not name itself, as Newest does. With an error comes where the node
// is that cannot be read.
func (r Reader) Older(ctx context.Context, h Head) iter.Seq2[casstore.Located, error] {
	return r.olderFrom(ctx, h, 0)
}

func (r Reader) olderFrom(ctx context.Context, h Head, item int64) iter.Seq2[casstore.Located, error] {
	return func(yield func(casstore.Located, error) bool) {
		for t, err := range r.older(ctx, h) {
			if err != nil {
				yield(t.node, err)
				return
			}
			if t.Items < item {
				return
			}
			for _, l := range slices.Backward(t.at) {
				if !yield(l, nil) {
					return
				}
			}
		}
	}
}

// olderTips are tips that a head does not name itself, and where they are.
type olderTips struct {
	Tips
	node casstore.Located // that holds them
	at   []casstore.Located
}

// older iterates over the nodes that hold tips, those that were left last first.
func (r Reader) older(ctx context.Context, h Head) iter.Seq2[olderTips, error] {
	return func(yield func(olderTips, error) bool) {
		var pack opened
		for at := h.Older; !at.IsZero(); {
			t := olderTips{node: at}
			next, err := r.readTips(ctx, at, &t, &pack)
			if !yield(t, err) || err != nil {
				return
			}
			at = next
		}
	}
}

// readTips reads a node of tips, from the pack of the one behind it if it is there, and says where the one before it
// is.
func (r Reader) readTips(
	ctx context.Context, at casstore.Located, t *olderTips, pack *opened,
) (next casstore.Located, err error) {
	n, in, err := r.node(ctx, at, *pack)
	if err != nil {
		return next, fmt.Errorf("tips of a head: %w", err)
	}
	if t.Tips, err = ParseTips(n); err != nil {
		return next, fmt.Errorf("%s: %w", at, err)
	}
	*pack = in
	for _, ref := range t.States {
		l, err := in.locate(at.Ref, ref)
		if err != nil {
			return next, err
		}
		t.at = append(t.at, l)
	}
	if !t.Before.IsZero() {
		next, err = in.locate(at.Ref, t.Before)
	}
	return next, err
}
