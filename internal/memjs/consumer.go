package memjs

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// consumer gives a stream's messages to clients, and remembers what they did with them. Sequences are in pairs: the
// stream's, and the consumer's own, which numbers deliveries.
type consumer struct {
	st      *stream
	name    string
	cfg     server.ConsumerConfig
	told    []byte // the configuration as it is told, once it was
	created time.Time
	filters []pattern
	closed  bool

	sseq, dseq   uint64 // of the next delivery
	asflr, adflr uint64 // up to here all is acknowledged
	pending      map[uint64]*open
	redelivered  map[uint64]uint64 // how often a message was given again
	again        []uint64          // messages to be given again, in order
	lasts        *lastList         // for "last per subject": what comes before all else
	kept         consumerState     // as the server's disk has it

	unseen   int64  // messages that match and were not given yet
	unseenTo uint64 // up to this sequence they were counted

	waiting []*pull // requests, the next one first
	pin     string
	pinned  time.Time

	signalled    bool // among Server.dirty
	idle         time.Duration
	lastRequest  time.Time // when one was answered or expired last
	lastDelivery time.Time
	lastAck      time.Time

	ackTimer, waitTimer, pinTimer, idleTimer timer
}

// open is a delivery that is not acknowledged.
type open struct {
	dseq uint64 // of the first delivery
	ts   int64  // from when its ack wait counts
}

// lastList is what a consumer that begins with the last message of each subject gives first.
type lastList struct {
	resume uint64
	seqs   []uint64
}

func newConsumer(st *stream, name string, cfg server.ConsumerConfig) *consumer {
	o := &consumer{st: st, name: name, cfg: cfg, created: st.s.now.UTC()}
	o.setFilters()
	what := func(s string) string { return s + " of " + name }
	o.ackTimer = timer{fire: o.checkPending, what: what("ack wait"), stream: st.cfg.Name}
	o.waitTimer = timer{fire: func() { o.processWaiting(true); o.signal() }, what: what("pulls"), stream: st.cfg.Name}
	o.pinTimer = timer{fire: func() { o.unpin(); o.signal() }, what: what("pin"), stream: st.cfg.Name}
	o.idleTimer = timer{fire: o.deleteInactive, what: what("inactivity"), stream: st.cfg.Name}
	o.selectStart()
	o.setIdle()
	return o
}

// start begins or, after a crash, goes on.
func (o *consumer) start() {
	o.recount()
	if o.lasts != nil && (len(o.lasts.seqs) == 0 || o.sseq >= o.lasts.resume) {
		o.lasts = nil
	}
	if o.idle > 0 {
		o.lastRequest = o.st.s.now
		o.st.s.setTimer(&o.idleTimer, o.st.s.now.Add(o.idle))
	}
	if len(o.pending) > 0 {
		o.st.s.setTimer(&o.ackTimer, o.st.s.now.Add(min(o.ackWait(), time.Second)))
	}
	o.signal()
}

func (o *consumer) setFilters() {
	subjects := o.cfg.FilterSubjects
	if o.cfg.FilterSubject != "" {
		subjects = append(slices.Clone(subjects), o.cfg.FilterSubject)
	}
	o.filters = newPatterns(subjects)
}

// idleSlack is what a server adds to the threshold of a pull consumer; it draws it between 0.1 and 1 s.
const idleSlack = 500 * time.Millisecond

// setIdle finds how long the consumer may be unused; 0 = for ever.
func (o *consumer) setIdle() {
	switch {
	case o.cfg.Durable == "" && o.cfg.InactiveThreshold <= 0:
		o.cfg.InactiveThreshold = server.JsDeleteWaitTimeDefault
		o.idle = o.cfg.InactiveThreshold + idleSlack
	case o.cfg.InactiveThreshold > 0:
		o.idle = o.cfg.InactiveThreshold + idleSlack
	default:
		o.idle = o.cfg.InactiveThreshold
	}
}

