package bench

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"spool/internal/natsio"
	"spool/pkg/events"
)

// null moves every entry as Spool does, and looks at none: the same publishers, whose entries share messages, the same partitions with
// their consumers, items that are published as a persister publishes them, and acks when they are stored. What it lacks is the work.
type null struct {
	*transport
	consumed []*natsio.Consumed
	moved    chan natsio.Delivery
	finished atomic.Int64
	failed   atomic.Pointer[error]
	moving   errgroup.Group
}

func openNull(ctx context.Context, r *rig) (pipeline, error) {
	t, err := newTransport(ctx, r, spoolPublishers)
	if err != nil {
		return nil, err
	}
	p := &null{transport: t, moved: make(chan natsio.Delivery, maxPending)}
	p.moving.Go(func() error { return p.move(ctx) })
	for partition := range events.Partitions {
		c, err := t.conn.Events().Consume(ctx, partition, nil, func(d natsio.Delivery) { p.moved <- d })
		if err != nil {
			p.close()
			return nil, err
		}
		p.consumed = append(p.consumed, c)
	}
	return p, nil
}

// nullBatch is how many items are published at once, at most: as many as the entries of a persister's batch.
const nullBatch = 1000

// move publishes the items of what came, and acks it, partition by partition. It goes on taking what comes after an error, so that
// nobody who delivers waits for ever.
func (p *null) move(ctx context.Context) error {
	for d := range p.moved {
		batch := []natsio.Delivery{d}
		items, err := p.items(nil, d)
	more:
		for err == nil && len(items) < nullBatch {
			select {
			case d, open := <-p.moved:
				if !open {
					break more
				}
				batch = append(batch, d)
				items, err = p.items(items, d)
			default:
				break more
			}
		}
		if err == nil {
			err = p.conn.Items().PublishItems(ctx, items)
		}
		last := map[int]natsio.Delivery{}
		for _, d := range batch {
			last[d.Partition] = d
		}
		for _, d := range last {
			if err == nil {
				err = d.Ack()
			}
		}
		if err != nil {
			p.failed.CompareAndSwap(nil, &err)
			continue
		}
		p.finished.Add(int64(len(items)))
	}
	return nil
}

// items adds the entries of a delivery, each as an item.
func (p *null) items(to []events.Posted, d natsio.Delivery) ([]events.Posted, error) {
	e, err := events.Decode(d.Data)
	if err != nil {
		return to, err
	}
	subject := events.ItemSubject(e.Thread, "text", "")
	to = append(to, events.Posted{Subject: subject, Data: e.Body})
	for _, more := range e.More {
		to = append(to, events.Posted{Subject: subject, Data: more.Body})
	}
	return to, nil
}

func (p *null) done() int64 { return p.finished.Load() }

func (p *null) verify(ctx context.Context, n int64) error {
	if e := p.failed.Load(); e != nil {
		return *e
	}
	return errors.Join(count(ctx, p.conn.JetStream(), events.ItemsStream, n), p.acked(ctx))
}

// acked waits for the server to have seen the last acks, which nothing answers.
func (p *null) acked(ctx context.Context) error {
	for wait := time.Millisecond; ; wait *= 2 {
		b, err := p.conn.Events().Backlog(ctx)
		if err != nil || b.Pending == 0 && b.Unacked == 0 {
			return err
		}
		if wait > time.Second {
			return fmt.Errorf("%d events are not delivered and %d not acknowledged", b.Pending, b.Unacked)
		}
		time.Sleep(wait)
	}
}

func (p *null) close() {
	for _, c := range p.consumed {
		c.Stop()
	}
	close(p.moved)
	_ = p.moving.Wait() // failed has its errors
	p.transport.close()
}
