package memjs

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/nats-io/nats-server/v2/server"
)

// inbound is a publish to a stream: a message by itself, or one of a batch.
func (st *stream) inbound(subject, reply string, hdr, data []byte) {
	if f, bad := parseFast(reply); f != nil || bad {
		st.inboundFast(f, subject, reply, hdr, data)
		return
	}
	if id := header(hdr, server.JSBatchId); id != "" {
		st.inboundAtomic(id, subject, reply, hdr, data)
		return
	}
	subject = st.transformed(subject)
	hdr, dup, apiErr := st.check(subject, hdr, data)
	switch {
	case dup > 0:
		st.ack(reply, dup, `,"duplicate": true}`)
	case apiErr != nil:
		st.refuse(reply, apiErr)
	default:
		st.ack(reply, st.commit(subject, hdr, data), "}")
	}
}

// ack tells a publisher where its message is.
func (st *stream) ack(reply string, seq uint64, rest string) {
	if reply != "" && !st.cfg.NoAck {
		st.s.answer(reply, nil, append(strconv.AppendUint([]byte(st.ackBegin), seq, 10), rest...))
	}
}

func (st *stream) ackBatch(reply string, seq uint64, id string, count uint64) {
	st.ack(reply, seq, fmt.Sprintf(",\"batch\":%q,\"count\":%d}", id, count))
}

func (st *stream) refuse(reply string, err *server.ApiError) {
	if reply != "" && !st.cfg.NoAck {
		st.s.answer(reply, nil, mustJSON(server.JSPubAckResponse{PubAck: &server.PubAck{Stream: st.cfg.Name},
			Error: err}))
	}
}

func mustJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

// check decides about a message that comes by itself. It returns its header, which a schedule changes, or the
// sequence of the message that it repeats.
func (st *stream) check(subject string, hdr, data []byte) (_ []byte, dup uint64, _ *server.ApiError) {
	if err := st.checkSize(hdr, data); err != nil {
		return hdr, 0, err
	}
	if len(hdr) > 0 {
		if err := st.checkPlain(hdr); err != nil {
			return hdr, 0, err
		}
		if err := st.checkExpected(nil, subject, hdr, st.last); err != nil {
			return hdr, 0, err
		}
		var err *server.ApiError
		if hdr, err = st.checkSchedule(nil, subject, hdr); err != nil {
			return hdr, 0, err
		}
		if id := header(hdr, server.JSMsgId); id != "" {
			if seq, is := st.duplicate(id); is && seq > 0 {
				return hdr, seq, nil
			}
		}
		if err := st.checkLastID(hdr); err != nil {
			return hdr, 0, err
		}
		if err := st.checkRollup(nil, subject, hdr); err != nil {
			return hdr, 0, err
		}
	}
	if why := st.full(&message{subject: subject, hdr: hdr, data: data}); why != "" {
		return hdr, 0, server.NewJSStreamStoreFailedError(errors.New(why))
	}
	return hdr, 0, nil
}

// commit stores a message that was checked, and does what its header asks for.
func (st *stream) commit(subject string, hdr, data []byte) (seq uint64) {
	seq = st.put(subject, hdr, data)
	st.noteID(header(hdr, server.JSMsgId), seq)
	if len(hdr) == 0 || !st.cfg.AllowRollup {
		return seq
	}
	switch header(hdr, server.JSMsgRollup) {
	case server.JSMsgRollupSubject:
		st.purge(subject, 0, 1)
	case server.JSMsgRollupAll:
		st.purge("", 0, 1)
	}
	if header(hdr, server.JSScheduleNext) == server.JSScheduleNextPurge {
		if scheduler := header(hdr, server.JSScheduler); scheduler != "" {
			st.purge(scheduler, 0, 0)
		}
	}
	return seq
}

