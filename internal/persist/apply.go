package persist

import (
	"context"
	"errors"
	"fmt"

	"spool/pkg/dialect"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// apply adds one event to a commit, or says in s.verdict why not. What can fail is done before anything is changed. An error is for
// the lane (forLane): the event is not judged.
func (l *lane) apply(ctx context.Context, c *commit, s *staged) error {
	s.verdict = refuse(s.bad) // what was found over another head does not count
	if !s.known {
		return nil
	}
	if op, ok := deletes(s); ok {
		return l.delete(ctx, c, s, op)
	}
	t, err := l.settledThread(ctx, c, s.event.Thread)
	if err != nil {
		return err
	}
	if t.session.past(s.msg) {
		s.verdict = verdict{is: repeated}
		return nil
	}
	if cause := l.latchedBy(t.key); cause != nil {
		s.verdict = refuse(cause)
		c.doubt(t)
		return nil
	}
	if done, err := l.skip(ctx, c, t, s); done || err != nil {
		return err
	}
	if s.bad == nil {
		err := l.change(ctx, c, t, s)
		if err == nil {
			return nil
		}
		return l.refuseTo(c, t, s, err)
	}
	l.noteDead(c, t, s)
	return nil
}

// refuseTo gives the verdict that an error means, unless it is for the lane.
func (l *lane) refuseTo(c *commit, t *thread, s *staged, err error) error {
	if forLane(err) {
		return err
	}
	s.verdict = refuse(err)
	l.noteDead(c, t, s)
	return nil
}

// noteDead sees to it that what is linked to an event that goes to the dead letters is taken.
func (l *lane) noteDead(c *commit, t *thread, s *staged) {
	if !l.pass(c, t, s) {
		t.session.mark(s, events.Stands)
		c.doubt(t)
	}
}

// skip reports whether an event is not to be applied: its thread has it, or must not take it (yet).
func (l *lane) skip(ctx context.Context, c *commit, t *thread, s *staged) (bool, error) {
	if s.msg.Seq <= t.head.Applied && !t.head.Duplicate(s.event.Producer, s.event.Epoch, s.event.Seq) {
		if err := l.learnLeft(ctx, t); err != nil {
			return false, err
		}
	}
	if had, err := l.had(ctx, c, t, s); had || err != nil {
		return had, err
	}
	if l.repeats(c, t, s) {
		return true, nil
	}
	standing, err := l.standing(ctx, t, s)
	if err != nil || standing == events.Stands {
		return false, err
	}
	t.session.mark(s, standing)
	c.doubt(t)
	s.verdict = verdict{is: superseded}
	if standing == events.Unlinked {
		s.verdict = refuse(fmt.Errorf("%w: event %d of the producer %s: publish both again", ErrUnlinked, s.event.Prev, s.event.Producer))
	}
	return true, nil
}

// repeats reports whether a thread has an event already, and notes it.
func (l *lane) repeats(c *commit, t *thread, s *staged) bool {
	repeat := t.head.Duplicate(s.event.Producer, s.event.Epoch, s.event.Seq)
	// An event that the head has passed was applied, and its producer says so too, unless that one is forgotten. If it is
	// not, EVENTS was made anew and counts from 1 again, or was set back and gives the sequences out again that it lost.
	forgotten := len(t.head.Producers) >= threads.MaxProducers && !l.p.Reused(s.msg.Seq, s.msg.Stored)
	again := s.msg.Seq <= t.head.Applied && (repeat || forgotten)
	if again && t.fresh { // an earlier owner of the partition committed it and did not ack
		c.reconcile = append(c.reconcile, reconcile{t.key, t.head.Clone()})
	}
	t.fresh = false
	if !again && !repeat {
		return false
	}
	if !again && s.msg.Seq > t.looked { // a head that was looked at after the event was stored needs no other look
		c.doubt(t)
	}
	// One that comes again may have no dead letter yet. What its producer published again was dealt with when it came first; a body is
	// dropped once it is applied.
	if s.bad == nil || !again || errors.Is(s.bad, errBody) {
		s.verdict = verdict{is: repeated}
	}
	return true
}

// change applies an event to its thread.
func (l *lane) change(ctx context.Context, c *commit, t *thread, s *staged) error {
	if t.left != nil && t.left.to != "" {
		return t.left.renamed(t.key)
	}
	if s.event.Kind == events.KindChunk {
		return l.chunk(ctx, c, t, s)
	}
	if t.head.Status == threads.StatusCompleted && !removes(s) && !ofRun(s) {
		return fmt.Errorf("%w: %s: fork it, or go on in another thread", ErrEnded, t.key)
	}
	switch s.event.Kind {
	case events.KindEntry:
		return l.entry(ctx, c, t, s)
	case events.KindControl:
		return l.control(ctx, c, t, s)
	}
	return fmt.Errorf("%w %q: this version applies entry, chunk and control", events.ErrKind, s.event.Kind)
}

// ErrEnded: the thread is completed and takes no more entries (SPEC I7).
var ErrEnded = errors.New("thread has ended")

// pass notes an event that goes to the dead letters in its thread's head, so that those linked to it are taken. A thread whose first
// entry is bad begins with it nevertheless; a name that a control operation failed to take stays free: nothing is noted then.
func (l *lane) pass(c *commit, t *thread, s *staged) (noted bool) {
	if t.head.Start.IsZero() && (s.event.Kind != events.KindEntry || t.left != nil && t.left.to != "") {
		return false
	}
	c.news(t, s, t.head)
	name := s.event.Dialect
	if _, known := dialect.Lookup(name); !known {
		name = "" // what it says may be anything
	}
	c.start(t, name, nil)
	if t.session.learn(t, s, &dialect.Entry{}) {
		c.infos[t.session] = nil
	}
	return true
}

// entry appends one entry to its thread: a content node, a state node, items.
func (l *lane) entry(ctx context.Context, c *commit, t *thread, s *staged) error {
	d, ok := dialect.Lookup(s.event.Dialect)
	if !ok {
		return fmt.Errorf("unknown dialect %q: use one of %v", s.event.Dialect, dialect.Names())
	}
	return l.step(ctx, c, t, s, addition{dialect: d})
}
