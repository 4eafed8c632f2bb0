package persistnats

import (
	"context"
	"time"

	"spool/internal/natsio"
	"spool/internal/persist"
)

// handover is how long a partition that another persister is to have waits at most for what came of it.
const handover = 5 * time.Second

// Partition is one that a persister consumes.
type Partition struct {
	consumed  *natsio.Consumed
	p         *persist.Persister
	partition int
	end       func() // of what is being delivered
}

// Consume has a persister apply the events of a partition (natsio.Consume) until Stop or Leave.
func Consume(ctx context.Context, es natsio.Events, p *persist.Persister, partition int, begin func(context.Context)) (*Partition, error) {
	delivering, end := context.WithCancel(ctx)
	c, err := es.Consume(ctx, partition, begin, func(d natsio.Delivery) {
		p.Deliver(delivering, persist.Message{
			Subject: d.Subject, Data: d.Data, Seq: d.Seq, Stored: d.Stored, Partition: d.Partition, Link: d.Link,
			Open: d.Open, Term: d.Term, Ack: d.Ack, Working: d.Working,
		})
	})
	if err != nil {
		end()
		return nil, err
	}
	return &Partition{c, p, partition, end}, nil
}

// Stop ends it, and gives the partition to another process.
func (p *Partition) Stop() {
	p.end()
	p.consumed.Stop()
}

// Leave is Stop when what came is through and acknowledged, or after some seconds: the next process is given what is not.
func (p *Partition) Leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, handover)
	defer cancel()
	p.consumed.Drain(ctx)
	p.p.Leave(ctx, p.partition)
	p.Stop()
}
