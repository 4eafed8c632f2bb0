package natsio

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/record"
	"spool/internal/sleep"
)

// reading reads a stream in order by a consumer that its reader made, and by others that it makes where that one goes, is not heard, or
// leaves something out.
type reading struct {
	c      *Conn
	pulls  pulls
	stream string
	cfg    jetstream.ConsumerConfig
	name   string          // of its consumers, but for their numbers
	made   int             // how many they are
	ctx    context.Context //nolint:containedctx // it ends when nothing is wanted any more
	stop   func()          // ends it. Its consumer stays. For any goroutine
	pull   *pull
	over   func() bool             // forgets to stop the pull with ctx
	info   *jetstream.ConsumerInfo // as it was asked for
	given  uint64                  // messages of this consumer
	last   uint64                  // the stream's sequence of the last one
	pause  time.Duration           // before another consumer, where the one before gave nothing
	began  time.Time               // when the first consumer was made, if all that is read must be of one stream; else none
}

// newestAhead is how many newest messages of subjects are asked for ahead. Those that Spool stores have 350,000 bytes at most, and mostly a
// few thousand.
const newestAhead = 256

func (c *Conn) read(ctx context.Context, cons jetstream.Consumer, of pulls) (*reading, error) {
	info := cons.CachedInfo()
	r := &reading{c: c, pulls: of, stream: info.Stream, cfg: info.Config, name: info.Name, made: 1}
	if i := strings.LastIndexByte(info.Name, '_'); i >= 0 {
		r.name = info.Name[:i]
	}
	if r.cfg.DeliverPolicy == jetstream.DeliverNewPolicy { // for another one, what is new began there too
		r.cfg.DeliverPolicy, r.cfg.OptStartSeq = jetstream.DeliverByStartSequencePolicy, info.Delivered.Stream+1
	}
	if r.cfg.DeliverPolicy == jetstream.DeliverLastPerSubjectPolicy {
		// nats-server 2.15.2 leaves out the message that a request has no bytes for: it is asked for few, of any size.
		r.pulls = pulls{messages: newestAhead}
	}
	r.ctx, r.stop = context.WithCancel(ctx)
	if err := r.begin(cons); err != nil {
		r.stop()
		return nil, err
	}
	return r, nil
}

func (r *reading) begin(cons jetstream.Consumer) error {
	r.info, r.given = cons.CachedInfo(), 0
	p, err := r.c.pullOf(r.stream, r.info.Name, r.pulls)
	if err == nil {
		r.pull, r.over = p, context.AfterFunc(r.ctx, p.stop)
	}
	return err
}

// next waits for the next message; most is for how long: then it is nats.ErrTimeout; 0: as long as it takes.
func (r *reading) next(most time.Duration) (m message, err error) {
	for {
		m, err = r.pull.message(most)
		switch {
		case err == nil && m.meta.Sequence.Consumer == r.given+1:
			r.given, r.last, r.pause = r.given+1, m.meta.Sequence.Stream, 0
			return m, nil
		case errors.Is(err, nats.ErrTimeout), errors.Is(err, errPullEnded), errors.Is(err, record.ErrDenied):
			return m, err
		}
		if err := r.again(err, most); err != nil {
			return m, err
		}
	}
}

// ask asks for the consumer's state.
func (r *reading) ask(ctx context.Context) error {
	cons, err := r.c.js.Consumer(ctx, r.stream, r.info.Name)
	if err == nil {
		r.info = cons.CachedInfo()
	}
	return err
}

// remove removes a consumer, which the server would keep for a while.
func (r *reading) remove(name string) {
	ctx, cancel := context.WithTimeout(context.Background(), r.c.timeout)
	defer cancel()
	_ = r.c.js.DeleteConsumer(ctx, r.stream, name)
}

// again reads on by another consumer, behind the last message. It tries until it is stopped, or the server refuses it, or for so long.
func (r *reading) again(why error, most time.Duration) error {
	r.c.log.Debug("a stream is read on by another consumer", "stream", r.stream, "seq", r.last, "error", why)
	r.pull.stop()
	r.over()
	go r.remove(r.info.Name)
	cfg := r.cfg
	if cfg.Metadata = nil; r.last > 0 {
		cfg.DeliverPolicy, cfg.OptStartSeq, cfg.OptStartTime = jetstream.DeliverByStartSequencePolicy, r.last+1, nil
	}
	for begun := time.Now(); ; {
		if !sleep.For(r.ctx, r.pause) {
			return errPullEnded
		}
		r.pause = min(max(2*r.pause, againFirst), againMost)
		r.made++
		cfg.Name = r.name + "_" + strconv.Itoa(r.made)
		cons, err := r.c.js.(api).again(r.ctx, r.stream, cfg)
		if err == nil {
			err = cmp.Or(r.begin(cons), r.setBack())
		}
		if err == nil || errors.Is(err, record.ErrDenied) || errors.Is(err, errAnew) || most > 0 && time.Since(begun) > most {
			return err
		}
	}
}

var errAnew = errors.New("another stream has the name of the one that was read")

// setBack says that the stream is not what was read before, or not yet: a server that came up with an older disk, or restored it, has
// nothing behind the last message, and that is no end. One that leads since just now may have yet to take it in.
func (r *reading) setBack() error {
	if r.began.IsZero() {
		return nil
	}
	s, err := r.c.js.Stream(r.ctx, r.stream)
	if err != nil {
		return err
	}
	switch is := s.CachedInfo(); {
	case is.Created.After(r.began):
		return fmt.Errorf("%s was made at %v: %w", r.stream, is.Created, errAnew)
	case is.State.LastSeq < r.last:
		return fmt.Errorf("%w: %s ends at %d, and %d was read of it: was it set back?", record.ErrBusy, r.stream, is.State.LastSeq, r.last)
	}
	return nil
}
