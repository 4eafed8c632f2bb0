package memjs

import (
	"slices"
	"sort"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// message is a stored one. It is never changed.
type message struct {
	seq     uint64
	subject string
	hdr     []byte
	data    []byte
	ts      int64
}

func (m *message) shown() Msg { return Msg{m.seq, m.subject, m.hdr, m.data, time.Unix(0, m.ts)} }

// store holds a stream's messages, by sequence and by subject.
type store struct {
	msgs   []*message // the first is that of sequence base; nil: removed
	base   uint64
	first  uint64 // 0: there never was one
	last   uint64
	count  int
	bytes  uint64
	lastTs int64

	bySubject map[string]*sequences
	inFile    bool      // sizes are those of a file store
	changes   []*change // the last ones, when they are remembered
	remember  bool
	clock     *Server
}

// sequences of one subject, ascending.
type sequences struct{ seqs []uint64 }

// size is what a message counts for the limits.
func (st *store) size(m *message) uint64 {
	n := uint64(len(m.subject) + len(m.hdr) + len(m.data))
	switch {
	case !st.inFile:
		return n + 16
	case len(m.hdr) > 0:
		return n + 34
	}
	return n + 30
}

// load is the message of a sequence; nil: there is none.
func (st *store) load(seq uint64) *message {
	if seq < st.base || seq-st.base >= uint64(len(st.msgs)) {
		return nil
	}
	return st.msgs[seq-st.base]
}

// lastOf is the newest message of a subject, or of those that match it.
func (st *store) lastOf(subject string) *message {
	if of := st.bySubject[subject]; of != nil {
		return st.load(of.seqs[len(of.seqs)-1])
	}
	p := newPattern(subject)
	if p.literal {
		return nil
	}
	if p.all() {
		for i := len(st.msgs) - 1; i >= 0; i-- {
			if st.msgs[i] != nil {
				return st.msgs[i]
			}
		}
		return nil
	}
	newest := uint64(0)
	for s, of := range st.bySubject {
		if seq := of.seqs[len(of.seqs)-1]; seq > newest && p.matches(s) {
			newest = seq
		}
	}
	return st.load(newest)
}

// next is the first message from a sequence on that matches; nil: none does.
func (st *store) next(filters []pattern, from uint64) *message {
	if st.count == 0 || from > st.last {
		return nil
	}
	if len(filters) == 1 && filters[0].literal {
		of := st.bySubject[filters[0].text]
		if of == nil {
			return nil
		}
		i, _ := slices.BinarySearch(of.seqs, from)
		if i == len(of.seqs) {
			return nil
		}
		return st.load(of.seqs[i])
	}
	for i := max(from, st.base) - st.base; i < uint64(len(st.msgs)); i++ {
		if m := st.msgs[i]; m != nil && matchesAny(filters, m.subject) {
			return m
		}
	}
	return nil
}

// pending counts the messages from a sequence on that match, or the subjects whose newest message is one of them.
func (st *store) pending(filters []pattern, from uint64, subjects bool) (n uint64) {
	if st.count == 0 || from > st.last {
		return 0
	}
	all := len(filters) == 0 || len(filters) == 1 && filters[0].all()
	if all && from <= st.first && !subjects {
		return uint64(st.count)
	}
	if !subjects && st.last-max(from, st.first) < uint64(len(st.bySubject)) {
		for i := max(from, st.base) - st.base; i < uint64(len(st.msgs)); i++ {
			if m := st.msgs[i]; m != nil && matchesAny(filters, m.subject) {
				n++
			}
		}
		return n
	}
	for s, of := range st.bySubject {
		switch {
		case !matchesAny(filters, s):
		case !subjects:
			i, _ := slices.BinarySearch(of.seqs, from)
			n += uint64(len(of.seqs) - i)
		case of.seqs[len(of.seqs)-1] >= from:
			n++
		}
	}
	return n
}

// lastSeqs are the newest sequences, none above upTo, of each subject that matches, ascending.
func (st *store) lastSeqs(filters []pattern, upTo uint64) (seqs []uint64) {
	for s, of := range st.bySubject {
		if !matchesAny(filters, s) {
			continue
		}
		if i := sort.Search(len(of.seqs), func(i int) bool { return of.seqs[i] > upTo }); i > 0 {
			seqs = append(seqs, of.seqs[i-1])
		}
	}
	slices.Sort(seqs)
	return seqs
}

// span is how many messages match, the first and the last of them.
func (st *store) span(p pattern) (n, first, last uint64) {
	if p.literal {
		if of := st.bySubject[p.text]; of != nil {
			return uint64(len(of.seqs)), of.seqs[0], of.seqs[len(of.seqs)-1]
		}
		return 0, 0, 0
	}
	if p.all() && st.count > 0 {
		return uint64(st.count), st.first, st.last
	}
	for s, of := range st.bySubject {
		if !p.matches(s) {
			continue
		}
		n += uint64(len(of.seqs))
		if first == 0 || of.seqs[0] < first {
			first = of.seqs[0]
		}
		last = max(last, of.seqs[len(of.seqs)-1])
	}
	return n, first, last
}

// fromTime is the sequence of the first message that was stored at a time or later, or the one behind the last.
func (st *store) fromTime(t time.Time) uint64 {
	if st.count == 0 {
		return st.last + 1
	}
	ts := t.UnixNano()
	if ts <= st.load(st.first).ts {
		return st.first
	}
	for _, m := range st.msgs {
		if m != nil && m.ts >= ts {
			return m.seq
		}
	}
	return st.last + 1
}

func (st *store) add(m *message) {
	st.note(changeAdd, m)
	if len(st.msgs) == 0 {
		st.base = m.seq
	}
	for st.base+uint64(len(st.msgs)) < m.seq {
		st.msgs = append(st.msgs, nil)
	}
	st.msgs = append(st.msgs, m)
	if st.count == 0 {
		st.first = m.seq
	}
	st.last, st.lastTs = m.seq, m.ts
	st.count++
	st.bytes += st.size(m)
	of := st.bySubject[m.subject]
	if of == nil {
		of = &sequences{}
		st.bySubject[m.subject] = of
	}
	of.seqs = append(of.seqs, m.seq)
}

// remove takes a message out.
func (st *store) remove(m *message) {
	st.note(changeRemove, m)
	st.drop(m)
}

func (st *store) drop(m *message) {
	st.msgs[m.seq-st.base] = nil
	st.count--
	st.bytes -= st.size(m)
	of := st.bySubject[m.subject]
	if i, ok := slices.BinarySearch(of.seqs, m.seq); !ok {
		panic("memjs: a message that is not in its subject")
	} else if i == 0 {
		of.seqs = of.seqs[1:]
	} else {
		of.seqs = slices.Delete(of.seqs, i, i+1)
	}
	if len(of.seqs) == 0 {
		delete(st.bySubject, m.subject)
	}
	st.settleFirst()
}

// settleFirst finds the first message again.
func (st *store) settleFirst() {
	if st.count == 0 {
		st.msgs, st.first, st.base = nil, st.last+1, st.last+1
		return
	}
	n := 0
	for st.msgs[n] == nil {
		n++
	}
	st.msgs, st.base = st.msgs[n:], st.base+uint64(n)
	st.first = st.base
}

// jump makes an empty store go on with a sequence.
func (st *store) jump(next uint64) {
	st.note(changeJump, nil)
	st.msgs, st.base = nil, next
	st.first, st.last = next, next-1
}

// state is the store as its server describes it.
func (st *store) state(deleted bool) server.StreamState {
	s := server.StreamState{
		Msgs: uint64(st.count), Bytes: st.bytes, FirstSeq: st.first, LastSeq: st.last, NumSubjects: len(st.bySubject),
	}
	if st.lastTs != 0 {
		s.LastTime = time.Unix(0, st.lastTs).UTC()
	}
	if st.count == 0 {
		if deleted && st.first == 0 && st.inFile { // so a file store says it that never held a message
			s.NumDeleted, s.Deleted = 1, []uint64{0}
		}
		return s
	}
	s.FirstTime = time.Unix(0, st.load(st.first).ts).UTC()
	s.NumDeleted = int(st.last-st.first+1) - st.count
	if !deleted || s.NumDeleted == 0 {
		return s
	}
	for seq := st.first; seq <= st.last; seq++ {
		if st.load(seq) == nil {
			s.Deleted = append(s.Deleted, seq)
		}
	}
	return s
}
