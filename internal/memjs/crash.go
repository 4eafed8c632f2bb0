package memjs

import (
	"time"
)

// Crash is kill -9, or a power cut: every connection breaks, what was not stored is gone, and the server that comes
// up has another id. lose says how much of what a disk did not have yet is lost. It is asked for each stream how many
// of its last unsynced operations (a message, an atomic batch, a deletion or purge, with what it displaced), and for
// each consumer, named "<stream>.<consumer>", how many of its last acks; it must not call the server. nil loses
// nothing of it.
func (s *Server) Crash(lose func(name string, unsynced int) int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = time.Now()
	s.cutAll(func(*conn) bool { return true })
	s.nameServer()
	s.dirty = nil
	for _, st := range s.streams {
		st.crash(lose)
	}
	s.settle()
}

func (st *stream) crash(lose func(name string, unsynced int) int) {
	st.close()
	st.atomic, st.fast = map[string]*atomicBatch{}, map[string]*fastBatch{}
	if n := st.unsynced(); lose != nil && n > 0 {
		st.undo(min(max(lose(st.cfg.Name, n), 0), n))
	}
	st.changes = nil
	st.restore()
	for _, o := range st.consumers {
		o.crash(lose)
	}
}

// unsynced counts the operations that a crash may lose.
func (st *stream) unsynced() int {
	if st.s.cfg.SyncEvery <= 0 {
		return 0
	}
	n, _ := st.operations(st.s.now.Add(-st.s.cfg.SyncEvery).UnixNano())
	return n
}

// restore makes what a server keeps in memory of what is stored.
func (st *stream) restore() {
	st.ids, st.idOrder, st.lastMsgID = map[string]stored{}, nil, ""
	st.ttls = map[uint64]int64{}
	since := st.s.now.Add(-st.cfg.Duplicates).UnixNano()
	for _, m := range st.msgs {
		if m == nil {
			continue
		}
		if id := header(m.hdr, "Nats-Msg-Id"); id != "" {
			if st.lastMsgID = id; m.ts >= since {
				st.ids[id] = stored{m.seq, m.ts}
				st.idOrder = append(st.idOrder, id)
			}
		}
		st.noteTTL(m)
		st.schedule(m)
	}
	st.armAge()
}

// crash brings a consumer up again from what the disk has of it.
func (o *consumer) crash(lose func(name string, unsynced int) int) {
	o.halt()
	o.closed, o.signalled = false, false
	o.waiting, o.lasts = nil, nil
	o.pin, o.pinned = "", time.Time{}
	if n := len(o.earlier); lose != nil && n > 0 {
		if back := min(max(lose(o.st.cfg.Name+"."+o.name, n), 0), n); back > 0 {
			o.kept = o.earlier[n-back].clone()
		}
	}
	o.earlier = nil
	o.load()
	if o.sseq-1 > o.st.last {
		o.reconcile(o.st.last)
	}
	o.start()
}

// earlierStates is how many of its states before the last acks a consumer remembers for a crash.
const earlierStates = 8

// remember keeps the state that an ack changes, when a crash may lose it.
func (o *consumer) remember() {
	if o.st.s.cfg.SyncEvery <= 0 {
		return
	}
	if len(o.earlier) == earlierStates {
		o.earlier = o.earlier[1:]
	}
	o.earlier = append(o.earlier, o.kept.clone())
}
