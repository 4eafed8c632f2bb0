package model

// The records: packs, then the blob.
const (
	packQ = iota
	packP
	packR
	packN
	packF
	packD
	packG
	blob
	records
)

// The nodes.
const (
	nodeA = iota
	nodeH
	nodeY
	nodeN
	nodeF
	nodeD
	nodeG
	nodes
	none = -1
)

var recordNames = [records]string{"Q", "P", "R", "N", "F", "D", "G", "blob"}

// home is the pack that a node was written to.
var home = [nodes]int{packQ, packP, packP, packN, packF, packD, packG}

// objects are bytes in a bucket: one for each record, and a second one for the blob that is put again.
const (
	blobAgain = records
	objects   = records + 1
)

type status uint8

const (
	absent status = iota
	live
	gone
)

// rec is a record.
type rec struct {
	status  status
	version uint8
	epoch   uint8 // number of the fence that it was written behind
}

// head is a thread.
type head struct {
	node    int8 // none: there is no such thread
	version uint8
}

const threadCount = 3

// store is what everybody sees.
type store struct {
	fence   uint8
	recs    [records]rec
	object  uint8 // of the blob's record: blob or blobAgain
	inR     uint8 // the nodes of P in R, as bits
	buried  uint8 // of P, by its record
	moved   bool  // P has moved to R
	ref     int8  // what f refers to
	heads   [threadCount]head
	bytes   uint16 // objects that are there, as bits
	started uint8  // operations that may still be started
	cycles  uint8  // cycles that may still be started

	// What is there with Protocol.Keep, Merge, Cached, Returns and Restore alone.
	merged    bool  // Q has moved to R as well
	buriedR   uint8 // of R, by its record
	forgot    bool  // P's moved record is gone
	byP       uint8 // packs whose locators name P, as bits
	way       uint8 // tombstones that say where their bytes are
	old       uint8 // records that were written longer ago than the quarantine
	forgotten uint8 // records whose messages were deleted
	pauses    uint8 // how often so much time may pass yet
	kills     uint8 // how often a server may be killed yet, or a backup be restored
	// kept is what no process knows: the nodes that were condemned or buried within the quarantine, and are to come back whole. past is
	// what T0 was when it was removed. wrong: a verdict was reached on a head that is not the one that is stored.
	kept  uint8
	past  int8
	wrong bool
}

// writer is a process that makes a commit.
type writer struct {
	step   uint8 // 0: it does nothing
	op     uint8
	fence  uint8
	parent int8  // node that it builds on
	head   uint8 // version of its own thread's head
	base   int8  // record of the pack that it builds on, or the blob
	seen   rec

	again   bool  // it puts the blob again although there is a record of it
	cached  bool  // its head was in memory before it read its fence
	restore uint8 // tombstones that it takes back, as bits
	touch   uint8 // records that it touches for them
	unbury  uint8 // nodes of P that it takes back
	spoiled bool  // one of these was written since
}

// collector is a process that runs a cycle.
type collector struct {
	step     uint8
	first    uint8
	second   uint8
	before   uint16 // objects that were there when it began
	seen     [records]rec
	inR      uint8
	buried   uint8
	moved    bool
	object   uint8
	ref      int8
	roots    uint16 // nodes that heads reached when it read, as bits
	items    uint8  // what was read, one by one
	backward bool
	condemn  uint8 // records to condemn, as bits
	freed    uint16
	bury     uint8 // nodes of P to bury
	repack   uint8 // nodes of P to keep; 0: do not

	keeps   bool  // it has a quarantine
	merge   bool  // repack Q with P
	buryR   uint8 // nodes of R to bury
	goneInR uint8 // those that are buried, as it read them
	way     uint8 // as it read them
	old     uint8
	byP     uint8
	tops    uint8 // nodes of P that were heads when it read
	merged  bool
	forgot  bool
	forget  uint8  // tombstones to forget
	unlink  bool   // forget P's moved record
	newer   uint16 // objects that were uploaded since it began: no tombstone that it read means them
}

const (
	writers    = 2
	collectors = 2
)

