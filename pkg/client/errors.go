package client

import (
	"spool/internal/family"
	"spool/internal/record"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// The parents of errors: what to do about an error of which nothing else is known. Every error that the packages under pkg/ export
// wraps one of them, but for ErrClosed and ErrServerRefused; the table in the package comment has them all.
var (
	// ErrNotFound: there is none, or not any more: no thread, session, prompt, run, entry, artifact, blob.
	ErrNotFound error = family.NotFound
	// ErrConflict: what is there forbids it: it exists, has ended, was settled, moved, or somebody works in it.
	ErrConflict error = family.Conflict
	// ErrInvalid: what was asked means nothing, whatever is there: a bad name, position, entry or operation.
	ErrInvalid error = family.Invalid
	// ErrDenied: this user may not. An error of the server is an ErrServerRefused, too.
	ErrDenied error = family.Denied
	// ErrUnavailable: not now. The same may be asked, or published under the same identity, again.
	ErrUnavailable error = family.Unavailable
	// ErrDamaged: what is stored cannot be read, or is of a later version.
	ErrDamaged error = family.Damaged
)

// What a program decides on, whatever it called.
var (
	// ErrBusy: nothing was stored; the server has too much to do, no leader, or no JetStream. Try again later.
	ErrBusy = record.ErrBusy
	// ErrFull: nothing was stored; SPOOL_EVENTS or the account is at its limit. Persisters make room.
	ErrFull = record.ErrFull
	// ErrUnknown: no answer in time. Publishing the same again, under the same identity, is safe.
	ErrUnknown = record.ErrUnknown
	// ErrClosed: the program has closed the Client, or the Async. What was published and not acked may be stored.
	ErrClosed = record.ErrClosed
	// ErrServerRefused: the server said no and will again: a missing permission, a stream of another make.
	ErrServerRefused = record.ErrRefused
	// ErrNoThread: no thread of that name; a *Renamed says what it is called now.
	ErrNoThread = threads.ErrNoThread
	// ErrName: a session, a thread or another name that is none: use [A-Za-z0-9_-]{1,128}.
	ErrName = events.ErrToken
)
