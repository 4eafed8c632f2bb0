package model

// The steps of a collector, named as gc.Step.
const (
	noted         uint8 = iota + 1 // B0
	firstFence                     // gc.StepFirst
	firstReading                   // gc.StepRead
	secondFence                    // gc.StepSecond
	secondReading                  // gc.StepMark follows at once: it depends on what was read alone
	condemning                     // gc.StepCondemn
	uploading                      // gc.StepUpload
	repacking                      // gc.StepRepack
	halfway                        // between the two halves of a repack that is no atomic batch
	reclaiming                     // gc.StepReclaim
	forgetting                     // gc.StepForget
	freeing                        // the bytes of what was forgotten; gc.StepUnmark changes nothing that anybody reads
	burying                        // gc.StepBury
)

// order is newest first, and what it refers to last.
var order = [records]int8{packG, packF, packN, packD, packR, packP, packQ, blob}

// leads is what each record leads to, itself included, as bits.
var leads = [records]uint8{
	packQ: 1<<packQ | 1<<blob, packP: 1<<packP | 1<<packQ | 1<<blob, packR: 1<<packR | 1<<packQ | 1<<blob,
	packN: 1<<packN | 1<<packP | 1<<packR | 1<<packQ | 1<<blob, packF: 1<<packF | 1<<packN | 1<<packP | 1<<packR | 1<<packQ | 1<<blob,
	packG: 1<<packG | 1<<packF | 1<<packN | 1<<packP | 1<<packR | 1<<packQ | 1<<blob,
	packD: 1<<packD | 1<<blob, blob: 1 << blob,
}

// collector tries every step of a collector.
func (m *machine) collector(s *state, i int, emit func(state, string)) {
	c := &s.c[i]
	if c.step == idle {
		m.begin(s, i, emit)
		return
	}
	n := *s
	n.c[i] = collector{}
	emit(n, m.text("gc %d crashes", i))
	n = *s
	next := &n.c[i]
	say := func(format string, a ...any) { emit(n, m.text("gc %d %s", i, m.text(format, a...))) }
	switch c.step {
	case noted:
		n.fence++
		next.first, next.second, next.step = n.fence, n.fence, firstFence
		if m.OneFence {
			next.step = secondFence
		}
		say("moves the first fence")
	case firstFence:
		next.roots, next.tops = s.reached(), s.tops()
		next.step = firstReading
		say("has read the records")
	case firstReading:
		n.fence++
		next.second, next.step = n.fence, secondFence
		say("moves the second fence")
	case secondFence:
		m.read(&n, i, say)
	case secondReading:
		m.mark(next)
		next.step = burying
		if !next.keeps {
			n.kept = 0 // it promises nothing, and takes what was promised
		}
		say("marks: condemn %08b; of P bury %03b, keep %03b", next.condemn, next.bury, next.repack)
	case burying:
		next.step = condemning
		if c.bury == c.buried { // it is in the record already
			c.bury, next.bury = 0, 0
		}
		if c.bury == 0 && c.buryR == 0 {
			m.condemn(&n, i, say)
			return
		}
		if !m.ownFence(s, c) {
			n.c[i] = collector{}
			say("stops: another cycle has begun")
			return
		}
		if c.bury != 0 {
			next.step = burying
			m.bury(&n, next, say)
			return
		}
		m.buryR(&n, next, say)
	case condemning:
		m.condemn(&n, i, say)
	case uploading:
		n.upload(packR)
		n.c[i].step = repacking
		say("uploads R")
	case repacking:
		m.repack(&n, i, say)
	case halfway:
		n.inR, n.moved, n.merged = c.repack, true, c.merge
		n.write(packR, live)
		next.step = reclaiming
		say("writes R's record")
	case reclaiming:
		waste := c.before &^ c.named()
		if m.WasteKept {
			kept := *c
			kept.way = 0
			waste = c.before &^ kept.named()
		}
		if m.NoB0 {
			waste = n.bytes &^ c.named()
		}
		n.bytes &^= waste | c.freed
		next.step, next.freed = forgetting, 0
		if c.forget == 0 && !c.unlink {
			n.c[i] = collector{}
		}
		say("reclaims %09b", waste|c.freed)
	case forgetting:
		m.forget(&n, i, say)
	case freeing:
		n.bytes &^= c.freed
		n.c[i] = collector{}
		say("frees %09b; the cycle ends", c.freed)
	}
}

