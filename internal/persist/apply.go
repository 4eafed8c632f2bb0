package persist

import (
	"context"
	"errors"
	"fmt"

	"spool/internal/project"
	"spool/pkg/casstore"
	"spool/pkg/dialect"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// apply adds one event to a commit, or says in s.verdict why not. What can fail is done before anything is changed. An error is for
// the lane (forLane): the event is not judged.
func (l *lane) apply(ctx context.Context, c *commit, s *staged) error {
	s.verdict = refuse(s.bad) // what was found over another head does not count
	if !s.known {
		return nil
	}
	if op, ok := deletes(s); ok {
		return l.delete(ctx, c, s, op)
	}
	t, err := l.settledThread(ctx, c, s.event.Thread)
	if err != nil {
		return err
	}
	if t.session.past(s.msg) {
		s.verdict = verdict{is: repeated}
		return nil
	}
	if cause := l.latchedBy(t.key); cause != nil {
		s.verdict = refuse(cause)
		c.doubt(t)
		return nil
	}
	if done, err := l.skip(ctx, c, t, s); done || err != nil {
		return err
	}
	if s.bad == nil {
		err := l.change(ctx, c, t, s)
		if err == nil {
			return nil
		}
		return l.refuseTo(c, t, s, err)
	}
	l.noteDead(c, t, s)
	return nil
}

// refuseTo gives the verdict that an error means, unless it is for the lane.
func (l *lane) refuseTo(c *commit, t *thread, s *staged, err error) error {
	if forLane(err) {
		return err
	}
	s.verdict = refuse(err)
	l.noteDead(c, t, s)
	return nil
}

// noteDead sees to it that what is linked to an event that goes to the dead letters is taken.
func (l *lane) noteDead(c *commit, t *thread, s *staged) {
	if !l.pass(c, t, s) {
		t.session.mark(s, events.Stands)
		c.doubt(t)
	}
}

// skip reports whether an event is not to be applied: its thread has it, or must not take it (yet).
func (l *lane) skip(ctx context.Context, c *commit, t *thread, s *staged) (bool, error) {
	if s.msg.Seq <= t.head.Applied && !t.head.Duplicate(s.event.Producer, s.event.Epoch, s.event.Seq) {
		if err := l.learnLeft(ctx, t); err != nil {
			return false, err
		}
	}
	if had, err := l.had(ctx, c, t, s); had || err != nil {
		return had, err
	}
	if l.repeats(c, t, s) {
		return true, nil
	}
	standing, err := l.standing(ctx, t, s)
	if err != nil || standing == events.Stands {
		return false, err
	}
	t.session.mark(s, standing)
	c.doubt(t)
	s.verdict = verdict{is: superseded}
	if standing == events.Unlinked {
		s.verdict = refuse(fmt.Errorf("%w: event %d of the producer %s: publish both again", ErrUnlinked, s.event.Prev, s.event.Producer))
	}
	return true, nil
}

// repeats reports whether a thread has an event already, and notes it.
func (l *lane) repeats(c *commit, t *thread, s *staged) bool {
	repeat := t.head.Duplicate(s.event.Producer, s.event.Epoch, s.event.Seq)
	// An event that the head has passed was applied, and its producer says so too, unless that one is forgotten. If it is
	// not, EVENTS was made anew and counts from 1 again, or was set back and gives the sequences out again that it lost.
	forgotten := len(t.head.Producers) >= threads.MaxProducers && !l.p.Reused(s.msg.Seq, s.msg.Stored)
	again := s.msg.Seq <= t.head.Applied && (repeat || forgotten)
	if again && t.fresh { // an earlier owner of the partition committed it and did not ack
		c.reconcile = append(c.reconcile, reconcile{t.key, t.head.Clone()})
	}
	t.fresh = false
	if !again && !repeat {
		return false
	}
	if !again && s.msg.Seq > t.looked { // a head that was looked at after the event was stored needs no other look
		c.doubt(t)
	}
	// One that comes again may have no dead letter yet. What its producer published again was dealt with when it came first; a body is
	// dropped once it is applied.
	if s.bad == nil || !again || errors.Is(s.bad, errBody) {
		s.verdict = verdict{is: repeated}
	}
	return true
}

// change applies an event to its thread.
func (l *lane) change(ctx context.Context, c *commit, t *thread, s *staged) error {
	if t.left != nil && t.left.to != "" {
		return t.left.renamed(t.key)
	}
	if s.event.Kind == events.KindChunk {
		return l.chunk(ctx, c, t, s)
	}
	if t.head.Status == threads.StatusCompleted && !removes(s) && !ofRun(s) {
		return fmt.Errorf("%w: %s: fork it, or go on in another thread", ErrEnded, t.key)
	}
	switch s.event.Kind {
	case events.KindEntry:
		return l.entry(ctx, c, t, s)
	case events.KindControl:
		return l.control(ctx, c, t, s)
	}
	return fmt.Errorf("%w %q: this version applies entry, chunk and control", events.ErrKind, s.event.Kind)
}

// ErrEnded: the thread is completed and takes no more entries (SPEC I7).
var ErrEnded = errors.New("thread has ended")

// pass notes an event that goes to the dead letters in its thread's head, so that those linked to it are taken. A thread whose first
// entry is bad begins with it nevertheless; a name that a control operation failed to take stays free: nothing is noted then.
func (l *lane) pass(c *commit, t *thread, s *staged) (noted bool) {
	if t.head.Start.IsZero() && (s.event.Kind != events.KindEntry || t.left != nil && t.left.to != "") {
		return false
	}
	c.news(t, s, t.head)
	name := s.event.Dialect
	if _, known := dialect.Lookup(name); !known {
		name = "" // what it says may be anything
	}
	c.start(t, name, nil)
	if t.session.learn(t, s, &dialect.Entry{}) {
		c.infos[t.session] = nil
	}
	return true
}

// entry appends one entry to its thread: a content node, a state node, items.
func (l *lane) entry(ctx context.Context, c *commit, t *thread, s *staged) error {
	d, ok := dialect.Lookup(s.event.Dialect)
	if !ok {
		return fmt.Errorf("unknown dialect %q: use one of %v", s.event.Dialect, dialect.Names())
	}
	return l.step(ctx, c, t, s, addition{dialect: d})
}

// addition is how s.text becomes a step.
type addition struct {
	dialect   dialect.Dialect
	operation bool          // it is no entry of the agent's, not in its export and never the leaf
	at        *threads.Head // where it goes; nil: where the entry says
	meta      []byte        // of the state; nil: what the dialect extracts
}

// step appends what a dialect makes of s.text.
func (l *lane) step(ctx context.Context, c *commit, t *thread, s *staged, a addition) error {
	d, before := a.dialect, t.memory
	after := before
	e, err := read(d, s.text, &after)
	if err != nil {
		return err
	}
	located, err := l.stepRefs(ctx, c, t, e.Refs)
	if err != nil {
		return err
	}
	refs, err := l.held(ctx, c, s)
	if err != nil {
		return err
	}
	head, err := l.where(ctx, c, t, a, e.Place)
	if err != nil {
		return err
	}
	meta, err := metaOf(e.Meta)
	if err != nil {
		return err
	}
	if a.meta != nil {
		meta = a.meta
	}
	if !c.roomForPrompts(e.Items) {
		return errBarrier
	}
	large, err := l.results(c, s, d, before, &e)
	if err != nil {
		return err
	}

	// From here on nothing fails.
	c.news(t, s, head)
	t.memory = after
	c.start(t, d.Name(), nil)
	st := t.head.Next(e.Role)
	st.Meta, st.Timestamp = meta, s.timestamp(t, e.Time)
	stamp := project.Stamp{Thread: t.key, User: s.event.User, Time: st.Timestamp, Source: e.ID, Trace: events.TraceParent(s.event.Trace), Room: &c.room}
	st.Entry = s.record(t, d, &e)
	a.note(&st.Entry, &e, before, after)
	stamp.Results = project.MarkResults(&st.Entry, large, l.p.cfg.Artifacts)
	st.Entry.Count = int64(stamp.Count(e.Items, st.Entry.First))
	content := threads.Content{Text: s.text, Refs: refs}
	if e.Content != nil {
		content.Text, st.Entry.Raw = e.Content, s.text
	}
	for _, r := range refs {
		c.refers[r] = true
	}
	content.Refs = c.refer(t, content.Refs, located)
	s.keep(c, &content, &st, e.Compact)
	at := c.append(t, st, content)
	stamp.Node = at.Ref
	l.attach(c, d, stamp, large)
	c.post(t, stamp, e.Items, st.Entry.First)
	c.prompts(t, d, &st, e.Items)
	l.account(c, t, s, &e)
	t.stands(a, &e)
	return nil
}

// note completes what the thread remembers of the entry.
func (a addition) note(r *threads.Record, e *dialect.Entry, before, after dialect.Memory) {
	if a.operation {
		r.Dialect = ""
	}
	if e.Compact != "" {
		r.Kept = e.Kept
	}
	if after.Used() {
		r.Memory = before.Encode()
	}
}

// stands notes in the head what a step leaves the thread as.
func (t *thread) stands(a addition, e *dialect.Entry) {
	if !a.operation {
		t.head.Leaf, t.head.Dialect = leafOf(a.dialect, e), a.dialect.Name()
	}
	if e.Role == threads.RoleEnd {
		t.head.Status = threads.StatusCompleted
	}
}

// refer adds what a step refers to: a blob's record, and the pack of a node, are not to be collected before the commit.
func (c *commit) refer(t *thread, refs []casstore.Ref, to []casstore.Located) []casstore.Ref {
	for _, at := range to {
		refs = append(refs, at.Ref)
		if at.Ref.Kind() == casstore.KindBlob {
			c.refers[at.Ref] = true
			continue
		}
		c.nodes.Locate(at)
		n := c.byKey[t.key]
		n.refers = append(n.refers, at)
	}
	return refs
}

// read is d.Read; what a dialect cannot take is a reason for the dead letters, not for the persister's end.
func read(d dialect.Dialect, text []byte, m *dialect.Memory) (e dialect.Entry, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("dialect %s: %v", d.Name(), r)
		}
	}()
	return d.Read(text, m)
}

