package apply

import (
	"context"
	"errors"

	"spool/internal/family"
	"spool/internal/record"
)

// Verdict is what becomes of an event. Each event of EVENTS ends as one of them (SPEC P1).
type Verdict struct {
	Is  Fate
	Why error // of a dead one

	Guessed bool // of a repeated one: nobody can tell any more whether it says what was applied
}

// Fate is the kind of a verdict.
type Fate uint8

// The fates.
const (
	Applied    Fate = iota
	Repeated        // it was applied before, or goes with its session
	Superseded      // an event that it is linked to was never stored: its producer was told, and publishes both again
	Dead            // it goes to the dead letters
)

// Refused is the verdict against an event that can not be applied; without a reason it can.
func Refused(why error) Verdict {
	if why == nil {
		return Verdict{}
	}
	return Verdict{Is: Dead, Why: why}
}

// ErrNextCommit: the commit that is being made has no room for the event, or lacks what it needs. It is for the next
// one.
var ErrNextCommit = errors.New("the event is for the next commit")

// ErrUnsettled is wrapped by a World's answer that what lies before the event must be committed first.
var ErrUnsettled = errors.New("what lies before is not committed")

// forCaller reports whether an error is for whoever called Event: the event is not judged, and is tried again. Every
// other error is a refusal of the event.
func forCaller(err error) bool {
	return errors.Is(err, ErrNextCommit) || errors.Is(err, ErrUnsettled) || Passing(err)
}

// Passing reports whether an error says nothing about the event over which it came: the store does not answer, is not there, may
// not be asked, or whoever asks is told to stop.
func Passing(err error) bool {
	return record.Temporary(err) || errors.Is(err, record.ErrDenied) || errors.Is(err, record.ErrNoStream) ||
		errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// What is wrong with an event.
var (
	// ErrEnded: the thread is completed and takes no more entries (SPEC I7).
	ErrEnded = family.Conflict.New("thread has ended")
	// ErrPoison: whoever applies the event, or tells of it, panics or dies. It may be applied.
	ErrPoison = errors.New("poison")
	// ErrRenamed: the thread has another name now.
	ErrRenamed = errors.New("thread was renamed")
	// ErrUnlinked: nobody can tell whether the event was stored to which this one is linked.
	ErrUnlinked = errors.New("the event that it is linked to is neither in the thread nor in EVENTS any more")
	// ErrLate: a later event of its producer came before it.
	ErrLate = errors.New("it came behind a later event of its producer: publish it as a new one, with the next sequence")
	// ErrFenced: a later epoch of its producer came before it.
	ErrFenced = errors.New("a later epoch of its producer came before it: somebody else goes on in its place")
	// ErrReused: its producer gave its sequence to another entry, which came first.
	ErrReused = errors.New("another entry of its producer has its sequence")
	// ErrMissingRef: a step refers to what is not stored.
	ErrMissingRef = family.Invalid.New("is not stored: put it first, then publish the step again")
	// ErrNoPrompt: no prompt of that id waits for an answer in the thread, or has got one.
	ErrNoPrompt = family.NotFound.New("no such prompt")
	// ErrAsked: another question of the thread has the id of this one.
	ErrAsked = errors.New("another question has this id")
	// ErrRun is wrapped by every refusal of a sign of life of a run: what is wrong with it, and what to do.
	ErrRun = errors.New("run")
	// ErrOutput is wrapped by every refusal of a chunk: what is wrong with it, and what to do.
	ErrOutput = errors.New("output")
	// ErrWritten: the session is not as it was when somebody decided to delete it.
	ErrWritten = errors.New("the session was written to since its deletion was decided")
)
