package apply

import (
	"context"
	"fmt"

	"spool/internal/project"
	"spool/pkg/casstore"
	"spool/pkg/dialect"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// The dialects of what Spool itself appends, and those that have rules of their own.
const (
	ompDialect  = "omp"  // of entries that operations append; their entries make a session file
	stepDialect = "step" // of the other steps that operations append
	itemDialect = "item" // of results of outputs, and of agents that speak to Spool itself
	rawDialect  = "raw"  // of bytes that are not JSON

	claudeDialect = "claude" // has images in places of its own
)

// addition is how the text of an event becomes a step.
type addition struct {
	dialect   dialect.Dialect
	operation bool          // it is no entry of the agent's, not in its export and never the leaf
	at        *threads.Head // where it goes; nil: where the entry says
	meta      []byte        // of the state; nil: what the dialect extracts
}

// step appends what a dialect makes of the event's text: a content node, a state node, items.
func (d *draft) step(ctx context.Context, a addition) error {
	before := d.Memory
	e, err := read(a.dialect, d.e.Text, &d.Memory)
	if err != nil {
		return err
	}
	if err := d.maySettle(a, e.Items); err != nil {
		return err
	}
	nodes, err := d.stepRefs(ctx, e.Refs)
	if err != nil {
		return err
	}
	blobs, err := d.heldBlobs(ctx, nodes)
	if err != nil {
		return err
	}
	head, err := d.place(ctx, a, e.Place)
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
	if !d.roomForPrompts(e.Items) {
		return ErrNextCommit
	}
	if err := d.mayAsk(ctx, a, e.Items); err != nil {
		return err
	}
	others, err := d.othersPrompts(ctx, a.dialect, e.Items)
	if err != nil {
		return err
	}
	large, err := d.results(a.dialect, before, &e)
	if err != nil {
		return err
	}
	d.note(head)
	d.start(a.dialect.Name(), nil)
	st := d.Head.Next(e.Role)
	st.Meta, st.Timestamp = meta, d.timestamp(e.Time)
	stamp := project.Stamp{
		Thread: d.st.Key, User: d.e.User, Claimed: d.e.Claimed, Time: st.Timestamp, Source: e.ID,
		Trace: events.TraceParent(d.e.Trace), Room: d.st.Batch.Items,
	}
	st.Entry = d.record(a, &e, before)
	limit := project.Limit{Thresholds: d.st.Rules.Artifacts, Stored: d.e.stored()}
	stamp.Results = project.MarkResults(&st.Entry, large, limit, st.Timestamp)
	st.Entry.Count = int64(len(e.Items))
	content := threads.Content{Text: d.e.Text, Refs: blobs}
	if e.Content != nil {
		content.Text, st.Entry.Raw = e.Content, d.e.Text
	}
	d.Holds = append(d.Holds, blobs...)
	content.Refs = d.refer(content.Refs, nodes)
	d.keep(&content, &st, e.Compact)
	stamp.Node = d.append(&st, content).Ref
	d.attach(a.dialect, stamp, large)
	d.post(stamp, e.Items, st.Entry.First)
	d.prompts(a.dialect, &st, e.Items, others)
	was := d.Head.Standing
	d.account(&e)
	if e.Role != dialect.RoleUser && dialect.IsNote(d.Head.Dialect, a.dialect.Name()) { // somebody ran it beside the agent
		d.Head.Standing = was
	}
	d.stands(a, &e)
	return nil
}

// read is lang.Read; what a dialect cannot take is a reason for the dead letters, not for the persister's end.
func read(lang dialect.Dialect, text []byte, m *dialect.Memory) (e dialect.Entry, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("dialect %s: %v", lang.Name(), r)
		}
	}()
	return lang.Read(text, m)
}

// record is what the thread remembers of the entry beside the step itself.
func (d *draft) record(a addition, e *dialect.Entry, before dialect.Memory) threads.Record {
	d.Head.Entries++
	r := threads.Record{
		Dialect: a.dialect.Name(), ID: e.ID, Type: e.Type, Index: d.Head.Entries, First: d.Head.N + 1,
		Projection: project.Version(a.dialect), User: d.e.User, Claimed: d.e.Claimed,
	}
	for _, sp := range d.e.Cuts.Splices {
		r.Splices = append(r.Splices, [2]int64{int64(sp.Offset), int64(sp.Form)})
	}
	if a.operation {
		r.Dialect = ""
	}
	if e.Compact != "" {
		r.Kept = e.Kept
	}
	if d.Memory.Used() {
		r.Memory = before.Encode()
	}
	return r
}

// stands notes in the head what a step leaves the thread as. One beside what the thread's agent says takes neither its
// dialect nor its leaf.
func (d *draft) stands(a addition, e *dialect.Entry) {
	switch name := a.dialect.Name(); {
	case a.operation:
	case !dialect.IsJSON(name) || !dialect.Beside(d.Head.Dialect, name):
		d.Head.Leaf, d.Head.Dialect = leafOf(a.dialect, e), dialect.Lead(d.Head.Dialect, name)
	}
	if e.Role == threads.RoleEnd && d.Head.Status != threads.StatusFailed {
		d.Head.Status = threads.StatusCompleted
	}
}

// refer adds what a step refers to: a blob's record, and the pack of a node, are not to be collected before the commit.
func (d *draft) refer(refs []casstore.Ref, to []casstore.Located) []casstore.Ref {
	for _, at := range to {
		refs = append(refs, at.Ref)
		if at.Ref.Kind() == casstore.KindBlob {
			d.Holds = append(d.Holds, at.Ref)
			continue
		}
		d.Locate = append(d.Locate, at)
		d.Refers = append(d.Refers, at)
	}
	return refs
}

// keep adds what the entry's text does not hold itself: blobs that were moved out of it, the entry as it was before a
// cut (SPEC T9), and a compact summary (SPEC C6); the content refers to all, so that gc keeps them.
func (d *draft) keep(content *threads.Content, st *threads.State, compact string) {
	for _, b := range d.e.Blobs {
		d.Blobs = append(d.Blobs, b)
		content.Refs = append(content.Refs, b.Ref)
	}
	if !d.e.Full.IsZero() {
		st.Entry.Full = d.e.Full
		d.Blobs = append(d.Blobs, Blob{Ref: d.e.Full})
		content.Refs = append(content.Refs, d.e.Full)
	}
	if d.e.Cuts.Full != nil {
		st.Entry.Full = casstore.SumBlob(d.e.Cuts.Full)
		d.Blobs = append(d.Blobs, Blob{Ref: st.Entry.Full, Bytes: d.e.Cuts.Full})
		content.Refs = append(content.Refs, st.Entry.Full)
	}
	if compact != "" {
		st.Compact = threads.Content{Text: []byte(compact)}.AddTo(&d.Nodes)
		content.Refs = append(content.Refs, st.Compact)
	}
	if d.e.pointer != nil {
		content.Refs = append(content.Refs, d.Nodes.AddNode(d.e.pointer))
	}
	content.Refs = distinct(content.Refs)
}

func distinct(refs []casstore.Ref) []casstore.Ref {
	if len(refs) < 2 {
		return refs
	}
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
