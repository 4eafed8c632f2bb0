package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"

	"spool/internal/apply"
	"spool/internal/family"
	"spool/internal/retry"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// Entry is one raw entry to append to a thread.
type Entry struct {
	Thread  events.Thread
	Dialect string    // one of dialect.Names: claude, codex, copilot, gemini, item, omp, opencode, qwen, raw or step
	Body    []byte    // as the agent wrote it, without the newline; any size that fits into memory
	Time    time.Time // of an entry that does not say itself, to the millisecond; zero = when the server stores it
	Seq     uint64    // position in the producer's order; 0 = see Publisher
	Trace   string    // W3C traceparent; its items carry it as a header. "" = none

	// Open, if not nil, gives the entry in the place of Body, and goes through in bounded memory. It is called again for each
	// try and must give the same bytes.
	Open func() (io.ReadCloser, error)
}

// Publisher appends entries as one producer. Everything it publishes is in order, and an event is applied once. Safe for
// concurrent use; one publish is in flight at a time.
//
// After an error, ErrOfflineFull included, some of the entries may be stored, or none, or all. Both ways on are safe:
//
//   - Publish the same entries again, all at once or one by one from the first on. They keep their sequences, so that what is stored
//     is not stored twice. The same means equal in thread, dialect, body, time, trace and, where it is given, Seq.
//   - Go on with other entries. They get sequences above; then those of the error can not be published again as the same, and a
//     second try stores them a second time.
//
// A sequence never names two events: a thread would take the second one for a repeat of the first, and drop it. With Seq 0 an
// entry takes the next one above all that this Publisher has used. A Seq of the caller's own is refused when it is not above them,
// unless it is one of the same entries again. Across processes, and between two Publishers of one Producer, the caller sees to it:
// by a Seq that is the entry's place in its source, or by an Epoch that no process had before.
type Publisher struct {
	client *Client
	cfg    PublisherConfig

	mu  sync.Mutex
	seq sequence
}

// PublisherConfig says who publishes.
type PublisherConfig struct {
	// Producer is an identity that lives longer than the process, when Seq in the entries comes from the source and a
	// second run must not add anything. Empty: an identity of this process alone.
	Producer string
	Epoch    uint64 // a greater one begins sequences anew, and shuts out what comes late of the lower ones
	User     string // user_id stamped on items, for the self-filter (SPEC I6)
	Host     string
	File     string // where the harness keeps what main threads say, as sessions.Info has it; "" = nowhere, or nobody knows
}

// Publisher makes a publisher.
func (c *Client) Publisher(cfg PublisherConfig) *Publisher {
	cfg.Producer = cmp.Or(cfg.Producer, "~"+ulid.Make().String())
	return &Publisher{client: c, cfg: cfg}
}

// Producer is the identity that the publisher's events carry.
func (p *Publisher) Producer() string { return p.cfg.Producer }

// Publish appends entries, in order, and returns when they are durable. While the server is busy, full or away it tries
// again, with exponential backoff, for as long as ctx lives; a client with an offline directory keeps them there after two
// seconds, or at once while something waits there, and then durable means on this machine's disk. The Ack can be waited on until
// the entries are in their threads.
func (p *Publisher) Publish(ctx context.Context, entries ...Entry) (Ack, error) {
	evs := make([]*events.Event, len(entries))
	for i, e := range entries {
		away := p.client.away(p.cfg.Producer)
		if away && e.Open != nil {
			var err error
			if e, err = inMemory(e); err != nil {
				return Ack{}, fmt.Errorf("entry %d: %w", i+1, err)
			}
		}
		if !away {
			if err := p.checkRefs(ctx, e); err != nil {
				return Ack{}, fmt.Errorf("entry %d: %w", i+1, err)
			}
		}
		evs[i] = &events.Event{Kind: events.KindEntry, Dialect: e.Dialect, Thread: e.Thread, Time: events.MillisOf(e.Time), Body: e.Body,
			Seq: e.Seq, Trace: e.Trace}
		if e.Open == nil {
			continue
		}
		ref, err := p.checkIn(ctx, e)
		if err != nil {
			return Ack{}, fmt.Errorf("entry %d: %w", i+1, err)
		}
		evs[i].Body, evs[i].Ref = nil, &ref
	}
	if err := p.send(ctx, evs); err != nil {
		return Ack{}, err
	}
	return p.client.ack(evs), nil
}

