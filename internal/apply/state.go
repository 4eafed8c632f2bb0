package apply

import (
	"context"
	"time"

	"spool/internal/project"
	"spool/internal/record"
	"spool/pkg/artifacts"
	"spool/pkg/casstore"
	"spool/pkg/dialect"
	"spool/pkg/events"
	"spool/pkg/sessions"
	"spool/pkg/threads"
	"spool/pkg/truncate"
)

// World answers what an event asks on its way. It reads. What it answers is of what is committed, so that a decision
// does not depend on how events are put together to commits: where that matters, Settle is asked first. Safe for
// concurrent use.
type World interface {
	Store
	Locator // finds the pack of a node that nothing else leads to; errors wrap casstore.ErrNotFound

	// Reader reads threads.
	Reader() threads.Reader
	// Near lists packs in which nodes of a session are likely to be.
	Near(session string) []casstore.PackID

	// Settle is nil when all is committed that was applied before the event: of those threads, or of all if none is named.
	// Otherwise the event has to come again, and the error says when.
	Settle(ctx context.Context, of ...events.Thread) error
	// Told waits until the items and dead letters of all that is committed are stored, whoever did that. Its error is as that of Settle.
	Told(ctx context.Context) error
	// SettleBefore is Settle for all, and for what was stored before the event and waits to be applied: of a session,
	// or of any if none is named. Sessions overtake each other.
	SettleBefore(ctx context.Context, session string) error

	// SessionKeys lists the keys of all records of a session, SessionLive what goes on in it.
	SessionKeys(ctx context.Context, session string) ([]string, error)
	SessionLive(ctx context.Context, session string) (record.Live, error)
}

// Back tells what EVENTS holds from before an event.
type Back interface {
	// Past reads what EVENTS holds of one producer's events in a thread, in one epoch, from a sequence up to and without
	// another one. What was acknowledged is not missing.
	Past(ctx context.Context, t events.Thread, producer string, epoch, from, before uint64) (events.Past, error)
	// Given says what a producer gave a sequence to, by what EVENTS holds of the thread, or of events.EveryThread of its session, from a
	// place up to and without another one; where it is asked whether that was something, not more than that. nil: EVENTS does not hold it.
	Given(ctx context.Context, t events.Thread, producer string, epoch, seq uint64, is *events.Digest, from, before uint64) (
		*events.Given, error)
	// Sent reports whether a producer gave a sequence to something there, as far as it pays to read that.
	Sent(ctx context.Context, t events.Thread, producer string, epoch, seq uint64, is events.Digest, from, before uint64) (
		bool, error)
	// Reused reports whether EVENTS gave a sequence out before, to an event that it has lost.
	Reused(seq uint64, stored int64) bool
}

// Store is records, and whether the objects are there that they name.
type Store interface {
	Records(ctx context.Context, keys ...string) ([]record.Record, error)
	FindPack(ctx context.Context, id casstore.PackID) (record.FoundPack, error)
	record.Holder
}

// Locator finds the pack of a node. Errors wrap casstore.ErrNotFound.
type Locator = casstore.NodeLocator

// State is what is known before an event. Event reads it and changes nothing in it.
type State struct {
	*Thread
	Session *Session
	Back    Back // nil: nobody looks back, and what a head has is a repeat
	Batch   Batch
	Rules   Rules

	Latched error // why the thread takes no events

	// Of a piece of an output: the output, and whether the very commit that is being made opens it.
	Output *Output
	Opened bool

	Counter    *record.Counter // of the session's artifacts, where the event may take a number
	CounterBad error           // why there is none

	UserSessions int64 // that the event's user began, as far as it may have a limit of them

	Room *Room // memory for the Change, which is good until Event is called with it again; nil: memory of its own
}

// Thread is what is known of a thread.
type Thread struct {
	Key    events.Thread
	Head   threads.Head   // as all that was applied before leaves it
	Memory dialect.Memory // projection memory at the head

	Unread bool   // there is a record, and it cannot be read
	Fresh  bool   // no event was seen since it was loaded
	Looked uint64 // what EVENTS had when its record was looked at, or less
	Reused bool   // when it was loaded there was no thread of its name, and there had been one

	Left      *Left // the thread that had this name before, if there is none or a new one
	AskedLeft bool  // that is all that there is to know

	Runs map[string]record.Run // those seen since it was loaded, by id

	Branched int     // how many entries named a parent that is not the leaf, since it was loaded
	Places   *Places // nil: it is not known where its entries are
}

// Session is what is known of a session.
type Session struct {
	ID      string
	Info    sessions.Info
	Stored  bool            // there is a record of it
	Deleted *record.Deleted // how it was deleted, if it was
	Marks   map[Marked]Mark // of events that no head notes
}

// Batch is the commit that is being made, as far as what is in it matters to the next event.
type Batch struct {
	ID      [16]byte
	Pack    casstore.PackID // in which new nodes will lie
	Records map[string]record.Put
	Runs    map[string]record.Put
	Results int            // artifacts of large results
	Items   *project.Arena // memory for items; nil: each has its own
}

// Rules are what holds for every event.
type Rules struct {
	Artifacts   artifacts.Thresholds // results over them become artifacts (SPEC A4)
	Results     bool                 // there is somewhere to store them
	Outputs     bool                 // there is somewhere to store what streams
	Sessions    bool                 // sessions can be listed and deleted
	OutputLease time.Duration        // of an output that does not say its own
	Secrets     Secrets              // in what outputs print; nil: nobody looks for them
	Head        threads.HeadRoom     // what a head itself names
	Limits      Limits               // what a session may have
}

// Staged is an event that is ready to be applied, or the reason why it can not be.
type Staged struct {
	events.Event
	At     uint64    // EVENTS sequence
	Shared bool      // its message holds others
	Stored int64     // when the server stored it, Unix nanoseconds; 0 = unknown
	Now    time.Time // for what ends by the clock: leases
	Bad    error     // why it can not be applied, whatever its thread is

	Refused error // why it was refused when it came before: it is refused again; nil: it was not

	PrevRefused bool // what it is linked to was refused under a name without a thread, so that no head notes it

	Came *events.Digest // of the event as it came; nil: nothing was taken out of it since

	Text  []byte // the entry as it will be stored
	How   truncate.Options
	Cuts  truncate.Result // what the size rules, chosen by How, did to it
	Blobs []Blob          // what they moved out of it
	Full  casstore.Ref    // a blob that is stored already, in the place of Cuts.Full
	Chunk events.Chunk    // of a chunk event

	Mapping int // of an event that is applied again: the version of the dialect's mapping that read it; 0, or none of that dialect: this one

	pointer *casstore.Node // to the artifact of the output that it ends
}

// Blob is bytes that an entry refers to by their hash; nil if they are stored already.
type Blob struct {
	Ref   casstore.Ref
	Bytes []byte
}

// RawSize is the size of the entry as it was published, in bytes.
func (e *Staged) RawSize() int64 {
	if e.Ref != nil {
		return e.Ref.Size
	}
	return int64(len(e.Body))
}
