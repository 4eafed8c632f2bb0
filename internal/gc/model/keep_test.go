package model

// What a quarantine keeps, what is forgotten, and how it comes back. Here "old" is written longer ago than the quarantine.

// nodesOf is the nodes of a pack's record.
func (s *store) nodesOf(r int8) (bits uint8) { return nodesIn(r, s.inR, s.merged) }

func nodesIn(r int8, inR uint8, merged bool) (bits uint8) {
	switch r {
	case packR:
		if bits = inR; merged {
			bits |= 1 << nodeA
		}
		return bits
	case blob:
		return 0
	}
	for n := range nodes {
		if home[n] == int(r) {
			bits |= 1 << n
		}
	}
	return bits
}

// recoverable: a node is there, or in a tombstone that keeps its bytes, and so is all that it leads to.
func (m *machine) recoverable(s *store, n int8) bool {
	for ; n != none; n = s.refs(n) {
		p := m.place(s, n)
		if p == none || !s.stored(p) || s.bytes&(1<<p) == 0 || s.forgot && s.byP&(1<<p) != 0 {
			return false
		}
		if hasBlob(n) && (!s.stored(blob) || s.bytes&(1<<s.object) == 0) {
			return false
		}
	}
	return true
}

// stored: a record is live, or a tombstone that says where its bytes are.
func (s *store) stored(r int8) bool {
	return s.recs[r].status == live || s.recs[r].status == gone && s.way&(1<<r) != 0
}

// forgets: the records of a cycle before are dropped, and the bytes of those that kept them.
func (m *machine) forgets() bool { return m.Keep || m.Cached || m.Returns }

// decideForget marks what is in quarantine, of what was read alone, and decides what is forgotten.
func (m *machine) decideForget(c *collector, reach uint16) {
	var hold uint8
	hasIt := false
	names := c.tops != 0
	source := func(bits uint8, r int8) {
		if bits != 0 && c.byP&(1<<r) != 0 {
			names = true
		}
		for n := range int8(nodes) {
			if bits&(1<<n) == 0 {
				continue
			}
			for at := n; at != none; at = refOf(at, c.ref) {
				hold |= 1 << at
				hasIt = hasIt || hasBlob(at)
			}
		}
	}
	for r := range int8(blob) {
		in := nodesIn(r, c.inR, c.merged)
		switch {
		case !c.keeps || m.HoldByAge:
		case c.seen[r].status == gone && c.way&(1<<r) != 0 && c.old&(1<<r) == 0, c.condemn&(1<<r) != 0:
			source(in, r)
		}
		names = names || c.seen[r].status == live && c.condemn&(1<<r) == 0 && c.byP&(1<<r) != 0
	}
	if c.keeps && c.seen[packP].status == live && (c.bury != c.buried || c.old&(1<<packP) == 0) {
		source(c.bury, packP)
	}
	if hold&^uint8(reach)&(inP&^c.repack) != 0 && c.repack != 0 && !m.NoHold {
		c.repack, c.merge = 0, false
	}
	for r := range int8(records) {
		held := nodesIn(r, c.inR, c.merged)&hold != 0 || r == blob && hasIt
		moved := r == packP && c.moved || r == packQ && c.merged
		long := c.old&(1<<r) != 0 && !held || !c.keeps || moved
		if c.seen[r].status == gone && c.seen[r].epoch < c.first && long {
			c.forget |= 1 << r
		}
	}
	c.unlink = c.moved && !c.forgot && c.seen[packP].status == absent && (!names || m.UnlinkNamed)
}

// forget drops records, those that are as they were read, and then the bytes that they kept.
func (m *machine) forget(s *state, i int, say func(string, ...any)) {
	c := &s.c[i]
	if !m.ownFence(s, c) {
		s.c[i] = collector{}
		say("stops: another cycle has begun")
		return
	}
	var freed uint16
	for r := range int8(records) {
		if c.forget&(1<<r) == 0 || s.recs[r] != c.seen[r] && !m.ForgetAny {
			continue
		}
		object := uint16(1) << r
		if r == blob {
			object = 1 << c.object
		}
		if c.way&(1<<r) != 0 {
			freed |= object &^ c.newer
		}
	}
	if m.BytesFirst && s.bytes&freed != 0 {
		s.bytes &^= freed
		say("frees %09b, of what it forgets next", freed)
		return
	}
	for r := range int8(records) {
		if c.forget&(1<<r) == 0 || s.recs[r] != c.seen[r] && !m.ForgetAny {
			continue
		}
		s.write(r, absent)
		s.forgotten |= 1 << r
	}
	if c.unlink {
		s.forgot = true
	}
	c.freed, c.step = freed, freeing
	say("forgets %08b; P's moved record: %v", c.forget, c.unlink)
}

