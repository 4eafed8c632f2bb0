package natsio

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"

	"spool/internal/record"
	"spool/pkg/events"
)

const getEvent = "$JS.API.STREAM.MSG.GET." + events.EventsStream

// PublishAfter stores events of one thread, all or none, if last is the sequence of the thread's newest stored event, and
// returns that of the last of them. So a writer that decides by what the thread holds is told when somebody else wrote.
//
// record.ErrConflict: nothing was stored, the thread moved. record.ErrUnknown: they were stored or not.
func (c *Conn) PublishAfter(ctx context.Context, last uint64, evs ...*events.Event) (seq uint64, err error) {
	msgs := make([]*nats.Msg, len(evs))
	for i, e := range evs {
		data, err := c.encode(ctx, e)
		if err != nil {
			return 0, err
		}
		msgs[i] = &nats.Msg{Subject: events.EventSubject(e.Thread, e.Kind), Data: data}
	}
	msgs[0].Header = nats.Header{
		hdrExpectSubj: {events.StoredFilter(evs[0].Thread)}, hdrExpectSeq: {strconv.FormatUint(last, 10)},
	}
	if len(msgs) > 1 {
		seq, err = c.batch(ctx, msgs)
	} else {
		var seqs []uint64
		if seqs, err = c.publish(ctx, msgs); err == nil {
			seq = seqs[0]
		}
	}
	if err != nil {
		return 0, fmt.Errorf("publish %d events of %s: %w", len(evs), evs[0].Thread, err)
	}
	return seq, nil
}

// NewestEvent says where the newest stored event of a thread is; sequence 0: EVENTS holds none.
func (c *Conn) NewestEvent(ctx context.Context, t events.Thread) (seq uint64, partition int, err error) {
	body, err := json.Marshal(map[string]string{"last_by_subj": events.StoredFilter(t)})
	if err != nil {
		return 0, 0, err
	}
	answers, err := c.pipe.all(ctx, []*nats.Msg{{Subject: c.apiSubject(getEvent), Data: body}}, c.timeout)
	if err != nil {
		return 0, 0, fmt.Errorf("newest event of %s: %w", t, err)
	}
	if answers[0].Header.Get("Status") == "503" {
		return 0, 0, record.ErrBusy
	}
	var got struct {
		Error   *apiError `json:"error"`
		Message struct {
			Subject string `json:"subject"`
			Seq     uint64 `json:"seq"`
		} `json:"message"`
	}
	if err := json.Unmarshal(answers[0].Data, &got); err != nil {
		return 0, 0, fmt.Errorf("%w: newest event of %s: %w", record.ErrUnknown, t, err)
	}
	if got.Error != nil {
		if got.Error.verdict() == record.ErrNotFound {
			return 0, 0, nil
		}
		return 0, 0, fmt.Errorf("newest event of %s: %w", t, got.Error.wrap())
	}
	rest, _, _ := strings.Cut(strings.TrimPrefix(got.Message.Subject, strings.TrimSuffix(events.PartitionSubjects, ">")), ".")
	partition, err = strconv.Atoi(rest)
	return got.Message.Seq, partition, err
}

// Acked reports whether a persister is done with an event of a partition: it is applied, or among the dead letters.
func (c *Conn) Acked(ctx context.Context, partition int, seq uint64) (bool, error) {
	cons, err := c.js.Consumer(ctx, events.EventsStream, events.PartitionConsumer(partition))
	if err != nil {
		return false, fmt.Errorf("partition %d: %w", partition, wrapErr(err))
	}
	return cons.CachedInfo().AckFloor.Stream >= seq, nil
}