// selectStart finds where a new consumer begins.
func (o *consumer) selectStart() {
	st := o.st
	switch {
	case o.cfg.OptStartSeq > 0:
		o.sseq = o.cfg.OptStartSeq
	case o.cfg.DeliverPolicy == server.DeliverAll:
		o.sseq = st.first
	case o.cfg.DeliverPolicy == server.DeliverLast && len(o.filters) == 0:
		o.sseq = st.last
	case o.cfg.DeliverPolicy == server.DeliverLast:
		for _, f := range o.filters {
			_, _, last := st.span(f)
			o.sseq = max(o.sseq, last)
		}
	case o.cfg.DeliverPolicy == server.DeliverLastPerSubject && st.cfg.MaxMsgsPer == 1:
		o.sseq = st.first
	case o.cfg.DeliverPolicy == server.DeliverLastPerSubject:
		o.lasts = &lastList{resume: st.last, seqs: st.lastSeqs(o.filters, st.last)}
		o.sseq = st.last
		if len(o.lasts.seqs) > 0 {
			o.sseq = o.lasts.seqs[0]
		}
	case o.cfg.OptStartTime != nil:
		o.sseq = st.fromTime(*o.cfg.OptStartTime)
	default:
		o.sseq = st.last + 1
	}
	switch {
	case st.first == 0 && o.cfg.OptStartSeq == 0:
		o.sseq = 1
	case o.sseq > st.last && o.cfg.OptStartSeq == 0:
		o.sseq = st.last + 1
	case o.sseq < st.first:
		o.sseq = st.first
	}
	o.dseq, o.adflr, o.asflr = 1, 0, o.sseq-1
	if o.sseq > 0 {
		o.kept.begin(o.sseq - 1)
	}
}

// signal has the consumer look for something to deliver, once the command is done.
func (o *consumer) signal() {
	if !o.signalled && !o.closed {
		o.signalled = true
		o.st.s.dirty = append(o.st.s.dirty, o)
	}
}

func (o *consumer) stored(m *message) {
	if !matchesAny(o.filters, m.subject) {
		return
	}
	if m.seq > o.unseenTo {
		o.unseen++
	}
	if m.seq >= o.sseq && len(o.waiting) > 0 {
		o.signal()
	}
}

// removed tells the consumer that a message is gone.
func (o *consumer) removed(m *message) {
	if m.seq >= o.sseq && matchesAny(o.filters, m.subject) {
		o.unseen--
	}
	if p := o.pending[m.seq]; p != nil {
		o.acked(m.seq, p.dseq)
	} else if _, ok := o.redelivered[m.seq]; ok {
		delete(o.redelivered, m.seq)
		o.kept.ack(o.cfg.AckPolicy, 0, m.seq)
	}
}

// recount counts what was not given yet.
func (o *consumer) recount() {
	o.unseen = int64(o.st.pending(o.filters, o.sseq, o.cfg.DeliverPolicy == server.DeliverLastPerSubject))
	o.unseenTo = o.st.last
}

func (o *consumer) numPending() uint64 { return uint64(max(o.unseen, 0)) }

func (o *consumer) forgetRedeliveredBelow(first uint64) {
	maps.DeleteFunc(o.redelivered, func(seq, _ uint64) bool { return seq < first && o.pending[seq] == nil })
	maps.DeleteFunc(o.kept.redelivered, func(seq, _ uint64) bool { return seq < first && o.pending[seq] == nil })
}

// purged puts the consumer behind what was purged: a subject ("" = all), of which first is the first message left, 0
// = none.
func (o *consumer) purged(subject string, first uint64) {
	wider := false
	if subject != "" {
		narrower := slices.ContainsFunc(o.filters, func(f pattern) bool {
			return f.text == subject ||
				matchTokens(f.text, subject)
		})
		inside := len(o.filters) > 0 && !slices.ContainsFunc(o.filters,
			func(f pattern) bool { return !matchTokens(f.text, subject) })
		switch {
		case narrower && inside:
		case narrower, matchesAny(o.filters, subject):
			wider, first = true, o.st.first
		default:
			return
		}
	}
	if first == 0 && !wider {
		first = o.st.last + 1
	}
	o.sseq = max(o.sseq, first)
	if o.asflr < first {
		o.asflr = first - 1
		for _, seq := range slices.Sorted(maps.Keys(o.pending)) {
			if seq > o.asflr && !(wider && o.st.load(seq) == nil) {
				continue
			}
			p := o.pending[seq]
			if p.dseq > o.adflr {
				o.adflr = p.dseq
				o.dseq = max(o.dseq, o.adflr)
			}
			delete(o.pending, seq)
			delete(o.redelivered, seq)
			o.kept.ack(o.cfg.AckPolicy, p.dseq, seq)
		}
	}
	if len(o.pending) == 0 {
		o.pending, o.redelivered = nil, nil
		o.adflr, o.asflr = o.dseq-1, o.sseq-1
	}
	o.again = slices.DeleteFunc(o.again, func(seq uint64) bool { return seq < o.sseq })
	o.kept.replace(o)
}

