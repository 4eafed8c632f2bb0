package apply

import (
	"cmp"
	"strings"
	"time"

	"spool/internal/project"
	"spool/internal/record"
	"spool/pkg/artifacts"
	"spool/pkg/casstore"
	"spool/pkg/dialect"
	"spool/pkg/events"
	"spool/pkg/sessions"
	"spool/pkg/threads"
)

// Change is all that becomes of an event. Nothing of it is so before it is taken.
type Change struct {
	// What was learned on the way, whatever the verdict is.
	Left      *Left
	AskedLeft bool
	Fresh     bool        // as Thread has it
	Reconcile []Reconcile // threads of which items may be missing
	Places    *Places     // as Thread has it

	// Doubt: the verdict holds only if the thread's stored head is the one in State, and the commit is not to write it.
	Doubt bool
	Mark  *Mark // how the event stood; nil: its producer has no mark any more, if Noted

	Nowhere bool // it is refused, and no head notes that: no thread has the name, or its session may have no more

	// The thread. Without Noted all of it stays as it is.
	Noted  bool
	Head   threads.Head
	Memory dialect.Memory
	On     Base               // what the event builds on
	Moved  bool               // that is not the head before it
	Locate []casstore.Located // where nodes are that new states refer to, beside On
	Beside []casstore.PackID  // packs of other states that the thread has from now on, or goes back to
	Refers []casstore.Located // nodes that a step names by itself
	Leaves *Leaving           // the thread is renamed or removed

	branched bool     // an entry's parent was looked for
	under    *place   // which it is, if that is known
	placed   []placed // states, if Places is to know them

	Nodes   casstore.Draft
	Blobs   []Blob         // that the step brings; without bytes: stored already
	Holds   []casstore.Ref // blobs that it refers to and somebody else stored
	Items   []events.Posted
	Results []Result

	Info    *sessions.Info // what the session's record says now; nil: as before
	Begins  bool           // the session begins with the event
	Counter *record.Counter
	Run     *RunChange
	Output  *OutputChange

	OutputsMoved   []string // keys of open outputs whose thread has another name from now on: their records must be read again
	OutputsDropped []string // of those that are removed without a result

	Puts  map[string]record.Put // of prompts, and of names that are left
	Rows  [][]record.Put        // of artifacts that a fork inherits: each is written as a whole, ahead of the others if need be
	Unput []string              // keys of records that the commit was to put, and is not to any more

	Delete *Delete // the session is deleted, or is not for it was written to

	Counts Counts
}

// Base is the head that an event builds on.
type Base struct {
	Start  casstore.Located
	Recent []casstore.Located
}

// Head locates the newest state.
func (b *Base) Head() casstore.Located {
	if len(b.Recent) == 0 {
		return b.Start
	}
	return b.Recent[0]
}

// Reconcile is a thread that came with events which were applied already: its items may be missing.
type Reconcile struct {
	Thread events.Thread
	Head   threads.Head // as it was loaded
}

// Result is the artifact of a large result.
type Result struct {
	artifacts.Record
	Text string
}

// Counts is what the statistics of a persister grow by.
type Counts struct {
	Entries, BytesIn, Externalized, Truncated, Unknown, Outputs, OutputBytes int64
	Secrets                                                                  int64 // in pieces of outputs

	TooLarge error    // why an item has a stub; nil: none has
	Unread   []string // keys of artifacts' rows that a fork does not get: they cannot be read
}

// Thread makes a thread what the change leaves of it. It keeps no memory of the change's.
func (c *Change) Thread(t *Thread) {
	t.Left, t.AskedLeft, t.Fresh, t.Places = c.Left, c.AskedLeft, c.Fresh, c.Places
	if !c.Noted {
		return
	}
	if c.branched {
		t.Branched++
	}
	if t.Places != nil {
		t.Places.take(c)
	}
	recent, producers := t.Head.Recent, t.Head.Producers
	t.Head, t.Memory = c.Head, c.Memory
	t.Head.Recent, t.Head.Producers = append(recent[:0], c.Head.Recent...), append(producers[:0], c.Head.Producers...)
	if c.Run != nil {
		if t.Runs == nil {
			t.Runs = map[string]record.Run{}
		}
		t.Runs[c.Run.Run.ID] = c.Run.Run
	}
}

