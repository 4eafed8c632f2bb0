// Package spooltest holds a server, or a client, to what docs/http.md and docs/protocol.md promise: whoever serves one of them, or speaks
// it, can run it, against ours or another one. It needs nothing of Spool but an address. Each case is a promise, told in the document's
// words, and works in sessions of its own, which it removes; it touches nothing else.
//
//	func TestServer(t *testing.T) { spooltest.RunHTTP(t, spooltest.Server{URL: "http://127.0.0.1:7717"}) }
//	func TestNATS(t *testing.T)   { spooltest.RunNATS(t, spooltest.Server{NATS: "nats://127.0.0.1:4222"}) }
package spooltest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// Server is what is tested.
type Server struct {
	URL   string // without a path, as in http://127.0.0.1:7717
	Token string // for all sessions, with read, write, answer and admin; "" where none is asked for
	NATS  string // with the credentials of who may publish and read, as in nats://127.0.0.1:4222; "": only HTTP is tested

	// What the server was set up with for these tests alone. Cases about what is left out are left out, too.
	Reader, Writer string // tokens with nothing but read, and nothing but write
	Narrow         string // a token with read and write for the sessions that begin with NarrowPrefix
	SessionBytes   int    // how many bytes one session may store in a second, from 64 KiB on
}

// NarrowPrefix is what the sessions of Server.Narrow begin with.
const NarrowPrefix = "spooltest-narrow-"

// Case is a promise of docs/http.md, or of docs/protocol.md.
type Case struct {
	Name  string // "store: one entry"
	Says  string // the document's words
	check func(*run)
}

// ErrLeftOut: the server was not set up with what a case needs.
var ErrLeftOut = errors.New("left out")

// patience is how long a server may take to apply what it took, or to send an event. Tests of broken ones shorten it.
var patience = time.Minute

// Cases are all that docs/http.md promises and can be seen from outside.
func Cases() []Case {
	return slices.Concat(storing, outputs, reading, artifacts, changing, following, claude, guarding)
}

func (c Case) document() string {
	if strings.HasPrefix(c.Name, "protocol: ") {
		return "docs/protocol.md"
	}
	return "docs/http.md"
}

// Run holds a server to a case. The error says what it did, and what was promised.
func (c Case) Run(ctx context.Context, s Server) (err error) {
	ctx, cancel := context.WithTimeout(ctx, 3*patience)
	defer cancel()
	r := &run{ctx: ctx, server: s, session: "spooltest-" + rand.Text(), narrow: NarrowPrefix + rand.Text()}
	defer func() {
		switch why := recover().(type) {
		case nil:
		case failure:
			err = fmt.Errorf("%w; %s: %q", why.error, c.document(), c.Says)
		default:
			panic(why)
		}
		r.clean()
	}()
	c.check(r)
	return nil
}

// RunHTTP holds a server to every case of docs/http.md, each a subtest.
func RunHTTP(t *testing.T, s Server) { runAll(t, s, Cases()) }

// RunNATS holds a server to every case of docs/protocol.md, each a subtest.
func RunNATS(t *testing.T, s Server) { runAll(t, s, ProtocolCases()) }

func runAll(t *testing.T, s Server, cases []Case) {
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			switch err := c.Run(t.Context(), s); {
			case errors.Is(err, ErrLeftOut):
				t.Skip(err)
			case err != nil:
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
	narrow  string     // a session that Server.Narrow is for
	open    []net.Conn // to the server's NATS side
}

func (r *run) fail(format string, args ...any) { panic(failure{fmt.Errorf(format, args...)}) }

func (r *run) do(err error) {
	if err != nil {
		panic(failure{err})
	}
}

// needs leaves a case out where the server was not set up with what it needs.
func (r *run) needs(so bool, what string) {
	if !so {
		r.fail("%w: the server was set up without %s", ErrLeftOut, what)
	}
}

func (r *run) is(so bool, format string, args ...any) {
	if !so {
		r.fail(format, args...)
	}
}

// clean removes what the case made, as far as the token may.
func (r *run) clean() {
	for _, conn := range r.open {
		_ = conn.Close()
	}
	if r.server.URL == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.ctx), patience/4)
	defer cancel()
	for _, name := range []string{r.session, r.session + "-2", r.narrow} {
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
