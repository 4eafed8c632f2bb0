package persist

import (
	"fmt"
	"io"
	"slices"

	"spool/internal/record"
	"spool/pkg/dialect"
	"spool/pkg/events"
)

// Secrets finds in what agents wrote what must not be stored, and may take it out: before anything is hashed, so that nodes,
// blobs, items and artifacts never had it. Equal bytes must become equal bytes. found says how much there was.
type Secrets interface {
	Clean(text []byte, json bool) (clean []byte, found int)      // JSON stays JSON
	Blank(text []byte) (clean []byte, found int)                 // of the same length
	Reader(r io.Reader, json bool, found *int) (clean io.Reader) // Clean, in bounded memory

	// Piece is Blank for a text that comes in pieces. Of each it may hold back the end, which the next one may go on
	// with, and which is given to the next call with the context; with the last piece, which may be empty, all comes
	// out.
	Piece(context, held, piece []byte, last bool) (out, nextContext, nextHeld []byte, found int)
}

// clean takes the secrets out of an entry that is in memory. Those of an output's pieces are taken out when they are
// applied, in their order.
func (p *Persister) clean(s *staged) {
	if p.Secrets == nil || s.event.Kind != events.KindEntry {
		return
	}
	body, found := p.Secrets.Clean(s.event.Body, dialect.IsJSON(s.event.Dialect))
	s.event.Body, s.cleaned = body, found > 0
	p.tell(s, found)
}

// mask takes the secrets out of the next piece of a stream, or out of what is held of it if it is the last.
func (o *openOutput) mask(p *Persister, s *staged, piece record.Piece, last bool) record.Piece {
	if p.Secrets == nil {
		return piece
	}
	var h record.Held
	i := slices.IndexFunc(o.rec.Held, func(h record.Held) bool { return h.Stream == piece.Stream })
	if i >= 0 {
		h = o.rec.Held[i]
	}
	out, context, held, found := p.Secrets.Piece(h.Context, h.Bytes, piece.Bytes, last)
	h = record.Held{Stream: piece.Stream, Context: context, Bytes: held}
	o.rec.Held = slices.Clone(o.rec.Held) // a prepared commit has the old ones
	switch {
	case i >= 0:
		o.rec.Held[i] = h
	case len(context)+len(held) > 0:
		o.rec.Held = append(o.rec.Held, h)
	}
	p.tell(s, found)
	return record.Piece{Stream: piece.Stream, Bytes: out}
}

// masked is what a dead letter keeps of a message: the event as it would have been applied, or, when it could not be
// read, the same bytes with secrets blanked.
func (p *Persister) masked(s *staged) []byte {
	data := s.msg.Data
	switch {
	case p.Secrets == nil && !s.shared:
		return data
	case s.shared || s.cleaned && s.event.Ref == nil:
		data = s.event.Encode()
	}
	if p.Secrets != nil {
		data, _ = p.Secrets.Blank(data)
	}
	return data
}

// maskedText is a text about an event, which may quote it.
func (p *Persister) maskedText(text string) string {
	if p.Secrets == nil {
		return text
	}
	clean, _ := p.Secrets.Clean([]byte(text), false)
	return string(clean)
}

// cleaned is the body of a giant without its secrets. Each pass over the body reads the same.
func (p *Persister) cleaned(s *staged, r io.Reader) io.Reader {
	if p.Secrets == nil {
		return r
	}
	found := new(int)
	return &counted{Reader: p.Secrets.Reader(r, dialect.IsJSON(s.event.Dialect), found), end: func() {
		if s.plan == nil { // the first pass, or the only one
			p.tell(s, *found)
		}
	}}
}

type counted struct {
	io.Reader
	end func()
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	if err == io.EOF && c.end != nil {
		c.end()
		c.end = nil
	}
	return n, err
}

func (p *Persister) tell(s *staged, found int) {
	if found > 0 {
		p.stats.secrets.Add(int64(found))
		p.Log.Warn("secrets in an entry", "thread", s.event.Thread, "seq", s.msg.Seq, "kind", fmt.Sprint(s.event.Kind), "found", found)
	}
}
