package persist

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"spool/internal/jsonscan"
	"spool/internal/record"
	"spool/pkg/casstore"
	"spool/pkg/dialect"
	"spool/pkg/events"
	"spool/pkg/truncate"
)

// staged is an event that is ready to be applied, or the reason why it can not be.
type staged struct {
	msg   Message
	event events.Event
	size  int64 // share of the queue's bytes

	index  int  // in its message; record.WholeMessage: the message could not be read
	shared bool // others are in the same message
	last   bool // nothing of the message comes after it: with it the message is done

	text  []byte          // the entry as it will be stored
	cuts  truncate.Result // what the size rules did to it
	blobs []blob          // what they moved out of it

	chunk   events.Chunk   // of a chunk event
	pointer *casstore.Node // to the artifact of the output that it ends

	// Of a giant.
	plan  *truncate.Plan // nil for raw bytes
	full  *uploaded      // in the place of cuts.Full
	fence record.Fence   // before the first byte was uploaded

	known bool  // the envelope could be read: thread and producer are who they say
	bad   error // why it can never be applied, whatever its thread is
	trial trial // what came of it so far, when it stopped others

	verdict verdict // as of when it was applied last
	refused error   // why it was refused when it came before; nil: it was not
}

// blob is bytes that an entry refers to by their hash.
type blob struct {
	ref   casstore.Ref
	bytes []byte
	up    *uploaded // instead of bytes
}

// Deliver takes a message and returns when there is room for it: that is how a busy persister slows its consumers down.
// Messages of a partition must be delivered in order.
func (p *Persister) Deliver(ctx context.Context, m Message) {
	e, err := open(m)
	each := e.Each()
	for i := range each {
		s := &staged{msg: m, event: each[i], known: err == nil, index: i, shared: len(each) > 1, last: i == len(each)-1}
		if err != nil {
			s.index = record.WholeMessage
		}
		if err := p.stageSafely(ctx, s, err); err != nil {
			if ctx.Err() != nil {
				p.release(s)
				return // not acked: it comes again
			}
			if errors.Is(err, errHalt) {
				p.halt(ctx, err)
				return
			}
			s.bad = err
		}
		p.queue.push(s)
	}
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
	if bad == nil && p.giant(&s.event) {
		return p.stream(ctx, s)
	}
	body := s.rawSize()
	if s.event.Ref != nil && (bad != nil || body > p.cfg.MaxEntry) { // it is not read
		body = 0
	}
	if err := p.reserve(ctx, s, body); err != nil {
		return err
	}
	if bad != nil {
		return bad
	}
	if err := p.fits(s, s.rawSize(), 0); err != nil && s.event.Ref != nil {
		return err
	}
	if s.event.Ref != nil {
		if s.event.Body, err = p.fetch(ctx, s); err != nil {
			return err
		}
	}
	p.clean(s)
	switch {
	case s.event.Kind == events.KindChunk:
		s.text = s.event.Body
		if s.chunk, err = events.ParseChunk(s.event.Body); err != nil {
			return err
		}
	case s.event.Kind != events.KindEntry:
		s.text = s.event.Body
	case !dialect.IsJSON(s.event.Dialect):
		s.text = s.event.Body
		if len(s.text) > rawLimit {
			s.text, s.cuts.Full, s.cuts.Truncated = cutRaw(s.text), s.event.Body, 1
		}
	default:
		if err := s.cut(); err != nil {
			return err
		}
	}
	return p.fits(s, int64(len(s.text)), len(s.blobs))
}

// maxBlobs is how many values may be moved out of one entry, and of one batch.
const maxBlobs = 5000

// fits holds an entry against the limits: a text of that many bytes after the size rules, and what they moved out of it.
func (p *Persister) fits(s *staged, text int64, blobs int) error {
	if text > p.cfg.MaxEntry {
		return fmt.Errorf("entry of %d bytes, and %d after its long strings were cut: at most %d can be stored (persister -max-entry)", s.rawSize(), text, p.cfg.MaxEntry)
	}
	if blobs > maxBlobs {
		return fmt.Errorf("entry with %d images: at most %d can be moved out of one", blobs, maxBlobs)
	}
	return nil
}

// rawSize is the size of the entry as it was published, in bytes.
func (s *staged) rawSize() int64 {
	if s.event.Ref != nil {
		return s.event.Ref.Size
	}
	return int64(len(s.event.Body))
}

// rawDialect holds bytes that are not JSON.
const rawDialect = "raw"

// reserve takes the event's share of the queue; the largest takes all of it and so is alone in memory.
func (p *Persister) reserve(ctx context.Context, s *staged, body int64) error {
	size := min(body+queueRoom, p.cfg.QueueBytes)
	if err := p.bytes.Acquire(ctx, size); err != nil {
		return err
	}
	s.size = size
	return nil
}

// queueRoom is what an event takes beside its body.
const queueRoom = 512

// shrink gives back the share that a giant needed while it was read.
func (p *Persister) shrink(s *staged) {
	size := int64(len(s.text)) + queueRoom
	for _, b := range s.blobs {
		size += int64(len(b.bytes))
	}
	if size < s.size {
		p.bytes.Release(s.size - size)
		s.size = size
	}
}

func (p *Persister) release(s *staged) {
	p.bytes.Release(s.size)
	s.size = 0
}

// cut applies the size rules to a JSON entry (SPEC T).
func (s *staged) cut() error {
	res, err := truncate.Entry(s.event.Body, s.externalize, truncate.Options{})
	switch {
	case errors.Is(err, jsonscan.ErrSyntax) || errors.Is(err, jsonscan.ErrDepth):
		return notJSON(err)
	case err != nil:
		return fmt.Errorf("entry: %w", err)
	}
	s.cuts, s.text = res, res.Text
	return nil
}

func notJSON(err error) error {
	return fmt.Errorf("entry is not JSON: %w; publish bytes that are not JSON in the dialect %q", err, rawDialect)
}

func (s *staged) externalize(b []byte) string {
	ref := casstore.SumBlob(b)
	s.blobs = append(s.blobs, blob{ref: ref, bytes: b})
	return ref.String()
}
