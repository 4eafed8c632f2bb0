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
	"golang.org/x/sync/semaphore"

	"spool/internal/apply"
	"spool/internal/family"
	"spool/internal/record"
	"spool/internal/retry"
	"spool/internal/sleep"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// OutputConfig describes a tool invocation whose output is streamed. The zero value works.
type OutputConfig struct {
	ID         string // names the output in its session, for ever; "" = a new one
	Tool       string // name of the tool
	Invocation string // id that the tool's call and its result share (SPEC I3); "" = the output's
	Cwd        string // working directory
	Agent, Run string // for the artifact's record, which has the run if it is one of the session
	User, Host string // as in PublisherConfig
	Head       int    // bytes of the beginning that the result shows, at most half; 0 = the end alone (SPEC O3)
	Columns    int    // longest line that the result shows, in bytes; 0 = any (SPEC O4)
	Show       int    // bytes that the result shows, at most 51,200; 0 = so many (SPEC O2)

	// Keep makes an artifact of the whole output also when the result shows all of it (SPEC A4).
	Keep bool
	// Lease is how long the output may be silent, at most seven days; 0 = what the persisters allow. A living Output is not silent.
	Lease time.Duration
	// Input, JSON, posts the invocation as a tool_call ahead of the output. nil: the agent posts it itself.
	Input []byte
	// Window is how many bytes may be written and not yet durable, before Write waits; 0 = 1 MiB.
	Window int
}

// OutputEnd is how a tool ended.
type OutputEnd = events.OutputEnd

// Output is the streaming output of a tool invocation (SPEC O). What is written becomes a result in the thread, cut to what
// a reader can take in, and an artifact with all of it when it was cut. Write takes what the tool printed to its standard
// output, Stderr to its standard error. Safe for concurrent use.
//
// When the program dies, the output is closed as aborted after its lease, with what arrived (SPEC O8).
type Output struct {
	client  *Client
	cfg     OutputConfig
	attempt string
	thread  events.Thread
	pub     *Publisher

	ctx    context.Context // of all publishing: io.Writer has no room for one
	cancel context.CancelCauseFunc
	window *semaphore.Weighted
	wake   chan struct{} // holds a token while there is something to publish
	done   chan struct{} // closed when run has ended

	mu      sync.Mutex
	pending []piece
	closing *closing
	seq     uint64 // number of the last piece; run's
	last    uint64 // producer's sequence of the last event; run's
	first   uint64 // producer's sequence of the start
}

// piece is neighbouring bytes of one stream.
type piece struct {
	stream events.Stream
	bytes  []byte
}

// closing is the last event of an output.
type closing struct {
	end    OutputEnd
	reason string // why it is aborted; "": it has ended
}

const (
	pieceBytes    = 128 << 10 // of one event
	defaultWindow = 1 << 20
	heartbeat     = 2 * time.Minute // at most; below the lease
)

var errOutputClosed = family.Conflict.New("the output is closed")

// Output begins a streaming output in a thread and returns when that is durable. Publishing goes on, through whatever the
// server does, until Close returns or ctx ends.
func (t ThreadHandle) Output(ctx context.Context, cfg OutputConfig) (*Output, error) {
	cfg.ID = cmp.Or(cfg.ID, ulid.Make().String())
	if cfg.Window <= 0 {
		cfg.Window = defaultWindow
	}
	start := events.Chunk{Op: events.ChunkStart, Output: cfg.ID, Start: events.OutputStart{
		Tool: cfg.Tool, Invocation: cfg.Invocation, Cwd: cfg.Cwd, Agent: cfg.Agent, Run: cfg.Run,
		Head: cfg.Head, Columns: cfg.Columns, Lease: cfg.Lease.Milliseconds(), Keep: cfg.Keep, Show: cfg.Show,
		Attempt: ulid.Make().String(),
	}}
	if err := errors.Join(t.Validate(), start.Validate()); err != nil {
		return nil, err
	}
	o := &Output{
		client: t.c, cfg: cfg, attempt: start.Start.Attempt, thread: t.Thread, pub: t.c.outputs, window: semaphore.NewWeighted(int64(cfg.Window)),
		wake: make(chan struct{}, 1), done: make(chan struct{}),
	}
	o.ctx, o.cancel = context.WithCancelCause(ctx)
	var evs []*events.Event
	if cfg.Input != nil {
		evs = append(evs, o.event(events.KindEntry, o.call()))
		evs[0].Dialect = "item"
	}
	if err := o.send(append(evs, o.event(events.KindChunk, start.Encode()))); err != nil {
		o.cancel(err)
		return nil, err
	}
	o.first = o.last
	go o.run()
	return o, nil
}

