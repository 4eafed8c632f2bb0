package natsio

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"

	"spool/internal/record"
)

// sender publishes groups of messages to one stream by the better of two ways.
//
// An atomic batch costs a server about 2.3 ms and twice the work a message, and one sync: with sync_interval "always" it is
// many times as fast as messages one by one, which cost a sync each. Without, messages one by one, all on their way at
// once, are twice as fast. A client is not told how a server syncs; the time of a single ack shows it.
type sender struct {
	turn   turn // of a trial, so that nothing else of this sender disturbs it
	synced bool // an ack takes long enough for a sync or a quorum
	tried  time.Time
}

const (
	batchBytes = 8 << 20 // the most that one group carries
	batchFrom  = 8       // fewer messages are not worth a batch

	trialSize  = 6                     // messages that are sent alone, to see how long the fastest takes
	trialAgain = 10 * time.Minute      // a server may be configured anew
	syncTime   = 60 * time.Microsecond // an ack that takes longer than a round trip and this was not only written
)

// send publishes messages in order. On an error a part of them may be stored; with undo, a prefix,
// unless the error says that the outcome is unknown.
func (s *sender) send(ctx context.Context, c *Conn, msgs []*nats.Msg) error {
	batched := false
	if len(msgs) >= batchFrom {
		n, synced, err := s.try(ctx, c, msgs)
		if err != nil {
			return err
		}
		msgs, batched = msgs[n:], synced
	}
	for len(msgs) > 0 {
		n, size := 0, 0
		for n < len(msgs) && n < maxBatch && (n == 0 || size+len(msgs[n].Data) <= batchBytes) {
			size += len(msgs[n].Data)
			n++
		}
		var err error
		if batched && n >= batchFrom {
			// A batch that the server gave up is not stored, and it does not say over which message: one by one it does.
			if _, err = c.batch(ctx, msgs[:n]); errors.Is(err, record.ErrBusy) {
				_, err = c.streams.publish(ctx, unbatched(msgs[:n]), c.timeout)
			}
		} else {
			_, err = c.streams.publish(ctx, msgs[:n], c.timeout)
		}
		if err != nil {
			return err
		}
		msgs = msgs[n:]
	}
	return nil
}

// unbatched takes back what batch wrote into the headers of messages.
func unbatched(msgs []*nats.Msg) []*nats.Msg {
	for _, m := range msgs {
		delete(m.Header, hdrBatchID)
		delete(m.Header, hdrBatchSeq)
		delete(m.Header, hdrBatchCommit)
		m.Reply = ""
	}
	return msgs
}

// try finds out how the server stores, unless it is known, with the first of the messages: n of them are sent.
func (s *sender) try(ctx context.Context, c *Conn, msgs []*nats.Msg) (n int, synced bool, err error) {
	if err := s.turn.take(ctx); err != nil {
		return 0, false, err
	}
	defer s.turn.give()
	if !s.tried.IsZero() && time.Since(s.tried) < trialAgain {
		return 0, s.synced, nil
	}
	rtt, err := c.nc.RTT()
	if err != nil {
		return 0, s.synced, nil //nolint:nilerr // the messages themselves will tell what is wrong
	}
	fastest := time.Duration(1 << 62)
	for n = range min(trialSize, len(msgs)) {
		start := time.Now()
		if _, err := c.Streams().Send(ctx, msgs[n:n+1]); err != nil {
			return n, s.synced, err
		}
		fastest = min(fastest, time.Since(start))
		if again, err := c.nc.RTT(); err == nil {
			rtt = min(rtt, again)
		}
	}
	s.synced, s.tried = fastest-rtt > syncTime, time.Now()
	return n + 1, s.synced, nil
}
