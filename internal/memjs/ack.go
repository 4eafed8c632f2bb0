package memjs

import (
	"bytes"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// acknowledge takes what a client says about a delivery; false: there is no such consumer.
func (s *Server) acknowledge(cmd *command) bool {
	tokens := strings.Split(cmd.subject, ".")
	if len(tokens) != 9 {
		return false
	}
	st := s.stream(tokens[2])
	if st == nil {
		return false
	}
	o := st.consumer(tokens[3])
	if o == nil || o.cfg.AckPolicy == server.AckNone {
		return false
	}
	sseq, _ := strconv.ParseUint(tokens[5], 10, 64)
	dseq, _ := strconv.ParseUint(tokens[6], 10, 64)
	o.processAck(sseq, dseq, cmd.reply, cmd.data)
	return true
}

func (o *consumer) processAck(sseq, dseq uint64, reply string, body []byte) {
	answer := sseq != 0
	switch {
	case len(body) == 0, bytes.Equal(body, server.AckAck), bytes.Equal(body, server.AckOK):
		answer = o.acked(sseq, dseq) && answer
	case bytes.Equal(body, server.AckProgress):
		if p := o.pending[sseq]; p != nil {
			p.ts = o.st.s.now.UnixNano()
			o.kept.deliver(o.cfg.AckPolicy, o.cfg.MaxDeliver, p.dseq, sseq, 1, p.ts)
			o.lastDelivery = o.st.s.now
		}
	default: // a refusal, or an ack that asks for more: not modelled
		return
	}
	if reply != "" && answer {
		o.st.s.answer(reply, nil, nil)
	}
}

// acked takes an ack; false: it is of something that was not delivered, and gets no answer.
func (o *consumer) acked(sseq, dseq uint64) bool {
	if sseq >= o.sseq {
		return false
	}
	wasFull := o.cfg.MaxAckPending > 0 && len(o.pending) >= o.cfg.MaxAckPending
	switch o.cfg.AckPolicy {
	case server.AckExplicit:
		if p := o.pending[sseq]; p != nil {
			delete(o.pending, sseq)
			dseq = p.dseq
			o.moveFloor(dseq, sseq)
		}
		delete(o.redelivered, sseq)
		o.again = slices.DeleteFunc(o.again, func(seq uint64) bool { return seq == sseq })
	case server.AckAll:
		if dseq <= o.adflr || sseq <= o.asflr {
			return true
		}
		from := o.asflr + 1
		o.adflr, o.asflr = dseq, sseq
		if sseq-from < uint64(len(o.pending)) {
			for seq := from; seq <= sseq; seq++ {
				delete(o.pending, seq)
				delete(o.redelivered, seq)
			}
		} else {
			maps.DeleteFunc(o.pending, func(seq uint64, _ *open) bool { return seq <= sseq })
			maps.DeleteFunc(o.redelivered, func(seq, _ uint64) bool { return seq <= sseq })
		}
		o.again = slices.DeleteFunc(o.again, func(seq uint64) bool { return seq <= sseq })
	default:
		return false
	}
	o.kept.ack(o.cfg.AckPolicy, dseq, sseq)
	o.lastAck = o.st.s.now
	if wasFull {
		o.signal()
	}
	return true
}

// moveFloor raises the floor over what is acknowledged.
func (o *consumer) moveFloor(dseq, sseq uint64) {
	if len(o.pending) == 0 {
		o.adflr, o.asflr = o.dseq-1, o.sseq-1
		return
	}
	if dseq != o.adflr+1 {
		return
	}
	o.adflr, o.asflr = dseq, sseq
	for seq := sseq + 1; seq < o.sseq; seq++ {
		if p := o.pending[seq]; p != nil {
			if p.dseq > 0 {
				o.adflr, o.asflr = p.dseq-1, seq-1
			}
			return
		}
	}
}

// ackSlack is how much later than due a server looks for acks, so that it finds many at once.
const ackSlack = time.Millisecond

// ackWait is how long an ack may take.
func (o *consumer) ackWait() time.Duration { return o.cfg.AckWait + ackSlack }

// track notes that an ack is awaited.
func (o *consumer) track(sseq, dseq uint64) {
	now := o.st.s.now
	if o.pending == nil {
		o.pending = map[uint64]*open{}
	}
	if p := o.pending[sseq]; p != nil {
		p.ts = now.UnixNano()
	} else {
		o.pending[sseq] = &open{dseq, now.UnixNano()}
	}
	o.armAcks(now.Add(o.ackWait()))
}

// armAcks sets the timer, unless it is set for earlier.
func (o *consumer) armAcks(at time.Time) {
	if o.ackTimer.place == 0 || at.Before(o.ackTimer.at) {
		o.st.s.setTimer(&o.ackTimer, at)
	}
}

// checkPending has what was not acknowledged in time given again.
func (o *consumer) checkPending() {
	if o.cfg.AckWait == 0 {
		return
	}
	now := o.st.s.now
	var late []uint64
	var next time.Time
	queued := make(map[uint64]bool, len(o.again))
	for _, seq := range o.again {
		queued[seq] = true
	}
	for _, seq := range slices.Sorted(maps.Keys(o.pending)) {
		p := o.pending[seq]
		if seq < o.st.first || seq <= o.asflr {
			delete(o.pending, seq)
			delete(o.redelivered, seq)
			o.again = slices.DeleteFunc(o.again, func(s uint64) bool { return s == seq })
			o.asflr, o.adflr = max(o.asflr, seq), max(o.adflr, p.dseq)
			continue
		}
		due := time.Unix(0, p.ts).Add(o.ackWait())
		if now.Before(due.Add(-ackSlack)) {
			if next.IsZero() || due.Before(next) {
				next = due
			}
			continue
		}
		if !queued[seq] && !o.givenOften(seq) {
			late = append(late, seq)
		}
	}
	if len(late) > 0 {
		o.again = append(o.again, late...)
		shift := now.UnixNano() - o.pending[late[0]].ts
		for _, seq := range late {
			o.pending[seq].ts += shift
		}
		o.signal()
	}
	if len(o.pending) == 0 {
		o.again, o.pending = nil, nil
		o.adflr, o.asflr = o.dseq-1, o.sseq-1
		return
	}
	if latest := now.Add(o.ackWait()); next.IsZero() || next.After(latest) {
		next = latest
	}
	o.st.s.setTimer(&o.ackTimer, next)
}

// givenOften reports whether a message was given as often as it may be, and then drops it.
func (o *consumer) givenOften(seq uint64) bool {
	count := o.redelivered[seq] + 1
	if o.cfg.MaxDeliver <= 0 || count < uint64(o.cfg.MaxDeliver) {
		return false
	}
	if o.cfg.MaxAckPending > 0 && len(o.pending) >= o.cfg.MaxAckPending {
		o.signal()
	}
	o.giveUp(seq, count+1)
	if o.redelivered == nil {
		o.redelivered = map[uint64]uint64{}
	}
	o.redelivered[seq] = count
	return true
}
