// Package claudestore is what a session store of the Claude Agent SDK needs: append, load, list, delete, and a summary, under the names
// that the SDK gives (docs/adr/0030).
//
// A session of the SDK is a session of Spool, and each subpath a thread of it, in which the entries are what an import of Claude Code's own
// file would have made: the same names, the same producer, and as sequence the place of the line in that file. So an entry is one,
// whether it came from here or by spool watch, and what knows sessions knows these.
//
//	name.go    what a key of the SDK is called here, and the records that say so
//	append.go  decide by what the thread holds which entries are new; publish those, if nobody wrote meanwhile; wait for them
//	read.go    load, list, remove
//	summary.go an opaque value of a session, replaced by who knows the one before
//
// Two processes may serve one session: events that were decided by an old state are refused by SPOOL_EVENTS, and decided again. What append
// returned for is applied, so that any process reads it.
//
// What a crash leaves, and who repairs it:
//
//	record of the name      a name without a thread: nobody lists it, and the next append goes on
//	events durable          the entries; who sends them again finds them by their uuids
package claudestore

import (
	"errors"
	"sync"
	"time"

	"spool/internal/family"
	"spool/internal/natsio"
	"spool/pkg/client"
)

// Store serves sessions of the SDK. Safe for concurrent use.
type Store struct {
	conn    *natsio.Conn
	client  *client.Client
	records natsio.Records
	events  natsio.Events

	mu     sync.Mutex
	states map[Key]*state
	ids    int // that the states hold

	mostStates, mostIDs int
}

// On is the store of a NATS system, that cl reads.
func On(conn *natsio.Conn, cl *client.Client) *Store {
	return &Store{conn: conn, client: cl, records: conn.Records(), events: conn.Events(),
		states: map[Key]*state{}, mostStates: maxStates, mostIDs: maxIDs}
}

// ErrKey is wrapped by the refusal of a key that the SDK would not give.
var ErrKey = family.Invalid.New("no key of a session")

// ErrEntry is wrapped by the refusal of a line that is no entry.
var ErrEntry = family.Invalid.New("no entry")

// ErrSummary: the summary is not the one that was to be replaced.
var ErrSummary = errors.New("the summary is another one by now: read it, and fold again")

// ErrNone: nothing was ever appended under the key.
var ErrNone = family.NotFound.New("no such session of the SDK")

// patience is how long an append waits for a persister.
const patience = 20 * time.Second