// call is the item of the invocation.
func (o *Output) call() []byte {
	id := cmp.Or(o.cfg.Invocation, o.cfg.ID)
	return events.ToolCall(o.cfg.Tool, id, o.cfg.Input).JSON()
}

// ID names the output in its session.
func (o *Output) ID() string { return o.cfg.ID }

// Write takes what the tool printed to standard output. It waits while more than the window is not durable yet; what it
// took is durable when Close returns without an error.
func (o *Output) Write(p []byte) (int, error) { return o.write(events.Stdout, p) }

// Stderr takes what the tool prints to standard error.
func (o *Output) Stderr() io.Writer { return errorStream{o} }

type errorStream struct{ o *Output }

func (s errorStream) Write(p []byte) (int, error) { return s.o.write(events.Stderr, p) }

func (o *Output) write(stream events.Stream, p []byte) (n int, err error) {
	for n < len(p) {
		k := min(len(p)-n, pieceBytes, o.cfg.Window)
		if err := o.window.Acquire(o.ctx, int64(k)); err != nil {
			return n, context.Cause(o.ctx)
		}
		if err := o.add(stream, p[n:n+k]); err != nil {
			return n, err
		}
		n += k
	}
	return n, nil
}

func (o *Output) add(stream events.Stream, b []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closing != nil {
		o.window.Release(int64(len(b)))
		return errOutputClosed
	}
	if last := len(o.pending) - 1; last >= 0 && o.pending[last].stream == stream && len(o.pending[last].bytes)+len(b) <= pieceBytes {
		o.pending[last].bytes = append(o.pending[last].bytes, b...)
	} else {
		o.pending = append(o.pending, piece{stream, append([]byte(nil), b...)})
	}
	o.signal()
	return nil
}

func (o *Output) signal() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// Close ends the output and returns when all of it is durable; the result is in the thread soon after: see Wait. Closing
// again changes nothing.
func (o *Output) Close(end OutputEnd) error { return o.close(closing{end: end}) }

// Abort ends the output as Close does, for a reason for which nobody knows how its tool ended: its result holds what was
// written, and says why it is aborted.
func (o *Output) Abort(reason string) error { return o.close(closing{reason: reason}) }

func (o *Output) close(last closing) error {
	o.mu.Lock()
	if o.closing == nil {
		o.closing = &last
		o.signal()
	}
	o.mu.Unlock()
	<-o.done
	if err := context.Cause(o.ctx); !errors.Is(err, errDone) {
		return err
	}
	return nil
}

// Wait returns when the result of a closed output is in its thread, or all that came too late for it is a dead letter; see
// Result.
func (o *Output) Wait(ctx context.Context) error {
	<-o.done
	return o.client.awaitStored(ctx, o.thread, o.pub.Producer(), o.pub.cfg.Epoch, o.last)
}

// Result waits for the result of an output that was closed, and tells where it is. ErrRefused or ErrRemoved: not all that was
// written is kept, for the output was closed, or its thread ended, renamed or removed, before all of it arrived. What came
// before that is in a result that says that it is aborted, or will be, unless its thread was removed.
func (o *Output) Result(ctx context.Context) (end events.LiveEnd, err error) {
	if err := o.Wait(ctx); errors.As(err, new(*Renamed)) {
		return end, fmt.Errorf("%w: output %s: %w: not all of it arrived before; send all of it there, under another id",
			ErrRefused, o.ID(), err)
	} else if err != nil {
		return end, err
	}
	for frame, err := range o.client.Thread(o.thread).OutputFrom(ctx, o.ID(), 1<<62) {
		if err != nil {
			return end, err
		}
		if frame.End != nil {
			end = *frame.End
		}
	}
	o.mu.Lock()
	aborted := o.closing != nil && o.closing.reason != ""
	o.mu.Unlock()
	if end.Node == "" || end.Aborted && !aborted {
		return end, fmt.Errorf("%w: output %s was closed, or its thread was ended or removed, before all of it arrived: "+
			"send all of it under another id", ErrRefused, o.ID())
	}
	return end, nil
}

