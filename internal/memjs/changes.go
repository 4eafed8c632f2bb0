package memjs

import "slices"

// change is what was done to a store, so that it can be undone for a read by a copy that has not got it.
type change struct {
	kind        changeKind
	m           *message
	first, last uint64 // of the store before it
	lastTs      int64
	op          uint64 // which command or timer did it: what one does is undone together
}

type changeKind int

const (
	changeAdd changeKind = iota
	changeRemove
	changeJump
)

func (st *store) note(kind changeKind, m *message) {
	if !st.remember {
		return
	}
	st.changes = append(st.changes, &change{kind, m, st.first, st.last, st.lastTs, st.clock.ops})
}

// operations counts the commands and timers that made the changes which are remembered.
func (st *store) operations() (n int) {
	last := uint64(0)
	for _, c := range st.changes {
		if c.op != last {
			n, last = n+1, c.op
		}
	}
	return n
}

// undo takes back the last n operations, and redo, given what it returns, makes them again.
func (st *store) undo(ops int) []*change {
	n, last := 0, uint64(0)
	for _, c := range slices.Backward(st.changes) {
		if c.op != last {
			if ops--; ops < 0 {
				break
			}
			last = c.op
		}
		n++
	}
	undone := st.changes[len(st.changes)-n:]
	remember := st.remember
	st.remember = false
	for _, c := range slices.Backward(undone) {
		switch c.kind {
		case changeAdd:
			st.drop(c.m)
		case changeRemove:
			st.bringBack(c.m)
		}
		st.last, st.lastTs = c.last, c.lastTs
		if st.count == 0 {
			st.msgs, st.base, st.first = nil, c.last+1, c.first
		} else if keep := st.last + 1 - st.base; uint64(len(st.msgs)) > keep {
			st.msgs = st.msgs[:keep]
		}
	}
	st.remember = remember
	st.changes = st.changes[: len(st.changes)-n : len(st.changes)-n]
	return undone
}

func (st *store) redo(changes []*change) {
	remember := st.remember
	st.remember = false
	for _, c := range changes {
		switch c.kind {
		case changeAdd:
			st.add(c.m)
		case changeRemove:
			st.drop(c.m)
		}
	}
	st.remember = remember
	st.changes = append(st.changes, changes...)
}

// bringBack puts a removed message to its place.
func (st *store) bringBack(m *message) {
	switch {
	case len(st.msgs) == 0:
		st.msgs, st.base = []*message{m}, m.seq
	case m.seq < st.base:
		st.msgs = append(make([]*message, st.base-m.seq), st.msgs...)
		st.base = m.seq
	}
	for st.base+uint64(len(st.msgs)) <= m.seq {
		st.msgs = append(st.msgs, nil)
	}
	st.msgs[m.seq-st.base] = m
	if st.count == 0 || m.seq < st.first {
		st.first = m.seq
	}
	st.count++
	st.bytes += st.size(m)
	of := st.bySubject[m.subject]
	if of == nil {
		of = &sequences{}
		st.bySubject[m.subject] = of
	}
	i, _ := slices.BinarySearch(of.seqs, m.seq)
	of.seqs = slices.Insert(slices.Clone(of.seqs), i, m.seq)
}
