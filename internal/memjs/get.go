package memjs

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"spool/internal/jsonscan"
)

// getMessage reads one message, from who leads the stream.
func (c *apiCall) getMessage() {
	var req server.JSApiMsgGetRequest
	if len(c.body) == 0 {
		c.fail(server.NewJSBadRequestError())
		return
	}
	if !parseGet(c.body, &req) && !c.decode(&req) {
		return
	}
	if req.Batch > 0 || req.MaxBytes > 0 || req.Seq > 0 && req.LastFor != "" || req.Seq > 0 && req.StartTime != nil ||
		req.Seq == 0 && req.LastFor == "" && req.NextFor == "" && req.StartTime == nil ||
		req.LastFor != "" && (req.StartTime != nil || req.NextFor != "") {
		c.fail(server.NewJSBadRequestError())
		return
	}
	st := c.foundStream()
	if st == nil {
		return
	}
	var m *message
	st.stale("get", func() { m = st.find(&req) })
	if m == nil {
		c.fail(server.NewJSNoMessageFoundError())
		return
	}
	if c.reply != "" {
		c.s.answer(c.reply, nil, toldMessage(m, !req.NoHeaders))
	}
}

// toldMessage is a server.JSApiMsgGetResponse in JSON: most of what a server is asked for.
func toldMessage(m *message, withHeader bool) []byte {
	b := make([]byte, 0, 256+len(m.subject)+(len(m.hdr)+len(m.data))*3/2)
	b = append(b, `{"type":"`+server.JSApiMsgGetResponseType+`","message":{"subject":`...)
	b = jsonscan.AppendString(b, m.subject)
	b = strconv.AppendUint(append(b, `,"seq":`...), m.seq, 10)
	if withHeader && len(m.hdr) > 0 {
		b = append(base64.StdEncoding.AppendEncode(append(b, `,"hdrs":"`...), m.hdr), '"')
	}
	if len(m.data) > 0 {
		b = append(base64.StdEncoding.AppendEncode(append(b, `,"data":"`...), m.data), '"')
	}
	b = time.Unix(0, m.ts).UTC().AppendFormat(append(b, `,"time":"`...), time.RFC3339Nano)
	return append(b, `"}}`...)
}

// stale has a read see the stream as a copy has it that is behind, if the driver says so.
func (st *stream) stale(kind string, read func()) {
	ask := st.s.cfg.Stale
	if ask == nil || len(st.changes) == 0 {
		read()
		return
	}
	r := Read{kind, st.cfg.Name, st}
	n := ask(r)
	if n <= 0 {
		read()
		return
	}
	undone := st.undo(min(n, r.Operations()))
	read()
	st.redo(undone)
}

// directGet reads one message or many, from any copy.
func (c *apiCall) directGet() {
	if c.reply == "" {
		return
	}
	end := func(status string) { c.s.answer(c.reply, []byte("NATS/1.0 "+status+"\r\n\r\n"), nil) }
	var req server.JSApiMsgGetRequest
	byName := len(c.args) > 1
	if len(c.body) > 0 && !parseGet(c.body, &req) {
		if json.Unmarshal(c.body, &req) != nil {
			end("408 Malformed Request")
			return
		}
	} else if len(c.body) == 0 && !byName {
		end("408 Empty Request")
		return
	}
	none := req.Seq == 0 && req.LastFor == "" && req.NextFor == "" && len(req.MultiLastFor) == 0 && req.StartTime == nil
	st := c.stream()
	switch {
	case byName && !(none && req.Batch == 0 && req.UpToSeq == 0 && req.UpToTime == nil):
		end("408 Bad Request")
		return
	case byName:
		req.LastFor = c.args[1]
		if len(c.args) > 2 {
			req.LastFor += "." + c.args[2]
		}
	case none:
		end("408 Empty Request")
		return
	case req.Seq > 0 && (req.LastFor != "" || req.StartTime != nil), req.UpToSeq > 0 && req.UpToTime != nil,
		req.LastFor != "" && (req.StartTime != nil || req.NextFor != "" || req.Batch > 0 || len(req.MultiLastFor) > 0),
		req.NextFor != "" && len(req.MultiLastFor) > 0:
		end("408 Bad Request")
		return
	}
	req.MaxBytes = cmp.Or(req.MaxBytes, directBytes)
	st.stale("direct", func() {
		switch {
		case len(req.MultiLastFor) > 0:
			st.directLasts(&req, c.reply)
		case req.Batch > 0:
			st.directBatch(&req, c.reply)
		default:
			st.directOne(&req, c.reply)
		}
	})
}

const (
	directBytes = 64 << 20 // of a batch, when it does not say
	directMost  = 1024     // subjects that a request for the last of many may match
)

