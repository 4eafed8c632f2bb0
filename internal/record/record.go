// Package record is the vocabulary of the record bucket: the records that decide what exists, the commit that changes them
// together, and the errors that a committer decides on. It knows the shapes, not the server: internal/natsio speaks to it,
// internal/persist and internal/gc decide with it.
package record

import (
	"errors"

	"spool/internal/family"
)

// Record is one fact of the record bucket.
type Record struct {
	Key   string
	Value []byte // empty: removed
	Seq   uint64 // revision: its sequence in the stream, also of the marker of a removed one; 0 = there never was one
}

// Exists reports whether there is a record.
func (r Record) Exists() bool { return r.Seq != 0 && len(r.Value) > 0 }

// Removed reports whether there was one.
func (r Record) Removed() bool { return r.Seq != 0 && len(r.Value) == 0 }

// Any as a Put's Expect makes no demand.
const Any = ^uint64(0)

// Put is a record to write.
type Put struct {
	Key    string
	Value  []byte // empty: remove it; a marker stays, so that whoever expects the old revision is told
	Expect uint64 // the revision that it replaces: 0 = there is none, Any = whatever

	// Of, if not empty, is another key, which the commit does not write: Expect is the revision of that one.
	Of string

	// Alone, if not empty, matches the keys of which none may have, or have had, a record; Expect does not count then.
	Alone string
}

// MaxCommit is how many records a commit can write: with the one that carries its fence they are an atomic batch.
const MaxCommit = 999

// Fence is the revision of a lane's fence as it was before a commit was prepared. A collector moves every fence when it
// starts; a commit that was prepared before is then refused, once.
type Fence struct {
	Lane int
	Seq  uint64 // 0: no collector ever ran
}

// Stale reports whether a commit that refers to a record must touch it: republish it, expecting its revision, so that the
// collector of the current cycle can not condemn it. A record that is not stale is young, and a root (DESIGN 8, 9).
func (f Fence) Stale(seq uint64) bool { return seq < f.Seq }

// What a caller decides on. Every answer of the server that is an error wraps one of these.
var (
	// ErrConflict: a record changed since it was read; nothing of the commit was stored. Reload and redo.
	//
	// In a cluster, for the moment in which two servers believe that they lead, a request reaches both, and the one that does not
	// may refuse it first while the other one stores it. So whoever redoes something must see whether it was done, as after
	// ErrUnknown. The same goes for ErrBusy and ErrFull.
	ErrConflict = errors.New("record changed")
	// ErrBusy: nothing was stored; the server has too much in flight or has no leader. Retry later.
	ErrBusy = family.Unavailable.New("server busy")
	// ErrFull: nothing was stored; the stream or the account is at its limit. Retry later, or make room.
	ErrFull = family.Unavailable.New("stream full")
	// ErrUnknown: no answer in time; it may or may not have been stored.
	ErrUnknown = family.Unavailable.New("outcome unknown")
	// ErrClosed: this program has closed the connection; what it had not got an answer to is ErrUnknown.
	ErrClosed = errors.New("closed")
	// ErrRefused: the server said no, and will again.
	ErrRefused = errors.New("refused")
	// ErrDenied: this user may not. It is an ErrRefused of which a part may be stored.
	ErrDenied error = denied{}
	// ErrNotFound: no such record, object or message.
	ErrNotFound = family.NotFound.New("not found")
	// ErrNoStream: what would hold it is not there; it is an ErrNotFound that says nothing of what was held.
	ErrNoStream = family.Unavailable.New("there is no such stream")
	// ErrValue: a record that cannot be read, or has a version this program does not know.
	ErrValue = family.Damaged.New("bad record")
	// ErrLater: the record has a version that this program does not know; it is an ErrValue. A later program reads it.
	ErrLater = family.Damaged.New("a later version")
)

// denied is the error of ErrDenied.
type denied struct{}

func (denied) Error() string   { return "permission denied" }
func (denied) Unwrap() []error { return []error{ErrRefused, family.Denied} }

// Again reports whether asking again, over the same connection, can help.
func Again(err error) bool { return Temporary(err) && !errors.Is(err, ErrClosed) }

// Temporary reports whether an error passes without anything else changing: it says nothing of what was asked.
func Temporary(err error) bool {
	return errors.Is(err, ErrBusy) || errors.Is(err, ErrFull) || errors.Is(err, ErrUnknown)
}
