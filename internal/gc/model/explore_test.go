package model

import (
	"fmt"
	"hash/maphash"
	"slices"
)

// Protocol is what is tried. The zero value is that of internal/gc.
type Protocol struct {
	Mixed   bool // P has a node of another thread, so that it can be half garbage
	Refs    bool // steps refer to nodes that they know, whether a thread reaches them or not
	AnyFork bool // forks do, too, and follow no head
	Zombie  bool // a second collector may begin while one is on its way

	// What is tried only where it is asked for: each makes many more states.
	Keep    bool // cycles have a quarantine, or, as an erasure, have none; what is in it is taken back
	Merge   bool // P is repacked with Q, its neighbour
	Cached  bool // a persister may have had its head in memory since before it read its fence, and others wrote meanwhile
	Returns bool // a server that is killed brings back records that were forgotten
	Restore bool // a backup is restored, while collectors are on their way

	// What is left out, or done in another way.
	OneFence         bool
	ByItem           bool // the records are read one by one, not as a log up to its end
	NoTouch          bool
	NoFence          bool // commits do not expect their fence
	Unconditional    bool // tombstones expect nothing
	ReferentsFirst   bool
	YoungNoRoots     bool
	NoSparing        bool
	OwnHeadUntouched bool
	NoBury           bool // a pack that stays does not say which of its nodes are garbage
	RepackInTwo      bool // not one atomic batch
	NoB0             bool // bytes are waste however new they are

	NoHold         bool // a repack drops what is in quarantine
	HoldByAge      bool // it drops what was buried long ago, whatever in quarantine leads there
	WasteKept      bool // what tombstones name is waste
	BytesFirst     bool // the bytes of a tombstone go before it is forgotten
	ForgetAny      bool // what is forgotten may have changed since it was read
	UndeleteBlind  bool // whatever it leads to
	NoUndeleteStop bool // what is taken back is not behind a fence, and
	NoUndeleteHold bool // what it leads to is not touched
	UnlinkNamed    bool // a moved record is forgotten although something names the pack
	RecordFirst    bool // a pack's record counts although there is a moved record
	NoHolds        bool // a blob's record says that its bytes are there
	VerdictOnOld   bool // a verdict is reached on a head in memory
	RewoundFence   bool // fences of a restored store begin anew
}

// Bounds is how far.
type Bounds struct {
	Operations uint8 // that are started: commits, removals of threads
	Cycles     uint8
	States     int // 0: no bound
}

// Result is what was found.
type Result struct {
	States    int
	Bounded   bool     // there were more
	Trace     []string // the shortest way to a thread that reaches what is not there; nil: there is none
	Condemned int      // states in which something was condemned: so that it is not safe for doing nothing
	Repacked  int
}

type machine struct {
	Protocol
	emit  func(state, string)
	trace bool // labels are written; they are most of the work
}

func (m *machine) text(format string, a ...any) string {
	if !m.trace {
		return ""
	}
	return fmt.Sprintf(format, a...)
}

// way is how a state was first come to: the k-th step of another one.
type way struct {
	from int32
	step uint8
}

// Explore tries every interleaving, breadth first.
func Explore(p Protocol, b Bounds) Result {
	m := &machine{Protocol: p}
	start := m.initial(b)
	seed := maphash.MakeSeed()
	seen := map[uint64]struct{}{maphash.Comparable(seed, start): {}}
	ways := []way{{from: -1}}
	level, ids := []state{start}, []int32{0}
	var res Result
	for len(level) > 0 {
		var next []state
		var nextIDs []int32
		for i := range level {
			s := &level[i]
			if m.broken(s) {
				res.States, res.Trace = len(ways), m.replay(start, ways, ids[i])
				return res
			}
			res.count(s)
			step := uint8(0)
			m.emit = func(n state, _ string) {
				step++
				m.tidy(&n)
				h := maphash.Comparable(seed, n)
				if _, ok := seen[h]; ok {
					return
				}
				seen[h] = struct{}{}
				ways = append(ways, way{ids[i], step})
				next, nextIDs = append(next, n), append(nextIDs, int32(len(ways)-1))
			}
			m.steps(s)
			if b.States > 0 && len(ways) > b.States {
				res.States, res.Bounded = len(ways), true
				return res
			}
		}
		level, ids = next, nextIDs
	}
	res.States = len(ways)
	return res
}

func (m *machine) replay(s state, ways []way, id int32) (labels []string) {
	var path []uint8
	for ; ways[id].from >= 0; id = ways[id].from {
		path = append(path, ways[id].step)
	}
	m.trace = true
	for _, want := range slices.Backward(path) {
		step, to := uint8(0), s
		m.emit = func(n state, label string) {
			if step++; step == want {
				m.tidy(&n)
				to = n
				labels = append(labels, label)
			}
		}
		m.steps(&s)
		s = to
	}
	return labels
}

func (r *Result) count(s *state) {
	for i := range s.recs {
		if s.recs[i].status == gone {
			r.Condemned++
			break
		}
	}
	if s.moved {
		r.Repacked++
	}
}

func (m *machine) initial(b Bounds) state {
	s := state{store: store{started: b.Operations, cycles: b.Cycles, object: blob, ref: none, past: none}}
	if m.Keep {
		s.pauses = 1
	}
	if m.Returns || m.Restore {
		s.kills = 1
	}
	for _, r := range []int{packQ, packP, blob} {
		s.recs[r] = rec{status: live}
		s.bytes |= 1 << r
	}
	for t := range s.heads {
		s.heads[t].node = none
	}
	s.heads[0].node = nodeH
	if m.Mixed {
		s.heads[1].node = nodeY
	}
	return s
}

func (m *machine) steps(s *state) {
	for i := range s.w {
		m.writer(s, i, m.emit)
	}
	m.remove(s, m.emit)
	m.passTime(s, m.emit)
	m.bringBack(s, m.emit)
	m.restore(s, m.emit)
	for i := range s.c {
		m.collector(s, i, m.emit)
	}
}
