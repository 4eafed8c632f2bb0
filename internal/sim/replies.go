package sim

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/jsonscan"
)

// readReply reads what nats.go asks a server about a stream, a consumer or a list of them into nats.go's own
// structures, as encoding/json would. testdata/speed/replies.txt has encoding/json ask it first: by reflection these
// replies take a sixth of a schedule, most of it for configurations that have not changed since the last reply. false:
// v is something else, or the reply says something that is rare; then v is as it was.
func readReply(data []byte, v any) bool {
	t, paged := reflect.TypeOf(v), [3]int64{}
	r := replies[t]
	if r == nil {
		if r = newReply(t); r == nil {
			return false
		}
		replies[t] = r
	}
	info, ok := any(nil), false
	switch r.field {
	case "StreamInfo":
		s := &jetstream.StreamInfo{}
		info, ok = s, readStream(data, s, &paged)
	case "ConsumerInfo":
		c := &jetstream.ConsumerInfo{}
		info, ok = c, readConsumer(data, c)
	case "Consumers":
		info, ok = readConsumers(data, &paged)
	}
	if !ok {
		return false
	}
	to := reflect.ValueOf(v).Elem()
	to.FieldByIndex(r.at).Set(reflect.ValueOf(info))
	for i, at := range r.paged {
		to.FieldByIndex(at).SetInt(paged[i])
	}
	return true
}

// reply is a structure of nats.go that has no name outside of it: which of its fields holds what, and where.
type reply struct {
	field string
	at    []int
	paged [][]int // Total, Offset, Limit, where it has them
}

var replies = map[reflect.Type]*reply{}

func newReply(t reflect.Type) *reply {
	if t == nil || t.Kind() != reflect.Pointer || t.Elem().Kind() != reflect.Struct {
		return nil
	}
	field, is := map[string]string{
		"streamInfoResponse": "StreamInfo", "consumerInfoResponse": "ConsumerInfo", "consumerListResponse": "Consumers",
	}[t.Elem().Name()]
	if !is {
		return nil
	}
	f, _ := t.Elem().FieldByName(field)
	r := &reply{field: field, at: f.Index}
	for _, name := range []string{"Total", "Offset", "Limit"} {
		if f, has := t.Elem().FieldByName(name); has {
			r.paged = append(r.paged, f.Index)
		}
	}
	return r
}

// members reads the members of an object; false: it is none, or read did not know one of them.
func members(raw []byte, read func(key, value []byte) bool) bool {
	ok := true
	err := jsonscan.Object(raw, func(key, value []byte) bool {
		ok = read(key, value)
		return ok
	})
	return ok && err == nil
}

func readNumber[N int | int64 | uint64](raw []byte, to *N) bool {
	n, ok := jsonscan.Int(raw)
	*to = N(n)
	return ok
}

func readText(raw []byte, to *string) (ok bool) {
	*to, ok = jsonscan.Text(raw)
	return ok
}

func readTime(raw []byte, to *time.Time) bool { return to.UnmarshalJSON(raw) == nil }

func readStream(data []byte, s *jetstream.StreamInfo, paged *[3]int64) bool {
	return members(data, func(key, value []byte) bool {
		switch string(key) {
		case "type":
			return true
		case "total":
			return readNumber(value, &paged[0])
		case "offset":
			return readNumber(value, &paged[1])
		case "limit":
			return readNumber(value, &paged[2])
		case "config":
			return readKept(value, keptStreams, &s.Config)
		case "created":
			return readTime(value, &s.Created)
		case "state":
			return readState(value, &s.State)
		case "cluster":
			s.Cluster = &jetstream.ClusterInfo{}
			return readKept(value, keptClusters, s.Cluster)
		case "ts":
			return readTime(value, &s.TimeStamp)
		}
		return false
	})
}