// checkIn stores the body of an entry ahead of its event.
func (p *Publisher) checkIn(ctx context.Context, e Entry) (ref events.BodyRef, err error) {
	if err := e.Thread.Validate(); err != nil {
		return ref, err
	}
	err = retry.Do(ctx, nil, func() error {
		body, err := e.Open()
		if err != nil {
			return err
		}
		ref, err = p.client.inbox.CheckIn(ctx, body)
		return errors.Join(err, body.Close())
	})
	return ref, err
}

// Control publishes an operation on a thread.
func (p *Publisher) Control(ctx context.Context, t events.Thread, seq uint64, op events.Control) error {
	return p.send(ctx, []*events.Event{{
		Kind: events.KindControl, Thread: t, Time: time.Now().UnixMilli(), Body: op.Encode(), Seq: seq,
	}})
}

// destroy publishes an operation that takes something away for good, which nobody with a scope may: HTTP lets admins only
// come here, and NATS only those who publish without one.
func (p *Publisher) destroy(ctx context.Context, t events.Thread, op events.Control) error {
	return p.send(ctx, []*events.Event{{
		Kind: events.KindControl, Thread: t, Time: time.Now().UnixMilli(), Body: op.Encode(), Scope: events.Operator,
	}})
}

func (p *Publisher) send(ctx context.Context, evs []*events.Event) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range evs {
		e.Producer, e.Epoch, e.User, e.Host, e.File = p.cfg.Producer, p.cfg.Epoch, p.cfg.User, p.cfg.Host, p.cfg.File
	}
	if err := p.seq.next(evs); err != nil {
		return err
	}
	for _, e := range evs {
		if err := e.Validate(); err != nil {
			return err
		}
	}
	if err := p.client.keep(ctx, evs); err != nil {
		p.seq.failed(evs)
		return err
	}
	p.seq.done(evs)
	return nil
}

// Fork starts a thread at a point of another one and returns when it is there. Nothing is copied (SPEC C5). What can be
// wrong with it is found before it is published: threads.ErrNoThread, threads.ErrNoPoint, ErrThreadExists. ErrRefused: another one took
// the name meanwhile.
func (t ThreadHandle) Fork(ctx context.Context, from events.Fork) error {
	if err := t.c.checkFork(ctx, t.Thread, from); err != nil {
		return fmt.Errorf("fork %s: %w", t.Thread, err)
	}
	return t.c.operate(ctx, t.Thread, events.Control{Op: events.OpFork, Fork: &from})
}

// End completes a thread and returns when it is in the history; it takes no more entries then (SPEC C4, I7).
// threads.ErrNoThread: there is none of that name. ErrEnded: it was completed before. ErrRefused: it was meanwhile. events.ErrControl: it
// has failed, and is to be reopened first.
func (t ThreadHandle) End(ctx context.Context, how events.End) error {
	head, err := t.c.open(ctx, t.Thread)
	if err == nil {
		err = apply.MayEnd(t.Thread, head)
	}
	if err != nil {
		return err
	}
	return t.c.operate(ctx, t.Thread, events.Control{Op: events.OpEnd, End: &how})
}

// ErrEnded: the thread is completed.
var ErrEnded = apply.ErrEnded

// ErrThreadExists: a thread of that name is there already.
var ErrThreadExists = family.Conflict.New("thread exists already")

func (c *Client) checkFork(ctx context.Context, to events.Thread, from events.Fork) error {
	_, err := c.Thread(to).AwaitHead(ctx)
	if was := (*Renamed)(nil); err == nil || errors.As(err, &was) {
		return errors.Join(ErrThreadExists, err)
	}
	if !errors.Is(err, threads.ErrNoThread) {
		return err
	}
	source, err := c.Thread(events.Thread{Session: from.Session, Name: from.Thread}).AwaitHead(ctx)
	if err != nil {
		return err
	}
	_, err = apply.ForkedHead(ctx, c.reader, source, from)
	return err
}