func (st *stream) start(req *server.JSApiMsgGetRequest) uint64 {
	if req.StartTime != nil {
		return st.fromTime(*req.StartTime)
	}
	return req.Seq
}

// find is the one message that a request is for; nil: it is not there.
func (st *stream) find(req *server.JSApiMsgGetRequest) *message {
	switch seq := st.start(req); {
	case seq > 0 && req.NextFor == "":
		return st.load(seq)
	case req.NextFor != "":
		return st.next([]pattern{newPattern(req.NextFor)}, seq)
	}
	return st.lastOf(req.LastFor)
}

func (st *stream) directOne(req *server.JSApiMsgGetRequest, reply string) {
	m := st.find(req)
	if m == nil {
		st.s.answer(reply, []byte("NATS/1.0 404 Message Not Found\r\n\r\n"), nil)
		return
	}
	if req.NoHeaders {
		st.s.answer(reply, nil, m.data)
		return
	}
	st.s.answer(reply, st.directHeader(m), m.data)
}

// directHeader is a message's header with where it was read.
func (st *stream) directHeader(m *message) []byte {
	hdr := addHeader(m.hdr, server.JSStream, st.cfg.Name)
	hdr = addHeader(hdr, server.JSSubject, m.subject)
	hdr = addHeader(hdr, server.JSSequence, strconv.FormatUint(m.seq, 10))
	return addHeader(hdr, server.JSTimeStamp, time.Unix(0, m.ts).UTC().Format(time.RFC3339Nano))
}

// directSend sends one message of many; left is how many follow, before is the sequence of the one before.
func (st *stream) directSend(m *message, reply string, left, before uint64, bare bool) {
	if bare {
		st.s.answer(reply, nil, m.data)
		return
	}
	hdr := addHeader(st.directHeader(m), server.JSNumPending, strconv.FormatUint(left, 10))
	st.s.answer(reply, addHeader(hdr, server.JSLastSequence, strconv.FormatUint(before, 10)), m.data)
}

func (st *stream) directBatch(req *server.JSApiMsgGetRequest, reply string) {
	var filters []pattern
	if req.NextFor != "" {
		filters = []pattern{newPattern(req.NextFor)}
	}
	seq := st.start(req)
	left := st.pending(filters, seq, false)
	before, sent := uint64(0), 0
	for i := 0; i < req.Batch; i++ {
		m := st.next(filters, seq)
		if m == nil {
			if i > 0 {
				break
			}
			st.s.answer(reply, []byte("NATS/1.0 404 Message Not Found\r\n\r\n"), nil)
			return
		}
		left -= min(left, 1)
		st.directSend(m, reply, left, before, req.NoHeaders)
		before, seq = m.seq, m.seq+1
		if sent += len(m.subject) + len(m.hdr) + len(m.data); sent >= req.MaxBytes {
			break
		}
	}
	st.s.answer(reply, fmt.Appendf(nil,
		"NATS/1.0 204 EOB\r\nNats-Num-Pending: %d\r\nNats-Last-Sequence: %d\r\n\r\n", left, before), nil)
}

// directLasts sends the last message of each subject that matches.
func (st *stream) directLasts(req *server.JSApiMsgGetRequest, reply string) {
	upTo := req.UpToSeq
	if req.UpToTime != nil {
		if upTo = st.fromTime(*req.UpToTime); upTo <= st.first {
			st.s.answer(reply, []byte("NATS/1.0 404 No Results\r\n\r\n"), nil)
			return
		}
		upTo--
	}
	upTo = cmp.Or(upTo, st.last)
	seqs := st.lastSeqs(newPatterns(req.MultiLastFor), upTo)
	switch {
	case len(seqs) > directMost:
		st.s.answer(reply, []byte("NATS/1.0 413 Too Many Results\r\n\r\n"), nil)
		return
	case len(seqs) == 0:
		st.s.answer(reply, []byte("NATS/1.0 404 No Results\r\n\r\n"), nil)
		return
	}
	left, before, bytes, sent := uint64(len(seqs)), uint64(0), 0, 0
	for _, seq := range seqs {
		left--
		if seq < req.Seq {
			continue
		}
		m := st.load(seq)
		st.directSend(m, reply, left, before, false)
		before = seq
		if bytes += len(m.subject) + len(m.hdr) + len(m.data); bytes >= req.MaxBytes {
			break
		}
		if sent++; req.Batch > 0 && sent >= req.Batch {
			break
		}
	}
	st.s.answer(reply, fmt.Appendf(nil,
		"NATS/1.0 204 EOB\r\nNats-Num-Pending: %d\r\nNats-Last-Sequence: %d\r\nNats-UpTo-Sequence: %d\r\n\r\n",
		left, before, upTo), nil)
}