func (m *machine) begin(s *state, i int, emit func(state, string)) {
	if s.cycles == 0 || i == 1 && (!m.Zombie || s.c[0].step == idle) || i == 0 && s.c[1].step != idle {
		return
	}
	n := *s
	n.cycles--
	n.c[i] = collector{step: noted, before: s.bytes}
	if m.Keep {
		emit(n, m.text("gc %d begins, without a quarantine; notes what the buckets hold", i))
	}
	n.c[i].keeps = m.Keep
	emit(n, m.text("gc %d begins, notes what the buckets hold", i))
}

// reached is the nodes that heads reach now.
func (s *store) reached() (bits uint16) {
	for _, h := range s.heads {
		for n := h.node; n != none; n = s.refs(n) {
			bits |= 1 << n
		}
	}
	return bits
}

// tops is the nodes of P that are heads, which name it.
func (s *store) tops() (bits uint8) {
	for _, h := range s.heads {
		if h.node != none {
			bits |= inP & (1 << h.node)
		}
	}
	return bits
}

// read is the reading up to the end: what the log gives is exactly what was there at one moment. Without a log each record is
// as it was when its turn came.
func (m *machine) read(s *state, i int, say func(string, ...any)) {
	c := &s.c[i]
	if !m.ByItem {
		c.seen, c.inR, c.buried, c.moved, c.object, c.ref = s.recs, s.inR, s.buried, s.moved, s.object, s.ref
		c.roots |= s.reached()
		c.way, c.old, c.byP, c.merged, c.forgot = s.way, s.old, s.byP, s.merged, s.forgot
		c.goneInR = s.buriedR
		c.tops |= s.tops()
		c.step = secondReading
		say("has read on to the end")
		return
	}
	if c.items == 0 { // in this order or the other
		flipped := *s
		flipped.c[i].backward = true
		m.readItem(&flipped, i)
		m.emit(flipped, m.text("gc %d reads the last item", i))
	}
	m.readItem(s, i)
	say("reads an item")
}

func (m *machine) readItem(s *state, i int) {
	const all = records + threadCount
	c := &s.c[i]
	k := int(c.items)
	if c.backward {
		k = all - 1 - k
	}
	if k < records {
		c.seen[k] = s.recs[k]
		switch k {
		case packR:
			c.inR = s.inR
		case packP:
			c.moved, c.buried = s.moved, s.buried
		case packF:
			c.ref = s.ref
		case blob:
			c.object = s.object
		}
	} else if n := s.heads[k-records].node; n != none {
		for ; n != none; n = s.refs(n) { // the headers that lead there never change
			c.roots |= 1 << n
		}
	}
	if c.items++; c.items == all {
		c.items, c.step = 0, secondReading
	}
}

// mark decides, of what was read alone.
func (m *machine) mark(c *collector) {
	young := func(r int8) bool { return !m.YoungNoRoots && c.seen[r].status == live && c.seen[r].epoch >= c.first }
	reach := c.roots
	keeps := uint8(0)
	root := func(n int8) {
		for ; n != none; n = refOf(n, c.ref) {
			reach |= 1 << n
		}
	}
	for n := range int8(nodes) {
		p := int8(home[n])
		inR := nodesIn(packR, c.inR, c.merged)&^c.goneInR&(1<<n) != 0
		if young(p) && c.buried&(1<<n) == 0 || young(packR) && inR {
			root(n)
		}
	}
	for n := range int8(nodes) {
		if reach&(1<<n) == 0 {
			continue
		}
		switch {
		case home[n] == packP && c.moved || home[n] == packQ && c.merged:
			keeps |= 1 << packR // a record of P beside the moved one came back
		case home[n] == packP:
			keeps |= 1<<packP | 1<<packR
		default:
			keeps |= 1 << home[n]
		}
		if hasBlob(n) {
			keeps |= 1 << blob
		}
	}
	for r := range int8(records) {
		if c.seen[r].status == live && keeps&(1<<r) == 0 && !young(r) {
			c.condemn |= 1 << r
		}
	}
	if p := c.seen[packP]; m.Mixed && p.status == live && !c.moved && p.epoch < c.first && reach&inP != 0 {
		q := c.seen[packQ]
		c.merge = m.Merge && q.status == live && q.epoch < c.first && reach&(1<<nodeA) != 0
		if reach&inP != inP || c.merge {
			c.repack = uint8(reach & inP)
		}
		if !m.NoBury {
			c.bury = uint8(inP &^ reach)
		}
	}
	if in := nodesIn(packR, c.inR, c.merged); c.merged && c.seen[packR].status == live && !young(packR) && keeps&(1<<packR) != 0 {
		if c.buryR = in &^ uint8(reach); c.buryR == c.goneInR {
			c.buryR = 0
		}
	}
	if m.forgets() {
		m.decideForget(c, reach)
	}
}

