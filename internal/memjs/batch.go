package memjs

import (
	"errors"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// The limits of batches are those that a server has without configuration.
const (
	batchTimeout    = 10 * time.Second // since its last message; then the server forgets a batch
	atomicMost      = 1000             // messages
	atomicOpen      = 50               // batches on a stream
	atomicOpenAll   = 1000             // on a server
	fastOpen        = 1000
	fastOpenAll     = 50_000
	batchIDMost     = 64 // bytes
	apiLevelHeader  = "Nats-Required-Api-Level"
	kindAtomic      = 0
	kindFast        = 1
	fastAckMessages = 500 // at most so many messages to a flow report
)

// atomicBatch is a batch whose commit has not come.
type atomicBatch struct {
	st    *stream
	id    string
	msgs  []part
	timer timer
}

type part struct {
	subject   string
	hdr, data []byte
}

// staged is what a batch will write, as far as it is checked.
type staged struct {
	subjects map[string]*stagedSubject
	ids      map[string]bool
	msgs     uint64
	bytes    uint64
}

type stagedSubject struct {
	msgs     uint64
	schedule bool
}

func (b *atomicBatch) end() {
	b.st.s.stopTimer(&b.timer)
	delete(b.st.atomic, b.id)
	b.st.s.batches[kindAtomic]--
}

// openAtomic begins a batch, or says why it cannot.
func (st *stream) openAtomic(id string, size uint64, first bool) (*atomicBatch, *server.ApiError) {
	if !first {
		if size > atomicMost {
			return nil, server.NewJSAtomicPublishTooLargeBatchError(atomicMost)
		}
		return nil, server.NewJSAtomicPublishIncompleteBatchError()
	}
	if len(st.atomic) >= atomicOpen || st.s.batches[kindAtomic] >= atomicOpenAll {
		return nil, server.NewJSAtomicPublishTooManyInflightError()
	}
	b := &atomicBatch{st: st, id: id}
	b.timer = timer{fire: b.end, what: "batch timeout", stream: st.cfg.Name}
	st.atomic[id] = b
	st.s.batches[kindAtomic]++
	return b, nil
}

// inboundAtomic takes a message of an atomic batch (ADR-50).
func (st *stream) inboundAtomic(id, subject, reply string, hdr, data []byte) {
	if err := st.addAtomic(id, subject, reply, hdr, data); err != nil {
		st.refuse(reply, err)
	}
}

// checkAtomic refuses what a stream takes in no batch.
func (st *stream) checkAtomic(id string, numbered bool, size int) *server.ApiError {
	switch {
	case st.cfg.Sealed:
		return server.NewJSStreamSealedError()
	case st.cfg.MaxMsgSize >= 0 && size > int(st.cfg.MaxMsgSize):
		return server.NewJSStreamMessageExceedsMaximumError()
	case !st.cfg.AllowAtomicPublish:
		return server.NewJSAtomicPublishDisabledError()
	case len(id) > batchIDMost:
		return server.NewJSAtomicPublishInvalidBatchIDError()
	case !numbered:
		return server.NewJSAtomicPublishMissingSeqError()
	}
	return nil
}

func (st *stream) addAtomic(id, subject, reply string, hdr, data []byte) *server.ApiError {
	seq, numbered := headerNumber(hdr, server.JSBatchSeq)
	if err := st.checkAtomic(id, numbered, len(hdr)+len(data)); err != nil {
		return err
	}
	value, commit := headerValue(hdr, server.JSBatchCommit)
	eob := string(value) == "eob"
	size := seq
	if eob {
		size-- // a marker behind the end is none of its messages
	}
	b := st.atomic[id]
	if b == nil {
		var err *server.ApiError
		if b, err = st.openAtomic(id, size, seq == 1); err != nil {
			return err
		}
	}
	st.s.setTimer(&b.timer, st.s.now.Add(batchTimeout))
	switch {
	case commit && !eob && string(value) != "1":
		b.end()
		return server.NewJSAtomicPublishInvalidBatchCommitError()
	case uint64(len(b.msgs))+1 != seq, seq == 1 && eob:
		b.end()
		return server.NewJSAtomicPublishIncompleteBatchError()
	case size > atomicMost:
		b.end()
		return server.NewJSAtomicPublishTooLargeBatchError(atomicMost)
	}
	hdr = dropHeaders(hdr, apiLevelHeader)
	b.msgs = append(b.msgs, part{subject, hdr, data})
	if !commit {
		if reply != "" && !st.cfg.NoAck {
			st.s.answer(reply, nil, nil)
		}
		return nil
	}
	b.end()
	if eob {
		b.msgs = b.msgs[:len(b.msgs)-1]
	}
	if err := st.checkBatch(b.msgs); err != nil {
		return err
	}
	for i, p := range b.msgs {
		if eob && i == len(b.msgs)-1 {
			p.hdr = addHeader(p.hdr, server.JSBatchCommit, "1")
		}
		st.commit(p.subject, p.hdr, p.data)
	}
	st.ackBatch(reply, st.last, id, uint64(len(b.msgs)))
	return nil
}

// checkBatch checks all messages of a batch before one is stored, and makes them what is to be stored.
func (st *stream) checkBatch(msgs []part) *server.ApiError {
	d := &staged{}
	for i := range msgs {
		p := &msgs[i]
		if header(p.hdr, server.JSExpectedLastMsgId) != "" {
			return server.NewJSAtomicPublishUnsupportedHeaderBatchError(server.JSExpectedLastMsgId)
		}
		p.subject = st.transformed(p.subject)
		var err *server.ApiError
		if p.hdr, _, err = st.checkStaged(d, p.subject, p.hdr, p.data, st.last+uint64(i)); err != nil {
			return err
		}
	}
	return nil
}

// checkStaged decides about one message of a batch, and stages it; dup is the sequence of the message that it
// repeats. last is the sequence that the one before it has or will have.
func (st *stream) checkStaged(d *staged, subject string, hdr, data []byte, last uint64) (_ []byte, dup uint64,
	err *server.ApiError) {
	scheduled := false
	if len(hdr) > 0 {
		if len(hdr) > 65535 {
			return hdr, 0, server.NewJSStreamHeaderExceedsMaximumError()
		}
		if err := st.checkPlain(hdr); err != nil {
			return hdr, 0, err
		}
		if id := header(hdr, server.JSMsgId); id != "" {
			if seq, is := st.duplicate(id); is || d.ids[id] {
				return hdr, seq, server.NewJSAtomicPublishContainsDuplicateMessageError()
			}
			if d.ids == nil {
				d.ids = map[string]bool{}
			}
			d.ids[id] = true
		}
		if err := st.checkExpected(d, subject, hdr, last); err != nil {
			return hdr, 0, err
		}
		if hdr, err = st.checkSchedule(d, subject, hdr); err != nil {
			return hdr, 0, err
		}
		_, scheduled = headerValue(hdr, server.JSSchedulePattern)
		if err := st.checkRollup(d, subject, hdr); err != nil {
			return hdr, 0, err
		}
	}
	if why := st.stage(d, &message{subject: subject, hdr: hdr, data: data}, scheduled); why != "" {
		return hdr, 0, server.NewJSStreamStoreFailedError(errors.New(why))
	}
	return hdr, 0, nil
}

// stage counts a message to what a batch will write, and says which limit that would break. A batch gets no credit
// for messages that it would push out.
func (st *stream) stage(d *staged, m *message, schedule bool) string {
	if d.subjects == nil {
		d.subjects = map[string]*stagedSubject{}
	}
	of := d.subjects[m.subject]
	if of == nil {
		of = &stagedSubject{}
		d.subjects[m.subject] = of
	}
	of.msgs++
	of.schedule = schedule
	d.msgs++
	d.bytes += st.size(m)
	if st.cfg.Discard != server.DiscardNew {
		return ""
	}
	if st.cfg.MaxMsgs > 0 && uint64(st.count)+d.msgs > uint64(st.cfg.MaxMsgs) {
		return server.ErrMaxMsgs.Error()
	}
	if st.cfg.MaxBytes > 0 && st.bytes+d.bytes > uint64(st.cfg.MaxBytes) {
		return server.ErrMaxBytes.Error()
	}
	if rollup, _ := headerValue(m.hdr, server.JSMsgRollup); st.cfg.DiscardNewPer && st.cfg.MaxMsgsPer > 0 &&
		len(rollup) == 0 {
		have := uint64(0)
		if is := st.bySubject[m.subject]; is != nil {
			have = uint64(len(is.seqs))
		}
		if have+of.msgs > uint64(st.cfg.MaxMsgsPer) {
			return server.ErrMaxMsgsPerSubject.Error()
		}
	}
	return ""
}
