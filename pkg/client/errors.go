package client

import (
	"spool/internal/record"
	"spool/pkg/artifacts"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// What a program decides on, whatever it called; the table in the package comment has all of them.
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
	// ErrNotFound: no such record, blob, prompt or durable subscription.
	ErrNotFound = record.ErrNotFound
	// ErrNoAgent: the id of the parent was given to no agent of the session.
	ErrNoAgent = artifacts.ErrNoAgent
	// ErrNoThread: no thread of that name; a *Renamed says what it is called now.
	ErrNoThread = threads.ErrNoThread
	// ErrName: a session, a thread or another name that is none: use [A-Za-z0-9_-]{1,128}.
	ErrName = events.ErrToken
)