// ErrOutputTaken: the id of an output is that of another one of its session, or of an earlier attempt to send this one.
var ErrOutputTaken = family.Conflict.New("the output's id is taken")

// Begun returns nil when persisters have begun the output and it is open. An error says why nothing of it is kept:
// ErrOutputTaken, ErrEnded, or where its thread is now. Asked before Close, it tells that no piece of it is refused.
func (o *Output) Begun(ctx context.Context) error {
	if err := o.client.awaitStored(ctx, o.thread, o.pub.Producer(), o.pub.cfg.Epoch, o.first); err != nil {
		return err
	}
	w := waited{o.thread, o.pub.Producer(), o.pub.cfg.Epoch, o.first, o.first, true}
	for begun, wait := time.Now(), 2*time.Millisecond; ; wait *= 2 {
		err := o.client.mayBegin(ctx, o.thread, o.cfg.ID, o.attempt)
		if errors.Is(err, errOwn) {
			return nil
		}
		if err == nil { // nobody has it: its start is a dead letter, or the answer is old
			err = o.client.refusal(ctx, w)
		}
		if err == nil && time.Since(begun) > refusalTime {
			err = fmt.Errorf("%w: output %s was not begun in %s", ErrRefused, o.cfg.ID, o.thread)
		}
		if err != nil {
			return err
		}
		if !sleep.For(ctx, wait) {
			return context.Cause(ctx)
		}
	}
}

// refusalTime is how long the record of an output that is begun, or its letter, may not be seen yet.
const refusalTime = 5 * time.Second

// errOwn: the open output is of the attempt that asks.
var errOwn = errors.New("it is of this attempt")

// MayBegin reports why an output cannot begin in a thread, as far as is known now; see Begun. ErrNoRun: its session has no run of the id
// that cfg says, and none is on its way.
func (t ThreadHandle) MayBegin(ctx context.Context, cfg OutputConfig) error {
	if cfg.Run != "" {
		if err := t.c.awaitRun(ctx, t.Session, cfg.Run); errors.Is(err, ErrNoRun) && !errors.Is(err, ErrBehind) {
			return err
		}
	}
	return t.c.mayBegin(ctx, t.Thread, cfg.ID, "")
}

func (c *Client) mayBegin(ctx context.Context, t events.Thread, id, attempt string) error {
	if id == "" {
		return c.Thread(t).Takes(ctx)
	}
	if err := errors.Join(t.Validate(), events.CheckToken("output", id)); err != nil {
		return err
	}
	rs, err := c.records.Records(ctx, events.OutputKey(t.Session, id))
	if err != nil {
		return err
	}
	if rs[0].Removed() {
		return fmt.Errorf("%w: %s has ended in the session %s: send another one under an id of its own", ErrOutputTaken, id, t.Session)
	}
	if rs[0].Exists() {
		o, err := record.DecodeOutput(rs[0].Value)
		if err != nil {
			return fmt.Errorf("%w: %s: %w", ErrOutputTaken, id, err)
		}
		if attempt != "" && o.Start.Attempt == attempt {
			return errOwn
		}
		return fmt.Errorf("%w: %s is open in the thread %s, with %d bytes that arrived: "+
			"they stay, and it ends as aborted after its lease; send all of it again under another id",
			ErrOutputTaken, id, o.Thread, o.Total)
	}
	return c.Thread(t).Takes(ctx)
}

