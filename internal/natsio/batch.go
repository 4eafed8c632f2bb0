package natsio

import (
	"cmp"
	"context"
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go"

	"spool/internal/record"
)

// maxBatch is the largest atomic batch that a server takes, in messages.
const maxBatch = record.MaxCommit + 1

// Headers of an atomic batch (ADR-50) and of a conditional publish.
const (
	hdrBatchID     = "Nats-Batch-Id"
	hdrBatchSeq    = "Nats-Batch-Sequence"
	hdrBatchCommit = "Nats-Batch-Commit"
	hdrExpectLast  = "Nats-Expected-Last-Sequence"
	hdrExpectSeq   = "Nats-Expected-Last-Subject-Sequence"
	hdrOperation   = "KV-Operation"
	hdrExpectSubj  = "Nats-Expected-Last-Subject-Sequence-Subject"
)

// batch publishes all messages or none, in one stream, and returns the sequence of the last: the others have the ones
// before it. On a server with sync_interval "always" it costs one sync. The messages' headers are changed.
func (c *Conn) batch(ctx context.Context, msgs []*nats.Msg) (uint64, error) {
	return c.batchAs(ctx, "", msgs)
}

// batchAs is batch; the first message of an announced batch has been sent.
func (c *Conn) batchAs(ctx context.Context, announced string, msgs []*nats.Msg) (uint64, error) {
	if len(msgs) > maxBatch {
		return 0, fmt.Errorf("%w: a batch of %d messages; at most %d", record.ErrRefused, len(msgs), maxBatch)
	}
	id := cmp.Or(announced, newBatch())
	last := len(msgs) - 1
	for i, m := range msgs {
		if i == 0 && announced != "" {
			continue
		}
		if m.Header == nil {
			m.Header = make(nats.Header, 3)
		}
		m.Header[hdrBatchID] = []string{id}
		m.Header[hdrBatchSeq] = []string{strconv.Itoa(i + 1)}
		if i == last {
			m.Header[hdrBatchCommit] = []string{"1"}
		}
	}
	first := 0
	if announced != "" && last > 0 {
		first = 1
	}
	answers, err := c.pipe.after(ctx, msgs[first:last], msgs[last:], c.timeout)
	if err != nil {
		return 0, err
	}
	a, err := parseAck(answers[0])
	if err != nil {
		return 0, err
	}
	if a.Count != len(msgs) {
		return 0, fmt.Errorf("%w: the server committed %d of %d messages: does the stream allow atomic publishing?",
			record.ErrRefused, a.Count, len(msgs))
	}
	return a.Seq, nil
}
