package persist

import (
	"bytes"
	"container/heap"
	"context"
	"errors"
	"sync"

	"spool/internal/record"
	"spool/pkg/events"
)

// A session that comes faster than it is applied fills its part of the queue, as does a user. Its partition is read on all the same:
// what comes of it then is parked, as the bytes that came, which are a fraction of what staged events take. A goroutine
// a session brings it into the queue, in its order, as room is made. Nothing of a session overtakes what is parked of
// it, and what is parked is not through: neither is it acknowledged, nor what comes after it in its partition.
//
// What refers to a body in the inbox is always parked: only its session waits until the body is read. Of a session that
// has its part of the bytes in memory, only the number of a message is kept, and the message is read again from the
// stream. Where it has its part of these, too, its partition waits. So it does while others may have died over what is
// in the message: that is not parked.

// parking has what is parked.
type parking struct {
	room  *space // what messages take beside their bytes
	bytes *space // of messages that are in memory
	most  int64  // of these bytes

	mu     sync.Mutex
	of     map[string]*parked // by session
	oldest byAge

	reads chan struct{} // messages that are read again
}

// parked is what is parked of a session: at least the message that is being brought.
type parked struct {
	session string
	from    origin // of the first one: it pays the session's room
	room    int64
	waits   []waiting
	ended   chan struct{} // closed when nothing is left
	at      int           // in parking.oldest
}

// byAge is a heap of sessions by what is parked of them for longest.
type byAge []*parked

func (h byAge) Len() int           { return len(h) }
func (h byAge) Less(i, j int) bool { return h[i].waits[0].came < h[j].waits[0].came }
func (h byAge) Swap(i, j int)      { h[i], h[j] = h[j], h[i]; h[i].at, h[j].at = i, j }
func (h *byAge) Push(of any)       { of.(*parked).at = len(*h); *h = append(*h, of.(*parked)) }
func (h *byAge) Pop() any {
	last := len(*h) - 1
	of := (*h)[last]
	(*h)[last], *h = nil, (*h)[:last]
	return of
}

// waiting is a message that is parked. It has a share of deadly.room, so that nothing is tried alone beside it.
type waiting struct {
	ctx  context.Context // of who delivered it; one partition may be delivered again while something of before waits
	msg  Message         // without its bytes, if they are not kept
	of   *delivery
	from origin
	came uint64
	size int64 // of its bytes
	kept bool  // its bytes are in memory
}

// newParking divides the bytes so that small messages, too, find room by number.
func newParking(bytes int64) *parking {
	most := bytes / 4
	k := &parking{
		room: newSpace(max(bytes-most, sessionRoom+parkedRoom)), bytes: newSpace(most), most: most, of: map[string]*parked{},
		reads: make(chan struct{}, mostReads),
	}
	k.bytes.parked = k
	return k
}

// mostReads is how many messages are read again at a time: what is asked for beyond what a server answers in time is asked for again.
const mostReads = 32

// What a message takes beside its bytes while it is parked, and what the first one of a session: who brings them is a goroutine.
const (
	parkedRoom  = 512
	sessionRoom = 8 << 10
)

