package gc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"spool/internal/record"
	"spool/pkg/casstore"
)

// ErrUnsafe: something is not as it must be, so that nothing is known to be garbage. Nothing was deleted. ErrDangling, which it
// wraps: something that a thread reaches is missing.
var (
	ErrUnsafe   = errors.New("not safe to collect")
	ErrDangling = fmt.Errorf("%w: missing", ErrUnsafe)
)

// headers reads the header of a pack that is in the graph.
type headers func(ctx context.Context, id casstore.PackID) (*casstore.Header, error)

// vertex is a pack as the marker sees it.
type vertex struct {
	id     casstore.PackID
	young  bool
	buried func(node int) bool // nil: none is
}

// graph is what is marked: every live pack, newest first by order, and every live blob.
type graph struct {
	packs []vertex
	moved func(casstore.PackID) casstore.PackID // follows moved records to their end
	blobs *blobSet
	open  headers
	loose bool // a node that is missing is left out, not an error (AllowMissing)
}

// marks is what a root reaches.
type marks struct {
	live  []casstore.Bits // by place in graph.packs; nil: nothing, and the header was not read
	raw   []int64         // bytes of the live nodes
	count []int           // live nodes
	heads []bool          // by place: a thread reaches some of it; else it is kept because it, or what refers to it, is young
	named map[casstore.PackID]bool

	dangling int // refs of threads to what is missing, where that is allowed
}

// marker is a pass over a graph. Refs go to older packs alone, so that what is wanted of a pack is known when its turn comes:
// only what is wanted of the packs that are still to come is in memory.
//
// There are two colours. What heads reach must be there; what only a young pack reaches need not be: a pack that was touched
// is young with all its nodes but the buried, and some of them may be garbage that refers to garbage which is gone.
type marker struct {
	graph
	marks
	place  map[casstore.PackID]int32
	firm   []wanted // by place: what heads reach
	faint  []wanted // what young packs reach
	header *casstore.Header
	at     int32 // the place of the pack that is looked at; -1 while roots are added
}

func newMarker(g graph) *marker {
	n := len(g.packs)
	m := &marker{graph: g, place: make(map[casstore.PackID]int32, n), firm: make([]wanted, n), faint: make([]wanted, n), at: -1}
	m.live, m.raw, m.count, m.heads = make([]casstore.Bits, n), make([]int64, n), make([]int, n), make([]bool, n)
	m.named = map[casstore.PackID]bool{}
	for i, p := range g.packs {
		m.place[p.id] = int32(i)
	}
	return m
}

// root adds what must be kept; firm: what must be there, too.
func (m *marker) root(l casstore.Located, firm bool) error {
	if l.IsZero() {
		return nil
	}
	return m.want(l, firm)
}

// want hands a ref to the pack that its locator names.
func (m *marker) want(l casstore.Located, firm bool) error {
	if l.Ref.Kind() == casstore.KindBlob {
		if !m.blobs.mark(l.Ref.Sum(), firm) && firm {
			return m.missing(fmt.Errorf("%w: %s refers to %s, which is not stored", ErrDangling, m.where(), l.Ref))
		}
		return nil
	}
	at, ok := m.place[l.Pack]
	if !ok {
		m.named[l.Pack] = true
		at, ok = m.place[m.moved(l.Pack)]
	}
	switch {
	case !ok && !firm:
		return nil
	case !ok:
		return m.missing(&noPack{m.where(), l})
	case at <= m.at:
		return fmt.Errorf("%w: %s refers to %s, which is in no older pack", ErrUnsafe, m.where(), l)
	case firm:
		m.firm[at].add(l.Ref.Sum())
	default:
		m.faint[at].add(l.Ref.Sum())
	}
	return nil
}

// noPack is a ref of something that a thread reaches to a pack of which no live record was read.
type noPack struct {
	where string
	to    casstore.Located
}

func (e *noPack) Error() string {
	return fmt.Sprintf("%v: %s refers to %s, and there is no such pack", ErrDangling, e.where, e.to)
}

func (e *noPack) Unwrap() error { return ErrDangling }

// missing is the end of the cycle, unless what is missing was given up.
func (m *marker) missing(err error) error {
	m.dangling++
	if m.loose {
		return nil
	}
	return err
}