// reset has the consumer begin again at a sequence, or above its ack floor (0).
func (o *consumer) reset(seq uint64) (uint64, error) {
	switch {
	case seq == 0:
		seq = o.asflr + 1
	case o.cfg.DeliverPolicy == server.DeliverAll:
	case o.cfg.DeliverPolicy == server.DeliverByStartSequence:
		if seq < o.cfg.OptStartSeq {
			return 0, fmt.Errorf("below start seq")
		}
	case o.cfg.DeliverPolicy == server.DeliverByStartTime:
		if seq < o.st.fromTime(*o.cfg.OptStartTime) {
			return 0, fmt.Errorf("below start time")
		}
	default:
		return 0, fmt.Errorf("not allowed")
	}
	recount := o.sseq != seq || len(o.pending) > 0
	if recount && seq == o.asflr+1 && o.cfg.AckPolicy == server.AckAll {
		o.unseen += int64(len(o.pending))
		recount = false
	}
	o.pending, o.redelivered, o.again = nil, nil, nil
	o.sseq, o.dseq = seq, 1
	o.adflr, o.asflr = 0, seq-1
	o.lastDelivery, o.lastAck = time.Time{}, time.Time{}
	o.kept = consumerState{}
	o.kept.begin(seq - 1)
	if recount {
		o.recount()
	}
	o.signal()
	return seq, nil
}

// info describes the consumer. Asked this, it drops requests that nobody waits for any more.
func (o *consumer) info() *server.ConsumerInfo {
	if o.sseq > o.st.last {
		o.unseen, o.unseenTo = 0, o.st.last
	} else if o.unseen > 0 {
		o.unseen = min(o.unseen, int64(o.st.count))
	}
	i := &server.ConsumerInfo{
		Stream: o.st.cfg.Name, Name: o.name, Created: o.created,
		Delivered:     server.SequenceInfo{Consumer: o.kept.delivered.consumer, Stream: o.kept.delivered.stream},
		AckFloor:      server.SequenceInfo{Consumer: o.kept.floor.consumer, Stream: o.kept.floor.stream},
		NumAckPending: len(o.pending), NumRedelivered: len(o.redelivered), NumPending: o.numPending(),
		TimeStamp: o.st.s.now.UTC(), PriorityGroups: []server.PriorityGroupState{},
	}
	if len(o.cfg.PriorityGroups) > 0 {
		i.PriorityGroups = append(i.PriorityGroups, server.PriorityGroupState{
			Group: o.cfg.PriorityGroups[0], PinnedClientID: o.pin, PinnedTS: o.pinned,
		})
	}
	if o.cfg.MaxDeliver == 1 {
		i.NumRedelivered = 0
	}
	for at, p := range map[*time.Time]**time.Time{&o.lastDelivery: &i.Delivered.Last, &o.lastAck: &i.AckFloor.Last} {
		if !at.IsZero() {
			utc := at.UTC()
			*p = &utc
		}
	}
	o.processWaiting(false)
	i.NumWaiting = len(o.waiting)
	return i
}

// stop ends a consumer; its requests are told.
func (o *consumer) stop() {
	o.halt()
	for _, w := range o.waiting {
		o.st.s.answer(w.reply, []byte("NATS/1.0 409 Consumer Deleted\r\n\r\n"), nil)
	}
	o.waiting = nil
	o.st.consumers = slices.DeleteFunc(o.st.consumers, func(x *consumer) bool { return x == o })
}

func (o *consumer) halt() {
	o.closed = true
	for _, t := range []*timer{&o.ackTimer, &o.waitTimer, &o.pinTimer, &o.idleTimer} {
		o.st.s.stopTimer(t)
	}
}

// deleteInactive deletes a consumer that nobody has used for too long.
func (o *consumer) deleteInactive() {
	s := o.st.s
	o.processWaiting(true)
	if len(o.waiting) > 0 {
		s.setTimer(&o.idleTimer, s.now.Add(o.idle))
		return
	}
	until := o.lastRequest.Add(o.idle)
	if !until.After(s.now) { // its owner may still be at work on what it has
		for _, p := range o.pending {
			if end := time.Unix(0, p.ts).Add(o.ackWait() + o.idle); end.After(until) {
				until = end
			}
		}
	}
	if until.After(s.now) {
		s.setTimer(&o.idleTimer, until)
		return
	}
	o.stop()
}
