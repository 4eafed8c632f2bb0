package gc

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"time"

	"spool/pkg/casstore"
)

// Measured is how fast marking is, and what it takes.
type Measured struct {
	Nodes      int     `json:"nodes"`
	Packs      int     `json:"packs"`
	Live       int     `json:"live"`
	Seconds    float64 `json:"seconds"`
	PerSecond  float64 `json:"mark_nodes_per_second"`
	PerMillion float64 `json:"mark_mib_per_million_nodes"` // memory at its most, beside the headers' own bytes
}

// Measure marks a store of about that many nodes whose headers are in memory, so that what is measured is the marking: threads
// whose states refer to their start, their parent and up to ten ancestors, a pack for every 500 nodes. One thread of ten is
// garbage.
func Measure(ctx context.Context, nodes int) (Measured, error) {
	s, err := generate(nodes)
	if err != nil {
		return Measured{}, err
	}
	out := Measured{Nodes: s.nodes, Packs: len(s.packs)}
	runtime.GC()
	began := time.Now()
	m, err := s.mark(ctx, func(int) {})
	if err != nil {
		return out, err
	}
	out.Seconds = time.Since(began).Seconds()
	for _, n := range m.count {
		out.Live += n
	}
	if out.Live != s.live {
		return out, fmt.Errorf("%w: %d nodes are marked, %d are live", errWrong, out.Live, s.live)
	}
	m = nil
	before, most := heap(), uint64(0)
	every := max(len(s.packs)/16, 1)
	if m, err = s.mark(ctx, func(i int) {
		if i%every == 0 {
			most = max(most, heap())
		}
	}); err != nil {
		return out, err
	}
	most = max(most, heap())
	runtime.KeepAlive(m)
	out.PerSecond = float64(out.Nodes) / out.Seconds
	out.PerMillion = float64(max(most, before)-before) / (1 << 20) / (float64(out.Nodes) / 1e6)
	return out, nil
}

var errWrong = errors.New("marking went wrong")

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// synthetic is a generated store.
type synthetic struct {
	packs       [][]byte // headers, oldest first
	roots       []casstore.Located
	nodes, live int
}

const (
	perPack  = 500
	perVisit = 12 // entries that a thread adds to a pack: its turn
	lanes    = 20 // threads that share a pack
)

type line struct {
	start  casstore.Located
	recent []casstore.Located
	nodes  int
}

func generate(nodes int) (*synthetic, error) {
	s, r := &synthetic{}, rand.New(rand.NewPCG(1, 2))
	threads := make([]line, max(nodes/2000, lanes))
	b := casstore.NewPackBuilder()
	for s.nodes < nodes {
		b.Reset()
		id := syntheticID(len(s.packs))
		for b.Len() < perPack {
			t := &threads[r.IntN(len(threads))]
			t.turn(b, id, r)
		}
		s.nodes += b.Len()
		header, _, err := b.Finish()
		if err != nil {
			return nil, err
		}
		s.packs = append(s.packs, header)
	}
	for i, t := range threads {
		if i%10 == 0 || len(t.recent) == 0 {
			continue
		}
		s.roots = append(s.roots, t.recent[0])
		s.live += t.nodes
	}
	return s, nil
}

// turn adds a few entries of a thread to a pack.
func (t *line) turn(b *casstore.PackBuilder, id casstore.PackID, r *rand.Rand) {
	add := func(typ string, refs ...casstore.Ref) casstore.Located {
		t.nodes++
		n := casstore.Node{Type: typ, Payload: casstore.AppendInt(nil, int64(r.Uint64()>>1)), Refs: refs}
		return casstore.Located{Ref: b.AddNode(&n), Pack: id}
	}
	if len(t.recent) == 0 {
		t.start = add("start")
	}
	for _, l := range append(t.recent, t.start) {
		if l.Pack != id {
			b.Locate(l)
		}
	}
	for range perVisit {
		refs := []casstore.Ref{t.start.Ref, {}, add("content").Ref}
		for i, l := range t.recent {
			if i == 0 {
				refs[1] = l.Ref
			} else {
				refs = append(refs, l.Ref)
			}
		}
		state := add("state", refs...)
		t.recent = append([]casstore.Located{state}, t.recent[:min(len(t.recent), 10)]...)
	}
}

func syntheticID(n int) (id casstore.PackID) {
	binary.BigEndian.PutUint64(id[:], uint64(n)+1)
	return id
}

// mark marks it, and tells of every header that is read.
func (s *synthetic) mark(ctx context.Context, tell func(int)) (*marker, error) {
	g := graph{moved: func(id casstore.PackID) casstore.PackID { return id }, blobs: &blobSet{}}
	for i := range s.packs {
		g.packs = append(g.packs, vertex{id: syntheticID(len(s.packs) - 1 - i)})
	}
	var mu sync.Mutex
	g.open = func(_ context.Context, id casstore.PackID) (*casstore.Header, error) {
		i := int(binary.BigEndian.Uint64(id[:])) - 1
		mu.Lock()
		tell(i)
		mu.Unlock()
		return casstore.OpenHeader(s.packs[i])
	}
	m := newMarker(g)
	for _, l := range s.roots {
		if err := m.root(l, firm); err != nil {
			return nil, err
		}
	}
	return m, m.run(ctx)
}
