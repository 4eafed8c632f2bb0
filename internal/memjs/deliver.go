package memjs

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/nats-io/nats-server/v2/server"
)

// gather delivers all that can be delivered now, and sets the timer for the requests that go on waiting.
func (o *consumer) gather() {
	stalled := false
	for !o.closed && len(o.waiting) > 0 {
		m, count, full := o.nextMessage()
		if m == nil {
			if stalled = full; !full && o.sseq > o.st.last && o.unseen != 0 {
				o.unseen, o.unseenTo = 0, o.st.last
			}
			break
		}
		if count == 1 {
			o.unseen--
		}
		if !o.give(m, count) {
			break
		}
	}
	if !o.closed {
		o.processWaiting(!stalled)
	}
}

// nextMessage takes the message that comes next, and the how manieth delivery of it this is. full: too many are not
// acknowledged.
func (o *consumer) nextMessage() (m *message, count uint64, full bool) {
	for len(o.again) > 0 {
		seq := o.again[0]
		o.again = o.again[1:]
		count := o.countDelivery(seq)
		if o.cfg.MaxDeliver > 0 && count > uint64(o.cfg.MaxDeliver) {
			o.giveUp(seq, count)
			continue
		}
		if m := o.st.load(seq); m != nil {
			return m, count, false
		}
		o.uncountDelivery(seq)
		if p := o.pending[seq]; p != nil {
			o.acked(seq, p.dseq)
		}
	}
	if o.cfg.MaxAckPending > 0 && o.cfg.AckPolicy != server.AckNone && len(o.pending) >= o.cfg.MaxAckPending {
		return nil, 0, true
	}
	if o.lasts != nil {
		return o.nextOfLasts()
	}
	m = o.st.next(o.filters, o.sseq)
	switch {
	case m != nil:
		o.sseq = m.seq + 1
	case o.st.last >= o.sseq:
		o.sseq = o.st.last + 1
	}
	return m, 1, false
}

func (o *consumer) nextOfLasts() (m *message, count uint64, full bool) {
	for o.lasts != nil {
		seq := o.lasts.seqs[0]
		o.sseq = seq + 1
		if o.lasts.seqs = o.lasts.seqs[1:]; len(o.lasts.seqs) == 0 {
			o.sseq = o.lasts.resume + 1
			o.lasts = nil
		}
		if m := o.st.load(seq); m != nil {
			return m, 1, false
		}
	}
	return o.nextMessage()
}

// countDelivery returns how often a message will have been given.
func (o *consumer) countDelivery(seq uint64) uint64 {
	if o.redelivered == nil {
		o.redelivered = map[uint64]uint64{}
	}
	o.redelivered[seq]++
	return o.redelivered[seq] + 1
}

func (o *consumer) uncountDelivery(seq uint64) {
	if n, ok := o.redelivered[seq]; ok && n <= 1 {
		delete(o.redelivered, seq)
	} else if ok {
		o.redelivered[seq] = n - 1
	}
}

// giveUp drops a message that was given often enough.
func (o *consumer) giveUp(seq, count uint64) {
	if p := o.pending[seq]; p != nil {
		delete(o.pending, seq)
		o.kept.deliver(o.cfg.AckPolicy, o.cfg.MaxDeliver, p.dseq, seq, count, p.ts)
		o.moveFloor(p.dseq, seq)
	}
}

// give delivers one message; false: nobody takes it now, and it is put back.
func (o *consumer) give(m *message, count uint64) bool {
	reply := o.ackSubject(m, count)
	hdr, data := m.hdr, m.data
	if o.cfg.HeadersOnly {
		hdr, data = addHeader(hdr, server.JSMsgSize, strconv.Itoa(len(data))), nil
	}
	w := o.nextPull(len(m.subject) + len(reply) + len(hdr) + len(data))
	if w == nil {
		o.putBack(m, count)
		return false
	}
	if o.cfg.PriorityPolicy == server.PriorityPinnedClient {
		hdr = addHeader(hdr, server.JSPullRequestNatsPinId, o.pin)
	}
	if w.n > 0 && w.beat > 0 {
		w.beatAt = o.st.s.now.Add(w.beat)
	}
	o.deliver(m, count)
	o.st.s.deliver(nil, delivery{w.reply, m.subject, reply, hdr, data})
	if w.n <= 0 && w.bytes > 0 {
		o.status(w, "409 Batch Completed")
	}
	return true
}

// putBack undoes nextMessage.
func (o *consumer) putBack(m *message, count uint64) {
	if count == 1 && m.seq == o.sseq-1 {
		o.sseq--
		o.unseen++
		return
	}
	if !slices.Contains(o.again, m.seq) {
		o.uncountDelivery(m.seq)
		o.again = append(o.again, m.seq)
	}
}

// deliver notes a delivery.
func (o *consumer) deliver(m *message, count uint64) {
	s := o.st.s
	dseq := o.dseq
	o.dseq++
	o.kept.deliver(o.cfg.AckPolicy, o.cfg.MaxDeliver, dseq, m.seq, count, m.ts)
	o.lastDelivery = s.now
	if o.cfg.AckPolicy == server.AckNone {
		o.adflr, o.asflr = dseq, m.seq
	} else {
		o.track(m.seq, dseq)
	}
	if o.idle > 0 {
		o.lastRequest = s.now
	}
}

// ackSubject is the reply subject of a delivery: it says which one it is, and its acks go there.
func (o *consumer) ackSubject(m *message, count uint64) string {
	b := make([]byte, 0, 96)
	b = append(append(b, "$JS.ACK."...), o.st.cfg.Name...)
	b = append(append(b, '.'), o.name...)
	for _, n := range [...]uint64{count, m.seq, o.dseq, uint64(m.ts), o.numPending()} {
		b = strconv.AppendUint(append(b, '.'), n, 10)
	}
	return string(b)
}

// heartbeat tells a client that waits that the consumer is there.
func (o *consumer) heartbeat(to string) {
	o.st.s.answer(to, fmt.Appendf(nil, "NATS/1.0 100 Idle Heartbeat\r\n%s: %d\r\n%s: %d\r\n\r\n",
		server.JSLastConsumerSeq, o.dseq-1, server.JSLastStreamSeq, o.sseq-1), nil)
}
