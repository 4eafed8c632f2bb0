package gc

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"spool/internal/must"
	"spool/pkg/casstore"
)

// TestReadAhead: the headers of packs that are reached are asked for together, and one that was not to be had is asked for again.
func TestReadAhead(t *testing.T) {
	s := must.Get(generate(readAhead * perPack))(t)
	var asked atomic.Int32
	all := make(chan struct{})
	g := graph{moved: func(id casstore.PackID) casstore.PackID { return id }, blobs: &blobSet{}}
	for i := range s.packs {
		g.packs = append(g.packs, vertex{id: syntheticID(len(s.packs) - 1 - i), young: true})
	}
	g.open = func(_ context.Context, id casstore.PackID) (*casstore.Header, error) {
		n := asked.Add(1)
		if n == readAhead {
			close(all)
		}
		select {
		case <-all:
		case <-time.After(10 * time.Second):
			return nil, errors.New("nobody asks for the others")
		}
		if n == readAhead {
			return nil, errors.New("no answer")
		}
		return casstore.OpenHeader(s.packs[len(s.packs)-1-placeOf(g, id)])
	}
	m := newMarker(g)
	must.Do(t, m.run(t.Context()))
	must.Same(t, int(asked.Load()), len(s.packs)+1, "headers were asked for %d times, want %d")
	live := 0
	for _, n := range m.count {
		live += n
	}
	must.Same(t, live, s.nodes, "live nodes = %d, want %d")
}

func placeOf(g graph, id casstore.PackID) int {
	for i, p := range g.packs {
		if p.id == id {
			return i
		}
	}
	return -1
}