// state is the whole machine.
type state struct {
	store
	w [writers]writer
	c [collectors]collector
}

// refs lists what a node refers to.
func (s *store) refs(n int8) int8 { return refOf(n, s.ref) }

func refOf(n, forked int8) int8 {
	switch n {
	case nodeH:
		return nodeA
	case nodeN:
		return nodeH
	case nodeF:
		return forked
	case nodeG:
		return nodeF
	}
	return none
}

const inP = 1<<nodeH | 1<<nodeY

// hasBlob reports whether a node refers to the blob.
func hasBlob(n int8) bool { return n == nodeA || n == nodeD }

// place is the pack that holds a node by the moved records, whether it is there or not; none: it was dropped. A moved record is the last
// word about a pack.
func (m *machine) place(s *store, n int8) int8 {
	p := int8(home[n])
	moved := p == packP && s.moved || p == packQ && s.merged
	if !moved || m.RecordFirst && s.recs[p].status == live {
		return p
	}
	if p == packP && s.inR&(1<<n) == 0 {
		return none
	}
	return packR
}

// broken is a thread that reaches what is not there, or what must come back whole and would not.
func (m *machine) broken(s *state) bool {
	if s.wrong {
		return true
	}
	for r := range s.recs {
		if m.Keep && s.recs[r].status == live && s.bytes&(1<<r) == 0 && !(r == blob && s.object != blob) {
			return true // what is taken back has its bytes
		}
	}
	for _, h := range s.heads {
		if s.forgot && h.node != none && inP&(1<<h.node) != 0 {
			return true
		}
		for n := h.node; n != none; n = s.refs(n) {
			p := m.place(&s.store, n)
			if p == none || s.recs[p].status != live || s.bytes&(1<<p) == 0 || s.forgot && s.byP&(1<<p) != 0 {
				return true
			}
			if hasBlob(n) && (s.recs[blob].status != live || s.bytes&(1<<s.object) == 0) {
				return true
			}
		}
	}
	for n := range int8(nodes) {
		if s.kept&(1<<n) != 0 && !m.recoverable(&s.store, n) {
			return true
		}
	}
	return false
}

// write changes a record.
func (s *state) write(r int8, st status) {
	s.recs[r] = rec{st, s.recs[r].version + 1, s.fence}
	s.old &^= 1 << r
	s.way &^= 1 << r
	for i := range s.w {
		w := &s.w[i]
		w.spoiled = w.spoiled || (w.restore|w.touch)&(1<<r) != 0 || w.unbury != 0 && r == packP
	}
}

// tidy forgets versions that nobody compares with, so that states which differ in nothing else are one.
func (m *machine) tidy(s *state) {
	for i := range s.c {
		if !m.forgets() { // nobody asks for these
			s.c[i].newer, s.c[i].tops = 0, 0
		}
	}
	for r := range s.recs {
		watched := false
		for i := range s.w {
			watched = watched || s.w[i].step > 0 && s.w[i].base == int8(r)
		}
		for i := range s.c {
			watched = watched || s.c[i].step > 0
		}
		if !watched {
			s.recs[r].version = 0
		}
	}
	for t := range s.heads {
		watched := false
		for i := range s.w {
			watched = watched || s.w[i].step > 0 && ops[s.w[i].op].thread == int8(t)
		}
		if !watched {
			s.heads[t].version = 0
		}
	}
	// Fences count from the oldest that anything remembers.
	if s.less(&s.w[1], &s.w[0]) { // the writers are alike
		s.w[0], s.w[1] = s.w[1], s.w[0]
	}
}

func (s *state) less(a, b *writer) bool {
	x := [...]int{int(a.step), int(a.op), int(a.fence), int(a.parent), int(a.head), int(a.base), int(a.seen.status),
		int(a.seen.version), int(a.seen.epoch)}
	y := [...]int{int(b.step), int(b.op), int(b.fence), int(b.parent), int(b.head), int(b.base), int(b.seen.status),
		int(b.seen.version), int(b.seen.epoch)}
	for i := range x {
		if x[i] != y[i] {
			return x[i] < y[i]
		}
	}
	return false
}
