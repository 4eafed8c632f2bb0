package memjs

import (
	"maps"

	"github.com/nats-io/nats-server/v2/server"
)

// consumerState is what a server's disk knows of a consumer. It is told of every delivery and ack, and has a rule of
// its own for what it takes; a description of the consumer is made of it, and after a crash the consumer.
type consumerState struct {
	delivered, floor pair
	pending          map[uint64]open
	redelivered      map[uint64]uint64
}

type pair struct{ consumer, stream uint64 }

func (k *consumerState) begin(sseq uint64) { k.delivered.stream, k.floor.stream = sseq, sseq }

func (k *consumerState) deliver(policy server.AckPolicy, maxDeliver int, dseq, sseq, count uint64, ts int64) {
	if dseq <= k.floor.consumer || count != 1 && policy == server.AckNone {
		return
	}
	if policy == server.AckNone {
		if dseq > k.delivered.consumer {
			k.delivered.consumer, k.floor.consumer = dseq, dseq
		}
		if sseq > k.delivered.stream {
			k.delivered.stream, k.floor.stream = sseq, sseq
		}
		return
	}
	if k.pending == nil {
		k.pending = map[uint64]open{}
	}
	if sseq > k.delivered.stream {
		k.pending[sseq] = open{dseq, ts}
	} else if p, ok := k.pending[sseq]; ok {
		k.pending[sseq] = open{p.dseq, ts}
	}
	k.delivered.consumer, k.delivered.stream = max(k.delivered.consumer, dseq), max(k.delivered.stream, sseq)
	if count <= 1 {
		return
	}
	if maxDeliver > 0 && count > uint64(maxDeliver) {
		delete(k.pending, sseq)
	}
	if k.redelivered == nil {
		k.redelivered = map[uint64]uint64{}
	}
	k.redelivered[sseq] = max(k.redelivered[sseq], count-1)
}

func (k *consumerState) ack(policy server.AckPolicy, dseq, sseq uint64) {
	if policy == server.AckNone {
		return
	}
	delete(k.redelivered, sseq)
	p, ok := k.pending[sseq]
	if dseq <= k.floor.consumer || !ok {
		return
	}
	if policy == server.AckAll {
		k.floor = pair{dseq, sseq}
		maps.DeleteFunc(k.pending, func(seq uint64, _ open) bool { return seq <= sseq })
		maps.DeleteFunc(k.redelivered, func(seq, _ uint64) bool { return seq <= sseq })
		return
	}
	delete(k.pending, sseq)
	if p.dseq > 0 {
		dseq = min(dseq, p.dseq)
	}
	switch {
	case len(k.pending) == 0:
		k.floor = k.delivered
	case dseq == k.floor.consumer+1:
		k.floor = pair{dseq, sseq}
		for seq := sseq + 1; seq <= k.delivered.stream; seq++ {
			if p, ok := k.pending[seq]; ok {
				if p.dseq > 0 {
					k.floor = pair{p.dseq - 1, seq - 1}
				}
				break
			}
		}
	}
}

// replace takes the consumer's own view, unless it contradicts itself or goes back.
func (k *consumerState) replace(o *consumer) {
	n := consumerState{delivered: pair{o.dseq - 1, o.sseq - 1}, floor: pair{o.adflr, o.asflr},
		pending: map[uint64]open{}}
	if n.floor.consumer > n.delivered.consumer || n.floor.stream > n.delivered.stream ||
		n.delivered.consumer < k.delivered.consumer || n.floor.stream < k.floor.stream {
		return
	}
	for seq, p := range o.pending {
		if seq <= n.floor.stream || seq > n.delivered.stream {
			return
		}
		n.pending[seq] = *p
	}
	n.redelivered = maps.Clone(o.redelivered)
	*k = n
}

// load makes the consumer what its state says.
func (o *consumer) load() {
	k := &o.kept
	o.sseq, o.dseq = k.delivered.stream+1, k.delivered.consumer+1
	o.asflr, o.adflr = k.floor.stream, k.floor.consumer
	o.pending, o.redelivered, o.again = nil, maps.Clone(k.redelivered), nil
	for seq, p := range k.pending {
		if o.pending == nil {
			o.pending = map[uint64]*open{}
		}
		o.pending[seq] = &open{p.dseq, p.ts}
	}
}
