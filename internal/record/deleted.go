package record

import (
	"fmt"
	"slices"
	"time"

	"spool/internal/mapped"
	"spool/pkg/artifacts"
	"spool/pkg/events"
)

// Deleted is the value of the record of a session that was deleted (SPEC A6): the event that did it, how far that is, and what
// went. It stays when all is done, so that what was published before the event is not applied again.
type Deleted struct {
	State    DeletedState
	Seq      uint64 // of the event in EVENTS
	Stored   int64  // when the server stored it, Unix nanoseconds; 0 = unknown
	Producer string // identity of the event
	Epoch    uint64
	Event    uint64
	At       int64 // time of the event, Unix milliseconds
	events.Delete

	Gone Gone
	Free [][]byte // locators of bytes that no record may name any more: they are freed next

	// Once its records are gone: up to which sequences the streams hold what is of the session as it was. That is purged or, with
	// Erase, written over.
	Items, Dead uint64
	Erased      bool // and that they hold nothing of it any more

	Earlier []DeletedBy // the events of the deletions before it, oldest first: the stream has them no more
	Removed []Removal   // of threads, before it: what they had may be garbage that no collector has taken yet
}

// Removal is what a thread had when it was removed.
type Removal struct {
	Seq                   uint64 // of the record that said so (Left), in the bucket's stream
	Entries, Items, Bytes int64
}

// MostRemovals is how many of them are remembered, the newest.
const MostRemovals = 64

// DeletedBy is an event that deleted a session before, with what it asked for.
type DeletedBy struct {
	Producer     string
	Epoch, Event uint64
	Force, Erase bool
}

// MostEarlier is how many earlier deletions are remembered.
const MostEarlier = 16

// DeletedState is how far a deletion is.
type DeletedState int

// The states. A reader takes a session for gone from the first on.
const (
	Removing DeletedState = 1 // its records go, batch by batch
	Removed  DeletedState = 2 // they are gone; items, events and dead letters follow
	Done     DeletedState = 3
)

// Gone counts what a session had when it was deleted.
type Gone struct {
	Records       int64 `json:"records"`
	Threads       int64 `json:"threads"`
	Entries       int64 `json:"entries"`
	Items         int64 `json:"items"`
	Bytes         int64 `json:"bytes"` // of the entries as they came
	Artifacts     int64 `json:"artifacts"`
	ArtifactBytes int64 `json:"artifact_bytes"`
	Runs          int64 `json:"runs"`
	Outputs       int64 `json:"outputs"` // that were open
	Prompts       int64 `json:"prompts"`
}

// Is reports whether an event is the one that deleted the session.
func (d *Deleted) Is(e *events.Event) bool {
	return d != nil && d.Producer == e.Producer && d.Epoch == e.Epoch && d.Event == e.Seq
}

// All is all events that deleted the session, as far as they are remembered, oldest first.
func (d *Deleted) All() []DeletedBy {
	if d == nil {
		return nil
	}
	all := append(slices.Clone(d.Earlier), DeletedBy{d.Producer, d.Epoch, d.Event, d.Force, d.Erase})
	return all[max(0, len(all)-MostEarlier):]
}

// Knows is the newest deletion under the identity of an event.
func (d *Deleted) Knows(producer string, epoch, seq uint64) (by DeletedBy, known bool) {
	for _, by := range slices.Backward(d.All()) {
		if by.Producer == producer && by.Epoch == epoch && by.Event == seq {
			return by, true
		}
	}
	return by, false
}

// Before reports whether an event at that place in EVENTS was published before the session was deleted. A stream that was made
// anew counts from 1 again: what it stores is later all the same. stored 0 is unknown.
func (d *Deleted) Before(seq uint64, stored int64) bool {
	return d != nil && seq < d.Seq && (stored == 0 || d.Stored == 0 || stored <= d.Stored)
}