func readState(raw []byte, s *jetstream.StreamState) bool {
	return members(raw, func(key, value []byte) bool {
		switch string(key) {
		case "messages":
			return readNumber(value, &s.Msgs)
		case "bytes":
			return readNumber(value, &s.Bytes)
		case "first_seq":
			return readNumber(value, &s.FirstSeq)
		case "first_ts":
			return readTime(value, &s.FirstTime)
		case "last_seq":
			return readNumber(value, &s.LastSeq)
		case "last_ts":
			return readTime(value, &s.LastTime)
		case "consumer_count":
			return readNumber(value, &s.Consumers)
		case "num_subjects":
			return readNumber(value, &s.NumSubjects)
		case "num_deleted":
			return readNumber(value, &s.NumDeleted)
		case "subjects":
			s.Subjects = map[string]uint64{}
			return members(value, func(subject, n []byte) bool {
				var count uint64
				ok := readNumber(n, &count)
				s.Subjects[string(subject)] = count
				return ok
			})
		}
		return false
	})
}

func readConsumers(data []byte, paged *[3]int64) (list []*jetstream.ConsumerInfo, ok bool) {
	list = []*jetstream.ConsumerInfo{}
	ok = members(data, func(key, value []byte) bool {
		switch string(key) {
		case "type":
			return true
		case "total":
			return readNumber(value, &paged[0])
		case "offset":
			return readNumber(value, &paged[1])
		case "limit":
			return readNumber(value, &paged[2])
		case "consumers":
			ok := true
			err := jsonscan.Array(value, func(one []byte) bool {
				info := &jetstream.ConsumerInfo{}
				list, ok = append(list, info), readConsumer(one, info)
				return ok
			})
			return ok && err == nil
		}
		return false
	})
	return list, ok
}

func readConsumer(data []byte, c *jetstream.ConsumerInfo) bool {
	return members(data, func(key, value []byte) bool {
		switch string(key) {
		case "type":
			return true
		case "stream_name":
			return readText(value, &c.Stream)
		case "name":
			return readText(value, &c.Name)
		case "created":
			return readTime(value, &c.Created)
		case "config":
			return readConsumerConfig(value, &c.Config)
		case "delivered":
			return readSequence(value, &c.Delivered)
		case "ack_floor":
			return readSequence(value, &c.AckFloor)
		case "num_ack_pending":
			return readNumber(value, &c.NumAckPending)
		case "num_redelivered":
			return readNumber(value, &c.NumRedelivered)
		case "num_waiting":
			return readNumber(value, &c.NumWaiting)
		case "num_pending":
			return readNumber(value, &c.NumPending)
		case "priority_groups":
			return json.Unmarshal(value, &c.PriorityGroups) == nil
		case "ts":
			return readTime(value, &c.TimeStamp)
		}
		return false
	})
}

func readSequence(raw []byte, s *jetstream.SequenceInfo) bool {
	return members(raw, func(key, value []byte) bool {
		switch string(key) {
		case "consumer_seq":
			return readNumber(value, &s.Consumer)
		case "stream_seq":
			return readNumber(value, &s.Stream)
		case "last_active":
			s.Last = new(time.Time)
			return readTime(value, s.Last)
		}
		return false
	})
}

// What was read before, by its text. Structures that are read from the same text share what is in them: nobody changes
// it.
var (
	keptStreams   = map[string]jetstream.StreamConfig{}
	keptConsumers = map[string]jetstream.ConsumerConfig{}
	keptClusters  = map[string]jetstream.ClusterInfo{}
)

func readKept[T any](text []byte, kept map[string]T, to *T) bool {
	if have, ok := kept[string(text)]; ok {
		*to = have
		return true
	}
	if json.Unmarshal(text, to) != nil {
		return false
	}
	if len(kept) >= 1000 {
		clear(kept)
	}
	kept[string(text)] = *to
	return true
}

// readConsumerConfig keeps configurations without the name: most consumers have one of their own.
func readConsumerConfig(raw []byte, c *jetstream.ConsumerConfig) bool {
	member, name, text := []byte(`"name":"`), "", raw
	if i := bytes.Index(raw, member); i >= 0 {
		from := i + len(member) - 1
		if end := jsonscan.SkipString(raw, from); end > 0 && end < len(raw) && raw[end] == ',' {
			if !readText(raw[from:end], &name) {
				return false
			}
			text = slices.Concat(raw[:i], raw[end+1:])
		}
	}
	if !readKept(text, keptConsumers, c) {
		return false
	}
	if name != "" {
		c.Name = name
	}
	return true
}

// takeReplies has encoding/json ask readReply.
func takeReplies() {}
