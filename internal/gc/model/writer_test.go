package model

// op is what a writer does.
type op struct {
	name   string
	thread int8 // whose head it writes
	pack   int8 // what it makes
	node   int8
	from   int8 // thread that it builds on; none: it finds its parent by itself
	parent int8 // its parent when from is none; none: it refers to the blob alone
	any    bool // it may refer to a node that no thread reaches, whose hash it knows
	ahead  bool // the blob's record is written ahead of the commit, as persist.spill does
	back   bool // gc undelete: everything that is in quarantine, and T0
}

var ops = []op{
	{name: "append to T0", thread: 0, pack: packN, node: nodeN, from: 0},
	{name: "fork T0 as T2", thread: 2, pack: packF, node: nodeF, from: 0},
	{name: "fork T2 as T0", thread: 0, pack: packG, node: nodeG, from: 2},
	{name: "create T2", thread: 2, pack: packD, node: nodeD, from: none, parent: none},
	{name: "create T2, its blob ahead", thread: 2, pack: packD, node: nodeD, from: none, parent: none, ahead: true},
	{name: "T2 refers to h", thread: 2, pack: packF, node: nodeF, from: none, parent: nodeH, any: true},
	{name: "T2 refers to n", thread: 2, pack: packF, node: nodeF, from: none, parent: nodeN, any: true},
	{name: "T0 is taken back", thread: 0, pack: none, node: none, from: none, parent: none, back: true},
}

// The steps of a writer: persist.StepFence, the reading of heads, StepBulk, the reading of what it builds on, StepCommit.
const (
	idle uint8 = iota
	writerFenced
	writerPrepared
	writerUploaded
	writerAhead
	writerReady
	writerRemembers // its head is in memory; it has not read its fence
)

// write tries every step of a writer.
func (m *machine) writer(s *state, i int, emit func(state, string)) {
	w := &s.w[i]
	if w.step == idle {
		m.start(s, i, emit)
		return
	}
	o := ops[w.op]
	n := *s
	n.w[i] = writer{}
	emit(n, m.text("writer %d crashes", i))
	n = *s
	next := &n.w[i]
	if o.back {
		m.undelete(s, i, emit)
		return
	}
	switch w.step {
	case writerRemembers:
		next.step, next.fence = writerFenced, s.fence
		emit(n, m.text("writer %d reads its fence", i))
	case writerFenced: // prepare
		if m.wrong(s, o, next) {
			n.w[i], n.wrong = writer{}, true
			emit(n, m.text("writer %d latches a thread for a head that is not the stored one", i))
			return
		}
		if !m.prepare(s, o, next) {
			n.w[i] = writer{}
			emit(n, m.text("writer %d finds nothing to build on", i))
			return
		}
		next.step = writerPrepared
		emit(n, m.text("writer %d reads heads", i))
	case writerPrepared: // upload, under a new name
		next.step = writerUploaded
		n.upload(o.pack)
		emit(n, m.text("writer %d uploads %s", i, recordNames[o.pack]))
	case writerUploaded:
		if !m.base(s, o, next) {
			n.w[i] = writer{}
			emit(n, m.text("writer %d finds its base gone", i))
			return
		}
		if next.again = next.base == blob && !m.holds(s, next); next.again {
			n.upload(blobAgain)
		}
		next.step = writerReady
		if o.ahead {
			next.step = writerAhead
		}
		emit(n, m.text("writer %d reads record %s", i, recordNames[next.base]))
	case writerAhead:
		if !m.writeAhead(&n, o, next) {
			n.w[i] = writer{}
			emit(n, m.text("writer %d: the blob ahead is refused", i))
			return
		}
		next.step = writerReady
		emit(n, m.text("writer %d writes the blob's record ahead", i))
	case writerReady:
		n.w[i] = writer{}
		if m.refused(s, o, w) {
			emit(n, m.text("writer %d: commit refused", i))
			return
		}
		m.commit(&n, o, w)
		emit(n, m.text("writer %d COMMITS %s", i, o.name))
	}
}

func (m *machine) start(s *state, i int, emit func(state, string)) {
	if s.started == 0 || i == 1 && s.w[0].step == idle {
		return
	}
	for k, o := range ops {
		fork := !o.any && o.from != none && o.from != o.thread
		if o.any && !m.AnyFork && !m.Refs || fork && m.AnyFork || o.back && !m.Keep {
			continue
		}
		n := *s
		n.started--
		n.w[i] = writer{step: writerFenced, op: uint8(k), fence: s.fence, parent: none, base: none}
		emit(n, m.text("writer %d starts: %s; reads its fence", i, o.name))
		if m.Cached && o.from == o.thread && s.heads[o.thread].node != none {
			n.w[i].step, n.w[i].cached, n.w[i].fence = writerRemembers, true, 0
			n.w[i].parent, n.w[i].head = s.heads[o.thread].node, s.heads[o.thread].version
			emit(n, m.text("writer %d is to: %s; it has the head in memory", i, o.name))
		}
	}
}

