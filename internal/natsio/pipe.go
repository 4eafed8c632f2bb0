package natsio

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/semaphore"

	"spool/internal/record"
)

// window bounds the bytes that are on their way and not answered yet. The server queues 128 MiB a stream and refuses what
// is above (429), so a window in messages alone is not one.
const window = 32 << 20

// pipe sends many requests at once and waits for all their answers: one subscription, no future a message.
type pipe struct {
	nc     *nats.Conn
	denied *denials
	prefix string
	bytes  *semaphore.Weighted

	mu      sync.Mutex
	next    uint64
	waiting map[uint64]*call
}

// call is one set of requests. Its answers arrive in any order.
type call struct {
	first   uint64
	answers []*nats.Msg
	sizes   []int64
	missing int
	refused error // by the server
	done    chan struct{}
}

func newPipe(nc *nats.Conn, denied *denials) (*pipe, error) {
	p := &pipe{
		nc: nc, denied: denied, prefix: nc.NewInbox() + ".", bytes: semaphore.NewWeighted(window),
		waiting: map[uint64]*call{},
	}
	sub, err := nc.Subscribe(p.prefix+"*", p.answer)
	if err != nil {
		return nil, err
	}
	return p, sub.SetPendingLimits(-1, -1)
}

func (p *pipe) answer(m *nats.Msg) {
	id, err := strconv.ParseUint(strings.TrimPrefix(m.Subject, p.prefix), 36, 64)
	if err != nil {
		return
	}
	p.mu.Lock()
	c, ok := p.waiting[id]
	var size int64
	if ok {
		delete(p.waiting, id)
		i := id - c.first
		c.answers[i], size = m, c.sizes[i]
		if c.missing--; c.missing == 0 && c.refused == nil {
			close(c.done)
		}
	}
	p.mu.Unlock()
	if ok {
		p.bytes.Release(size)
	}
}

func goesTo(msgs []*nats.Msg, subject string) bool {
	return slices.ContainsFunc(msgs, func(m *nats.Msg) bool { return m.Subject == subject })
}

// all sends the messages in order and returns their answers in that order. On an error the outcome of every message is
// unknown, but for record.ErrDenied: the server dropped one of them at least.
func (p *pipe) all(ctx context.Context, msgs []*nats.Msg, timeout time.Duration) ([]*nats.Msg, error) {
	return p.after(ctx, nil, msgs, timeout)
}

// after is all for messages whose answers tell of others, too, which send sends first.
func (p *pipe) after(ctx context.Context, before, msgs []*nats.Msg, timeout time.Duration) ([]*nats.Msg, error) {
	if len(msgs) == 0 {
		return nil, nil
	}
	c := p.open(msgs)
	defer p.forget(c)
	done, err := p.denied.await(func(subject string) bool {
		return goesTo(before, subject) || goesTo(msgs, subject)
	}, func(why error) { p.refuse(c, why) })
	if err != nil {
		p.unsent(c, 0)
		return nil, err
	}
	defer done()
	for _, m := range before {
		if err := p.nc.PublishMsg(m); err != nil {
			p.unsent(c, 0)
			// The batch that it belongs to never gets its end: nothing of it is stored.
			return nil, unsent(p.nc, m, err, record.ErrBusy, record.ErrRefused)
		}
	}
	for i, m := range msgs {
		if err := p.acquire(ctx, c, c.sizes[i]); err != nil {
			p.unsent(c, i)
			return nil, outcome(ctx, err)
		}
		m.Reply = p.prefix + strconv.FormatUint(c.first+uint64(i), 36)
		if err := p.nc.PublishMsg(m); err != nil {
			p.bytes.Release(c.sizes[i])
			p.unsent(c, i)
			return nil, unsent(p.nc, m, err, record.ErrUnknown, record.ErrRefused)
		}
	}
	return p.await(ctx, c, timeout)
}

// await waits for the answers of a call, as long as more of them come within each timeout: who got a part in time and asks for all again
// may never get all, and gives the server more to do.
func (p *pipe) await(ctx context.Context, c *call, timeout time.Duration) ([]*nats.Msg, error) {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	for before := len(c.answers); ; {
		select {
		case <-c.done:
			if err := p.refusal(c); err != nil {
				return nil, err
			}
			return c.answers, nil
		case <-ctx.Done():
			return nil, outcome(ctx, ctx.Err())
		case <-timer.C:
			left := p.left(c)
			if left == before {
				return nil, fmt.Errorf("%w: no answer within %v", record.ErrUnknown, timeout)
			}
			before = left
			timer.Reset(timeout)
		}
	}
}

// left is how many requests of a call have no answer yet.
func (p *pipe) left(c *call) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return c.missing
}

// acquire takes a share of the window, unless the context or the call ends before there is one.
func (p *pipe) acquire(ctx context.Context, c *call, size int64) error {
	if err := ctx.Err(); err != nil || p.bytes.TryAcquire(size) {
		return err
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	go func() {
		select {
		case <-c.done:
			end(p.refusal(c))
		case <-ctx.Done():
		}
	}()
	if p.bytes.Acquire(ctx, size) != nil {
		return context.Cause(ctx)
	}
	return nil
}

// refuse ends a call of which the server dropped a request, if it was not answered before.
func (p *pipe) refuse(c *call, why error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.missing > 0 && c.refused == nil {
		c.refused = why
		close(c.done)
	}
}

func (p *pipe) refusal(c *call) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return c.refused
}

func (p *pipe) open(msgs []*nats.Msg) *call {
	c := &call{
		answers: make([]*nats.Msg, len(msgs)), sizes: make([]int64, len(msgs)), missing: len(msgs), done: make(chan struct{}),
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	c.first = p.next
	p.next += uint64(len(msgs))
	for i, m := range msgs {
		c.sizes[i] = min(int64(len(m.Data))+256, window)
		p.waiting[c.first+uint64(i)] = c
	}
	return c
}

// unsent drops the requests from the i-th on, which took no share of the window.
func (p *pipe) unsent(c *call, i int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for ; i < len(c.sizes); i++ {
		delete(p.waiting, c.first+uint64(i))
	}
}

// forget gives back the share of requests that were not answered.
func (p *pipe) forget(c *call) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.missing == 0 {
		return
	}
	for i := range c.sizes {
		id := c.first + uint64(i)
		if p.waiting[id] == c {
			delete(p.waiting, id)
			p.bytes.Release(c.sizes[i])
		}
	}
}

// Send publishes messages to one stream, all at once, and returns their sequences in the same order when every one is
// durable. The first refusal is the error; beside it stand the sequences of what was stored nevertheless, 0 for the others.
func (st Streams) Send(ctx context.Context, msgs []*nats.Msg) (seqs []uint64, err error) {
	answers, err := st.c.pipe.all(ctx, msgs, st.c.timeout)
	if err != nil {
		return nil, err
	}
	seqs = make([]uint64, len(answers))
	for i, m := range answers {
		a, e := parseAck(m)
		if e != nil && err == nil {
			err = fmt.Errorf("publish %s: %w", msgs[i].Subject, e)
		}
		seqs[i] = a.Seq
	}
	return seqs, err
}
