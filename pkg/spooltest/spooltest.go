// Package spooltest holds a server, or a client, to what docs/http.md promises: whoever serves that API, or speaks it or docs/protocol.md,
// can run it, against ours or another one. It needs nothing of Spool but an address. Each case is a promise, told in the document's words,
// and works in sessions of its own, which it removes; it touches nothing else.
//
//	func TestServer(t *testing.T) { spooltest.RunHTTP(t, "http://127.0.0.1:7717", "") }
package spooltest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"
)

// Server is what is tested.
type Server struct {
	URL   string // without a path, as in http://127.0.0.1:7717
	Token string // for all sessions, with read, write, answer and admin; "" where none is asked for
}

// Case is a promise of docs/http.md.
type Case struct {
	Name  string // "store: one entry"
	Says  string // the document's words
	check func(*run)
}

// patience is how long a server may take to apply what it took, or to send an event.
const patience = time.Minute

// Cases are all that is promised and can be seen from outside.
func Cases() []Case {
	return slices.Concat(storing, outputs, reading, artifacts, changing, following, claude)
}

// Run holds a server to a case. The error says what it did, and what was promised.
func (c Case) Run(ctx context.Context, s Server) (err error) {
	ctx, cancel := context.WithTimeout(ctx, 3*patience)
	defer cancel()
	r := &run{ctx: ctx, server: s, session: "spooltest-" + rand.Text()}
	defer func() {
		switch why := recover().(type) {
		case nil:
		case failure:
			err = fmt.Errorf("%w; docs/http.md: %q", why.error, c.Says)
		default:
			panic(why)
		}
		r.clean()
	}()
	c.check(r)
	return nil
}

// RunHTTP holds a server to every case, each a subtest.
func RunHTTP(t *testing.T, url, token string) {
	runAll(t, Server{url, token}, Cases())
}

func runAll(t *testing.T, s Server, cases []Case) {
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			if err := c.Run(t.Context(), s); err != nil {
				t.Error(err)
			}
		})
	}
}

// failure is why a case does not hold.
type failure struct{ error }

// run is a case under way.
type run struct {
	ctx     context.Context
	server  Server
	session string
}

func (r *run) fail(format string, args ...any) { panic(failure{fmt.Errorf(format, args...)}) }

func (r *run) do(err error) {
	if err != nil {
		panic(failure{err})
	}
}

func (r *run) is(so bool, format string, args ...any) {
	if !so {
		r.fail(format, args...)
	}
}

// clean removes what the case made, as far as the token may.
func (r *run) clean() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.ctx), patience/4)
	defer cancel()
	for _, name := range []string{r.session, r.session + "-2"} {
		req, err := http.NewRequestWithContext(ctx, http.MethodDelete, r.server.URL+"/v1/sessions/"+name+"?force", nil)
		if err != nil {
			return
		}
		r.authorize(req)
		if res, err := http.DefaultClient.Do(req); err == nil {
			_ = res.Body.Close()
		}
	}
}

var errNoSuch = errors.New("no such event came")
