package persist

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"spool/internal/apply"
	"spool/internal/record"
	"spool/pkg/events"
	"spool/pkg/truncate"
)

// staged is an event on its way through the persister.
type staged struct {
	msg   Message
	from  origin
	event apply.Staged // as far as it can be read and cut without its thread
	size  int64        // share of the queue's bytes

	bytes int  // how much it adds to a batch, once it is in the queue
	index int  // in its message; record.WholeMessage: the message could not be read
	last  bool // nothing of the message comes after it: with it the message is done

	// Of a giant.
	plan  *truncate.Plan // nil for raw bytes
	ahead []*uploaded    // what was moved out of it, and the whole of it, as far as that is uploaded
	fence record.Fence   // before the first byte was uploaded

	cleaned bool // event.Body had secrets

	alone  bool // nothing else is under way in the process until it is through
	unread bool // nothing of its bytes is to be read
	unseen bool // who refused it did not look whether its thread has it

	known bool  // the envelope could be read: thread and producer are who they say
	bad   error // why it can never be applied, whatever its thread is
	trial trial // what came of it so far, when it stopped others

	of   *delivery // that brought it
	came uint64    // its number among all that came
	hold hold      // what it waits for

	verdict apply.Verdict // as of when it was applied last
	refused error         // why it was refused when it came before; nil: it was not
	whole   bool          // all of its message was, and has one letter
}

// outputKey is the record of the output that a chunk is a piece of.
func (s *staged) outputKey() string {
	return events.OutputKey(s.event.Thread.Session, s.event.Chunk.Output)
}

// Deliver takes a message and returns when there is room for it: that is how a busy persister slows its consumers down.
// Messages of a partition must be delivered in order.
func (p *Persister) Deliver(ctx context.Context, m Message) {
	d := p.windows.open(&m)
	if d == nil {
		return // it waits already: it took so long that the server gave it again
	}
	alone, err := p.deadly.suspects(ctx, &m)
	if err != nil {
		return // not acked: it comes again
	}
	if alone {
		p.deliverAlone(ctx, m, d)
		return
	}
	if p.deadly.room.Acquire(ctx, 1) != nil {
		return
	}
	e, err := open(m)
	moved, ended := p.park(ctx, m, d, originOf(&e), p.needs(&e), e.Ref != nil, m.Seq > p.deadly.of[m.Partition].until)
	if moved {
		return
	}
	defer p.deadly.room.Release(1)
	if ended == nil {
		p.bringEach(ctx, m, d, e.Each(), err, 0)
	}
}

// needs is how much of the queue's space the events of a message take.
func (p *Persister) needs(e *events.Event) int64 {
	size := int64(len(e.Body)) + queueRoom*int64(1+len(e.More))
	for _, m := range e.More {
		size += int64(len(m.Body))
	}
	return min(size, mostOf(p.cfg.QueueBytes))
}

// bringEach brings the events of a message; came is its number, 0: it gets one now.
func (p *Persister) bringEach(ctx context.Context, m Message, d *delivery, each []events.Event, bad error, came uint64) {
	for i := range each {
		s := newStaged(m, d, each, i, bad)
		s.came = came
		if !p.bring(ctx, s, bad) {
			return
		}
	}
}

// deliverAlone delivers the events of a message one by one, each when nothing else is under way.
func (p *Persister) deliverAlone(ctx context.Context, m Message, d *delivery) {
	each, bad := []events.Event{{}}, error(nil)
	for i := 0; i < len(each); i++ {
		n, err := p.deadly.try(ctx, &m, i)
		if err != nil {
			return
		}
		why, unread := verdictOver(n)
		if i == 0 && unread {
			each[0].Thread, each[0].Kind, _ = events.ParseStored(m.Subject)
			bad = why
		} else if i == 0 {
			var e events.Event
			e, bad = open(m)
			each = e.Each()
		}
		s := newStaged(m, d, each, i, bad)
		s.alone, s.unread, s.unseen = true, unread, unread
		s.known = s.known && !unread
		if !p.bring(ctx, s, cmp.Or(bad, why)) {
			return
		}
	}
}

// newStaged is an event of a message, of those that it holds; bad is why it could not be read.
func newStaged(m Message, d *delivery, each []events.Event, i int, bad error) *staged {
	s := &staged{
		of: d, msg: m, from: originOf(&each[i]), event: apply.Staged{Event: each[i], At: m.Seq, Shared: len(each) > 1, Stored: m.Stored},
		known: bad == nil, index: i, last: i == len(each)-1,
	}
	if bad != nil {
		s.index = record.WholeMessage
	}
	return s
}

