package natsio

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/record"
	"spool/pkg/events"
)

// Fences moves the fence of every lane in one batch and returns the sequence of the first; that of lane n is n above it.
// A commit that was prepared before is refused from here on (DESIGN 9, step 1).
func (recs Records) Fences(ctx context.Context) (first uint64, err error) {
	if err := Usable(ctx, recs.c); err != nil {
		return 0, err
	}
	puts := make([]record.Put, events.Lanes)
	for lane := range puts {
		puts[lane] = record.Put{Key: events.FenceKey(lane), Value: []byte("gc"), Expect: record.Any}
	}
	msgs, err := recs.putMsgs(ctx, puts...)
	if err != nil {
		return 0, fmt.Errorf("move the fences: %w", err)
	}
	last, err := recs.c.batch(ctx, msgs)
	if err != nil {
		return 0, fmt.Errorf("move the fences: %w", err)
	}
	return last - uint64(events.Lanes) + 1, nil
}

// Scan calls f for every record from a sequence on, removed ones included, in the order of their sequences, and goes on with
// what is written meanwhile until there was a moment in which the one that it had seen last was the newest. It returns that
// one's sequence: what f was told is then exactly what the bucket held at it. For whatever was overwritten before its place was
// reached comes again further on, and nothing further on is left out. Writers are not stopped; if for scanStill they never
// leave a gap of one round trip it is record.ErrBusy.
func (recs Records) Scan(ctx context.Context, from uint64, f func(record.Stamped) error) (last uint64, err error) {
	s, err := recs.c.js.Stream(ctx, events.RecordsStream)
	if err != nil {
		return 0, fmt.Errorf("scan records: %w", WrapErr(err))
	}
	cons, err := s.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{events.RecordSubject(">")}, DeliverPolicy: jetstream.DeliverByStartSequencePolicy,
		OptStartSeq: max(from, 1), InactiveThreshold: 10 * time.Second,
	})
	if err != nil {
		return 0, fmt.Errorf("scan records: %w", WrapErr(err))
	}
	ages, err := recs.c.Streams().Aging(ctx, s)
	if err != nil {
		return 0, fmt.Errorf("scan records: %w", err)
	}
	last = max(from, 1) - 1
	// What a consumer says is pending lags behind what is stored: only the stream knows. It is asked again behind what it said it has, since
	// a scan that asks behind each record is slower than a single writer.
	var asked, newest uint64
	var busy time.Time // until when the end may fail to come, once it was near
	atEnd := func() (bool, error) {
		if asked < last && last < newest {
			return false, nil
		}
		asked = last
		asking := time.Now()
		_, err := s.GetMsg(ctx, last+1, jetstream.WithGetMsgSubject(events.RecordSubject(">")))
		switch away := time.Since(asking); {
		case errors.Is(err, jetstream.ErrMsgNotFound):
			return true, nil
		case err != nil:
			return false, WrapErr(err)
		case away > recs.c.timeout: // a server that was waited for says nothing of that time
			busy = time.Time{}
		case busy.IsZero():
			busy = time.Now().Add(scanStill)
		case time.Now().After(busy):
			return false, fmt.Errorf("%w: records are written without a pause", record.ErrBusy)
		}
		info, err := s.Info(ctx)
		if err != nil {
			return false, WrapErr(err)
		}
		newest = info.State.LastSeq
		return false, nil
	}
	err = recs.c.Streams().follow(ctx, cons, atEnd, func(m jetstream.Msg, meta *jetstream.MsgMetadata) error {
		last = meta.Sequence.Stream
		r, err := recs.opened(ctx, m, last)
		if err != nil {
			return err
		}
		return f(record.Stamped{Record: r, Age: ages.Of(meta)})
	})
	if err != nil {
		return 0, fmt.Errorf("scan records: %w", err)
	}
	return last, nil
}

// Quiet reports whether a record is the newest. Scan asks the leader whether it is; in a cluster that is not enough. The server that tells
// the records may have taken in more than the leader: what is overwritten behind the last record that it told, it left out
// before it. So there a record is written, on condition that nothing is behind the last: a majority agrees to that, and what was told
// before cannot have been overwritten.
func (recs Records) Quiet(ctx context.Context, last uint64) (bool, error) {
	if !recs.c.clustered() {
		return true, nil
	}
	msgs, err := recs.putMsgs(ctx, record.Put{Key: events.QuietKey, Value: []byte("gc"), Expect: record.Any})
	if err != nil {
		return false, fmt.Errorf("wait for a quiet moment: %w", err)
	}
	msgs[0].Header[hdrExpectLast] = []string{strconv.FormatUint(last, 10)}
	_, err = recs.c.Streams().Send(ctx, msgs)
	if errors.Is(err, record.ErrConflict) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("wait for a quiet moment: %w", err)
	}
	return true, nil
}

// scanStill is how long a scan waits for a moment in which nothing is written behind what it has read.
const scanStill = time.Minute

// Forget deletes the message of a record that means nothing any more: an old tombstone, a moved record that nobody follows. One
// that was overwritten since is at another sequence and stays.
func (recs Records) Forget(ctx context.Context, seqs ...uint64) error {
	for some := range slices.Chunk(seqs, forgetAhead) {
		if err := recs.forget(ctx, some); err != nil {
			return fmt.Errorf("forget records from %d on: %w", some[0], err)
		}
	}
	return nil
}

// forgetAhead is how many the server is asked to forget at a time.
const forgetAhead = 500

func (recs Records) forget(ctx context.Context, seqs []uint64) error {
	msgs := make([]*nats.Msg, len(seqs))
	for i, seq := range seqs {
		body := append(strconv.AppendUint([]byte(`{"no_erase":true,"seq":`), seq, 10), '}')
		msgs[i] = &nats.Msg{Subject: apiSubject(recs.c.js, "STREAM.MSG.DELETE."+events.RecordsStream), Data: body}
	}
	answers, err := recs.c.pipe.all(ctx, msgs, recs.c.timeout)
	if err != nil {
		return err
	}
	for i, m := range answers {
		var answer struct{ Error *apiError }
		err := record.ErrBusy // nobody answers for the stream
		if m.Header.Get("Status") != "503" {
			err = json.Unmarshal(m.Data, &answer)
		}
		if answer.Error != nil {
			err = answer.Error.wrap()
		}
		if err == nil {
			continue
		}
		s, e := MessagesOf(ctx, recs.c.Streams(), events.RecordsStream)
		if e == nil {
			e = UnlessGone(ctx, s, seqs[i], err)
		}
		if e != nil {
			return WrapErr(e)
		}
	}
	return nil
}

// UnlessGone is the error of deleting a message, if the message is still there.
func UnlessGone(ctx context.Context, s Messages, seq uint64, err error) error {
	if err == nil {
		return nil
	}
	if _, gone := s.GetMsg(ctx, seq); errors.Is(gone, jetstream.ErrMsgNotFound) {
		return nil
	}
	return WrapErr(err)
}
