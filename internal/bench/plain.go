package bench

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// plain is null as one would write it with the client API: one message an entry, each with an ack of its own, and one consumer.
type plain struct {
	*raw
	items    jetstream.JetStream
	nc       *nats.Conn
	consume  jetstream.ConsumeContext
	moved    chan moved
	finished atomic.Int64
	failed   atomic.Pointer[error]
	stopped  chan struct{}
}

// moved is a consumed entry whose item is on its way.
type moved struct {
	msg  jetstream.Msg
	item jetstream.PubAckFuture
}

const (
	ackEvery  = 500                  // entries in one ack
	ackAtRest = 2 * time.Millisecond // after which fewer are acked
	pullBatch = 1000
)

func openPlain(ctx context.Context, r *rig) (pipeline, error) {
	in, err := newRaw(ctx, r)
	if err != nil {
		return nil, err
	}
	nc, js, err := r.connect()
	if err != nil {
		in.close()
		return nil, err
	}
	p := &plain{raw: in, items: js, nc: nc, moved: make(chan moved, maxPending), stopped: make(chan struct{})}
	if err := p.start(ctx, r); err != nil {
		in.close()
		nc.Close()
		return nil, err
	}
	return p, nil
}

func (p *plain) start(ctx context.Context, r *rig) error {
	if err := r.stream(ctx, p.items, itemsStream, itemPrefix+">"); err != nil {
		return err
	}
	cons, err := p.items.CreateConsumer(ctx, inStream, jetstream.ConsumerConfig{
		Durable: "plain", AckPolicy: jetstream.AckAllPolicy, MaxAckPending: fastWindow,
	})
	if err != nil {
		return err
	}
	p.consume, err = cons.Consume(p.move, jetstream.PullMaxMessages(pullBatch))
	if err != nil {
		return err
	}
	go p.ackLoop()
	return nil
}

func (p *plain) move(m jetstream.Msg) {
	f, err := p.items.PublishAsync(itemPrefix+m.Subject()[len(inPrefix):], m.Data(), jetstream.WithStallWait(30*time.Second))
	if err != nil {
		p.failed.CompareAndSwap(nil, &err)
		return
	}
	p.moved <- moved{m, f}
}

// ackLoop acks the last of every ackEvery entries once their items are stored.
func (p *plain) ackLoop() {
	defer close(p.stopped)
	rest := time.NewTicker(ackAtRest)
	defer rest.Stop()
	var last jetstream.Msg
	n := int64(0)
	ack := func() {
		if n == 0 {
			return
		}
		if err := last.Ack(); err != nil {
			p.failed.CompareAndSwap(nil, &err)
		}
		p.finished.Add(n)
		n = 0
	}
	for {
		select {
		case m, open := <-p.moved:
			if !open {
				return
			}
			select {
			case <-m.item.Ok():
				last = m.msg
				n++
			case err := <-m.item.Err():
				p.failed.CompareAndSwap(nil, &err)
			}
			if n == ackEvery {
				ack()
			}
		case <-rest.C:
			ack()
		}
	}
}

func (p *plain) done() int64 { return p.finished.Load() }

func (p *plain) verify(ctx context.Context, n int64) error {
	if e := p.failed.Load(); e != nil {
		return *e
	}
	return errors.Join(p.raw.verify(ctx, n), count(ctx, p.items, itemsStream, n), p.acked(ctx, n))
}

// acked waits for the server to have seen the last ack, which nothing answers.
func (p *plain) acked(ctx context.Context, n int64) error {
	for wait := time.Millisecond; ; wait *= 2 {
		c, err := p.items.Consumer(ctx, inStream, "plain")
		if err != nil {
			return err
		}
		floor := c.CachedInfo().AckFloor.Stream
		if floor == uint64(n) {
			return nil
		}
		if wait > time.Second {
			return fmt.Errorf("acked up to %d, want %d", floor, n)
		}
		time.Sleep(wait)
	}
}

func (p *plain) close() {
	p.consume.Stop()
	<-p.consume.Closed()
	close(p.moved)
	<-p.stopped
	p.nc.Close()
	p.raw.close()
}
