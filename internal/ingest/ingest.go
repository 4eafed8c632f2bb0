package ingest

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"spool/internal/record"
	"spool/internal/retry"
	"spool/pkg/dialect"
	"spool/pkg/events"
)

// Publisher stores events: in order, and durable when it returns. After an error a part may be stored, and publishing all of
// them again is harmless. Errors are package record's. natsio.Conn is one.
type Publisher interface {
	PublishEvents(ctx context.Context, evs []*events.Event) error
}

// Inbox takes bodies of any size, in bounded memory, for events that carry the reference. natsio.Conn is one.
type Inbox interface {
	CheckIn(ctx context.Context, body io.Reader) (events.BodyRef, error)
}

// Room is what bodies may take of a process's memory: Take waits for n bytes more, or says why there are none; Give gives some back.
// What an entry keeps until it is complete is not given back before it has its next bytes.
type Room interface {
	Take(ctx context.Context, n, keeps int) error
	Give(n int)
}

// endless is room without a bound.
type endless struct{}

func (endless) Take(context.Context, int, int) error { return nil }
func (endless) Give(int)                             {}

// Config says what the lines are.
type Config struct {
	Thread    events.Thread // where they go; with Envelopes, the default
	Dialect   string        // what they are; with Envelopes, the default
	Envelopes bool          // each line is an Envelope, not a raw entry

	// Producer, Epoch and Start identify the events: line n has the sequence Start+n-1, or its envelope's own. Producer is
	// required. Start 0 means 1.
	Producer string
	Epoch    uint64
	Start    uint64

	// Identify, if not nil, is asked by One for Producer and Start once it has read the entry; sum is its SHA-256.
	Identify func(ctx context.Context, sum [sha256.Size]byte) (producer string, start uint64, err error)

	User string // user_id stamped on items (SPEC I6)
	Host string // machine of the agent

	Trace string // W3C traceparent of the request

	// Inbox, if not nil, takes what is too large for memory: a line, but no envelope, of more than 4 MiB goes there while it is
	// read. That it is JSON is then for the persister to find out.
	Inbox Inbox

	Room     Room          // for lines until they are stored or refused; what Take refuses ends the stream. nil: no bound
	MaxBody  int64         // bytes of a line; 0 = 64 MiB, and any number for a line that goes to the inbox
	Wait     time.Duration // how long a line waits for others to share its batch; 0 = 20 ms
	Patience time.Duration // how long a batch is tried again while the server is busy, full or away; 0 = as long as it takes

	// Check, if not nil, is asked of each entry of the dialects item and step that is held in memory, as its dialect reads
	// it; its error refuses the entry.
	Check func(ctx context.Context, e *events.Event, read dialect.Entry) error

	// HasRoom, if not nil, refuses an entry for which its session has no room, before it is stored.
	HasRoom func(ctx context.Context, e *events.Event) error
	// Takes, if not nil, is asked of every entry; its error refuses it: its thread takes nothing more.
	Takes func(ctx context.Context, e *events.Event) error

	// Admit, if not nil, is asked before a batch is published, and may wait. Its error ends the stream: nothing of the batch is
	// stored. back is called where the batch fails behind that.
	Admit      func(ctx context.Context, evs []*events.Event) (back func(), err error)
	BatchLines int // of a batch at most; 0 = 1000
	BatchBytes int // of a batch at most, but for one longer line; 0 = 4 MiB

	// Results, if not nil, is told of every line that is not blank, in order, by one goroutine, once it is durable or refused.
	// err is why a whole batch is not stored, or not known to be.
	Results func(rs []Result, err error)
	// Retry, if not nil, is told of every try to publish that failed and will be repeated.
	Retry func(err error, wait time.Duration)
	// Interrupt, if not nil, makes a blocked Read return. Lines calls it when it returns before the end of the stream, and then
	// no Read goes on. nil: the Read is left to whoever closes the reader.
	Interrupt func()
}

// Result is what became of one line.
type Result struct {
	Line  int64  `json:"line"` // from 1
	OK    bool   `json:"ok"`
	Seq   uint64 `json:"seq,omitempty"`
	Error string `json:"error,omitempty"`
}

// Summary counts lines that are not blank.
type Summary struct {
	Stored  int64  `json:"stored"`
	Refused int64  `json:"refused"`
	Next    uint64 `json:"next_seq"` // above every sequence that was used
}

// Most of one batch. A longer line is a batch of its own.
const (
	batchLines = 1000
	batchBytes = 4 << 20
)

// drain is how long what was read may still be published after the end of ctx.
const drain = 5 * time.Second

func (c Config) withDefaults() Config {
	c.Start = max(c.Start, 1)
	if c.Envelopes {
		c.Inbox = nil
	}
	if c.MaxBody == 0 && c.Inbox != nil {
		c.MaxBody = math.MaxInt64
	}
	c.MaxBody = cmp.Or(c.MaxBody, 64<<20)
	c.Wait = cmp.Or(c.Wait, 20*time.Millisecond)
	c.BatchLines, c.BatchBytes = cmp.Or(c.BatchLines, batchLines), cmp.Or(c.BatchBytes, batchBytes)
	if c.Room == nil {
		c.Room = endless{}
	}
	return c
}

