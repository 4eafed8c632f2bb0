package sim

import (
	"crypto/sha256"
	"fmt"
	"sync"

	"spool/pkg/artifacts"
	"spool/pkg/events"
)

// Told is what an agent was told of something that it published.
type Told int

// What agents are told.
const (
	Unknown Told = iota // no answer in time, or the process died: it may be stored or not, now or later
	Acked               // it is durable
	Failed              // it is not stored and will not be, unless the agent publishes it again
)

func (t Told) String() string { return [...]string{"unknown", "acked", "failed"}[t] }

// Wrote is an entry that an agent published.
type Wrote struct {
	Mark     string // that its body holds, and no other entry's, but for an echo
	Thread   events.Thread
	Producer string
	Number   int  // in the order in which its producer published, over all threads
	Valid    bool // its bytes are an entry; false: it belongs in the dead letters
	Told     Told
	Echoes   int // how many entries with the mark were acked, of an echo; 0: it is of one entry
	Op       int // index in the program
	Process  string

	body []byte // as it was published; nil: nobody holds what is stored against it
}

// Ledger is what all agents together know. It is safe for concurrent use.
type Ledger struct {
	mu     sync.Mutex
	wrote  []*Wrote
	byMark map[string]*Wrote
	bySum  map[[sha256.Size]byte]string // marks of entries, by SHA-256 of what was published
	number map[string]int               // by producer, how many it has published
	faults []string                     // rules that an agent itself saw broken

	artifacts map[artifacts.ID]artifact // that somebody was told is stored
	gaveUp    bool                      // somebody died, or had no time left, while putting one
	answers   map[string]string         // whose answer counts, by prompt, as who gave it was told
}

func newLedger() *Ledger {
	return &Ledger{byMark: map[string]*Wrote{}, bySum: map[[sha256.Size]byte]string{}, number: map[string]int{}}
}

// write notes an entry before it is published.
func (c *call) write(t events.Thread, producer string, valid bool) *Wrote {
	l := c.w.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	l.number[producer]++
	w := &Wrote{Mark: fmt.Sprintf("<%s.%d>", producer, l.number[producer]), Thread: t, Producer: producer,
		Number: l.number[producer], Valid: valid, Op: c.index, Process: c.proc.name}
	l.wrote = append(l.wrote, w)
	l.byMark[w.Mark] = w
	return w
}

// holds notes what an entry's bytes are.
func (l *Ledger) holds(w *Wrote, body []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w.body = body
	l.bySum[sha256.Sum256(body)] = w.Mark
}

// tell notes what the agent was told. What was acked once stays so.
func (l *Ledger) tell(told Told, ws ...*Wrote) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range ws {
		if w.Told != Acked {
			w.Told = told
		}
	}
}

// again notes that one of the entries of an echo was acked.
func (l *Ledger) again(w *Wrote) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w.Echoes++
}

// fault notes a broken rule.
func (l *Ledger) fault(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.faults = append(l.faults, fmt.Sprintf(format, args...))
}

// artifact is what was stored under an id.
type artifact struct{ session, text string }

// answered notes that somebody was told that their answer counts.
func (l *Ledger) answered(prompt, by string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.answers == nil {
		l.answers = map[string]string{}
	}
	if other := l.answers[prompt]; other != "" && other != by {
		l.faults = append(l.faults, fmt.Sprintf("two were told that their answer to %s counts: %s and %s", prompt, other, by))
	}
	l.answers[prompt] = by
}