// prepare finds the parent.
func (m *machine) prepare(s *state, o op, w *writer) bool {
	if !w.cached {
		w.head = s.heads[o.thread].version
	}
	switch {
	case w.cached:
	case o.from != none:
		w.parent = s.heads[o.from].node
		if w.parent == none {
			return false
		}
	default:
		w.parent = o.parent
	}
	switch o.pack {
	case packN:
		return w.parent == nodeH // it is appended to once
	case packG:
		if w.parent != nodeF { // it may have been created
			return false
		}
	}
	return s.heads[o.thread].node == none && s.recs[o.pack].status != live
}

// base reads the record of what the commit refers to, and follows a pack that has moved.
func (m *machine) base(s *state, o op, w *writer) bool {
	w.base = blob
	if w.parent != none {
		w.base = int8(home[w.parent])
		if w.base == packP && s.moved && !(m.RecordFirst && s.recs[packP].status == live) {
			if s.forgot {
				return false
			}
			w.base = packR // whoever follows a head does not look whether the node is in it: that is the collector's to see to
		}
		if o.any && (w.base == packR && s.inR&^s.buriedR&(1<<w.parent) == 0 || w.base == packP && s.buried&(1<<w.parent) != 0) {
			return false
		}
	}
	w.seen = s.recs[w.base]
	return w.seen.status == live || w.base == blob // it has the bytes of a blob
}

// touches reports whether the commit writes the record that it refers to.
func (m *machine) touches(o op, w *writer) bool {
	if w.again {
		return true
	}
	if m.NoTouch || m.OwnHeadUntouched && o.from == o.thread {
		return false
	}
	return w.seen.epoch < w.fence
}

func (m *machine) refused(s *state, o op, w *writer) bool {
	switch {
	case !m.NoFence && s.fence != w.fence:
		return true
	case s.heads[o.thread].version != w.head:
		return true
	case !w.again && m.touches(o, w) && s.recs[w.base] != w.seen:
		return true
	}
	return false
}

// writeAhead puts or touches the blob's record. Whatever is young then is left alone by the commit itself.
func (m *machine) writeAhead(s *state, o op, w *writer) bool {
	if !m.touches(o, w) {
		return true
	}
	if !m.NoFence && s.fence != w.fence || !w.again && s.recs[blob] != w.seen {
		return false
	}
	if w.again {
		s.object = blobAgain
	}
	s.write(blob, live)
	w.seen, w.again = s.recs[blob], false
	return true
}

func (m *machine) commit(s *state, o op, w *writer) {
	if m.touches(o, w) {
		if w.again {
			s.object = blobAgain
		}
		s.write(w.base, live)
	}
	s.write(o.pack, live)
	s.kept &^= 1 << o.node
	s.byP &^= 1 << o.pack
	if w.base == packP && (m.Keep || m.Returns || m.Cached) {
		s.byP |= 1 << o.pack
	}
	if o.node == nodeF {
		s.ref = w.parent
	}
	s.heads[o.thread] = head{o.node, s.heads[o.thread].version + 1}
}

// upload puts an object under a name that no other has: whoever noted an older one did not mean this.
func (s *state) upload(object int8) {
	s.bytes |= 1 << object
	for i := range s.c {
		s.c[i].before &^= 1 << object
		s.c[i].freed &^= 1 << object
		s.c[i].newer |= 1 << object
	}
}

// remove takes a thread away: somebody's one conditional write, behind no fence.
func (m *machine) remove(s *state, emit func(state, string)) {
	if s.started == 0 {
		return
	}
	for t := range s.heads {
		if s.heads[t].node == none || t == 1 && !m.Cached {
			continue
		}
		n := *s
		n.started--
		n.heads[t] = head{none, s.heads[t].version + 1}
		if t == 0 && m.Keep {
			n.past = s.heads[t].node
		}
		emit(n, m.text("T%d is removed", t))
	}
}

// wrong: a persister finds the base of the head that it has in memory gone. Unless that is the head which is stored, it says nothing about
// the thread.
func (m *machine) wrong(s *state, o op, w *writer) bool {
	if !m.VerdictOnOld || !w.cached || s.heads[o.thread].version == w.head {
		return false
	}
	p := m.place(&s.store, w.parent)
	return p == none || s.recs[p].status != live || s.forgot && inP&(1<<w.parent) != 0
}

// holds: a writer that would refer to a blob asks whether its bytes are there.
func (m *machine) holds(s *state, w *writer) bool {
	return w.seen.status == live && (m.NoHolds || !m.Returns || s.bytes&(1<<s.object) != 0)
}
