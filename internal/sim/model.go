package sim

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"spool/internal/apply"
	"spool/internal/record"
	"spool/pkg/events"
)

// model is what SPOOL_EVENTS says that threads hold. It takes the events in the order of their sequences, one by
// one, and knows nothing of batches, caches, packs or who applies them. Where the outcome may depend on something
// that EVENTS does not say, a prompt that is open, the state of another partition, it takes the one that the dead
// letters tell of.
type model struct {
	ledger  *Ledger
	kept    uint64           // the first sequence that SPOOL_EVENTS still has
	small   bool             // a record of an open output may not fit into a message: then its thread takes nothing more
	letters map[place]string // reason of each dead letter

	at      uint64    // of the event that is taken
	is      identity  // of the event that is taken
	now     time.Time // when it was stored
	threads map[events.Thread]*life
	lefts   map[events.Thread]*left     // names that a thread had and has no more
	past    map[events.Thread]producers // what threads had seen when their session was deleted
	emptied map[string]uint64           // by session, the newest of them: letters of events before it were removed
	deleted map[uint64]bool             // by sequence, deletions that were carried out: asked of those with a condition
	deletes map[identity]events.Delete  // deletions that were carried out

	tried   map[uint64]map[record.Life]bool // by sequence, the lives of persisters that tried the event alone
	untaken map[place]map[record.Life]bool  // those of them who were to apply it, before a thread had it, by the place in its message
	nth     place                           // of the event: its message, and its place in that
	lives   []*life                         // all that there were, in the order of their beginning
	fates   map[string]*fate                // by mark
	kepts   map[string]map[identity]bool    // by mark, the events that are applied, or dead letters
	broken  []string                        // rules that the events and the letters alone show to be broken
	runs    map[string]lastSign             // by session and id
	missing map[string][]string             // by session, events that must be a dead letter and are none: a deletion takes them away
	named   map[identity]string             // what a sequence of a producer names
	nowhere map[identity]bool               // what a name without a thread refused
	gaps    map[string]bool                 // outputs that lack a piece which did not fit: none behind it has a place
}

// place is where an event is: a sequence of SPOOL_EVENTS, and within the message the producer's own.
type place struct{ at, seq uint64 }

// identity is what names an event for ever.
type identity struct {
	thread   events.Thread
	producer string
	epoch    uint64
	seq      uint64
}

// position is how far a producer is in a thread.
type position struct{ epoch, seq uint64 }

type producers map[string]position

func (p producers) had(e *events.Event, seq uint64) bool {
	at, ok := p[e.Producer]
	return ok && (e.Epoch < at.epoch || e.Epoch == at.epoch && seq <= at.seq)
}

// knows reports whether there is an event of the producer: who sent nothing to a thread that left its name, but to one before it, may
// send the same to the one that it is called now.
func (p producers) knows(e *events.Event) bool { _, ok := p[e.Producer]; return ok }

// note notes an event. It never goes back.
func (p producers) note(e *events.Event) {
	if !p.had(e, e.Seq) {
		p[e.Producer] = position{e.Epoch, e.Seq}
	}
}

// life is a thread from its first event until it is removed. A name may have several, one after another.
type life struct {
	thread  events.Thread
	began   uint64 // with this event
	held    []held // its entries, in order
	seen    producers
	noted   map[identity]string // what it saw itself, whatever its name was: what it says
	ended   bool
	gone    bool                 // removed, by itself or with its session
	foreign bool                 // it is a fork of a thread of another session: what it began with is not known here
	forked  bool                 // its first items are another thread's
	moved   bool                 // it was renamed: items before are under another name
	dropped bool                 // a forced rename has taken its name from outputs that went on
	open    map[string]time.Time // outputs that are open, and when their last piece was stored
	changed uint64               // the last entry that was applied to it
	asked   map[string]string    // what it asks, by the prompt's id
}

// held is an entry that a thread holds, for certain or, when must is false, perhaps.
type held struct {
	mark string
	seq  uint64 // of its producer
	must bool
}

