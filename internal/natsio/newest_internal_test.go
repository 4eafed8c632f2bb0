package natsio

import (
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"spool/internal/record"
)

func TestParseNewest(t *testing.T) {
	at := time.Date(2000, 1, 2, 3, 4, 5, 6, time.UTC)
	const then = `"time":"2000-01-02T03:04:05.000000006Z"}}`
	for _, c := range []struct {
		text string
		want newestMsg
		err  error
	}{
		{`{"message":{"subject":"a.\u0062","seq":18446744073709551615,` +
			`"hdrs":"TkFUUy8xLjANClNwb29sLUNoZWNrOiBxDQoNCg==","data":"eHk=",` + then,
			newestMsg{"a.b", 1<<64 - 1, "q", []byte("xy"), at}, nil},
		{`{"type":"t","message":{"subject":"a","seq":1,` + then, newestMsg{"a", 1, "", nil, at}, nil},
		{`{"type":"t","error":null,"message":{"seq":1,` + then, newestMsg{"", 1, "", nil, at}, nil},
		{`{"type":"t","error":{"code":404,"err_code":10037,"description":"no message found"}}`, newestMsg{}, nil},
		{`{"type":"t","error":{"code":404,"err_code":10059,"description":"stream not found"}}`, newestMsg{}, record.ErrNoStream},
		{`{"type":"t","error":{"code":503,"err_code":10008,"description":"not now"}}`, newestMsg{}, record.ErrBusy},
		{`{"type":"t","message":{"subject":"a","seq":-1}}`, newestMsg{}, record.ErrUnknown},
		{`{"type":"t","message":{"subject":"a","seq":1,"data":"?"}}`, newestMsg{}, record.ErrUnknown},
		{`{"type":"t","message":{"subject":"a","seq":1,"time":"yesterday"}}`, newestMsg{}, record.ErrUnknown},
		{`{"type":"t","message":[]}`, newestMsg{}, record.ErrUnknown},
		{`{"type":"t","error":7}`, newestMsg{}, record.ErrUnknown},
		{`{"type":"t","message":`, newestMsg{}, record.ErrUnknown},
		{``, newestMsg{}, record.ErrUnknown},
	} {
		got, err := parseNewest(&nats.Msg{Data: []byte(c.text)})
		if !errors.Is(err, c.err) || got.Subject != c.want.Subject || got.Seq != c.want.Seq ||
			string(got.Data) != string(c.want.Data) || !got.Time.Equal(c.want.Time) ||
			got.Check != c.want.Check {
			t.Errorf("%s: %+v, %v", c.text, got, err)
		}
	}
}
