package persist

import (
	"fmt"
	"io"

	"spool/internal/apply"
	"spool/pkg/dialect"
)

// Secrets finds in what agents wrote what must not be stored.
type Secrets = apply.Secrets

// clean takes the secrets out of an entry that is in memory.
func (p *Persister) clean(s *staged) {
	found := apply.Clean(&s.event, p.Secrets)
	s.cleaned = found > 0
	p.tell(s, found)
}

// masked is what a dead letter keeps of a message: the event as it would have been applied, or, when it could not be
// read, the same bytes with secrets blanked. Of one that nobody can look for secrets in and live it keeps none,
// whoever sends the letter.
func (p *Persister) masked(s *staged) []byte {
	if (s.unread || s.unseen) && p.Secrets != nil {
		return nil
	}
	if !s.whole && (s.event.Shared || s.cleaned && s.event.Ref == nil) {
		return p.blanked(s.event.Encode())
	}
	return p.blanked(s.msg.Data)
}

// blanked is the bytes of a message with secrets blanked.
func (p *Persister) blanked(data []byte) []byte {
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