type left struct {
	to      string    // its new name; "" when it was removed
	by      *life     // that left it last
	own     producers // what it had seen then
	had     producers // and those that had the name before
	seen    producers // the same, and what the name refused since
	noted   map[identity]string
	earlier bool // there were such
}

// fate is what became of an entry.
type fate struct {
	outcome outcome
	why     string
	at      uint64
}

type outcome int

const (
	absent     outcome = iota // no event of it was ever stored
	applied                   // in a life
	buried                    // in the dead letters, as it should be
	superseded                // what it is linked to was never stored: its producer was told
	repeated                  // its sequence was taken by another event of its producer
	fenced                    // a later epoch of its producer was applied before it
)

func (o outcome) String() string {
	return [...]string{"never stored", "applied", "a dead letter", "superseded", "taken for a repeat",
		"fenced"}[o]
}

func newModel(l *Ledger) *model {
	return &model{
		ledger: l, letters: map[place]string{}, threads: map[events.Thread]*life{}, lefts: map[events.Thread]*left{},
		past: map[events.Thread]producers{}, deletes: map[identity]events.Delete{}, fates: map[string]*fate{},
		named: map[identity]string{}, emptied: map[string]uint64{}, gaps: map[string]bool{}, nowhere: map[identity]bool{},
		missing: map[string][]string{}, runs: map[string]lastSign{},
		kepts: map[string]map[identity]bool{},
	}
}

var markIn = regexp.MustCompile(`<[A-Za-z0-9~._-]+\.[0-9]+>`)

func markOf(b []byte) string { return string(markIn.Find(b)) }

func (m *model) fail(format string, args ...any) {
	m.broken = append(m.broken, fmt.Sprintf(format, args...))
}

// letter notes a dead letter. One of all of a message, at which nobody looked, can be beside those that some of its events had.
func (m *model) letter(subject string, data []byte, at uint64, reason string, unread bool) {
	e, err := events.Open(subject, data)
	if err != nil {
		m.letters[place{at, 0}] = reason
		return
	}
	beside := unread && slices.ContainsFunc(e.Each(), func(one events.Event) bool { return m.letters[place{at, one.Seq}] == "" })
	for _, one := range e.Each() {
		// One that was under way while its session was deleted can be stored behind that.
		if _, twice := m.letters[place{at, one.Seq}]; twice && !beside && m.emptied[e.Thread.Session] < at {
			m.fail("two dead letters of the event at %d", at)
		}
		m.letters[place{at, one.Seq}] = reason
	}
}

// take applies a message.
func (m *model) take(subject string, data []byte, at uint64) {
	e, err := events.Open(subject, data)
	if err != nil {
		if m.letters[place{at, 0}] == "" {
			m.fail("the event at %d cannot be read, and is not a dead letter", at)
		}
		return
	}
	m.at = at
	for _, one := range e.Each() {
		m.names(&one)
		m.is = identityOf(&one)
		m.one(&one, at)
	}
}

// names checks that a sequence names one event (SPEC P3).
func (m *model) names(e *events.Event) {
	id := identityOf(e)
	is := says(e)
	if was, known := m.named[id]; known && was != is && !countsAgain(e) {
		m.fail("the sequence %d of %s names two events of %s: %s and %s (SPEC P3)", e.Seq, e.Producer, e.Thread,
			cutTo(was), cutTo(is))
	}
	m.named[id] = is
}

// countsAgain reports whether an event is of a producer that gives sequences to several.
func countsAgain(e *events.Event) bool {
	return strings.Contains(e.Producer, "-"+string(Reuse)) || strings.Contains(e.Producer, "-"+string(Delete))
}

// says is what tells an event from others.
func says(e *events.Event) string {
	if e.Ref != nil {
		return fmt.Sprintf("%x", e.Ref.Sum)
	}
	return string(e.Body)
}

func cutTo(s string) string {
	if mark := markOf([]byte(s)); mark != "" {
		return mark
	}
	return fmt.Sprintf("%.60q", s)
}