// park parks a message if it has to wait, and may be parked; inbox: its body is there. moved: it was; then what it holds of
// deadly.room is the parking's. An error: ctx ended.
func (p *Persister) park(ctx context.Context, m Message, d *delivery, from origin, need int64, inbox, may bool) (
	moved bool, err error) {
	k, session := p.parking, from.session
	k.mu.Lock()
	of := k.of[session]                                  // only who delivers its partition puts one there
	read := of != nil && !of.waits[len(of.waits)-1].kept // so is what comes behind it: the oldest one then holds no bytes
	k.mu.Unlock()
	if !may {
		if of == nil {
			return false, nil
		}
		select {
		case <-of.ended:
			return false, nil
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
	if of == nil && !inbox && !p.space.crowded(from, need) {
		return false, nil
	}
	first := int64(0)
	if of == nil {
		first = sessionRoom
	}
	if err := k.room.acquire(ctx, from, first+parkedRoom); err != nil {
		return false, err
	}
	w := waiting{ctx: ctx, msg: m, of: d, from: from, size: min(int64(len(m.Data)), k.most)}
	if w.kept = p.Stored == nil || !read && k.bytes.has(from, w.size); w.kept {
		if err := k.bytes.acquire(ctx, from, w.size); err != nil {
			k.room.free(from, first+parkedRoom)
			return false, err
		}
		w.msg.Data = bytes.Clone(m.Data) // without the headers that are behind it in memory
	} else {
		w.msg.Data = nil
	}
	w.came = p.queue.number(&m)
	k.mu.Lock()
	defer k.mu.Unlock()
	if of = k.of[session]; of != nil {
		of.waits = append(of.waits, w)
		return true, nil
	}
	k.add(&parked{session: session, from: from, room: first, waits: []waiting{w}, ended: make(chan struct{})})
	go p.unpark(session)
	return true, nil
}

func (k *parking) add(of *parked) {
	k.of[of.session] = of
	heap.Push(&k.oldest, of)
}

// unpark brings what is parked of a session, until nothing is. What is not delivered any more is not brought.
func (p *Persister) unpark(session string) {
	k := p.parking
	for {
		k.mu.Lock()
		w := k.of[session].waits[0]
		k.mu.Unlock()
		if w.ctx.Err() == nil && p.windows.current(w.of) { // else it comes again, in its place
			p.bringParked(&w)
		}
		k.mu.Lock()
		of := k.of[session]
		ended := len(of.waits) == 1
		if ended {
			heap.Remove(&k.oldest, of.at)
			delete(k.of, session)
			close(of.ended)
		} else {
			of.waits[0] = waiting{}
			of.waits = of.waits[1:]
			heap.Fix(&k.oldest, of.at)
		}
		k.mu.Unlock()
		k.room.free(w.from, parkedRoom)
		if ended && of.room > 0 {
			k.room.free(of.from, of.room)
		}
		if w.kept {
			k.bytes.free(w.from, w.size)
		}
		p.deadly.room.Release(1)
		k.bytes.look()
		p.space.look()
		p.queue.wake()
		if ended {
			return
		}
	}
}

// bringParked brings the events of a message, of which the bytes are read again if they were not kept. What was removed
// from the stream meanwhile says nothing, and nothing waits for it.
func (p *Persister) bringParked(w *waiting) {
	ctx := w.ctx
	if !w.kept {
		if p.parking.bytes.acquire(ctx, w.from, w.size) != nil {
			return
		}
		w.kept = true
		select {
		case p.parking.reads <- struct{}{}:
		case <-ctx.Done():
			return
		}
		data, err := asked(ctx, p, "read an event again", func() ([]byte, error) {
			return p.Stored.Event(ctx, w.msg.Partition, w.msg.Seq)
		})
		<-p.parking.reads
		switch {
		case errors.Is(err, record.ErrNotFound):
			p.Log.Warn("an event was removed from its stream before it was applied", "subject", w.msg.Subject, "seq", w.msg.Seq)
			s := &staged{msg: w.msg, of: w.of, from: w.from, came: w.came, last: true}
			s.event.Thread, s.event.Kind, _ = events.ParseStored(w.msg.Subject)
			p.queue.push(s)
			return
		case err != nil:
			if ctx.Err() == nil {
				p.halt(ctx, err)
			}
			return
		}
		w.msg.Data = data
	}
	e, err := open(w.msg)
	p.bringEach(ctx, w.msg, w.of, e.Each(), err, w.came)
}

// before reports whether something is parked that came before: of a session, or of any.
func (k *parking) before(session string, came uint64) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if session != "" {
		of := k.of[session]
		return of != nil && of.waits[0].came < came
	}
	return len(k.oldest) > 0 && k.oldest[0].waits[0].came < came
}

// first is the session that has what is parked for longest; ok is false where nothing is parked.
func (k *parking) first() (session string, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.oldest) == 0 {
		return "", false
	}
	return k.oldest[0].session, true
}
