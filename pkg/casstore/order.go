package casstore

import (
	"cmp"
	"fmt"
	"slices"
)

// sortChildrenFirst brings the nodes into an order in which each comes after the nodes it refers to. It changes nothing when
// they are in such an order, which is how they come unless a caller adds parents first.
func (b *PackBuilder) sortChildrenFirst() error {
	if b.childrenFirst() {
		return nil
	}
	order, err := b.depthFirst()
	if err != nil {
		return err
	}
	b.reorder(order)
	return nil
}

// reorder lays the nodes out anew.
func (b *PackBuilder) reorder(order []int32) {
	sorted := PackBuilder{raw: make([]byte, 0, len(b.raw)), edges: make([]int32, 0, len(b.edges)), nodes: make([]entry, 0, len(b.nodes))}
	for at, i := range order {
		from, edges := b.at(int(i))
		sorted.raw = append(sorted.raw, b.raw[from:b.nodes[i].end]...)
		sorted.edges = append(sorted.edges, edges...)
		sorted.nodes = append(sorted.nodes, entry{b.nodes[i].id, len(sorted.raw), len(sorted.edges)})
		b.known[b.nodes[i].id].node = int32(at)
	}
	b.raw, b.edges, b.nodes = sorted.raw, sorted.edges, sorted.nodes
}

// Cluster puts nodes that hang together next to each other: a thread, with its forks, that was written in turns with others is then
// read from few frames. What hangs together keeps its order, and so children stay ahead of their parents.
func (b *PackBuilder) Cluster() {
	group := make([]int32, len(b.nodes)) // the lowest node of the same cluster that is known, by node
	find := func(i int32) int32 {
		for group[i] != i {
			group[i] = group[group[i]]
			i = group[i]
		}
		return i
	}
	for i := range b.nodes {
		group[i] = int32(i)
		_, edges := b.at(i)
		for _, id := range edges {
			if id == nilEdge || b.known[id].node < 0 || int(b.known[id].node) >= i {
				continue
			}
			low, high := find(b.known[id].node), find(int32(i))
			group[max(low, high)] = min(low, high)
		}
	}
	order := make([]int32, len(b.nodes))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortStableFunc(order, func(x, y int32) int { return cmp.Compare(find(x), find(y)) })
	b.reorder(order)
}

func (b *PackBuilder) childrenFirst() bool {
	for i := range b.nodes {
		_, edges := b.at(i)
		for _, id := range edges {
			if id != nilEdge && int(b.known[id].node) >= i {
				return false
			}
		}
	}
	return true
}

// depthFirst lists the node indexes, children first, otherwise in the order they have.
func (b *PackBuilder) depthFirst() ([]int32, error) {
	const open, done = 1, 2
	state := make([]byte, len(b.nodes))
	order := make([]int32, 0, len(b.nodes))
	var path []int32
	for root := range b.nodes {
		if state[root] == 0 {
			path = append(path, int32(root))
		}
		for len(path) > 0 {
			i := path[len(path)-1]
			_, edges := b.at(int(i))
			next := slices.IndexFunc(edges, func(id int32) bool {
				return id != nilEdge && b.known[id].node >= 0 && state[b.known[id].node] != done
			})
			if next < 0 {
				state[i] = done
				order = append(order, i)
				path = path[:len(path)-1]
				continue
			}
			state[i] = open
			child := b.known[edges[next]].node
			if state[child] == open {
				return nil, fmt.Errorf("node %s: %w: the refs given form a cycle", b.known[b.nodes[i].id].ref, ErrMalformed)
			}
			path = append(path, child)
		}
	}
	return order, nil
}
