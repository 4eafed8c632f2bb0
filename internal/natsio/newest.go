package natsio

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"spool/internal/jsonscan"
	"spool/internal/mapped"
	"spool/internal/record"
)

// newestMsg is the newest message of a stream on a subject; Seq 0: the stream has none.
type newestMsg struct {
	Subject string
	Seq     uint64
	Check   string // of a record
	Data    []byte
	Time    time.Time
}

// newest asks the stream's leader for the newest message on each subject. A subject may have wildcards. All requests are
// sent at once.
func (c *Conn) newest(ctx context.Context, stream string, subjects []string) ([]newestMsg, error) {
	return c.stored(ctx, stream, mapped.List(subjects, func(subject string) []byte {
		return append(jsonscan.AppendString([]byte(`{"last_by_subj":`), subject), '}')
	}))
}

// stored is newest for any requests.
func (c *Conn) stored(ctx context.Context, stream string, requests [][]byte) ([]newestMsg, error) {
	msgs := mapped.List(requests, func(body []byte) *nats.Msg {
		return &nats.Msg{Subject: apiSubject(c.js, "STREAM.MSG.GET."+stream), Data: body}
	})
	out := make([]newestMsg, len(msgs))
	err := c.denied.patience(ctx).once(ctx, stream, func() error {
		answers, err := c.pipe.all(ctx, msgs, c.timeout)
		for i, m := range answers {
			if out[i], err = parseNewest(m); err != nil {
				return fmt.Errorf("%s: %w", requests[i], err)
			}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// parseNewest reads an answer. They come by the thousand: reading their few members is worth more than reading them by
// reflection.
func parseNewest(m *nats.Msg) (newestMsg, error) {
	if m.Header.Get("Status") == "503" {
		return newestMsg{}, record.ErrBusy
	}
	var refused *apiError
	var got newestMsg
	err := jsonscan.Valid(m.Data)
	if err == nil {
		end := jsonscan.Object(m.Data, func(key, value []byte) bool {
			switch string(key) {
			case "error":
				refused, err = readError(value)
			case "message":
				err = got.parse(value)
			}
			return err == nil
		})
		err = cmp.Or(err, end)
	}
	if err != nil {
		return newestMsg{}, fmt.Errorf("%w: %w", record.ErrUnknown, err)
	}
	if refused == nil {
		return got, nil
	}
	if v := refused.verdict(); !errors.Is(v, record.ErrNotFound) || errors.Is(v, record.ErrNoStream) {
		return newestMsg{}, refused.wrap()
	}
	return newestMsg{}, nil
}

func decode(value []byte) ([]byte, error) {
	text, _ := jsonscan.Text(value)
	return base64.StdEncoding.DecodeString(text)
}

func (m *newestMsg) parse(raw []byte) (err error) {
	end := jsonscan.Object(raw, func(key, value []byte) bool {
		switch string(key) {
		case "subject":
			m.Subject, _ = jsonscan.Text(value)
		case "seq":
			m.Seq, err = strconv.ParseUint(string(value), 10, 64)
		case "data":
			m.Data, err = decode(value)
		case "hdrs":
			var raw []byte
			raw, err = decode(value)
			_, check, _ := bytes.Cut(raw, []byte("\r\n"+hdrCheck+": "))
			check, _, _ = bytes.Cut(check, []byte("\r\n"))
			m.Check = string(check)
		case "time":
			err = m.Time.UnmarshalJSON(value)
		}
		return err == nil
	})
	return cmp.Or(err, end)
}
