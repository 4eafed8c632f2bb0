package dstreams

import (
	"cmp"
	"slices"
	"sync"

	"spool/pkg/casstore"
)

// places are some states of a linear thread, at a distance from each other, from which readers go back to others. What they
// name never changes while the stream is the same.
type places struct {
	mu    sync.Mutex
	of    string // identity of the stream
	marks []mark // by index
}

type mark struct {
	index int64
	at    casstore.Located
}

// markEvery is how many entries are between two marks.
const markEvery = 4096

// nearest is the mark with the lowest index that is not below one; ok is false if there is none.
func (p *places) nearest(of string, index int64) (m mark, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.of != of {
		return m, false
	}
	i, _ := p.find(index)
	if i == len(p.marks) {
		return m, false
	}
	return p.marks[i], true
}

func (p *places) add(of string, m mark) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.of != of {
		p.of, p.marks = of, nil
	}
	if i, found := p.find(m.index); !found {
		p.marks = slices.Insert(p.marks, i, m)
	}
}

func (p *places) find(index int64) (int, bool) {
	return slices.BinarySearchFunc(p.marks, index, func(m mark, x int64) int { return cmp.Compare(m.index, x) })
}