func (st *stream) checkSize(hdr, data []byte) *server.ApiError {
	switch {
	case st.cfg.Sealed:
		return server.NewJSStreamSealedError()
	case st.cfg.MaxMsgSize >= 0 && len(hdr)+len(data) > int(st.cfg.MaxMsgSize):
		return server.NewJSStreamMessageExceedsMaximumError()
	case len(hdr) > 65535:
		return server.NewJSStreamHeaderExceedsMaximumError()
	}
	return nil
}

// checkPlain refuses what a header asks for and this stream does not do.
func (st *stream) checkPlain(hdr []byte) *server.ApiError {
	if _, ok := headerValue(hdr, server.JSMessageIncr); ok {
		return server.NewJSMessageIncrDisabledError()
	}
	if name := header(hdr, server.JSExpectedStream); name != "" && name != st.cfg.Name {
		return server.NewJSStreamNotMatchError()
	}
	if ttl := header(hdr, server.JSMessageTTL); ttl != "" && ttl != "0" {
		if !st.cfg.AllowMsgTTL {
			return server.NewJSMessageTTLDisabledError()
		}
		if _, ok := parseTTL(ttl); !ok {
			return server.NewJSMessageTTLInvalidError()
		}
	}
	if v, _ := headerValue(hdr, server.JSStreamSource); len(v) > 0 {
		return server.NewJSMessageSourceHdrNotAllowedError()
	}
	return nil
}

// checkExpected compares what a publisher expects with what is stored. Within a batch (d) a subject that the batch
// wrote before cannot be expected anything of; last is the sequence before this message.
func (st *stream) checkExpected(d *staged, subject string, hdr []byte, last uint64) *server.ApiError {
	wantLast, hasLast := headerNumber(hdr, server.JSExpectedLastSeq)
	if d != nil && hasLast {
		if wantLast != last {
			return server.NewJSStreamWrongLastSequenceError(last)
		}
		if len(d.subjects) > 0 {
			return server.NewJSStreamWrongLastSequenceConstantError()
		}
	}
	want, has := headerNumber(hdr, server.JSExpectedLastSubjSeq)
	of := header(hdr, server.JSExpectedLastSubjSeqSubj)
	switch {
	case has:
		of = cmp.Or(of, subject)
		if d != nil {
			if _, written := d.subjects[of]; written {
				return server.NewJSStreamWrongLastSequenceConstantError()
			}
		}
		is := uint64(0)
		m := st.lastOf(of)
		if m != nil {
			is = m.seq
		}
		if is != want {
			return server.NewJSStreamWrongLastSequenceError(is)
		}
	case of != "":
		return server.NewJSStreamExpectedLastSeqPerSubjectInvalidError()
	}
	if d == nil && hasLast && wantLast != last {
		return server.NewJSStreamWrongLastSequenceError(last)
	}
	return nil
}

func (st *stream) checkLastID(hdr []byte) *server.ApiError {
	if want := header(hdr, server.JSExpectedLastMsgId); want != "" && want != st.lastMsgID {
		return server.NewJSStreamWrongLastMsgIDError(st.lastMsgID)
	}
	return nil
}

// checkRollup: a batch (d) may roll up only what it has not written.
func (st *stream) checkRollup(d *staged, subject string, hdr []byte) *server.ApiError {
	why := ""
	rollup := header(hdr, server.JSMsgRollup)
	switch {
	case rollup == "":
		return nil
	case !st.cfg.AllowRollup || st.cfg.DenyPurge:
		why = "rollup not permitted"
	case rollup == server.JSMsgRollupSubject:
		if d != nil && d.subjects[subject] != nil {
			why = "batch rollup sub invalid"
		}
	case rollup == server.JSMsgRollupAll:
		if d != nil && len(d.subjects) > 0 {
			why = "batch rollup all invalid"
		}
	default:
		why = fmt.Sprintf("rollup value invalid: %q", rollup)
	}
	if why == "" {
		return nil
	}
	return server.NewJSStreamRollupFailedError(errors.New(why))
}
