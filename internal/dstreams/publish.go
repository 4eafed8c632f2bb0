package dstreams

import (
	"context"
	"sync"

	"spool/internal/natsio"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// outbox sends what many streams append at the same time together: while one batch is on its way, the next one gathers.
type outbox struct {
	events natsio.Events

	mu      sync.Mutex
	waiting []*outgoing
	busy    bool
}

// outgoing is a chain on its way; the stream's lock is held, so there is one of a stream at a time.
type outgoing struct {
	natsio.Chain
	ctx  context.Context
	size int
	done chan struct{}
}

// The most that is sent together.
const (
	batchEvents = 512
	batchBytes  = 4 << 20
)

// send stores a chain and returns when it is durable, or what became of it. It tries again while the server is busy.
func (o *outbox) send(ctx context.Context, last uint64, evs []*events.Event) (seq uint64, err error) {
	out := &outgoing{Chain: natsio.Chain{Last: last, Events: evs}}
	for _, e := range evs {
		out.size += len(e.Body)
	}
	err = again(ctx, func() error {
		out.ctx, out.done = ctx, make(chan struct{})
		o.mu.Lock()
		o.waiting = append(o.waiting, out)
		begin := !o.busy
		o.busy = true
		o.mu.Unlock()
		if begin {
			go o.drain()
		}
		<-out.done
		return out.Err
	})
	return out.Seq, err
}

// drain sends until nothing waits.
func (o *outbox) drain() {
	for {
		batch := o.next()
		if len(batch) == 0 {
			return
		}
		chains := make([]*natsio.Chain, len(batch))
		for i, out := range batch {
			chains[i] = &out.Chain
		}
		o.events.PublishChains(context.WithoutCancel(batch[0].ctx), chains) // it has a timeout of its own
		for _, out := range batch {
			close(out.done)
		}
	}
}

// next takes the chains of the next batch.
func (o *outbox) next() []*outgoing {
	o.mu.Lock()
	defer o.mu.Unlock()
	n, count, size := 0, 0, 0
	for n < len(o.waiting) {
		out := o.waiting[n]
		if count, size = count+len(out.Events), size+out.size; n > 0 && (count > batchEvents || size > batchBytes) {
			break
		}
		n++
	}
	batch := o.waiting[:n:n]
	o.waiting = o.waiting[n:]
	o.busy = n > 0
	return batch
}

// publish stores events that were decided by the state, all or none. A conflict, or an outcome that nobody knows, makes the
// state unknown. The caller has brought the state up to them (extend).
func (h *Handler) publish(ctx context.Context, s *state, evs ...*events.Event) error {
	ctx, cancel := context.WithTimeout(ctx, h.cfg.Patience)
	defer cancel()
	seq, err := h.out.send(ctx, s.newest, evs)
	if err != nil {
		s.known = false
		return err
	}
	s.newest = seq
	s.published.Store(seq)
	return nil
}

// extend brings the state up to events that are about to be published.
func (s *state) extend(evs ...*events.Event) {
	for _, e := range evs {
		s.producers[e.Producer] = threads.Producer{ID: e.Producer, Epoch: e.Epoch, Seq: e.Seq}
		switch op, _ := events.ParseControl(e.Body); {
		case e.Kind == events.KindEntry:
			s.entries++
		case op.Op == events.OpEnd:
			s.closed = true
		}
	}
}