// Validate reports every problem at once.
func (c Config) Validate() error {
	var errs []error
	if c.Producer == "" && c.Identify == nil || len(c.Producer) > 256 {
		errs = append(errs, fmt.Errorf("%w: producer must have 1 to 256 bytes, has %d", ErrEntry, len(c.Producer)))
	}
	if !c.Envelopes {
		if err := c.Thread.Validate(); err != nil {
			errs = append(errs, fmt.Errorf("%w: %w", ErrEntry, err))
		}
		errs = append(errs, checkDialect(c.Dialect))
	}
	return errors.Join(errs...)
}

// Lines publishes what r holds, line by line, until it ends. When ctx ends it stops reading, stores what it has read, and
// returns the cause. Any other error means that the lines whose results were not OK, and those without a result, are not
// known to be stored.
func Lines(ctx context.Context, r io.Reader, out Publisher, cfg Config) (Summary, error) {
	if err := cfg.Validate(); err != nil {
		return Summary{}, err
	}
	cfg = cfg.withDefaults()
	s := &stream{cfg: cfg, out: out, seq: cfg.Start - 1}
	s.sum.Next = cfg.Start
	lines, ended, stop := split(ctx, r, cfg)
	defer stop(cfg.Interrupt)
	var timer <-chan time.Time // runs while lines wait
	for {
		select {
		case l, ok := <-lines:
			if !ok {
				return s.sum, errors.Join(s.flush(ctx), *ended)
			}
			if s.full(l) {
				if err := s.flush(ctx); err != nil {
					return s.sum, err
				}
			}
			if len(s.results) == 0 {
				timer = time.After(cfg.Wait)
			}
			s.take(ctx, l)
		case <-timer:
			timer = nil
			if err := s.flush(ctx); err != nil {
				return s.sum, err
			}
		case <-ctx.Done():
			return s.sum, errors.Join(s.flush(ctx), context.Cause(ctx))
		}
	}
}

// One publishes what r holds as a single raw entry, but for a newline at its end.
func One(ctx context.Context, r io.Reader, out Publisher, cfg Config) (seq uint64, err error) {
	if err := cfg.Validate(); err != nil {
		return 0, err
	}
	cfg = cfg.withDefaults()
	l, err := whole(ctx, r, cfg)
	defer cfg.Room.Give(l.held)
	if err != nil {
		return 0, err
	}
	if cfg.Identify != nil && l.bad == nil {
		if cfg.Producer, cfg.Start, err = cfg.Identify(ctx, l.sum()); err != nil {
			return 0, err
		}
	}
	s := &stream{cfg: cfg, out: out, seq: cfg.Start - 1}
	e, err := s.event(ctx, l)
	if err != nil {
		return 0, err
	}
	s.events = []*events.Event{e}
	return e.Seq, s.publish(ctx)
}

// stream is one run of Lines.
type stream struct {
	cfg Config
	out Publisher

	seq     uint64 // last one given
	events  []*events.Event
	bytes   int      // of their bodies
	held    int      // bytes of room that the lines have taken
	results []Result // of the lines since the last flush, those of events as if stored
	sum     Summary
}

func (s *stream) full(next line) bool {
	return len(s.results) >= s.cfg.BatchLines || len(s.events) > 0 && s.bytes+len(next.text) > s.cfg.BatchBytes
}

func (s *stream) take(ctx context.Context, l line) {
	s.held += l.held
	e, err := s.event(ctx, l)
	if err != nil {
		s.results = append(s.results, Result{Line: l.n, Error: err.Error()})
		return
	}
	s.results = append(s.results, Result{Line: l.n, OK: true, Seq: e.Seq})
	s.sum.Next = e.Seq + 1
	s.events = append(s.events, e)
	s.bytes += len(e.Body)
}

// flush publishes the batch and tells what became of its lines.
func (s *stream) flush(ctx context.Context) error {
	var err error
	if len(s.events) > 0 {
		err = s.publish(ctx)
	}
	for i := range s.results {
		r := &s.results[i]
		if r.OK && err != nil {
			r.OK, r.Error = false, err.Error()
		}
		if r.OK {
			s.sum.Stored++
		} else {
			s.sum.Refused++
		}
	}
	if s.cfg.Results != nil && len(s.results) > 0 {
		s.cfg.Results(s.results, err)
	}
	s.cfg.Room.Give(s.held)
	s.events, s.bytes, s.held, s.results = nil, 0, 0, nil
	return err
}

// publish tries until the batch is stored, refused, or patience is at an end; then the error is the last one, which says
// whether it may be stored.
func (s *stream) publish(ctx context.Context) (err error) {
	ctx, cancel := grace(ctx)
	defer cancel()
	if s.cfg.Admit != nil {
		back, refused := s.cfg.Admit(ctx, s.events)
		if refused != nil {
			return refused
		}
		defer func() {
			if err != nil {
				back()
			}
		}()
	}
	if s.cfg.Patience > 0 {
		var done context.CancelFunc
		ctx, done = context.WithTimeout(ctx, s.cfg.Patience)
		defer done()
	}
	err = retry.Do(ctx, s.cfg.Retry, func() error { return s.out.PublishEvents(ctx, s.events) })
	if err != nil && ctx.Err() != nil && !record.Temporary(err) {
		return fmt.Errorf("%w: no answer in time; send it again under the same producer and sequence", record.ErrUnknown)
	}
	return err
}

// grace lives as long as ctx, and the time of draining.
func grace(ctx context.Context) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(drain, cancel) })
	return longer, func() { stop(); cancel() }
}
