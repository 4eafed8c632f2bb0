package persist

import (
	"context"
	"fmt"

	"spool/internal/project"
	"spool/pkg/casstore"
	"spool/pkg/dialect"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// addition is how s.text becomes a step.
type addition struct {
	dialect   dialect.Dialect
	operation bool          // it is no entry of the agent's, not in its export and never the leaf
	at        *threads.Head // where it goes; nil: where the entry says
	meta      []byte        // of the state; nil: what the dialect extracts
}

// planned is a step that is decided: nothing of it is written, and writing it cannot fail.
type planned struct {
	addition
	entry         dialect.Entry
	before, after dialect.Memory
	head          threads.Head       // what it goes after
	meta          []byte             // of the state
	nodes         []casstore.Located // that it names by themselves
	blobs         []casstore.Ref     // that its text refers to
	large         []project.Result
}

// step appends what a dialect makes of s.text.
func (l *lane) step(ctx context.Context, c *commit, t *thread, s *staged, a addition) error {
	p, err := l.planStep(ctx, c, t, s, a)
	if err != nil {
		return err
	}
	l.writeStep(c, t, s, p)
	return nil
}

// planStep decides what s.text becomes. It changes nothing.
func (l *lane) planStep(ctx context.Context, c *commit, t *thread, s *staged, a addition) (p *planned, err error) {
	p = &planned{addition: a, before: t.memory, after: t.memory}
	if p.entry, err = read(a.dialect, s.text, &p.after); err != nil {
		return nil, err
	}
	if p.nodes, err = l.stepRefs(ctx, c, t, p.entry.Refs); err != nil {
		return nil, err
	}
	if p.blobs, err = l.held(ctx, c, s); err != nil {
		return nil, err
	}
	if p.head, err = l.where(ctx, c, t, a, p.entry.Place); err != nil {
		return nil, err
	}
	if p.meta, err = metaOf(p.entry.Meta); err != nil {
		return nil, err
	}
	if a.meta != nil {
		p.meta = a.meta
	}
	if !c.roomForPrompts(p.entry.Items) {
		return nil, errBarrier
	}
	p.large, err = l.results(c, s, a.dialect, p.before, &p.entry)
	return p, err
}

// writeStep puts a step into the commit: a content node, a state node, items.
func (l *lane) writeStep(c *commit, t *thread, s *staged, p *planned) {
	d, e := p.dialect, &p.entry
	c.news(t, s, p.head)
	t.memory = p.after
	c.start(t, d.Name(), nil)
	st := t.head.Next(e.Role)
	st.Meta, st.Timestamp = p.meta, s.timestamp(t, e.Time)
	stamp := project.Stamp{Thread: t.key, User: s.event.User, Time: st.Timestamp, Source: e.ID, Trace: events.TraceParent(s.event.Trace), Room: &c.room}
	st.Entry = s.record(t, d, e)
	p.note(&st.Entry)
	stamp.Results = project.MarkResults(&st.Entry, p.large, l.p.cfg.Artifacts)
	st.Entry.Count = int64(stamp.Count(e.Items, st.Entry.First))
	content := threads.Content{Text: s.text, Refs: p.blobs}
	if e.Content != nil {
		content.Text, st.Entry.Raw = e.Content, s.text
	}
	for _, r := range p.blobs {
		c.refers[r] = true
	}
	content.Refs = c.refer(t, content.Refs, p.nodes)
	s.keep(c, &content, &st, e.Compact)
	at := c.append(t, st, content)
	stamp.Node = at.Ref
	l.attach(c, d, stamp, p.large)
	c.post(t, stamp, e.Items, st.Entry.First)
	c.prompts(t, d, &st, e.Items)
	l.account(c, t, s, e)
	t.stands(p.addition, e)
}

// note completes what the thread remembers of the entry.
func (p *planned) note(r *threads.Record) {
	if p.operation {
		r.Dialect = ""
	}
	if p.entry.Compact != "" {
		r.Kept = p.entry.Kept
	}
	if p.after.Used() {
		r.Memory = p.before.Encode()
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