// timestamp is the entry's own time, or what its producer said, or the time of the entry before: never our clock, so that
// equal entries make equal nodes.
func (s *staged) timestamp(t *thread, own int64) int64 {
	ms := own
	if ms == 0 {
		ms = s.event.Time
	}
	if ms == 0 {
		return t.head.Updated
	}
	t.head.Updated = ms
	if t.head.Created == 0 {
		t.head.Created = ms
	}
	return ms
}

// record is what the thread remembers of the entry beside the step itself.
func (s *staged) record(t *thread, d dialect.Dialect, e *dialect.Entry) threads.Record {
	t.head.Entries++
	r := threads.Record{
		Dialect: d.Name(), ID: e.ID, Type: e.Type, Index: t.head.Entries, First: t.head.N + 1,
		Projection: project.Version(d), User: s.event.User,
	}
	for _, sp := range s.cuts.Splices {
		r.Splices = append(r.Splices, [2]int64{int64(sp.Offset), int64(sp.Form)})
	}
	return r
}

// keep hands the commit what the entry's text does not hold itself: blobs that were moved out of it, the entry as it was
// before a cut (SPEC T9), and a compact summary (SPEC C6); the content refers to all, so that gc keeps them.
func (s *staged) keep(c *commit, content *threads.Content, st *threads.State, compact string) {
	for _, b := range s.blobs {
		if b.up == nil {
			c.blobs[b.ref] = b.bytes
		} else {
			c.uploads[b.ref] = b.up
		}
		content.Refs = append(content.Refs, b.ref)
	}
	if s.full != nil {
		st.Entry.Full = s.full.ref
		c.uploads[s.full.ref] = s.full
		content.Refs = append(content.Refs, s.full.ref)
	}
	if s.cuts.Full != nil {
		st.Entry.Full = casstore.SumBlob(s.cuts.Full)
		c.blobs[st.Entry.Full] = s.cuts.Full
		content.Refs = append(content.Refs, st.Entry.Full)
	}
	if compact != "" {
		st.Compact = threads.Content{Text: []byte(compact)}.AddTo(c.nodes)
		content.Refs = append(content.Refs, st.Compact)
	}
	if s.pointer != nil {
		content.Refs = append(content.Refs, c.nodes.AddNode(s.pointer))
	}
	content.Refs = distinct(content.Refs)
}

