package httpapi

import (
	"fmt"
	"io"
	"math"
	"net/http"
	"sync"
	"time"

	"spool/internal/record"
)

// piece is how many bytes of an answer a client takes within answerTime, all waiting for it added up.
const piece = 256 << 10

// headway is how many bytes a second a client takes, or sends, that is not slow. It is seen in parts that are written at once.
const (
	headway = 32 << 10
	part    = 32 << 10
)

const longAhead = time.Duration(math.MinInt64)

// pace is how long a client has let us wait for the piece that it takes, or sends.
type pace struct {
	waited time.Duration
	since  time.Time     // since when we wait once more; zero: we do not
	moved  int           // bytes of the piece
	late   time.Duration // by how much it is behind its headway
	rests  bool          // it owes nothing now: it is between two lines
	lent   bool          // we wait no more: another one has the place
}

// now is by how much the client is behind its headway: -lendTime at the least, or longAhead where we do not wait for it.
func (p *pace) now() time.Duration {
	if p.since.IsZero() || p.rests || p.lent {
		return longAhead
	}
	return p.late + time.Since(p.since)
}

// went notes that a client took, or sent, n bytes.
func (p *pace) went(n int) {
	took := time.Since(p.since)
	p.since = time.Time{}
	if p.waited, p.moved = p.waited+took, p.moved+n; p.moved >= piece {
		p.waited, p.moved = 0, 0
	}
	if !p.rests {
		p.late = max(p.late+took-time.Duration(n)*time.Second/headway, -lendTime) // buffers take, and give, by leaps
	}
}

// patient is a request whose client cannot hold it up: one that lets a piece of the answer wait for too long is let go, and one
// that is slow, or whose token holds more than its part, for who needs its place (places).
type patient struct {
	http.ResponseWriter
	ctl  *http.ResponseController
	most time.Duration // of waiting, for a piece of the answer

	mu      sync.Mutex
	in, out pace
	gave    time.Time // when it was lent
}

// errLent is why a request ends whose place another one was given.
var errLent = fmt.Errorf("%w: the client was slow, or its token held more than its part, and another one waited: send it again",
	record.ErrBusy)

// within runs a write or a read, and notes how long it waited. HTTP/2 ends a stream when its deadline is over, although nothing is
// being written: there is none between two writes.
func (p *patient) within(of *pace, do func() (int, error)) (int, error) {
	p.mu.Lock()
	if of.lent {
		p.mu.Unlock()
		return 0, errLent
	}
	if of.since = time.Now(); of == &p.out {
		_ = p.ctl.SetWriteDeadline(of.since.Add(p.most - of.waited))
	}
	p.mu.Unlock()
	n, err := do()
	p.mu.Lock()
	defer p.mu.Unlock()
	if of.went(n); of.lent {
		return n, errLent
	}
	if of == &p.out {
		_ = p.ctl.SetWriteDeadline(time.Time{})
	}
	return n, err
}

// late is by how much the client is behind its headway; longAhead: we do not wait for it.
func (p *patient) late() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(p.in.now(), p.out.now())
}

// lend ends what waits for the client, if that is so late still.
func (p *patient) lend(late time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.in.now() >= late {
		p.in.lent, p.gave = true, time.Now()
		_ = p.ctl.SetReadDeadline(time.Unix(1, 0))
	}
	if p.out.now() >= late {
		p.out.lent, p.gave = true, time.Now()
		_ = p.ctl.SetWriteDeadline(time.Unix(1, 0))
	}
}

// gives reports whether it was lent lately, and may be about to give back what it holds.
func (p *patient) gives() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Since(p.gave) < lendTime
}

// cutOff reports whether the body was lent.
func (p *patient) cutOff() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.in.lent
}

func (p *patient) Write(b []byte) (n int, err error) {
	for {
		some := b[n:min(len(b), n+part)]
		m, err := p.within(&p.out, func() (int, error) { return p.ResponseWriter.Write(some) })
		if n += m; err != nil || n == len(b) {
			return n, err
		}
	}
}

func (p *patient) FlushError() error {
	_, err := p.within(&p.out, func() (int, error) { return 0, p.ctl.Flush() })
	return err
}

// Unwrap lets a handler set deadlines, and say that it is Untimed.
func (p *patient) Unwrap() http.ResponseWriter { return p.ResponseWriter }

// sent is the body of a request. net/http looks at its own before it answers: only a copy of the request may have this one.
type sent struct {
	io.ReadCloser
	by    *patient
	lines bool // its client may be silent between two lines
}

func (s sent) Read(b []byte) (int, error) {
	n, err := s.by.within(&s.by.in, func() (int, error) { return s.ReadCloser.Read(b) })
	if s.lines && n > 0 {
		s.by.rest(b[n-1] == '\n')
	}
	return n, err
}

// rest notes whether the client owes nothing, as it is between two lines.
func (p *patient) rest(yes bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.in.rests = yes; yes {
		p.in.late = 0
	}
}

// bound bounds how long a client may hold up a request whose handler does not say so itself: to send a body that nobody
// asked for, and to take the answer. The handler calls end when it is done: the rest of the answer is then on its way.
//
// Nothing behind a body in chunks is read from its connection: net/http takes one that says its length, too, and a proxy
// that goes by that could take what follows for a part of the body, or for a request of somebody else (RFC 9112, 6.1).
func (a *api) bound(w http.ResponseWriter, r *http.Request) (_ http.ResponseWriter, end func()) {
	p := &patient{ResponseWriter: w, ctl: http.NewResponseController(w), most: a.cfg.Answer}
	if r.ProtoMajor == 1 && len(r.TransferEncoding) > 0 {
		w.Header().Set("Connection", "close")
	}
	if r.ContentLength != 0 {
		_ = p.ctl.SetReadDeadline(time.Now().Add(a.cfg.Answer))
	}
	return p, func() { _ = p.ctl.SetWriteDeadline(time.Now().Add(a.cfg.Answer)) }
}