// Session makes a session what the change leaves of it.
func (c *Change) Session(s *Session, of Marked) {
	if c.Info != nil {
		s.Info = *c.Info
	}
	if c.Noted {
		delete(s.Marks, of)
	}
	if c.Mark != nil {
		if s.Marks == nil || len(s.Marks) >= maxMarks {
			s.Marks = map[Marked]Mark{}
		}
		s.Marks[of] = *c.Mark
	}
}

// Room is memory for one Change after the other.
type Room struct{ draft draft }

// draft is a Change that is being made.
type draft struct {
	Change
	w  World
	st State
	e  Staged // of its own: an operation makes a text of itself

	op    events.Control // of a control event
	opBad error          // why it is none

	info     sessions.Info // that Info points to
	newcomer bool          // its producer counts as new to the thread

	recent    []casstore.Located // memory for the head
	producers []threads.Producer
	owns      bool // Head.Recent is in recent
}

func begin(w World, st State, e Staged) *draft {
	var d *draft
	if st.Room != nil {
		d = &st.Room.draft
	} else {
		d = new(draft)
	}
	d.w, d.st, d.e = w, st, e
	d.op, d.opBad = events.Control{}, nil
	d.Left, d.AskedLeft, d.Fresh, d.Reconcile, d.Places = st.Left, st.AskedLeft, st.Fresh, nil, st.Places
	d.drop()
	return d
}

// drop forgets what was made of the event, and keeps what was learned.
func (d *draft) drop() {
	c := &d.Change
	c.Nodes.Reset()
	d.Change = Change{
		Left: c.Left, AskedLeft: c.AskedLeft, Fresh: c.Fresh, Reconcile: c.Reconcile, Places: c.Places,
		Head: d.st.Head, Memory: d.st.Memory, Nodes: c.Nodes,
	}
	d.owns, d.newcomer = false, false
}

// note makes the event change the thread. head is what it builds on: the thread's own, or where it moves to.
func (d *draft) note(head threads.Head) {
	if d.st.Head.Start.IsZero() {
		d.seeAgent(d.st.Key.Name)
		head.Began = d.e.At
		if d.st.Reused {
			head.Life = d.e.At
		}
	}
	d.Noted, d.Moved = true, head.Head() != d.st.Head.Head()
	d.On = Base{head.Start, head.Recent}
	d.Head, d.owns = head, false
	d.Head.Producers = append(d.producers[:0], head.Producers...)
	d.Head.Applied = d.e.At
	d.newcomer = d.Head.Counts(d.e.Producer, d.e.Epoch, d.e.Event.Seq)
	d.Head.Saw(d.e.Producer, d.e.Epoch, d.e.Event.Seq, d.e.At)
	d.producers = d.Head.Producers
	if c := d.e.Captured; c != nil && len(c.By)+len(c.Home)+len(d.e.Host) <= threads.MaxCaptured {
		d.Head.Captured = threads.Captured{By: c.By, Host: d.e.Host, Home: c.Home, Size: c.Size, Modified: c.Modified, Sum: c.Sum}
	}
}

// shrink keeps the thread's head small enough for a record: what is too much goes into nodes beside the step's (SPEC
// P11).
func (d *draft) shrink() {
	refers := d.Head.Shrink(d.st.Rules.Head, &d.Nodes, d.st.Batch.Pack)
	d.Locate = append(d.Locate, refers...)
	for _, at := range refers {
		d.Beside = append(d.Beside, at.Pack)
	}
}

func (d *draft) start(name string, st *events.Start) {
	if !d.Head.Start.IsZero() {
		return
	}
	if st == nil {
		st = &events.Start{Name: name}
		if d.st.Key.Name != events.MainThread {
			st.Depth = 1
		}
	}
	prompt := threads.Content{Text: []byte(st.Prompt)}.Node()
	node := threads.Start{
		Name: st.Name, Hash: st.Hash, MaxRounds: st.MaxRounds, Depth: st.Depth, Prompt: d.Nodes.AddNode(&prompt),
	}.Node()
	d.Head.Start = casstore.Located{Ref: d.Nodes.AddNode(&node), Pack: d.st.Batch.Pack}
}

