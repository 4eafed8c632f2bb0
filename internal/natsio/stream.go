package natsio

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nuid"
	"golang.org/x/sync/semaphore"

	"spool/internal/record"
)

// streams publishes groups of messages by fast batches (ADR-50): the messages follow each other without an answer each, the
// server stores every one as it comes, stops at the first that it cannot store, and says at the end how many it has. So what
// is stored is a prefix, whatever happens, and a message costs the server less than one that is answered.
//
// A message says by its reply subject where it belongs: <prefix><batch id>.<flow>.fail.<n>.<operation>.$FI
type streams struct {
	nc     *nats.Conn
	denied *denials
	prefix string
	bytes  *semaphore.Weighted

	mu   sync.Mutex
	open map[string]*streaming // by batch id
}

// streaming is one batch on its way.
type streaming struct {
	done    chan struct{}
	answer  *nats.Msg // the last ack; valid once done is closed
	refusal error     // why the server stopped, if it said so
}

// The operations of a fast batch, and how often the server reports on its way: as rarely as it can.
const (
	opStart  = "0"
	opAppend = "1"
	opCommit = "2"
	flow     = ".65535.fail."
	fast     = ".$FI"
)

func newStreams(nc *nats.Conn, denied *denials, bytes *semaphore.Weighted) (*streams, error) {
	s := &streams{nc: nc, denied: denied, prefix: nc.NewInbox() + ".", bytes: bytes, open: map[string]*streaming{}}
	sub, err := nc.Subscribe(s.prefix+">", s.receive)
	if err != nil {
		return nil, err
	}
	return s, sub.SetPendingLimits(-1, -1)
}

// receive takes what the server says about a batch: flow reports, which nobody waits for, the reason why it stopped, and
// the ack.
func (s *streams) receive(m *nats.Msg) {
	id, _, _ := strings.Cut(m.Subject[len(s.prefix):], ".")
	if bytes.HasPrefix(m.Data, []byte(`{"type":"ack"`)) || bytes.HasPrefix(m.Data, []byte(`{"type":"gap"`)) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.open[id]
	if b == nil {
		return
	}
	var stop struct {
		Type  string
		Error *apiError
	}
	if json.Unmarshal(m.Data, &stop) == nil && stop.Type == "err" && stop.Error != nil {
		b.refusal = stop.Error.wrap()
		return
	}
	b.answer = m
	delete(s.open, id)
	close(b.done)
}

// publish stores the messages in order. When it fails a prefix may be stored.
func (s *streams) publish(ctx context.Context, msgs []*nats.Msg, timeout time.Duration) error {
	size := int64(0)
	for _, m := range msgs {
		size += int64(len(m.Data)) + 256
	}
	size = min(size, window)
	if err := s.bytes.Acquire(ctx, size); err != nil {
		return err
	}
	defer s.bytes.Release(size)
	ctx, done, err := s.denied.watch(ctx, func(subject string) bool { return goesTo(msgs, subject) })
	if err != nil {
		return err
	}
	defer done()

	id := nuid.Next()
	b := &streaming{done: make(chan struct{})}
	s.mu.Lock()
	s.open[id] = b
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.open, id)
		s.mu.Unlock()
	}()
	if err := s.send(id, msgs); err != nil {
		return err
	}
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-b.done:
	case <-ctx.Done():
		return outcome(ctx, ctx.Err())
	case <-timer.C:
		return fmt.Errorf("%w: no answer within %v", record.ErrUnknown, timeout)
	}
	a, err := parseAck(b.answer)
	switch {
	case err != nil && len(msgs) > 1 && record.Temporary(err):
		return fmt.Errorf("%w: %w", record.ErrUnknown, err) // the end was refused, perhaps by a server that has seen no more
	case err != nil:
		return err
	case a.Count >= len(msgs):
		return nil
	case b.refusal != nil:
		return b.refusal
	}
	return fmt.Errorf("%w: the server stored %d of %d messages", record.ErrBusy, a.Count, len(msgs))
}

func (s *streams) send(id string, msgs []*nats.Msg) error {
	reply := append([]byte(s.prefix+id), flow...)
	n := len(reply)
	for i, m := range msgs {
		op := opAppend
		switch i {
		case len(msgs) - 1:
			op = opCommit
		case 0:
			op = opStart
		}
		reply = strconv.AppendInt(reply[:n], int64(i+1), 10)
		reply = append(append(append(reply, '.'), op...), fast...)
		m.Reply = string(reply)
		if err := s.nc.PublishMsg(m); err != nil {
			large := record.ErrUnknown
			if i == 0 { // nothing was sent
				large = record.ErrRefused
			}
			return unsent(s.nc, m, err, record.ErrUnknown, large)
		}
	}
	return nil
}
