package memjs

import "time"

// Crash is kill -9, or a power cut with every ack synced: every connection breaks, what was not stored is gone, and the
// server that comes up has another id.
func (s *Server) Crash() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = time.Now()
	s.cutAll(func(*conn) bool { return true })
	s.nameServer()
	s.dirty = nil
	for _, st := range s.streams {
		st.crash()
	}
	s.settle()
}

func (st *stream) crash() {
	st.close()
	st.atomic, st.fast = map[string]*atomicBatch{}, map[string]*fastBatch{}
	st.changes = nil
	st.restore()
	for _, o := range st.consumers {
		o.crash()
	}
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
func (o *consumer) crash() {
	o.halt()
	o.closed, o.signalled = false, false
	o.waiting, o.lasts = nil, nil
	o.pin, o.pinned = "", time.Time{}
	o.load()
	o.start()
}
