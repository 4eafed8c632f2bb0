package natsio

import (
	"context"
	"errors"
	"math/bits"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"spool/internal/record"
)

// sender publishes groups of messages to one stream by the better of two ways.
//
// An atomic batch costs a server about 2.3 ms and twice the work a message, and one sync: with sync_interval "always" it is
// many times as fast as messages one by one, which cost a sync each. Without, messages one by one, all on their way at
// once, cost half as much. A client is not told how a server syncs: both ways are tried now and then, and compared by what they bring.
type sender struct {
	mu   sync.Mutex
	of   [maxGroup + 1]ways // by the bits that the number of messages of a group has: a batch has a price of its own
	done time.Time          // when the last group was stored
}

const (
	batchBytes = 8 << 20 // the most that one group carries
	batchFrom  = 8       // fewer messages are not worth a batch
	maxGroup   = 10      // bits of maxBatch
)

// send publishes messages in order. On an error a part of them may be stored; record.ErrRefused: those before one that is refused for good,
// as one is that the server's limit of a message does not let through.
func (s *sender) send(ctx context.Context, c *Conn, msgs []*nats.Msg) error {
	for most := c.MaxPayload(); len(msgs) > 0; {
		n, size := 0, 0
		for n < len(msgs) && n < maxBatch && (n == 0 || size+len(msgs[n].Data) <= batchBytes && msgs[n].Size() <= most) {
			size += len(msgs[n].Data)
			n++
		}
		batched, part := s.choose(n)
		err := error(nil)
		began := time.Now()
		if batched {
			_, err = c.batch(ctx, msgs[:part])
		} else {
			err = c.streams.publish(ctx, msgs[:part], c.timeout)
		}
		switch {
		case err == nil:
			s.took(n, batched, began, msgs[:part])
		case batched && errors.Is(err, record.ErrBusy):
			// A batch that the server gave up is not stored, and it does not say over which message: one by one it does.
			err = c.streams.publish(ctx, unbatched(msgs[:part]), c.timeout)
		}
		if err != nil {
			return err
		}
		msgs = msgs[part:]
	}
	return nil
}

// choose says how a group of n messages is sent, and how many of them: fewer where that way is only tried.
func (s *sender) choose(n int) (batched bool, part int) {
	if n < batchFrom {
		return false, n
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	batched, most := s.of[bits.Len(uint(n))].choose()
	return batched, min(n, most)
}

// took notes what it cost to store some messages of a group of n, or all. A server stores one group behind the other, and several are on
// their way: while one is stored the others wait, and what a group costs is the time since the one before it was done.
func (s *sender) took(n int, batched bool, began time.Time, msgs []*nats.Msg) {
	work := 0
	for _, m := range msgs {
		work += len(m.Data) + messageWork
	}
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done.After(began) {
		began = s.done
	}
	s.done = now
	d := now.Sub(began).Seconds()
	s.of[bits.Len(uint(n))].took(batched, d/float64(work), d/float64(len(msgs)))
}

// messageWork is what a message costs beside its bytes, as so many bytes more: roughly, so that groups of small and of large messages
// compare.
const messageWork = 2 << 10

// ways is what two ways to send groups of like numbers of messages cost lately, and which of them is taken.
type ways struct {
	alone, batch recent
	each         recent // seconds of a message alone
	batched      bool
	sent, again  int // groups since the other way was tried, and after how many it is to be
	stayed       int // groups since the way was changed
}

const (
	trialSoon  = 8   // so many groups behind a change of the way the other one is tried again, then after twice as many, up to
	trialAgain = 64  // so many; and up to
	trialFar   = 512 // where it is hopeless
	fewAlone   = 8   // messages that are sent one by one where that is hopeless, or not known: a sync each takes long
	someAlone  = 32  // the same where it is not hopeless
	fewBatched = 32  // messages of a batch where that is hopeless, or not known
	hopeless   = 4.0 // times as dear as the way that is taken
	clearly    = 0.5 // a batch is taken where it costs less than that of one by one, for it costs the server more than the time it takes,
	barely     = 0.8 // and until it costs more than this

	// Messages that take longer than that, in seconds, are synced one by one, or wait for a quorum: that costs the disk, or the others of the
	// cluster, more than the time it takes.
	syncTime = 150e-6
	synced   = 2.0 // how many times as much both may be then
)

// choose says which way is next, and for how many messages at most.
func (w *ways) choose() (batched bool, most int) {
	switch {
	case w.alone.n == 0:
		return false, fewAlone
	case w.batch.n == 0:
		return true, fewBatched
	}
	here, other := w.alone.cost(), w.batch.cost()
	if w.batched {
		here, other = other, here
	}
	bad, again := other > hopeless*here, trialAgain
	if bad {
		again = trialFar
	}
	w.stayed++
	if w.sent++; w.sent < min(w.again, again) {
		if !w.batched && w.stayed < 6 { // a sync each, should that be wrong
			return false, someAlone << (w.stayed - 1)
		}
		return w.batched, maxBatch
	}
	w.sent, w.again = 0, min(2*w.again, again)
	switch {
	case w.batched && bad:
		return false, fewAlone
	case w.batched:
		return false, someAlone
	case bad:
		return true, fewBatched
	}
	return true, maxBatch
}

// took notes what a group cost, and takes the other way where that is better.
func (w *ways) took(batched bool, cost, each float64) {
	if batched {
		w.batch.add(cost)
	} else {
		w.alone.add(cost)
		w.each.add(each)
	}
	if w.alone.n == 0 || w.batch.n == 0 {
		return
	}
	limit := clearly
	if w.batched {
		limit = barely
	}
	if w.each.cost() > syncTime {
		limit *= synced
	}
	alone, batch := w.alone.cost(), w.batch.cost()
	if batched {
		batch = cost
	} else {
		alone = cost
	}
	if batched != w.batched && batched == (batch < limit*alone) {
		w.again = 1 // what was tried seems better: it is tried again at once
	}
	if better := w.batch.cost() < limit*w.alone.cost(); better != w.batched || w.again == 0 {
		w.batched, w.sent, w.again, w.stayed = better, 0, trialSoon, 0
	}
}

// recent is what something cost the last few times.
type recent struct {
	last [15]float64
	n    int // how many times there were
}

func (r *recent) add(cost float64) {
	r.last[r.n%len(r.last)] = cost
	r.n++
}

// cost is what is not exceeded in a third of the last times: on a machine that is busy one in a few takes many times as long, and one that
// was noticed late makes the next one seem short.
func (r *recent) cost() float64 {
	some := r.last
	known := some[:min(r.n, len(some))]
	if len(known) == 0 {
		return 0
	}
	slices.Sort(known)
	return known[len(known)/3]
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
