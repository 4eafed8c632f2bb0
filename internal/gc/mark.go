package gc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"spool/internal/record"
	"spool/pkg/casstore"
)

// ErrUnsafe: something is not as it must be, so that nothing is known to be garbage. Nothing was deleted. ErrDangling, which it
// wraps: something that a thread reaches is missing.
var (
	ErrUnsafe   = errors.New("not safe to collect")
	ErrDangling = fmt.Errorf("%w: missing", ErrUnsafe)
)

// passing reports whether an error says nothing about what was to be read: the server did not answer, or whoever asked
// was stopped.
func passing(ctx context.Context, err error) bool {
	return err != nil && (record.Temporary(err) || ctx.Err() != nil)
}

// unreadable is the error of whoever could not read what must be there. It is an ErrUnsafe only if the server said so.
func unreadable(ctx context.Context, what string, err error) error {
	if passing(ctx, err) {
		return fmt.Errorf("%s: %w", what, err)
	}
	return fmt.Errorf("%w: %s: %w", ErrUnsafe, what, err)
}

// headers reads the header of a pack that is in the graph. Safe for concurrent use.
type headers func(ctx context.Context, id casstore.PackID) (*casstore.Header, error)

// vertex is a pack as the marker sees it.
type vertex struct {
	id     casstore.PackID
	young  bool
	buried casstore.Bits // nodes
	gone   bool          // it is a tombstone whose bytes are kept: only what is in quarantine can reach it
	fresh  bool          // its record is younger than the quarantine
}

// graph is what is marked: every live pack, newest first by order, and every live blob.
type graph struct {
	packs []vertex
	moved func(casstore.PackID) casstore.PackID // follows moved records to their end
	blobs *blobSet
	open  headers
	loose bool // a node that is missing is left out, not an error (AllowMissing)
	// quarantine: what was condemned or buried lately, or is to be, holds the bytes of all that it leads to.
	quarantine bool
}

// colour says who reaches a node.
type colour int

const (
	firm  colour = iota // a head: what is missing ends the cycle
	faint               // a young record
	held                // what is in quarantine: its bytes stay where they are, and it is garbage all the same
)

// marks is what a root reaches.
type marks struct {
	live  []casstore.Bits // by place in graph.packs; nil: nothing, and the header was not read
	raw   []int64         // bytes of the live nodes
	count []int           // live nodes
	heads []bool          // by place: a thread reaches some of it; else it is kept because it, or what refers to it, is young
	named map[casstore.PackID]bool
	held  []casstore.Bits   // by place: nodes that are not live, and that what is in quarantine reaches; nil: none
	stays map[[32]byte]bool // blobs that it reaches

	dangling int // refs of threads to what is missing, where that is allowed
}

// marker is a pass over a graph. Refs go to older packs alone, so that what is wanted of a pack is known when its turn comes:
// only what is wanted of the packs that are still to come is in memory.
//
// There are two colours. What heads reach must be there; what only a young pack reaches need not be: a pack that was touched
// is young with all its nodes but the buried, and some of them may be garbage that refers to garbage which is gone.
//
// A third one is of what is in quarantine: tombstones, buried nodes, and what this plan adds to both. It decides nothing about what
// is garbage. What it reaches is not dropped by a repack, and its tombstone not forgotten, so that Undelete finds it whole.
type marker struct {
	graph
	marks
	place  map[casstore.PackID]int32
	wants  [3][]wanted // by colour and place
	header *casstore.Header
	ahead  [readAhead]*casstore.Header // of the next packs, as far as they were read
	at     int32                       // the place of the pack that is looked at; -1 while roots are added
}

func newMarker(g graph) *marker {
	n := len(g.packs)
	m := &marker{graph: g, place: make(map[casstore.PackID]int32, n), at: -1}
	m.live, m.raw, m.count, m.heads = make([]casstore.Bits, n), make([]int64, n), make([]int, n), make([]bool, n)
	m.named, m.held, m.stays = map[casstore.PackID]bool{}, make([]casstore.Bits, n), map[[32]byte]bool{}
	for c := range m.wants {
		m.wants[c] = make([]wanted, n)
	}
	for i, p := range g.packs {
		m.place[p.id] = int32(i)
	}
	return m
}

// root adds what must be kept.
func (m *marker) root(l casstore.Located, c colour) error {
	if l.IsZero() {
		return nil
	}
	return m.want(l, c)
}

// want hands a ref to the pack that its locator names.
func (m *marker) want(l casstore.Located, c colour) error {
	if l.Ref.Kind() == casstore.KindBlob {
		return m.wantBlob(l.Ref, c)
	}
	at, ok := m.find(l.Pack, c)
	if !ok {
		m.named[l.Pack] = true
		at, ok = m.find(m.moved(l.Pack), c)
	}
	switch {
	case !ok && c != firm:
		return nil
	case !ok:
		return m.missing(&noPack{m.where(), l})
	case at <= m.at && c == held: // whoever takes it back is told that it is not whole
		return nil
	case at <= m.at:
		return fmt.Errorf("%w: %s refers to %s, which is in no older pack", ErrUnsafe, m.where(), l)
	}
	m.wants[c][at].add(l.Ref.Sum())
	return nil
}