// named is the objects that a record named when it was read.
func (c *collector) named() (bits uint16) {
	for r := range c.seen {
		if c.seen[r].status != live && !(c.seen[r].status == gone && c.way&(1<<r) != 0) {
			continue
		}
		if r == blob {
			bits |= 1 << c.object
		} else {
			bits |= 1 << r
		}
	}
	return bits
}

// condemn takes the next record of the list.
func (m *machine) condemn(s *state, i int, say func(string, ...any)) {
	c := &s.c[i]
	at := none
	for k := range order {
		if m.ReferentsFirst {
			k = records - 1 - k
		}
		if c.condemn&(1<<order[k]) != 0 {
			at = int(order[k])
			break
		}
	}
	switch {
	case at == none:
		if c.step = reclaiming; c.repack != 0 {
			c.step = uploading
		}
		say("has condemned")
	case !m.ownFence(s, c):
		s.c[i] = collector{}
		say("stops: another cycle has begun")
	case s.recs[at] == c.seen[at] || m.Unconditional:
		s.write(int8(at), gone)
		c.condemn &^= 1 << at
		if c.keeps {
			s.way |= 1 << at
			s.kept |= s.nodesOf(int8(at)) &^ s.buried
			say("condemns %s, and keeps its bytes", recordNames[at])
			return
		}
		c.freed |= 1 << at
		if at == blob {
			c.freed = c.freed&^(1<<blob) | 1<<c.object
		}
		say("condemns %s", recordNames[at])
	case m.NoSparing:
		c.condemn &^= 1 << at
		say("passes %s over", recordNames[at])
	default:
		c.condemn &^= leads[at]
		if leads[at]&(1<<packP) != 0 || c.merge && leads[at]&(1<<packQ) != 0 {
			c.repack = 0
		}
		say("spares %s and all that it leads to", recordNames[at])
	}
}

// bury comes before the first tombstone: what is buried refers to what they stand for.
func (m *machine) bury(s *state, c *collector, say func(string, ...any)) {
	nodes := c.bury
	c.bury = 0
	switch {
	case s.recs[packP] == c.seen[packP]:
		if c.keeps {
			s.kept |= nodes &^ s.buried
		}
		s.buried = nodes
		s.write(packP, live)
		say("buries %03b of P", nodes)
	case s.recs[packP].status != live || s.buried == nodes:
		say("finds P gone, or buried already")
	default:
		c.condemn &^= leads[packP]
		c.repack = 0
		say("spares P and all that it leads to")
	}
}

// buryR is bury for a pack that was made of several, and of which a part is garbage since.
func (m *machine) buryR(s *state, c *collector, say func(string, ...any)) {
	nodes := c.buryR
	c.buryR = 0
	switch {
	case s.recs[packR] == c.seen[packR]:
		s.buriedR = nodes
		s.write(packR, live)
		say("buries %03b of R", nodes)
	case s.recs[packR].status != live || s.buriedR == nodes:
		say("finds R gone, or buried already")
	default:
		c.condemn &^= leads[packR]
		say("spares R and all that it leads to")
	}
}

// covered: what a repack leaves out of P nothing can refer to; whoever touched P since refers to something else.
func (m *machine) covered(s *state, c *collector) bool {
	if m.NoBury {
		return s.recs[packP] == c.seen[packP]
	}
	return s.recs[packP].status == live && !s.moved && inP&^c.repack&^s.buried == 0 && (!c.merge || s.recs[packQ].status == live)
}

// ownFence: a collector's commits are made behind the fence that it moved.
func (m *machine) ownFence(s *state, c *collector) bool { return m.NoFence || s.fence == c.second }

func (m *machine) repack(s *state, i int, say func(string, ...any)) {
	c := &s.c[i]
	if !m.ownFence(s, c) || !m.covered(s, c) {
		s.c[i] = collector{}
		say("leaves P alone")
		return
	}
	s.write(packP, gone)
	if c.merge {
		s.write(packQ, gone)
	}
	if m.RepackInTwo {
		c.step = halfway
		say("writes P's tombstone")
		return
	}
	s.inR, s.moved, s.merged = c.repack, true, c.merge
	s.write(packR, live)
	c.step = reclaiming
	say("REPACKS P")
}
