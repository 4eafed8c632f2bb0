package persist

import (
	"fmt"
	"io"

	"spool/pkg/dialect"
	"spool/pkg/events"
)

// Secrets finds in what agents wrote what must not be stored, and may take it out: before anything is hashed, so that nodes,
// blobs, items and artifacts never had it. Equal bytes must become equal bytes. found says how much there was.
type Secrets interface {
	Clean(text []byte, json bool) (clean []byte, found int)      // JSON stays JSON
	Blank(text []byte) (clean []byte, found int)                 // of the same length
	Reader(r io.Reader, json bool, found *int) (clean io.Reader) // Clean, in bounded memory
}

// clean takes the secrets out of an event that is in memory. Pieces of an output are looked at one by one, and keep their
// length, because others count its bytes: what lies across two pieces is not found.
func (p *Persister) clean(s *staged) {
	if p.Secrets == nil {
		return
	}
	found := 0
	switch s.event.Kind {
	case events.KindEntry:
		s.event.Body, found = p.Secrets.Clean(s.event.Body, dialect.IsJSON(s.event.Dialect))
	case events.KindChunk:
		if c, err := events.ParseChunk(s.event.Body); err == nil && c.Op == events.ChunkData {
			if c.Data, found = p.Secrets.Blank(c.Data); found > 0 {
				s.event.Body = c.Encode()
			}
		}
	}
	p.tell(s, found)
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