// Takes reports why a thread takes nothing more: ErrEnded, with a *Renamed where its name is another one now;
// ErrLatched where its head cannot be read. A thread that is not there yet takes what begins it.
func (t ThreadHandle) Takes(ctx context.Context) error {
	if err := t.Validate(); err != nil {
		return err
	}
	head, err := t.Head(ctx)
	var was *Renamed
	switch {
	case errors.As(err, &was):
		return fmt.Errorf("%w: %w: go on there", ErrEnded, err)
	case errors.Is(err, threads.ErrNoThread):
		return nil
	case err == nil && head.Status == threads.StatusCompleted:
		return fmt.Errorf("%w: %s: fork it, or go on in another thread", ErrEnded, t.Thread)
	case err != nil && !apply.Passing(err):
		_, err = t.Head(ctx) // what the head named may have been moved since it was read
	}
	if err != nil && !apply.Passing(err) {
		err = fmt.Errorf("%w: %s: %w: spool fsck names what is wrong", ErrLatched, t.Thread, err)
	}
	return err
}

// Has reports whether the event's thread has it, under whatever name it has now.
func (i Internal) Has(ctx context.Context, e *events.Event) bool {
	has, err := i.c.applied(ctx, waited{thread: e.Thread, producer: e.Producer, epoch: e.Epoch, seq: e.Seq})
	return has && err == nil
}

// ErrLatched: something in the store is not as it must be, and the thread takes nothing before it is mended.
var ErrLatched = family.Conflict.New("thread is latched")

// errDone: the output has ended as it should.
var errDone = errors.New("output has ended")

// run publishes what was written until the output is closed. While one publish is under way more gathers for the next.
func (o *Output) run() {
	defer close(o.done)
	beats := heartbeat
	if o.cfg.Lease > 0 {
		beats = min(beats, max(o.cfg.Lease/4, 100*time.Millisecond))
	}
	alive := time.NewTicker(beats)
	defer alive.Stop()
	for {
		beat := false
		select {
		case <-o.wake:
		case <-alive.C:
			beat = true
		case <-o.ctx.Done():
			return
		}
		o.mu.Lock()
		pieces, last := o.pending, o.closing
		o.pending = nil
		o.mu.Unlock()
		if len(pieces) == 0 && beat {
			pieces = []piece{{stream: events.Stdout}}
		}
		if err := o.publish(pieces, last); err != nil {
			o.cancel(err)
			return
		}
		for _, p := range pieces {
			o.window.Release(int64(len(p.bytes)))
		}
		if last != nil {
			o.cancel(errDone)
			return
		}
	}
}

// publish sends pieces, and the end behind them.
func (o *Output) publish(pieces []piece, last *closing) error {
	evs := make([]*events.Event, 0, len(pieces)+1)
	for _, p := range pieces {
		o.seq++
		chunk := events.Chunk{Op: events.ChunkData, Output: o.cfg.ID, Attempt: o.attempt, Seq: o.seq, Stream: p.stream, Data: p.bytes}
		evs = append(evs, o.event(events.KindChunk, chunk.Encode()))
	}
	if last != nil {
		o.seq++
		chunk := events.Chunk{Op: events.ChunkEnd, Output: o.cfg.ID, Attempt: o.attempt, Seq: o.seq, End: last.end}
		if last.reason != "" {
			chunk = events.Chunk{Op: events.ChunkAbort, Output: o.cfg.ID, Seq: o.seq, Reason: last.reason}
		}
		evs = append(evs, o.event(events.KindChunk, chunk.Encode()))
	}
	if len(evs) == 0 {
		return nil
	}
	return o.send(evs)
}

func (o *Output) event(kind events.Kind, body []byte) *events.Event {
	return &events.Event{Kind: kind, Thread: o.thread, Time: time.Now().UnixMilli(), User: o.cfg.User, Host: o.cfg.Host, Body: body}
}

// send publishes events as the producer that all outputs of the client share: a thread remembers a limited number of them. Their
// sequences are given up at once, also when nobody will know whether an event was stored: what is tried again is tried here.
func (o *Output) send(evs []*events.Event) error {
	p := o.pub
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range evs {
		e.Producer, e.Epoch = p.cfg.Producer, p.cfg.Epoch
	}
	if err := p.seq.next(evs); err != nil {
		return err
	}
	p.seq.done(evs)
	o.last = p.seq.last
	if err := retry.Do(o.ctx, nil, func() error { return p.client.events.PublishEvents(o.ctx, evs) }); err != nil {
		return fmt.Errorf("output %s of %s: %w", o.cfg.ID, o.thread, err)
	}
	return nil
}
