package persist

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"spool/internal/apply"
	"spool/internal/record"
	"spool/pkg/casstore"
	"spool/pkg/events"
)

// No session stops another (SPEC P11). What can not be applied, or not be committed, is found by trying less: a batch is halved until
// what it fails over is an event by itself. Then that event goes to the dead letters, and if its thread can not even note that, the
// thread takes no events. What would be so with any event is the store's fault, and ends the persister: another event must not be
// blamed for it.

// trial is what came of an event that stopped others, or may have.
type trial struct {
	most     int // events in its batch at most; 0: as many as there are
	panics   int // how often it panicked
	refusals int // how often its commit was refused when it was alone
}

// alone reports whether an event is to be a batch of its own.
func (t trial) alone() bool { return t.panics > 0 || t.most == 1 }

// safely makes a panic an error.
func safely(do func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: %v", record.ErrValue, r)
		}
	}()
	return do()
}

// applySafely is apply. After a panic the batch is given up and the event is tried alone; after the next it goes to the dead letters.
func (l *lane) applySafely(ctx context.Context, c *commit, s *staged) (err error) {
	defer func() {
		r := recover()
		if r == nil {
			return
		}
		l.p.Log.Error("panic over an event", "thread", s.event.Thread, "seq", s.msg.Seq, "panic", r, "stack", string(debug.Stack()))
		s.trial.panics++
		if s.trial.panics > 1 {
			s.bad = fmt.Errorf("%w: the persister panics over it: %v", apply.ErrPoison, r)
		}
		s.known = s.trial.panics <= 2 // else over its thread too: it is not even noted
		err = errStale
	}()
	if err := l.apply(ctx, c, s); err != nil {
		return err
	}
	if s.verdict.Is == apply.Dead && c.refusedBefore(s) == nil {
		l.noteRefusal(c, s)
	}
	return nil
}

// seal finishes the pack of a commit; what can not be finished is refused.
func (l *lane) seal(c *commit) error {
	if err := safely(func() error { return l.p.seal(c) }); err != nil {
		return fmt.Errorf("%w: %w", record.ErrRefused, err)
	}
	return nil
}

// never reports whether the store refuses something for good: it says no, or holds what cannot be read.
func never(err error) bool {
	return (errors.Is(err, record.ErrRefused) || errors.Is(err, record.ErrValue)) && !apply.Passing(err)
}

// isolate has a commit that is refused for good prepared again, in parts. An error: the store takes no commit at all.
func (l *lane) isolate(ctx context.Context, c *commit, cause error) error {
	if err := l.p.retry(ctx, "probe the store", func() error { return l.p.probe(ctx, c.fence) }); err != nil {
		return fmt.Errorf("%w (and so is a commit of nothing: %w)", cause, err)
	}
	l.p.Log.Error("a commit is refused for good: its events are tried in smaller parts", "events", len(c.events), "error", cause)
	if n := len(c.events); n > 1 {
		for _, s := range c.events {
			s.trial.most = n / 2
		}
	} else {
		l.blame(c, c.events[0], cause)
	}
	l.giveBack(c)
	return nil
}

// blame says of an event that it can not be committed, and of its thread if not even that can be.
func (l *lane) blame(c *commit, s *staged, cause error) {
	s.trial.most = 1
	if s.trial.refusals++; s.trial.refusals == 1 {
		s.bad = fmt.Errorf("it cannot be committed: %w", cause)
		return
	}
	for _, t := range c.threads {
		l.latch(t.was, t.rev, cause)
	}
	if s.trial.refusals > 2 { // not over its thread
		s.known = false
	}
}

// probe tries whether the store takes anything: bytes, and a commit that changes nothing.
func (p *Persister) probe(ctx context.Context, f record.Fence) error {
	b := []byte("probe")
	blob, err := p.Bulk.UploadBlob(ctx, casstore.SumBlob(b), b)
	if err == nil {
		err = p.Bulk.DropBlob(ctx, blob.Object)
	}
	if err != nil {
		return err
	}
	_, err = p.Records.Commit(ctx, f, []record.Put{{Key: events.LaneKey(f.Lane), Expect: record.Any}})
	if errors.Is(err, record.ErrConflict) { // a collector began: it was read
		return nil
	}
	return err
}

// mostOfEvent is how many records an event adds to a commit at most, but for those that can go ahead of it.
const mostOfEvent = 180

// messages is how many records a commit has at most, but for those that can go ahead of it.
func (c *commit) messages() int {
	demands := 2*len(c.doubts) + events.Partitions // by which, and where, events are refused
	if c.empty() {
		return demands
	}
	return demands + 1 + len(c.infos) + len(c.records) + len(c.runs) + 2*len(c.threads) + 3*len(c.outputs) + len(c.numbers) + len(c.results)
}

// latchTooLarge latches the threads of a commit with a record that no message holds, and gives errStale then. The commits
// before it are through by then: the latch names the record that they left.
func (l *lane) latchTooLarge(ctx context.Context, c *commit) error {
	limit, large := l.p.MaxRecord(), map[*touched]error{}
	check := func(what string, size int, of func(*touched) bool) {
		if size <= limit {
			return
		}
		for _, t := range c.threads {
			if of(t) {
				large[t] = fmt.Errorf("%w: its %s would have %d bytes, and the server takes %d: go on in a fork of it, "+
					"or let the server take larger messages (max_payload)", errTooLarge, what, size, limit)
			}
		}
	}
	for _, t := range c.threads {
		check("head", len(t.value), func(o *touched) bool { return o == t })
	}
	for s, value := range c.infos {
		check("session's record", len(value), func(o *touched) bool { return o.session == s })
	}
	for _, n := range c.outputs {
		of := func(o *touched) bool { return o.was == n.thread || o.key == n.thread }
		if !n.ended {
			check("open output's record", len(n.rec.Encode()), of)
		}
		if n.base != nil {
			check("open output's base", len(n.base.Value), of)
		}
	}
	for _, puts := range []map[string]record.Put{c.records, c.runs} {
		for key, put := range puts {
			check("record "+key, len(put.Value), func(o *touched) bool { return o.was.Session == events.SessionOf(key) })
		}
	}
	if len(large) == 0 {
		return nil
	}
	if err := l.settle(ctx, c.epoch); err != nil {
		return err
	}
	for t, why := range large {
		l.latch(t.was, t.rev, why)
	}
	return errStale
}

// errTooLarge: a thread has grown beyond a record.
var errTooLarge = errors.New("too large to be stored")
