package sim

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"spool/pkg/events"
)

// refusals are the reasons for which an operation may be refused that the model does not judge.
var refusals = regexp.MustCompile(strings.Join([]string{
	"busy", "is open", "is live", "waits for", "exists already", "no thread", "was renamed", "is .* now", "no completed",
	"no entries", "has ended", "not found", "no such", "was removed", "that is its name", "prompt", "settled",
	"only a failed", "queued or running", "end it first", "active", "somebody wrote to",
}, "|"))

// operate is an operation on a thread. It notes the producer also when the operation was refused.
func (m *model) operate(e *events.Event, op *events.Control, t *life, at uint64, letter bool, reason string) {
	if letter && !m.unfit(at, reason) {
		if !refusals.MatchString(reason) || latched.MatchString(reason) {
			m.fail("a valid operation, %s at %d of %s, is a dead letter: %s", op.Op, at, e.Thread, reason)
		}
		if op.Op == events.OpEnd && t != nil && !t.ended {
			m.fail("the end of %s at %d, which had not ended, is a dead letter: %s", e.Thread, at, reason)
		}
	}
	if letter {
		m.refused(e, t)
		return
	}
	switch op.Op {
	case events.OpFork:
		m.fork(e, op.Fork, t, at)
		return
	case events.OpRename:
		if t == nil {
			m.fail("the rename at %d of %s, which is not there, is no dead letter", at, e.Thread)
			return
		}
		m.undisturbed(e, t, op.Rename.Force)
		m.note(e, t)
		to := events.Thread{Session: e.Thread.Session, Name: op.Rename.To}
		m.leaves(e.Thread, op.Rename.To, t)
		if l := m.lefts[to]; l != nil && l.to != "" {
			m.takes(to, l, t)
		}
		t.thread, m.threads[to] = to, t
		t.moved, t.dropped = true, t.dropped || op.Rename.Force
		return
	case events.OpRemove:
		if t == nil {
			m.fail("the removal at %d of %s, which is not there, is no dead letter", at, e.Thread)
			return
		}
		if since := op.Remove.UnchangedSince; since != 0 && t.changed > since {
			m.fail("the removal at %d of %s, unchanged since %d, took away the entry at %d",
				at, e.Thread, since, t.changed)
		}
		m.undisturbed(e, t, op.Remove.Force)
		m.note(e, t)
		t.gone, t.open = true, nil
		m.leaves(e.Thread, "", t)
		return
	case events.OpAnswer:
		if life := op.Answer.Life; t != nil && life != 0 && life != t.began && !t.follows() {
			m.fail("the answer at %d of %s, to the thread that began at %d, is no dead letter: it begins at %d (SPEC P12)",
				at, e.Thread, life, t.began)
		}
	case events.OpEnd:
		if t == nil {
			m.fail("the end at %d of %s, which is not there, is no dead letter", at, e.Thread)
			return
		}
		t.ended = true
	}
	m.note(m.begin(e, t))
}

// undisturbed checks that a thread is not taken away from under an output that goes on, unless that is forced.
func (m *model) undisturbed(e *events.Event, t *life, force bool) {
	for _, id := range slices.Sorted(maps.Keys(t.open)) {
		if quiet := m.now.Sub(t.open[id]); !force && quiet < time.Minute { // its lease is longer
			m.fail("the output %s of %s is open, and %s at %d was carried out %v behind its last piece", id, e.Thread, what(e, ""),
				m.at, quiet)
		}
	}
}

// latched are the reasons for which nothing may ever be refused here: nothing that is stored was damaged.
var latched = regexp.MustCompile(strings.Join([]string{
	"panic", "latched", "GONE", "unavailable", "timeout", "deadline", "no responders", "connection", "outcome unknown", "EOF", "busy:",
}, "|"))

// chunk is a piece of an output. Pieces are applied one after another; which of them come too late, behind a
// forced removal or the output's lease, the letters say.
func (m *model) chunk(e *events.Event, t *life, at uint64, letter bool, reason string) {
	unfit := letter && m.unfit(at, reason)
	output := e.Thread.Session
	c, err := events.ParseChunk(e.Body)
	if err == nil {
		output += " " + c.Output
	}
	if unfit {
		m.gaps[output] = true
	}
	switch {
	case !letter || unfit:
	case latched.MatchString(reason), !m.gaps[output] && t != nil && !t.dropped && len(m.lefts)+len(m.past) == 0:
		m.fail("a piece of an output, at %d of %s, is a dead letter: %s", at, e.Thread, reason)
	}
	_, t = m.begin(e, t)
	m.note(e, t)
	switch {
	case letter || err != nil:
	case c.Op == events.ChunkEnd || c.Op == events.ChunkAbort:
		delete(t.open, output)
	default:
		if t.open == nil {
			t.open = map[string]time.Time{}
		}
		t.open[output] = m.now
	}
}
