package sim

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/must"
)

// Structures of nats.go's own, by whose names readReply knows them.
type (
	answered struct {
		Type  string              `json:"type"`
		Error *jetstream.APIError `json:"error,omitempty"`
	}
	paged struct {
		Total  int `json:"total"`
		Offset int `json:"offset"`
		Limit  int `json:"limit"`
	}
	streamInfoResponse struct {
		answered
		paged
		*jetstream.StreamInfo
	}
	consumerInfoResponse struct {
		answered
		*jetstream.ConsumerInfo
	}
	apiMsgGetResponse struct {
		answered
		Message *storedMsg `json:"message,omitempty"`
	}
	storedMsg struct {
		Subject  string    `json:"subject"`
		Sequence uint64    `json:"seq"`
		Header   []byte    `json:"hdrs,omitempty"`
		Data     []byte    `json:"data,omitempty"`
		Time     time.Time `json:"time"`
	}
	consumerListResponse struct {
		answered
		paged
		Consumers []*jetstream.ConsumerInfo `json:"consumers"`
	}
)

const oneConsumer = `"stream_name":"S","name":"c1","created":"2000-01-01T00:00:00.5Z",` +
	`"config":{"durable_name":"c1","name":"c1","deliver_policy":"all","ack_policy":"explicit","ack_wait":30000000000,` +
	`"filter_subject":"a.>","priority_groups":["g"],` +
	`"metadata":{"k":"v"}},"delivered":{"consumer_seq":3,"stream_seq":7,"last_active":"2000-01-01T00:00:01Z"},` +
	`"ack_floor":{"consumer_seq":2,"stream_seq":5},"num_ack_pending":1,"num_redelivered":2,"num_waiting":3,` +
	`"num_pending":4,"priority_groups":[{"group":"g","pinned_client_id":"p","pinned_ts":"2000-01-01T00:00:02Z"}],` +
	`"ts":"2000-01-01T00:00:03Z"}`

// What is read by hand is what encoding/json reads, the first time and from what was kept.
func TestRepliesAreReadAsJSON(t *testing.T) {
	stream := `{"type":"t","total":2,"offset":1,"limit":9,"config":{"name":"S","subjects":["a.>"],"max_age":5000},` +
		`"created":"2000-01-01T00:00:00Z","state":{"messages":2,"bytes":99,"first_seq":4,"first_ts":"2000-01-01T00:00:04Z",` +
		`"last_seq":9,"last_ts":"2000-01-01T00:00:05.000000001Z","num_subjects":2,"subjects":{"a.b":1,"a.\u0063":1},` +
		`"num_deleted":4,"consumer_count":3},"cluster":{"leader":"memjs"},"ts":"2000-01-01T00:00:06Z"}`
	for _, c := range []struct {
		text    string
		a, b, c any
	}{
		{stream, &streamInfoResponse{}, &streamInfoResponse{}, &streamInfoResponse{}},
		{`{"type":"t",` + oneConsumer, &consumerInfoResponse{}, &consumerInfoResponse{}, &consumerInfoResponse{}},
		{`{"type":"t","total":2,"offset":0,"limit":9,"consumers":[{` + oneConsumer + `,{` + oneConsumer + `]}`,
			&consumerListResponse{}, &consumerListResponse{}, &consumerListResponse{}},
		{`{"type":"t","message":{"subject":"a.b","seq":7,"hdrs":"TkFU","data":"eA==","time":"2000-01-01T00:00:07Z"}}`,
			&apiMsgGetResponse{}, &apiMsgGetResponse{}, &apiMsgGetResponse{}},
		{`{"type":"t","error":{"code":404,"err_code":10059,"description":"stream not found"}}`,
			&streamInfoResponse{}, &streamInfoResponse{}, &streamInfoResponse{}},
	} {
		must.Do(t, json.Unmarshal([]byte(c.text), c.a))
		for _, to := range []any{c.b, c.c} {
			if !readReply([]byte(c.text), to) {
				t.Fatalf("%T: not read by hand: %s", to, c.text)
			}
			if !reflect.DeepEqual(c.a, to) {
				want, _ := json.Marshal(c.a)
				got, _ := json.Marshal(to)
				t.Errorf("%T:\nwant %s\ngot  %s", to, want, got)
			}
		}
	}
}

// What says more is left to encoding/json, as it was.
func TestRareRepliesAreLeft(t *testing.T) {
	for _, text := range []string{`{"type":"t","unheard of":1}`, `{"type"`, `[]`} {
		to := &streamInfoResponse{}
		if readReply([]byte(text), to) || !reflect.DeepEqual(to, &streamInfoResponse{}) {
			t.Errorf("%s: %+v", text, to)
		}
	}
	if readReply([]byte(`{}`), &struct{ A int }{}) || readReply([]byte(`1`), new(int)) || readReply([]byte(`{}`), nil) {
		t.Error("readReply reads what is not for it")
	}
}