// Encode is the value's bytes.
func (d Deleted) Encode() []byte {
	free := mapped.List(d.Free, func(b []byte) any { return b })
	earlier := mapped.List(d.Earlier, func(b DeletedBy) any { return []any{b.Producer, b.Epoch, b.Event, b.Force, b.Erase} })
	removed := mapped.List(d.Removed, func(r Removal) any { return []any{r.Seq, r.Entries, r.Items, r.Bytes} })
	g := d.Gone
	return encode(version, int(d.State), d.Seq, d.Stored, d.Producer, d.Epoch, d.Event, d.At, d.Force, d.Erase, d.By,
		[]any{g.Records, g.Threads, g.Entries, g.Items, g.Bytes, g.Artifacts, g.ArtifactBytes, g.Runs, g.Outputs, g.Prompts},
		free, d.Items, d.Dead, d.Erased, earlier, removed)
}

// DecodeDeleted reads the value of such a record.
func DecodeDeleted(b []byte) (d Deleted, err error) {
	r := open("deleted", b, 16)
	d.State, d.Seq, d.Stored = DeletedState(r.int()), uint64(r.int()), r.int()
	d.Producer, d.Epoch, d.Event, d.At = r.string(), uint64(r.int()), uint64(r.int()), r.int()
	d.Force, d.Erase, d.By = r.bool(), r.bool(), r.string()
	g := &d.Gone
	counts := []*int64{&g.Records, &g.Threads, &g.Entries, &g.Items, &g.Bytes, &g.Artifacts, &g.ArtifactBytes, &g.Runs, &g.Outputs, &g.Prompts}
	n := read(r, r.dec.DecodeArrayLen)
	for i := range n {
		if v := r.int(); i < len(counts) {
			*counts[i] = v
		}
	}
	for range read(r, r.dec.DecodeArrayLen) {
		d.Free = append(d.Free, read(r, r.dec.DecodeBytes))
		if r.err != nil {
			break
		}
	}
	d.Items, d.Dead, d.Erased = uint64(r.int()), uint64(r.int()), r.bool()
	if r.members > 16 { // a former version wrote none
		for range read(r, r.dec.DecodeArrayLen) {
			if n := read(r, r.dec.DecodeArrayLen); r.err == nil && n != 5 {
				r.fail(fmt.Errorf("an earlier deletion of %d members, want 5", n))
			}
			d.Earlier = append(d.Earlier, DeletedBy{r.string(), uint64(r.int()), uint64(r.int()), r.bool(), r.bool()})
			if r.err != nil {
				break
			}
		}
	}
	if r.members > 17 { // so too
		for range read(r, r.dec.DecodeArrayLen) {
			if n := read(r, r.dec.DecodeArrayLen); r.err == nil && n != 4 {
				r.fail(fmt.Errorf("a removed thread of %d members, want 4", n))
			}
			d.Removed = append(d.Removed, Removal{uint64(r.int()), r.int(), r.int(), r.int()})
			if r.err != nil {
				break
			}
		}
	}
	return d, r.err
}

// Live is the runs and the open outputs of a session, as its records tell.
type Live struct {
	Runs    []Seen
	Outputs []Silent
	Unread  []Unread // count as nothing live: who cannot be read keeps no session
}

// Unread is a record that this version cannot read, and why.
type Unread struct {
	Key string
	Err error
}

// Activity is what goes on at the reader's time now, in one thread or, if it is "", in the whole session. lease is of outputs
// that do not say their own.
func (l Live) Activity(thread string, now time.Time, lease time.Duration) (a artifacts.Activity) {
	for _, r := range l.Runs {
		if thread == "" || r.Thread == thread {
			a.Runs = append(a.Runs, r.At(now))
		}
	}
	for _, o := range l.Outputs {
		if thread == "" || o.Thread == thread {
			a.Outputs = append(a.Outputs, artifacts.Open{ID: o.ID, Lease: now.Add(o.Lease(lease) - o.For)})
		}
	}
	return a
}