// one applies an event.
func (m *model) one(e *events.Event, at uint64) {
	if m.nth.at == at {
		m.nth.seq++
	} else {
		m.nth = place{at, 0}
	}
	reason, letter := m.letters[place{at, e.Seq}]
	mark := markOf(e.Body)
	if mark == "" && countsAgain(e) { // an operation
		mark = e.Producer + says(e)
	}
	if e.Ref != nil { // its body is in the inbox
		mark = m.ledger.bySum[e.Ref.Sum]
	}
	t := m.threads[e.Thread]
	op := operation(e)
	if op != nil && op.Op == events.OpDelete {
		m.delete(e, op.Delete, at, letter)
		return
	}
	gone := m.lefts[e.Thread]
	if m.before(e, op, t, mark, at, letter, reason) {
		return
	}
	if letter && m.forgotten(e, t, gone) && strings.Contains(reason, apply.ErrUnlinked.Error()) {
		m.settle(mark, buried, at, reason)
		m.note(e, nil)
		return
	}
	again := t == nil && (gone != nil && gone.seen.had(e, e.Seq) || m.past[e.Thread].had(e, e.Seq))
	switch {
	case t == nil && gone != nil && gone.to != "" && e.Epoch < gone.had[e.Producer].epoch:
		m.fenced(e, t, gone, mark, at, letter, reason)
	case t == nil && gone != nil && gone.to != "" && gone.had.had(e, e.Seq) && m.reused(e, t, gone):
		m.bury(e, mark, at, letter, "its producer gave its sequence to another one before", false)
		m.refused(e, nil)
	case t == nil && gone != nil && gone.to != "" && gone.had.had(e, e.Seq) &&
		!(letter && (gone.noted[inLife(e)] == "" || !gone.own.knows(e))):
		m.repeat(e, mark, at, letter, reason)
	case t == nil && gone != nil && gone.to != "":
		m.bury(e, mark, at, letter, "its thread was renamed", true)
		m.refused(e, nil)
	case t != nil && t.ended && (op == nil || op.Op != events.OpRemove && op.Op != events.OpName && op.Op != events.OpRun) && !aborts(e):
		m.bury(e, mark, at, letter, "its thread has ended", true)
		m.note(e, t)
	case op != nil && !m.valid(mark):
		m.bury(e, mark, at, letter, "it is no operation on it", !again)
		m.refused(e, t)
	case op != nil && op.Op == events.OpRun:
		m.sign(e, op.Run, t, at, letter, reason)
	case op != nil:
		m.operate(e, op, t, at, letter, reason)
	case strays(e):
		m.bury(e, mark, at, letter, "it is no piece of an output of its thread", m.still())
		m.refused(e, t)
	case e.Kind == events.KindChunk:
		m.chunk(e, t, at, letter, reason)
	case !m.valid(mark):
		m.bury(e, mark, at, letter, "it is no entry", !again)
		m.note(m.begin(e, t))
	default:
		m.append(e, t, mark, at, letter, reason, !again)
	}
}

// aborts reports whether an event closes an output as aborted. It does so in a thread that has ended too, where its result
// stands behind the end.
func aborts(e *events.Event) bool {
	if e.Kind != events.KindChunk {
		return false
	}
	c, err := events.ParseChunk(e.Body)
	return err == nil && c.Op == events.ChunkAbort
}

func operation(e *events.Event) *events.Control {
	if e.Kind != events.KindControl {
		return nil
	}
	c, err := events.ParseControl(e.Body)
	if err != nil {
		return &events.Control{}
	}
	return &c
}

func (m *model) valid(mark string) bool {
	w := m.ledger.byMark[mark]
	return w == nil || w.Valid
}

