package memjs

import (
	"math"
	"strconv"
	"strings"

	"github.com/nats-io/nats-server/v2/server"
)

// fastOp is what a reply subject says about a message of a fast batch: <prefix>.<id>.<flow>.<gap>.<seq>.<operation>.$FI
type fastOp struct {
	id     string
	seq    uint64
	flow   uint64
	gapOK  bool
	commit bool
	eob    bool
	ping   bool
}

// The operations.
const (
	fastStart = iota
	fastAppend
	fastCommit
	fastEob
	fastPing
)

// parseFast reads a reply subject; bad: it is one of a fast batch, and none that can be understood.
func parseFast(reply string) (f *fastOp, bad bool) {
	rest, is := strings.CutSuffix(reply, ".$FI")
	if !is {
		return nil, false
	}
	tokens := strings.Split(rest, ".")
	if len(tokens) < 6 {
		return nil, true
	}
	tokens = tokens[len(tokens)-5:]
	op, err := strconv.Atoi(tokens[4])
	seq, err2 := strconv.ParseUint(tokens[3], 10, 64)
	if err != nil || err2 != nil || op < fastStart || op > fastPing || seq == 0 || seq == math.MaxUint64 {
		return nil, true
	}
	if seq == 1 && op == fastEob || op == fastStart && seq != 1 || op == fastAppend && seq == 1 {
		return nil, true
	}
	if tokens[2] != "fail" && tokens[2] != "ok" {
		return nil, true
	}
	flow, err := strconv.ParseUint(tokens[1], 10, 64)
	if err != nil || flow == 0 {
		flow = 10
	}
	return &fastOp{
		id: tokens[0], seq: seq, flow: min(flow, math.MaxUint16), gapOK: tokens[2] == "ok",
		commit: op == fastCommit || op == fastEob, eob: op == fastEob, ping: op == fastPing,
	}, false
}

// fastBatch is one that has begun and not ended. Its messages are stored as they come.
type fastBatch struct {
	st       *stream
	id       string
	gapOK    bool
	most     uint64 // messages between two reports, at most, as the client wants it
	every    uint64 // as it is
	seq      uint64 // of the last message that came
	stored   uint64 // of the last message that is stored or skipped
	reported uint64
	at       uint64 // stream sequence of the last one stored
	timer    timer
}

func (b *fastBatch) end() {
	if b.st.fast[b.id] != b {
		return
	}
	b.st.s.stopTimer(&b.timer)
	delete(b.st.fast, b.id)
	b.st.s.batches[kindFast]--
}

func (st *stream) openFast(f *fastOp) (*fastBatch, *server.ApiError) {
	if f.seq != 1 || f.ping {
		return nil, server.NewJSBatchPublishUnknownBatchIDError()
	}
	if len(st.fast) >= fastOpen || st.s.batches[kindFast] >= fastOpenAll {
		return nil, server.NewJSBatchPublishTooManyInflightError()
	}
	b := &fastBatch{st: st, id: f.id, gapOK: f.gapOK, most: f.flow}
	b.timer = timer{fire: b.end, what: "batch timeout", stream: st.cfg.Name}
	st.fast[f.id] = b
	st.s.batches[kindFast]++
	if b.every = min(fastAckMessages, b.most); len(st.fast) > 1 {
		b.every = 1
	}
	return b, nil
}

// tell sends a report to a client.
func (st *stream) tell(reply string, report any) {
	if reply != "" {
		st.s.answer(reply, nil, mustJSON(report))
	}
}

// commit ends a batch with what is stored of it.
func (b *fastBatch) commit(reply string) {
	b.end()
	if reply != "" {
		b.st.ackBatch(reply, b.at, b.id, b.seq)
	}
}

// report tells a client how far its batch is, when it is time to.
func (b *fastBatch) report(reply string) bool {
	if b.stored < b.reported+b.every {
		return false
	}
	b.reported += (b.stored - b.reported) / b.every * b.every
	most := min(max(uint64(fastAckMessages/len(b.st.fast)), 1), b.most)
	switch {
	case b.every < most:
		b.every = min(2*b.every, most)
	case b.every > most:
		b.every = max(b.every/2, most)
	}
	b.flow(reply)
	return true
}