func (m *marker) wantBlob(ref casstore.Ref, c colour) error {
	if c == held {
		m.stays[ref.Sum()] = true
		return nil
	}
	if !m.blobs.mark(ref.Sum(), c == firm) && c == firm {
		return m.missing(fmt.Errorf("%w: %s refers to %s, which is not stored", ErrDangling, m.where(), ref))
	}
	return nil
}

// find gives the place of a pack. Only what is in quarantine sees a tombstone.
func (m *marker) find(id casstore.PackID, c colour) (int32, bool) {
	at, ok := m.place[id]
	return at, ok && (c == held || !m.packs[at].gone)
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
		if i%readAhead == 0 {
			m.read(ctx, i)
		}
		if err := m.take(ctx, i); err != nil {
			return err
		}
		m.ahead[i%readAhead] = nil
		for c := range m.wants {
			m.wants[c][i] = nil
		}
	}
	return nil
}

// readAhead is how many headers are read at a time: each is an answer to wait for.
const readAhead = 16

// read reads the headers of the next packs that are reached already. One that cannot be read is read again when its turn comes.
func (m *marker) read(ctx context.Context, from int) {
	var g errgroup.Group
	for i := from; i < min(from+readAhead, len(m.packs)); i++ {
		if m.reached(i) {
			g.Go(func() error {
				if h, err := m.open(ctx, m.packs[i].id); err == nil {
					m.ahead[i%readAhead] = h
				}
				return nil
			})
		}
	}
	_ = g.Wait()
}

func (m *marker) reached(i int) bool {
	p := &m.packs[i]
	return m.wants[firm][i] != nil || m.wants[faint][i] != nil || p.young
}

func (m *marker) take(ctx context.Context, i int) error {
	p, reached := m.packs[i], m.reached(i)
	if !reached && !m.holds(i, false) {
		return nil
	}
	m.at = int32(i)
	h, err := m.ahead[i%readAhead], error(nil)
	if h == nil {
		h, err = m.open(ctx, p.id)
	}
	switch {
	case err != nil && (reached || passing(ctx, err)):
		return unreadable(ctx, "header of "+m.where(), err)
	case err != nil: // there is nothing of it that could be had back
		return nil
	}
	m.header = h
	m.live[i] = casstore.NewBits(h.Len())
	if reached {
		if err := m.reach(i); err != nil {
			return err
		}
	}
	if m.holds(i, !slices.Equal(m.live[i].Without(h.Len()), p.buried)) {
		return m.hold(i)
	}
	return nil
}

// reach marks what heads and young packs reach of the pack that is looked at.
func (m *marker) reach(i int) error {
	p, h := m.packs[i], m.header
	sure, all := casstore.NewBits(h.Len()), m.live[i]
	m.heads[i] = m.wants[firm][i] != nil
	for _, sum := range m.wants[firm][i].find(h, sure) {
		if err := m.missing(fmt.Errorf("%w: %s has no node %x, which something refers to", ErrDangling, m.where(), sum)); err != nil {
			return err
		}
	}
	m.wants[faint][i].find(h, all)
	if p.young {
		for n := range h.Len() {
			if !p.isBuried(n) {
				all.Set(n)
			}
		}
	}
	if err := m.spread(sure, firm, nil); err != nil {
		return err
	}
	for w := range all {
		all[w] |= sure[w]
	}
	if err := m.spread(all, faint, sure); err != nil {
		return err
	}
	for n := range h.Len() {
		if all.Has(n) {
			m.count[i]++
			m.raw[i] += int64(h.NodeLen(n))
		}
	}
	return nil
}

// holds reports whether something of a pack is in quarantine, or reached from there. buries: this plan adds to its garbage.
func (m *marker) holds(i int, buries bool) bool {
	return m.quarantine && (m.wants[held][i] != nil || m.enters(i, buries))
}

// enters reports whether all that is garbage in a pack is in quarantine.
func (m *marker) enters(i int, buries bool) bool {
	p := m.packs[i]
	return p.fresh && (p.gone || p.buried != nil) || !p.gone && (m.count[i] == 0 || buries)
}

// hold marks what is in quarantine of the pack that is looked at, and what that reaches.
func (m *marker) hold(i int) error {
	h := m.header
	kept := casstore.NewBits(h.Len())
	m.wants[held][i].find(h, kept)
	if m.enters(i, !slices.Equal(m.live[i].Without(h.Len()), m.packs[i].buried)) {
		for n := range h.Len() {
			kept.Set(n)
		}
	}
	for w := range kept {
		kept[w] &^= m.live[i][w]
	}
	if !slices.ContainsFunc(kept, func(w uint64) bool { return w != 0 }) {
		return nil
	}
	if err := m.spread(kept, held, nil); err != nil {
		return err
	}
	for w := range kept {
		kept[w] &^= m.live[i][w]
	}
	m.held[i] = kept
	return nil
}

func (v vertex) isBuried(n int) bool { return n/64 < len(v.buried) && v.buried.Has(n) }

// spread marks what some nodes reach, in their pack and outside. done is what was spread before.
func (m *marker) spread(nodes casstore.Bits, c colour, done casstore.Bits) error {
	if slices.Equal(nodes, done) {
		return nil
	}
	outside := casstore.NewBits(m.header.OutsideLen())
	m.header.Mark(nodes, outside)
	for i := range m.header.OutsideLen() {
		if outside.Has(i) {
			if err := m.want(m.header.OutsideAt(i), c); err != nil {
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
