package natsio

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"spool/internal/jsonscan"
	"spool/internal/record"
)

// newestMsg is the newest message of a stream on a subject; Seq 0: the stream has none.
type newestMsg struct {
	Subject string    `json:"subject"`
	Seq     uint64    `json:"seq"`
	Data    []byte    `json:"data"`
	Time    time.Time `json:"time"`
}

// newest asks the stream's leader for the newest message on each subject. A subject may have wildcards. All requests are
// sent at once.
func (c *Conn) newest(ctx context.Context, stream string, subjects []string) ([]newestMsg, error) {
	msgs := make([]*nats.Msg, len(subjects))
	for i, subject := range subjects {
		body, err := json.Marshal(map[string]string{"last_by_subj": subject})
		if err != nil {
			return nil, err
		}
		msgs[i] = &nats.Msg{Subject: c.apiSubject("$JS.API.STREAM.MSG.GET." + stream), Data: body}
	}
	answers, err := c.pipe.all(ctx, msgs, c.timeout)
	if err != nil {
		return nil, err
	}
	out := make([]newestMsg, len(subjects))
	for i, m := range answers {
		if out[i], err = parseNewest(m); err != nil {
			return nil, fmt.Errorf("%s: %w", subjects[i], err)
		}
	}
	return out, nil
}

func parseNewest(m *nats.Msg) (newestMsg, error) {
	if m.Header.Get("Status") == "503" {
		return newestMsg{}, record.ErrBusy
	}
	var got struct {
		Error   *apiError `json:"error"`
		Message newestMsg `json:"message"`
	}
	if err := jsonscan.Decode(m.Data, &got); err != nil {
		return newestMsg{}, fmt.Errorf("%w: %w", record.ErrUnknown, err)
	}
	if got.Error == nil {
		return got.Message, nil
	}
	if err := got.Error.wrap(); !errors.Is(err, record.ErrNotFound) {
		return newestMsg{}, err
	}
	return newestMsg{}, nil
}