// passTime: the quarantine of all that was written is over. What is written from here on stands for what was written less long ago.
func (m *machine) passTime(s *state, emit func(state, string)) {
	if s.pauses == 0 {
		return
	}
	n := *s
	n.pauses--
	n.old, n.kept = 1<<records-1, 0
	emit(n, m.text("the quarantine passes"))
}

// undelete takes back whatever is in quarantine, and T0.
func (m *machine) undelete(s *state, i int, emit func(state, string)) {
	n, w := *s, &s.w[i]
	next := &n.w[i]
	if w.step == writerFenced {
		m.exhume(s, next)
		next.step = writerReady
		if next.restore|next.unbury == 0 {
			n.w[i] = writer{}
		}
		emit(n, m.text("writer %d finds %08b and %03b of P in quarantine", i, next.restore, next.unbury))
		return
	}
	n.w[i] = writer{}
	if s.fence != w.fence && !m.NoUndeleteStop || w.spoiled {
		emit(n, m.text("writer %d: what is taken back has changed", i))
		return
	}
	for r := range int8(records) {
		switch {
		case w.restore&(1<<r) != 0:
			n.kept &^= n.nodesOf(r)
			n.write(r, live)
		case w.touch&(1<<r) != 0, r == packP && w.unbury != 0:
			n.write(r, live)
		}
	}
	n.kept &^= w.unbury
	n.buried &^= w.unbury
	if p := s.past; p != none && s.heads[0].node == none && (w.restore&(1<<home[p]) != 0 || w.unbury&(1<<p) != 0) {
		n.heads[0] = head{p, s.heads[0].version + 1}
	}
	emit(n, m.text("writer %d TAKES BACK %08b and %03b of P", i, w.restore, w.unbury))
}

// exhume decides what can be taken back, and what must be touched for it.
func (m *machine) exhume(s *state, w *writer) {
	back := func(n int8) bool { return m.UndeleteBlind || m.recoverable(&s.store, n) }
	for n := range int8(nodes) {
		p := m.place(&s.store, n)
		if p == none || !back(n) {
			continue
		}
		switch {
		case s.recs[p].status == gone && s.way&(1<<p) != 0:
			w.restore |= 1 << p
		case p == packP && s.recs[p].status == live && s.buried&(1<<n) != 0:
			w.unbury |= 1 << n
		default:
			continue
		}
		if hasBlob(n) {
			m.rely(s, w, blob)
		}
		if to := s.refs(n); to != none {
			if at := m.place(&s.store, to); at != none {
				m.rely(s, w, at)
			}
		}
	}
	w.touch &^= w.restore
}

// rely: what is taken back refers to a record.
func (m *machine) rely(s *state, w *writer, r int8) {
	switch {
	case s.recs[r].status == gone && s.way&(1<<r) != 0:
		w.restore |= 1 << r
	case s.recs[r].status == live && s.recs[r].epoch < w.fence && !m.NoUndeleteHold:
		w.touch |= 1 << r
	}
}

// bringBack: a server that is killed brings a record back that was forgotten, and not its bytes.
func (m *machine) bringBack(s *state, emit func(state, string)) {
	if !m.Returns || s.kills == 0 {
		return
	}
	for _, r := range []int8{packQ, packP, packN, blob} {
		if s.forgotten&(1<<r) == 0 || s.recs[r].status != absent {
			continue
		}
		n := *s
		n.kills--
		n.write(r, live)
		n.recs[r].epoch = 0
		if r == packP {
			n.buried = 0
		}
		emit(n, m.text("a server is killed, and record %s is back", recordNames[r]))
	}
}

// restore puts a backup of the beginning in the place of everything. Its bytes are under new names, and its sequences go on.
func (m *machine) restore(s *state, emit func(state, string)) {
	if !m.Restore || s.kills == 0 {
		return
	}
	n := *s
	begin := m.initial(Bounds{Operations: s.started, Cycles: s.cycles})
	n.store = begin.store
	n.kills = 0
	if !m.RewoundFence {
		n.fence = s.fence + 1
		for r := range n.recs {
			n.recs[r].version = s.recs[r].version + 1
			n.recs[r].epoch = n.fence
		}
	}
	for t := range n.heads {
		n.heads[t].version = s.heads[t].version + 1
	}
	for r := range records {
		if begin.bytes&(1<<r) != 0 {
			n.upload(int8(r))
		}
	}
	for i := range n.w {
		n.w[i] = writer{}
	}
	emit(n, m.text("a backup is RESTORED"))
}