// before settles an event that what came before decides about: it is a repeat, was refused, or is not to be taken.
func (m *model) before(e *events.Event, op *events.Control, t *life, mark string, at uint64, letter bool, reason string) bool {
	gone := m.lefts[e.Thread]
	switch {
	case t != nil && e.Epoch < t.seen[e.Producer].epoch:
		m.fenced(e, t, gone, mark, at, letter, reason)
	case t != nil && t.seen.had(e, e.Seq) && m.late(e, t, gone):
		m.bury(e, mark, at, letter, overtaken, !t.moved && (gone == nil || !gone.earlier))
		m.note(e, t)
	case t != nil && t.seen.had(e, e.Seq) && m.reused(e, t, gone):
		own := t.noted[inLife(e)] != "" && !t.moved && (gone == nil || !gone.earlier)
		was := m.fates[mark]
		if was != nil && was.outcome == buried && was.at >= t.began && letter && own && !m.unfit(at, reason) {
			m.fail("two dead letters of %s, the second one at %d: %s", mark, at, reason)
		}
		m.bury(e, mark, at, letter, givenTwice, own && was == nil && t.began >= m.kept)
	case t != nil && t.seen.had(e, e.Seq):
		m.repeat(e, mark, at, letter, reason)
	case m.nowhere[identityOf(e)]:
		counts := countsAgain(e) || gone != nil && gone.had.had(e, e.Seq) // as a repeat
		m.bury(e, mark, at, letter, "it was refused when it came first", !counts)
		m.note(e, t)
	case leaves(op) && gone != nil && gone.had.had(e, e.Seq):
		m.repeat(e, mark, at, letter, reason)
	case e.Prev != 0 && !m.sawBefore(e, t, gone):
		m.settle(mark, superseded, at, "")
		if letter {
			m.note(e, t)
		}
	default:
		return false
	}
	return true
}

// replacedBy is why an event is a dead letter that comes behind a later epoch of its producer.
const replacedBy = "a later epoch of its producer was stored before it"

// fenced settles an event of an epoch of its producer that has passed.
func (m *model) fenced(e *events.Event, t *life, gone *left, mark string, at uint64, letter bool, reason string) {
	was := ""
	if t != nil {
		was = t.noted[inLife(e)]
	}
	if was == "" && gone != nil {
		was = gone.noted[inLife(e)]
	}
	own := t != nil && !t.moved && !t.foreign && (gone == nil || !gone.earlier) && t.began >= m.kept
	switch {
	case was == says(e), was != "" && e.Kind != events.KindEntry:
		m.repeat(e, mark, at, letter, reason)
	case letter:
		m.bury(e, mark, at, letter, replacedBy, false)
	case e.Prev != 0 && m.named[identity{e.Thread, e.Producer, e.Epoch, e.Prev}] == "":
		m.settle(mark, superseded, at, "")
		return
	default:
		m.settle(mark, fenced, at, "")
		m.bury(e, mark, at, letter, replacedBy, own)
	}
	m.note(e, t)
}

// overtaken is why an event is a dead letter that comes behind a later one of its producer.
const overtaken = "a later event of its producer was stored before it"

// givenTwice is why an event is a dead letter whose sequence another one has.
const givenTwice = "its producer gave its sequence to another one before"

// late reports whether an event comes behind a later one of its producer, and neither its thread nor those that had the
// name before ever saw it.
func (m *model) late(e *events.Event, t *life, gone *left) bool {
	return t.noted[inLife(e)] == "" && e.Epoch == t.seen[e.Producer].epoch &&
		(gone == nil || gone.noted[inLife(e)] == "" && e.Epoch >= gone.had[e.Producer].epoch)
}

// reused reports whether the sequence of an entry is another one's, in its thread or in those that had the name before.
func (m *model) reused(e *events.Event, t *life, gone *left) bool {
	other := func(noted map[identity]string) bool {
		was := noted[inLife(e)]
		return e.Kind != events.KindChunk && was != "" && was != says(e)
	}
	return t != nil && other(t.noted) || gone != nil && other(gone.noted)
}

// inLife is what names an event in a thread, whatever the thread is called.
func inLife(e *events.Event) identity {
	return identity{producer: e.Producer, epoch: e.Epoch, seq: e.Seq}
}