func (b *fastBatch) flow(reply string) {
	b.st.tell(reply, server.BatchFlowAck{Sequence: b.reported, Messages: uint16(b.every)})
}

// inboundFast takes a message of a fast batch (ADR-50).
func (st *stream) inboundFast(f *fastOp, subject, reply string, hdr, data []byte) {
	var err *server.ApiError
	switch {
	case st.cfg.Sealed:
		err = server.NewJSStreamSealedError()
	case st.cfg.MaxMsgSize >= 0 && len(hdr)+len(data) > int(st.cfg.MaxMsgSize):
		err = server.NewJSStreamMessageExceedsMaximumError()
	case !st.cfg.AllowBatchPublish:
		err = server.NewJSBatchPublishDisabledError()
	case f == nil:
		err = server.NewJSBatchPublishInvalidPatternError()
	case len(f.id) > batchIDMost:
		err = server.NewJSBatchPublishInvalidBatchIDError()
	}
	if err != nil {
		st.refuse(reply, err)
		return
	}
	b := st.fast[f.id]
	if b == nil {
		if b, err = st.openFast(f); err != nil {
			st.refuse(reply, err)
			return
		}
	}
	st.s.setTimer(&b.timer, st.s.now.Add(batchTimeout))
	if f.ping {
		b.ping(f, reply)
		return
	}
	b.seq++
	if b.seq != f.seq {
		st.tell(reply, server.BatchFlowGap{ExpectedLastSequence: b.seq, CurrentSequence: f.seq})
		if !b.gapOK || f.seq < b.seq {
			b.seq--
			b.commit(reply)
			return
		}
		b.seq = f.seq
	}
	if f.eob {
		b.seq--
		b.commit(reply)
		return
	}
	if f.seq == 1 && !f.commit {
		st.tell(reply, server.BatchFlowAck{Sequence: 0, Messages: uint16(b.every)})
	}
	b.store(f, subject, reply, dropHeaders(hdr, apiLevelHeader), data)
}

func (b *fastBatch) ping(f *fastOp, reply string) {
	if f.seq > b.seq {
		b.st.tell(reply, server.BatchFlowGap{ExpectedLastSequence: b.seq + 1, CurrentSequence: f.seq + 1})
		if !b.gapOK {
			b.commit(reply)
			return
		}
		b.seq, b.stored = f.seq, f.seq
		if b.report(reply) {
			return
		}
	}
	b.flow(reply)
}

func (b *fastBatch) store(f *fastOp, subject, reply string, hdr, data []byte) {
	st := b.st
	subject = st.transformed(subject)
	hdr, dup, err := st.checkStaged(&staged{}, subject, hdr, data, st.last)
	repeats := dup > 0
	switch {
	case err == nil:
		if last := st.checkLastID(hdr); last != nil { // stored late, and refused as a message by itself is
			st.refuse(reply, last)
			return
		}
		b.at = st.commit(subject, hdr, data)
		b.stored = b.seq
		if f.commit {
			b.commit(reply)
		} else {
			b.report(reply)
		}
		return
	case repeats:
		b.stored = f.seq
		b.report(reply)
		if !f.commit {
			return
		}
	}
	if !f.gapOK && b.seq == 1 { // as a message by itself
		b.end()
		if repeats {
			st.ackDuplicate(reply, dup, f)
		} else {
			st.refuse(reply, err)
		}
		return
	}
	if !repeats {
		st.tell(reply, server.BatchFlowErr{Sequence: f.seq, Error: err})
		if f.gapOK && !f.commit {
			return
		}
		b.seq--
	}
	b.stored = b.seq
	b.commit(reply)
}

func (st *stream) ackDuplicate(reply string, seq uint64, f *fastOp) {
	st.ack(reply, seq, `,"duplicate": true,"batch":`+strconv.Quote(f.id)+`,"count":`+strconv.FormatUint(f.seq, 10)+"}")
}