// append adds the nodes of one step and makes it the head.
func (c *commit) append(t *thread, st threads.State, content threads.Content) casstore.Located {
	st.Content = content.AddTo(c.nodes)
	return c.advance(t, st)
}

// advance adds a state whose content is there, and makes it the head.
func (c *commit) advance(t *thread, st threads.State) casstore.Located {
	at := casstore.Located{Ref: st.AddTo(c.nodes), Pack: c.pack}
	t.head.Advance(at)
	t.head.Status, t.head.Failure = threads.StatusActive, "" // a failed thread is retried by going on (SPEC I7)
	return at
}

// start makes the start node of a new thread.
func (c *commit) start(t *thread, name string, st *events.Start) {
	if !t.head.Start.IsZero() {
		return
	}
	if st == nil {
		st = &events.Start{Name: name}
		if t.key.Name != events.MainThread {
			st.Depth = 1
		}
	}
	prompt := threads.Content{Text: []byte(st.Prompt)}.Node()
	node := threads.Start{
		Name: st.Name, Hash: st.Hash, MaxRounds: st.MaxRounds, Depth: st.Depth, Prompt: c.nodes.AddNode(&prompt),
	}.Node()
	t.head.Start = casstore.Located{Ref: c.nodes.AddNode(&node), Pack: c.pack}
}