// sawBefore reports whether the event that this one is linked to was stored before it.
func (m *model) sawBefore(e *events.Event, t *life, gone *left) bool {
	return t != nil && t.seen.had(e, e.Prev) || gone != nil && gone.seen.had(e, e.Prev) || m.past[e.Thread].had(e, e.Prev)
}

// forgotten reports whether what an event is linked to was removed with its session, and nothing that is left says that
// it was stored: nobody can tell then whether its producer was told (SPEC P2).
func (m *model) forgotten(e *events.Event, t *life, gone *left) bool {
	prev := identity{producer: e.Producer, epoch: e.Epoch, seq: e.Prev}
	if e.Prev != 0 && m.past[e.Thread].had(e, e.Prev) { // a later event of the producer says nothing of it
		return (t == nil || t.noted[prev] == "") && (gone == nil || gone.noted[prev] == "")
	}
	return e.Prev != 0 && (t == nil || !t.seen.had(e, e.Prev)) && (gone == nil || !gone.seen.had(e, e.Prev))
}

func (m *model) settle(mark string, o outcome, at uint64, why string) {
	if mark == "" {
		return
	}
	if o == applied || o == buried {
		if m.kepts[mark] == nil {
			m.kepts[mark] = map[identity]bool{}
		}
		m.kepts[mark][m.is] = true
	}
	if f := m.fates[mark]; f != nil && (f.outcome == applied || f.outcome == buried && o == buried) {
		return
	}
	m.fates[mark] = &fate{o, why, at}
}

// repeat is an event whose thread has it, or a later one of its producer.
func (m *model) repeat(e *events.Event, mark string, at uint64, letter bool, reason string) {
	if m.fates[mark] == nil {
		m.settle(mark, repeated, at, "")
	}
	if letter && m.fates[mark] != nil && m.fates[mark].outcome == applied && !m.nowhere[identityOf(e)] {
		m.fail("the event at %d, %s, is a repeat of an applied one, and a dead letter: %s", at, mark, reason)
	}
}

// bury is an event that must be a dead letter.
func (m *model) bury(e *events.Event, mark string, at uint64, letter bool, why string, must bool) {
	m.settle(mark, buried, at, why)
	if !letter && must {
		m.missing[e.Thread.Session] = append(m.missing[e.Thread.Session], fmt.Sprintf(
			"the event at %d, %s of %s, is nowhere: it is not applied, because %s, and no dead letter (SPEC P1)",
			at, what(e, mark), e.Thread, why))
	}
}

// faults are the rules that are broken once all events are taken. What had no dead letter when its session was deleted went with it.
func (m *model) faults() []string {
	out := m.broken
	for _, session := range slices.Sorted(maps.Keys(m.missing)) {
		out = append(out, m.missing[session]...)
	}
	return out
}

// append is an entry that must be applied.
func (m *model) append(e *events.Event, t *life, mark string, at uint64, letter bool, reason string, must bool) {
	_, t = m.begin(e, t)
	m.note(e, t)
	if letter {
		m.settle(mark, buried, at, reason)
		if m.unfit(at, reason) || strings.Contains(reason, apply.ErrMissingRef.Error()) ||
			m.asksAnother(e, t) && strings.Contains(reason, apply.ErrAsked.Error()) {
			return
		}
		m.fail("a valid entry, %s at %d of %s, is a dead letter: %s", mark, at, e.Thread, reason)
		return
	}
	if m.asksAnother(e, t) && !t.follows() {
		m.fail("the entry at %d of %s asks another question under an id that the thread has, and is no dead letter", at, e.Thread)
	}
	if p, asks := question(e); asks {
		if t.asked == nil {
			t.asked = map[string]string{}
		}
		t.asked[p.ID] = p.Text
	}
	if n := len(m.untaken[m.nth]); n > enoughDied {
		m.fail("%d persisters tried %s at %d of %s alone, and it is no dead letter", n, mark, at, e.Thread)
	}
	m.settle(mark, applied, at, "")
	t.changed = at
	if mark != "" {
		t.held = append(t.held, held{mark, e.Seq, must})
	}
}
