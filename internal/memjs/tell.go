package memjs

import (
	"bytes"
	"strconv"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"spool/internal/jsonscan"
)

// What a server is asked for most is put into JSON, and read from it, by hand: by reflection it would take a fifth of
// a schedule.

// appendMember appends a member: ,"name":n.
func appendMember[N int | int64 | uint64](b []byte, name string, n N) []byte {
	b = append(append(append(b, `,"`...), name...), `":`...)
	return strconv.AppendInt(b, int64(n), 10)
}

func appendTime(b []byte, name string, t time.Time) []byte {
	b = append(append(append(b, `,"`...), name...), `":"`...)
	return append(t.UTC().AppendFormat(b, time.RFC3339Nano), '"')
}

func appendState(b []byte, s *server.StreamState) []byte {
	if len(s.Subjects) > 0 || len(s.Deleted) > 0 {
		return append(b, mustJSON(s)...)
	}
	b = strconv.AppendUint(append(b, `{"messages":`...), s.Msgs, 10)
	b = appendMember(b, "bytes", s.Bytes)
	b = appendMember(b, "first_seq", s.FirstSeq)
	b = appendTime(b, "first_ts", s.FirstTime)
	b = appendMember(b, "last_seq", s.LastSeq)
	b = appendTime(b, "last_ts", s.LastTime)
	if s.NumSubjects > 0 {
		b = appendMember(b, "num_subjects", s.NumSubjects)
	}
	if s.NumDeleted > 0 {
		b = appendMember(b, "num_deleted", s.NumDeleted)
	}
	return append(appendMember(b, "consumer_count", s.Consumers), '}')
}

// appendInfo appends the members of a server.ConsumerInfo, each with a comma before it.
func (o *consumer) appendInfo(b []byte) []byte {
	i := o.info()
	b = jsonscan.AppendString(append(b, `,"stream_name":`...), i.Stream)
	b = jsonscan.AppendString(append(b, `,"name":`...), i.Name)
	b = appendTime(b, "created", i.Created)
	b = append(append(b, `,"config":`...), o.toldConfig()...)
	for _, at := range []struct {
		name string
		server.SequenceInfo
	}{{"delivered", i.Delivered}, {"ack_floor", i.AckFloor}} {
		b = append(append(append(b, `,"`...), at.name...), `":{"consumer_seq":`...)
		b = appendMember(strconv.AppendUint(b, at.Consumer, 10), "stream_seq", at.Stream)
		if at.Last != nil {
			b = appendTime(b, "last_active", *at.Last)
		}
		b = append(b, '}')
	}
	b = appendMember(b, "num_ack_pending", i.NumAckPending)
	b = appendMember(b, "num_redelivered", i.NumRedelivered)
	b = appendMember(b, "num_waiting", i.NumWaiting)
	b = appendMember(b, "num_pending", i.NumPending)
	if len(i.PriorityGroups) > 0 {
		b = append(append(b, `,"priority_groups":`...), mustJSON(i.PriorityGroups)...)
	}
	return appendTime(b, "ts", i.TimeStamp)
}

// toldConfig is the consumer's configuration in JSON.
func (o *consumer) toldConfig() []byte {
	if o.told == nil {
		cfg := o.cfg
		cfg.Metadata = metadata(cfg.Metadata)
		o.told = mustJSON(cfg)
	}
	return o.told
}

func (c *apiCall) tellConsumer(o *consumer) {
	if c.reply == "" {
		return
	}
	b := append(append(make([]byte, 0, len(o.toldConfig())+768), `{"type":"`...), c.kind...)
	c.s.answer(c.reply, nil, append(o.appendInfo(append(b, '"')), '}'))
}

func (c *apiCall) tellConsumers(part []*consumer, p server.ApiPaged) {
	if c.reply == "" {
		return
	}
	b := append(append(make([]byte, 0, 256+1024*len(part)), `{"type":"`...), c.kind...)
	b = appendMember(append(b, '"'), "total", p.Total)
	b = appendMember(b, "offset", p.Offset)
	b = append(appendMember(b, "limit", p.Limit), `,"consumers":[`...)
	for i, o := range part {
		if i > 0 {
			b = append(b, ',')
		}
		at := len(b)
		b = append(o.appendInfo(b), '}')
		b[at] = '{' // in the place of the comma
	}
	c.s.answer(c.reply, nil, append(b, "]}"...))
}

// parseGet reads the requests for a message that are most of all: {"last_by_subj":"…"}, and a sequence with or
// without "next_by_subj". false: it is another one.
func parseGet(body []byte, req *server.JSApiMsgGetRequest) bool {
	rest, ok := bytes.CutSuffix(body, []byte(`}`))
	if !ok {
		return false
	}
	if of, ok := bytes.CutPrefix(rest, []byte(`{"last_by_subj":`)); ok {
		return plainText(of, &req.LastFor)
	}
	if rest, ok = bytes.CutPrefix(rest, []byte(`{"seq":`)); !ok {
		return false
	}
	number, of, more := bytes.Cut(rest, []byte(`,"next_by_subj":`))
	n, err := strconv.ParseUint(string(number), 10, 64)
	if err != nil || more && !plainText(of, &req.NextFor) {
		return false
	}
	req.Seq = n
	return true
}

// parseNext reads a request for messages as nats.go makes it; false: it says more than that.
func parseNext(body []byte, req *server.JSApiConsumerGetNextRequest) bool {
	known := true
	err := jsonscan.Object(body, func(key, value []byte) bool {
		n, number := jsonscan.Int(value)
		is, truth := jsonscan.Bool(value)
		switch string(key) {
		case "batch":
			req.Batch, known = int(n), number
		case "max_bytes":
			req.MaxBytes, known = int(n), number
		case "expires":
			req.Expires, known = time.Duration(n), number
		case "idle_heartbeat":
			req.Heartbeat, known = time.Duration(n), number
		case "no_wait":
			req.NoWait, known = is, truth
		case "group":
			known = plainText(value, &req.Group)
		case "id":
			known = plainText(value, &req.Id)
		default:
			known = false
		}
		return known
	})
	return known && err == nil
}

// plainText reads a string that has nothing to unescape.
func plainText(raw []byte, to *string) bool {
	n := len(raw) - 1
	if n < 1 || raw[0] != '"' || raw[n] != '"' {
		return false
	}
	for _, c := range raw[1:n] {
		if c < ' ' || c >= 0x7f || c == '"' || c == '\\' {
			return false
		}
	}
	*to = string(raw[1:n])
	return true
}