// post makes the entry's items and numbers them. One that can not be made small enough fails the thread, and the entry is
// kept (SPEC I4).
func (c *commit) post(t *thread, stamp project.Stamp, items []events.Item, first int64) {
	posted, _, err := stamp.All(items, first)
	if err != nil {
		t.head.Status, t.head.Failure = threads.StatusFailed, err.Error()
	}
	for i := range posted {
		posted[i].Life = t.head.Life
	}
	c.items = append(c.items, posted...)
	t.head.N += int64(len(posted))
}

// account counts what happened.
func (l *lane) account(c *commit, t *thread, s *staged, e *dialect.Entry) {
	h, st := &t.head, &l.p.stats
	h.BytesIn += s.rawSize()
	h.Externalized += int64(s.cuts.Externalized)
	st.entries.Add(1)
	st.bytesIn.Add(s.rawSize())
	st.externalized.Add(int64(s.cuts.Externalized))
	if s.cuts.Truncated+s.cuts.Cleared+s.cuts.Stripped > 0 {
		h.Truncated++
		st.truncated.Add(1)
	}
	if !e.Known {
		h.Unknown++
		st.unknown.Add(1)
	}
	project.Count(h, e)
	if t.session.learn(t, s, e) {
		c.infos[t.session] = nil
	}
}

func distinct(refs []casstore.Ref) []casstore.Ref {
	seen := make(map[casstore.Ref]bool, len(refs))
	kept := refs[:0]
	for _, r := range refs {
		if !seen[r] {
			seen[r] = true
			kept = append(kept, r)
		}
	}
	return kept
}
