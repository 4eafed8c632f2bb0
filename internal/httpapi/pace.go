package httpapi

import (
	"net/http"
	"time"
)

// piece is how many bytes of an answer a client takes within answerTime, all waiting for it added up.
const piece = 256 << 10

// patient is an answer whose client cannot hold it up: one that lets a piece wait for too long is let go.
type patient struct {
	http.ResponseWriter
	ctl    *http.ResponseController
	most   time.Duration // of waiting, for a piece
	waited time.Duration
	taken  int // bytes of the piece
}

// within runs a write, and notes how long it waited. HTTP/2 ends a stream when its deadline is over, although nothing is
// being written: there is none between two writes.
func (p *patient) within(write func() (int, error)) (int, error) {
	begun := time.Now()
	_ = p.ctl.SetWriteDeadline(begun.Add(p.most - p.waited))
	n, err := write()
	_ = p.ctl.SetWriteDeadline(time.Time{})
	p.waited += time.Since(begun)
	if p.taken += n; p.taken >= piece {
		p.waited, p.taken = 0, 0
	}
	return n, err
}

func (p *patient) Write(b []byte) (n int, err error) {
	for {
		part := b[n:min(len(b), n+piece)]
		m, err := p.within(func() (int, error) { return p.ResponseWriter.Write(part) })
		if n += m; err != nil || n == len(b) {
			return n, err
		}
	}
}

func (p *patient) FlushError() error {
	_, err := p.within(func() (int, error) { return 0, p.ctl.Flush() })
	return err
}

// Unwrap lets a handler set deadlines, and say that it is Untimed.
func (p *patient) Unwrap() http.ResponseWriter { return p.ResponseWriter }

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