func (m *marker) where() string {
	if m.at < 0 {
		return "a root"
	}
	return "pack " + m.packs[m.at].id.String()
}

// run marks. A header that cannot be read, or has not what it must have, ends it.
func (m *marker) run(ctx context.Context) error {
	for i := range m.packs {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := m.take(ctx, i); err != nil {
			return err
		}
		m.firm[i], m.faint[i] = nil, nil
	}
	return nil
}

func (m *marker) take(ctx context.Context, i int) error {
	p := m.packs[i]
	if m.firm[i] == nil && m.faint[i] == nil && !p.young {
		return nil
	}
	m.at = int32(i)
	h, err := m.open(ctx, p.id)
	if record.Temporary(err) || ctx.Err() != nil { // nothing is wrong with it: the server does not answer
		return fmt.Errorf("header of %s: %w", m.where(), err)
	}
	if err != nil {
		return fmt.Errorf("%w: header of %s: %w", ErrUnsafe, m.where(), err)
	}
	m.header = h
	firm, faint := casstore.NewBits(h.Len()), casstore.NewBits(h.Len())
	m.heads[i] = m.firm[i] != nil
	for _, sum := range m.firm[i].find(h, firm) {
		if err := m.missing(fmt.Errorf("%w: %s has no node %x, which something refers to", ErrDangling, m.where(), sum)); err != nil {
			return err
		}
	}
	m.faint[i].find(h, faint)
	if p.young {
		for n := range h.Len() {
			if p.buried == nil || !p.buried(n) {
				faint.Set(n)
			}
		}
	}
	if err := m.spread(firm, true, nil); err != nil {
		return err
	}
	for w := range faint {
		faint[w] |= firm[w]
	}
	if err := m.spread(faint, false, firm); err != nil {
		return err
	}
	m.live[i] = faint
	for n := range h.Len() {
		if faint.Has(n) {
			m.count[i]++
			m.raw[i] += int64(h.NodeLen(n))
		}
	}
	return nil
}

// spread marks what some nodes reach, in their pack and outside. done is what was spread before.
func (m *marker) spread(nodes casstore.Bits, firm bool, done casstore.Bits) error {
	if slices.Equal(nodes, done) {
		return nil
	}
	outside := casstore.NewBits(m.header.OutsideLen())
	m.header.Mark(nodes, outside)
	for i := range m.header.OutsideLen() {
		if outside.Has(i) {
			if err := m.want(m.header.OutsideAt(i), firm); err != nil {
				return err
			}
		}
	}
	return nil
}

// wanted are hashes of nodes, in no order; some may be there several times. nil: none.
type wanted []([32]byte)

// add keeps repeats below half of the memory.
func (w *wanted) add(sum [32]byte) {
	if len(*w) == cap(*w) && len(*w) >= 16 {
		w.compact()
		if len(*w) > cap(*w)/2 {
			*w = slices.Grow(*w, len(*w))
		}
	}
	*w = append(*w, sum)
}

func (w *wanted) compact() {
	slices.SortFunc(*w, func(a, b [32]byte) int { return bytes.Compare(a[:], b[:]) })
	*w = slices.Compact(*w)
}

// find sets the bits of the wanted nodes that a header has, and returns the others.
func (w wanted) find(h *casstore.Header, found casstore.Bits) (left wanted) {
	for _, sum := range w {
		if i, ok := h.Find(casstore.NodeRef(sum)); ok {
			found.Set(i)
		} else {
			left = append(left, sum)
		}
	}
	return left
}

// blobSet is the live blobs, sorted by hash.
type blobSet struct {
	sums   []([32]byte)
	marked casstore.Bits
	heads  casstore.Bits // those that a thread reaches
}

func (s *blobSet) find(sum [32]byte) (int, bool) {
	return slices.BinarySearchFunc(s.sums, sum, func(a, b [32]byte) int { return bytes.Compare(a[:], b[:]) })
}

// mark reports whether the blob is there. firm: a thread reaches it.
func (s *blobSet) mark(sum [32]byte, firm bool) bool {
	i, ok := s.find(sum)
	if ok {
		s.marked.Set(i)
	}
	if ok && firm {
		s.heads.Set(i)
	}
	return ok
}