// append adds the nodes of one step and makes it the head.
func (d *draft) append(st *threads.State, content threads.Content) casstore.Located {
	st.Content = content.AddTo(&d.Nodes)
	at := casstore.Located{Ref: st.AddTo(&d.Nodes), Pack: d.st.Batch.Pack}
	if !d.owns {
		if d.recent == nil {
			d.recent = make([]casstore.Located, 0, threads.MaxRecent)
		}
		d.recent = append(d.recent[:0], d.Head.Recent...)
		d.Head.Recent, d.owns = d.recent, true
	}
	d.Head.Advance(at)
	if d.Places != nil {
		// A clone, since nothing of a state is to outlive it: so it needs no memory of the heap.
		d.placed = append(d.placed, placed{strings.Clone(st.Entry.ID), at})
	}
	if d.Head.Status != threads.StatusFailed { // it takes entries, and stays failed until it is reopened (SPEC P10)
		d.Head.Status = threads.StatusActive
	}
	return at
}

// post makes the entry's items and numbers them. One that can not be made small enough fails the thread, and a stub has
// its number (SPEC I4, P10).
func (d *draft) post(stamp project.Stamp, items []events.Item, first int64) {
	posted, err := stamp.All(items, first)
	if err != nil {
		d.Counts.TooLarge = err
		if d.Head.Status != threads.StatusFailed {
			d.Head.Status, d.Head.Failure = threads.StatusFailed, err.Error()
		}
	}
	for i := range posted {
		posted[i].Life = d.Head.Life
	}
	d.Items = posted
	d.Head.N += int64(len(posted))
}

// put has the commit write a record.
func (d *draft) put(p record.Put) {
	if d.Puts == nil {
		d.Puts = map[string]record.Put{}
	}
	d.Puts[p.Key] = p
}

// account counts what happened.
func (d *draft) account(e *dialect.Entry) {
	h, n := &d.Head, &d.Counts
	size := d.e.RawSize()
	n.Entries, n.BytesIn, n.Externalized = 1, size, int64(d.e.Cuts.Externalized)
	h.BytesIn += size
	h.Externalized += n.Externalized
	if d.e.Cuts.Truncated+d.e.Cuts.Cleared+d.e.Cuts.Stripped > 0 {
		h.Truncated++
		n.Truncated = 1
	}
	if !e.Known {
		h.Unknown++
		n.Unknown = 1
	}
	project.Count(h, e)
	d.learn(e)
}

// learn takes what an entry says about its session, if that changes the session's record.
func (d *draft) learn(e *dialect.Entry) {
	s, before := d.st.Session, &d.st.Session.Info
	if d.Info != nil {
		before = d.Info
	}
	info := *before
	main := d.st.Key.Name == events.MainThread || !s.Stored && s.Info == (sessions.Info{ID: s.ID}) // nothing said anything of it yet
	project.Learn(&info, e, main, d.Head.Entries <= 1)
	if main {
		LearnPlace(&info, &d.e.Event)
	}
	if _, known := dialect.Lookup(d.e.Dialect); known && dialect.IsJSON(d.e.Dialect) {
		info.Harness = dialect.Lead(info.Harness, d.e.Dialect)
	}
	if at := d.Head.Created; at != 0 && (info.Created == 0 || at < info.Created) { // a subagent's thread may have come first
		info.Created = at
	}
	if !s.Stored || info != *before {
		d.info = info
		d.Info = &d.info
	}
}

// LearnPlace takes what an event of a main thread says of where its agent runs.
func LearnPlace(info *sessions.Info, e *events.Event) {
	if e.Host != "" && len(e.Host) <= sessions.MaxFile {
		info.Host = e.Host
	}
	if e.File != "" && len(e.File) <= sessions.MaxFile {
		info.File = e.File
	}
}

// timestamp is the entry's own time, or what its producer said, or when the server stored it (SPEC P5): never our clock, so
// that an event makes equal nodes whoever applies it, and when.
func (d *draft) timestamp(own int64) int64 {
	ms := cmp.Or(events.Said(own), d.said())
	if ms != 0 {
		d.Head.Date(ms, events.Believed(ms, d.e.stored()))
	}
	return ms
}

// said is the time of an event whose entry says none.
func (d *draft) said() int64 { return cmp.Or(events.Said(d.e.Time), d.e.stored()) }

// stored is when the server stored the event, in Unix milliseconds; 0 = unknown.
func (e *Staged) stored() int64 { return e.Stored / int64(time.Millisecond) }

// when is the event's time, as far as it is believed.
func (e *Staged) when() int64 { return events.Believed(e.Time, e.stored()) }