// bring stages an event and puts it into the queue; false: nothing more is to be delivered.
func (p *Persister) bring(ctx context.Context, s *staged, bad error) bool {
	if err := p.stageSafely(ctx, s, bad); err != nil {
		if ctx.Err() != nil {
			p.release(s)
			return false // not acked: it comes again
		}
		if errors.Is(err, errHalt) {
			p.halt(ctx, err)
			return false
		}
		s.bad = err
	}
	p.queue.push(s)
	return true
}

// open is events.Open. What a decoder panics over is a reason for the dead letters: the message would come again, to the next
// persister, for ever.
func open(m Message) (e events.Event, err error) {
	defer func() {
		if r := recover(); r != nil {
			e, err = events.Event{}, fmt.Errorf("%w: %v", events.ErrEnvelope, r)
		}
	}()
	return events.Open(m.Subject, m.Data)
}

// stageSafely is stage, with a panic for an error as in open.
func (p *Persister) stageSafely(ctx context.Context, s *staged, bad error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			p.Log.Error("panic over an event: it goes to the dead letters", "seq", s.msg.Seq, "panic", r, "stack", string(debug.Stack()))
			err = fmt.Errorf("it cannot be read: %v", r)
		}
	}()
	return p.stage(ctx, s, bad)
}

// stage does all that needs no knowledge of the thread. An error means that the event can never be applied (SPEC B1), or is
// errHalt.
func (p *Persister) stage(ctx context.Context, s *staged, bad error) (err error) {
	if bad == nil && p.giant(&s.event.Event) {
		return p.stream(ctx, s)
	}
	body := s.event.RawSize()
	if s.event.Ref != nil && (bad != nil || body > p.cfg.MaxEntry) { // it is not read
		body = 0
	}
	if err := p.reserve(ctx, s, body); err != nil {
		return err
	}
	if bad != nil {
		return bad
	}
	if err := p.fits(s, s.event.RawSize(), 0); err != nil && s.event.Ref != nil {
		return err
	}
	if s.event.Ref != nil {
		if s.event.Body, err = p.fetch(ctx, s); err != nil {
			return err
		}
	}
	p.clean(s)
	s.event.How = p.cfg.Cuts
	if err := apply.Stage(&s.event); err != nil {
		return err
	}
	return p.fits(s, int64(len(s.event.Text)), len(s.event.Blobs))
}

// maxBlobs is how many values may be moved out of one entry, and of one batch.
const maxBlobs = 5000

// fits holds an entry against the limits: a text of that many bytes after the size rules, and what they moved out of it.
func (p *Persister) fits(s *staged, text int64, blobs int) error {
	if text > p.cfg.MaxEntry {
		return fmt.Errorf("entry of %d bytes, and %d after its long strings were cut: at most %d can be stored (persister -max-entry)",
			s.event.RawSize(), text, p.cfg.MaxEntry)
	}
	if blobs > maxBlobs {
		return fmt.Errorf("entry with %d images: at most %d can be moved out of one", blobs, maxBlobs)
	}
	return nil
}

// reserve takes the event's part of the queue's space; the largest has only small ones beside it.
func (p *Persister) reserve(ctx context.Context, s *staged, body int64) error {
	if s.alone { // it has all of it
		return nil
	}
	size := min(body+queueRoom, mostOf(p.cfg.QueueBytes))
	if err := p.space.acquire(ctx, s.from, size); err != nil {
		return err
	}
	s.size = size
	return nil
}

// queueRoom is what an event takes beside its body.
const queueRoom = 2 << 10

// shrink gives back the part that a giant needed while it was read.
func (p *Persister) shrink(s *staged) {
	if size := int64(s.held()) + queueRoom; size < s.size {
		p.space.shrink(s, size)
	}
}

// held is how many bytes of an entry are in memory to be stored: its text, the whole of one that was cut, and images.
func (s *staged) held() int {
	n := len(s.event.Text) + len(s.event.Cuts.Full)
	for _, b := range s.event.Blobs {
		n += len(b.Bytes)
	}
	return n
}

// release gives back what events have.
func (p *Persister) release(of ...*staged) {
	p.space.release(of...)
	for _, s := range of {
		if s.alone {
			s.alone = false
			p.deadly.through(s)
			p.deadly.leaveAlone()
		}
	}
}
