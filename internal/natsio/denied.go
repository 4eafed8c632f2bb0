package natsio

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"spool/internal/record"
)

// denials are the requests of a connection that wait for answers. A server drops what a user may not send, says so on
// the connection, and answers nothing: whoever waits for the answer learns it here. So does who waits for one that was lost with the
// connection by which it was asked for.
type denials struct {
	timeout  time.Duration // how long one is waited for
	log      *slog.Logger
	answered atomic.Bool // see patience

	mu      sync.Mutex
	waiting map[*waiter]struct{}
	links   int       // connections that were lost
	deaf    error     // why no answer reaches this connection, until it is made again; nil: answers do
	told    time.Time // when a request last was ended by a refusal
}

// echo is how long behind a refusal the server may say the same of what was sent with it, by the same request or by others that ended then.
const echo = time.Second

// lateAnswer is how long after a connection was made again an answer may still come: of another server of a cluster, that led while
// this one was lost.
const lateAnswer = 500 * time.Millisecond

// errLost: the connection was lost on which a request was sent, and its answer with it.
var errLost = fmt.Errorf("%w: the connection was lost before the answer came", record.ErrUnknown)

// waiter is one request, or several.
type waiter struct {
	sends func(subject string) bool
	end   func(why error)
	link  int  // connections that were lost before it
	lasts bool // it goes on over another connection
}

// await has end called when the server refuses a subject that sends is true for, or when its answer is lost. done must be called when
// the answer is there, or not waited for any more.
func (d *denials) await(sends func(subject string) bool, end func(why error)) (done func(), err error) {
	return d.add(&waiter{sends: sends, end: end})
}

func (d *denials) add(w *waiter) (done func(), err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.deaf != nil {
		return nil, d.deaf
	}
	w.link = d.links
	if d.waiting == nil {
		d.waiting = map[*waiter]struct{}{}
	}
	d.waiting[w] = struct{}{}
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.waiting, w)
	}, nil
}

// watch is await with a context that ends; outcome has the reason.
func (d *denials) watch(ctx context.Context, sends func(subject string) bool) (_ context.Context, done func(), err error) {
	return d.watchAs(ctx, &waiter{sends: sends})
}

func (d *denials) watchAs(ctx context.Context, w *waiter) (_ context.Context, done func(), err error) {
	ctx, end := context.WithCancelCause(ctx)
	w.end = end
	stop, err := d.add(w)
	if err != nil {
		end(nil)
		return nil, nil, err
	}
	return ctx, func() {
		stop()
		end(nil)
	}, nil
}

// Denied gives a context that ends when the server refuses a message on the subject; its cause is a record.ErrDenied.
// It is for requests that do not go through this package. done must be called behind the request.
func (st Streams) Denied(ctx context.Context, subject string) (_ context.Context, done func(), err error) {
	return st.c.denied.watch(ctx, func(s string) bool { return s == subject })
}

// outcome is the error of a request under watch's context: the refusal, or that its answer is lost, if that is what ended it.
func outcome(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); err != nil && (errors.Is(cause, record.ErrDenied) || errors.Is(cause, errLost)) {
		return cause
	}
	return err
}

// deny ends the requests that send a subject, and reports whether there are any, or were just now.
func (d *denials) deny(subject string, why error) (told bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for w := range d.waiting {
		if w.sends(subject) {
			w.end(why)
			d.told = time.Now()
		}
	}
	return time.Since(d.told) < echo
}

// deafen ends all requests, and those to come: the subscription that their answers come to was refused.
func (d *denials) deafen(why error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.deaf = why
	for w := range d.waiting {
		w.end(why)
	}
}

// hear takes deafen back: a new connection subscribes again. What was asked for over one that was lost is not answered any more.
func (d *denials) hear() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.deaf = nil
	links := d.links
	time.AfterFunc(lateAnswer, func() { d.lose(links) })
}

// lost counts a connection that was lost.
func (d *denials) lost() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.links++
}

// lose ends the requests that were sent before so many connections were lost.
func (d *denials) lose(links int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for w := range d.waiting {
		if w.link < links && !w.lasts {
			w.end(errLost)
		}
	}
}

// violation finds what was refused in the server's words.
var violation = regexp.MustCompile(`for (Publish|Subscription) to "([^"]+)"`)

// askForIt is what to do without a permission.
const askForIt = "ask for the permission, or use a user who has it"

// refused is the subject that a user may not publish or subscribe to, if the server says that.
func refused(err error) (subject string, publish, ok bool) {
	if !errors.Is(err, nats.ErrPermissionViolation) {
		return "", false, false
	}
	if found := violation.FindStringSubmatch(err.Error()); found != nil {
		return found[2], found[1] == "Publish", true
	}
	return "", false, false
}

// complaint takes what the server says about a connection, and not to a request. It reports whether a request is told.
func (d *denials) complaint(nc *nats.Conn, err error) (told bool) {
	subject, publish, ok := refused(err)
	switch {
	case !ok:
		return false
	case publish:
		return d.deny(subject, fmt.Errorf("%w: %s: %s", record.ErrDenied, subject, askForIt))
	}
	inbox := strings.TrimSuffix(nc.NewInbox(), ".")
	if inbox = inbox[:strings.LastIndexByte(inbox, '.')+1]; !strings.HasPrefix(subject, inbox) {
		return d.deny(subject, fmt.Errorf("%w: subscribe to %s: %s", record.ErrDenied, subject, askForIt))
	}
	d.deafen(fmt.Errorf("%w: subscribe to %s, where answers come: give the prefix that this user has, by --inbox-prefix "+
		"or NATS_INBOX_PREFIX (spool auth env says it)", record.ErrDenied, subject))
	return true
}
