package persist

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"spool/internal/jsonscan"
	"spool/internal/record"
	"spool/pkg/casstore"
	"spool/pkg/events"
	"spool/pkg/truncate"
)

// staged is an event that is ready to be applied, or the reason why it can not be.
type staged struct {
	msg   Message
	event events.Event
	size  int64 // share of the queue's bytes

	shared bool // others are in the same message
	last   bool // nothing of the message comes after it: with it the message is done

	text  []byte          // the entry as it will be stored
	cuts  truncate.Result // what the size rules did to it
	blobs []blob          // what they moved out of it

	known bool  // the envelope could be read: thread and producer are who they say
	dead  error // why it goes to the dead letters
}

// blob is bytes that an entry refers to by their hash.
type blob struct {
	ref   casstore.Ref
	bytes []byte
}

// Deliver takes a message and returns when there is room for it: that is how a busy persister slows its consumers down.
// Messages of a partition must be delivered in order.
func (p *Persister) Deliver(ctx context.Context, m Message) {
	e, err := events.Decode(m.Data)
	if err == nil {
		err = p.check(&e, m.Subject)
	}
	each := e.Each()
	for i := range each {
		s := &staged{msg: m, event: each[i], known: err == nil, shared: len(each) > 1, last: i == len(each)-1}
		if err := p.stage(ctx, s, err); err != nil {
			if ctx.Err() != nil {
				p.release(s)
				return // not acked: it comes again
			}
			s.dead = err
		}
		p.queue.push(s)
	}
}

// stage does all that needs no knowledge of the thread. An error means that the event can never be applied (SPEC B1).
func (p *Persister) stage(ctx context.Context, s *staged, bad error) (err error) {
	body := int64(len(s.event.Body))
	if s.event.Ref != nil && bad == nil {
		body = s.event.Ref.Size
	}
	if err := p.reserve(ctx, s, body); err != nil {
		return err
	}
	if bad != nil {
		return bad
	}
	if s.event.Ref != nil {
		if s.event.Body, err = p.fetch(ctx, *s.event.Ref); err != nil {
			return err
		}
	}
	if s.event.Kind != events.KindEntry || s.event.Dialect == rawDialect {
		s.text = s.event.Body
	} else if err := s.cut(); err != nil {
		return err
	}
	return s.fits()
}

// Limits of one entry; above them it goes to the dead letters, because no pack could hold it.
const (
	maxEntry = 200 << 20 // bytes, after the size rules
	maxBlobs = 5000      // values moved out of one entry; also of one batch
)

// fits holds an entry against the limits.
func (s *staged) fits() error {
	if len(s.text) > maxEntry || len(s.cuts.Full) > maxEntry {
		return fmt.Errorf("entry of %d bytes: at most %d can be stored", len(s.event.Body), maxEntry)
	}
	if len(s.blobs) > maxBlobs {
		return fmt.Errorf("entry with %d images: at most %d can be moved out of one", len(s.blobs), maxBlobs)
	}
	return nil
}

// rawDialect holds bytes that are not JSON.
const rawDialect = "raw"

// check holds the envelope against the subject, which alone says who was allowed to publish it.
func (p *Persister) check(e *events.Event, subject string) error {
	t, kind, err := events.ParseStored(subject)
	if err != nil {
		return err
	}
	if t != e.Thread || kind != e.Kind {
		return fmt.Errorf("%w: it says %s %s and was published as %s %s", events.ErrEnvelope, e.Thread, e.Kind, t, kind)
	}
	return e.Validate()
}

// reserve takes the event's share of the queue; the largest takes all of it and so is alone in memory.
func (p *Persister) reserve(ctx context.Context, s *staged, body int64) error {
	size := min(body+512, p.cfg.QueueBytes)
	if err := p.bytes.Acquire(ctx, size); err != nil {
		return err
	}
	s.size = size
	return nil
}

func (p *Persister) release(s *staged) {
	p.bytes.Release(s.size)
	s.size = 0
}

// errBody: the body of a claim check is not what it should be.
var errBody = errors.New("body in the inbox")

// fetch redeems a claim check and trusts nothing it says (SPEC B1).
func (p *Persister) fetch(ctx context.Context, ref events.BodyRef) (body []byte, err error) {
	err = p.retry(ctx, "fetch a body", func() error {
		body, err = p.Inbox.Body(ctx, ref)
		return err
	})
	switch {
	case errors.Is(err, record.ErrNotFound):
		return nil, fmt.Errorf("%w: %s is not there: publish the event again", errBody, ref.Object)
	case err != nil:
		return nil, err
	case int64(len(body)) != ref.Size:
		return nil, fmt.Errorf("%w: %s has %d bytes, the event says %d", errBody, ref.Object, len(body), ref.Size)
	case sha256.Sum256(body) != ref.Sum:
		return nil, fmt.Errorf("%w: %s has another hash than the event says", errBody, ref.Object)
	}
	return body, nil
}

// cut applies the size rules to a JSON entry (SPEC T).
func (s *staged) cut() error {
	res, err := truncate.Entry(s.event.Body, s.externalize, truncate.Options{})
	switch {
	case errors.Is(err, jsonscan.ErrSyntax) || errors.Is(err, jsonscan.ErrDepth):
		return fmt.Errorf("entry is not JSON: %w; publish bytes that are not JSON in the dialect %q", err, rawDialect)
	case err != nil:
		return fmt.Errorf("entry: %w", err)
	}
	s.cuts, s.text = res, res.Text
	return nil
}

func (s *staged) externalize(b []byte) string {
	ref := casstore.SumBlob(b)
	s.blobs = append(s.blobs, blob{ref, b})
	return ref.String()
}
