package apply

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"spool/pkg/casstore"
	"spool/pkg/dialect"
	"spool/pkg/events"
	"spool/pkg/sessions"
	"spool/pkg/threads"
	"spool/pkg/truncate"
)

// tree applies an operation on the tree of a thread's entries (SPEC S3, S4).
func (d *draft) tree(ctx context.Context, op events.Control) error {
	switch op.Op {
	case events.OpBranch:
		if *op.Branch == (events.Branch{}) {
			return fmt.Errorf("%w: branch: name an entry; reset goes before the first one", events.ErrControl)
		}
		head, err := d.moved(ctx, *op.Branch)
		if err == nil {
			d.note(head)
		}
		return err
	case events.OpReset:
		if d.Head.Start.IsZero() {
			return fmt.Errorf("%w: reset: there is no thread %s", events.ErrControl, d.st.Key)
		}
		head := d.Head.Clone()
		head.MoveTo(nil)
		head.Leaf = ""
		d.note(head)
		return nil
	case events.OpLabel: // of an entry, which must be there
		return d.appendDraft(ctx, sessions.Label(op.Label.Target, op.Label.Label), nil)
	case events.OpSummary:
		return d.summarize(ctx, *op.Summary)
	}
	entry, err := sessions.ParseDraft(op.Append.Entry)
	if err != nil {
		return fmt.Errorf("%w: append: %w", events.ErrControl, err)
	}
	return d.appendDraft(ctx, entry, op.Append.Leaf)
}

// summarize appends a branch summary under the entry, or as a root (SPEC S3).
func (d *draft) summarize(ctx context.Context, op events.Summary) error {
	if err := TakesAppends(d.st.Key, d.Head); err != nil {
		return err
	}
	sum := sessions.Summarized{Summary: op.Summary, Details: op.Details}
	if op.FromExtension != nil {
		sum.FromExtension = strconv.AppendBool(nil, *op.FromExtension)
	}
	head, err := d.moved(ctx, events.Branch{Entry: op.Entry})
	if err != nil {
		return err
	}
	return d.appendUnder(ctx, sessions.BranchSummary(op.Entry, sum), op.Entry, addition{at: &head})
}

// appendDraft puts an entry after the leaf. A writer that takes another entry for the leaf lost the race for it: its
// entry goes where it was meant to be, says which entry is the leaf, and that one stays it (SPEC S13).
func (d *draft) appendDraft(ctx context.Context, entry sessions.Draft, meant *string) error {
	if err := TakesAppends(d.st.Key, d.Head); err != nil {
		return err
	}
	leaf, err := d.leaf(ctx)
	if err != nil {
		return err
	}
	if id := entry.Target(); entry.Type() == sessions.TypeLabel && (id != leaf || id == "") {
		if err := d.w.Settle(ctx, d.st.Key); err != nil {
			return err
		}
		if _, err := FindEntry(ctx, d.w.Reader(), d.Head, events.Branch{Entry: id}); err != nil {
			return err
		}
	}
	if meant == nil || *meant == leaf {
		at := d.Head.Clone()
		return d.appendUnder(ctx, entry, leaf, addition{at: &at})
	}
	at, err := d.moved(ctx, events.Branch{Entry: *meant})
	if err != nil {
		return err
	}
	if err := d.appendUnder(ctx, entry, *meant, addition{at: &at, meta: metaMap(events.MetaTaken, leaf)}); err != nil {
		return err
	}
	before := &d.st.Head
	d.Head = d.Head.Clone()
	d.Head.MoveTo(before.Recent)
	d.Head.Leaf, d.Head.Dialect, d.Memory = before.Leaf, before.Dialect, d.st.Memory
	d.Locate = append(d.Locate, d.Head.Located()...) // what comes next builds on it
	d.Beside = append(d.Beside, before.Head().Pack)
	return nil
}

// TakesAppends refuses threads whose entries are no omp entries.
func TakesAppends(t events.Thread, head threads.Head) error {
	if d := head.Dialect; d != "" && d != ompDialect && d != rawDialect {
		return fmt.Errorf("%w: %s holds entries of the dialect %s: only %s sessions take labels, summaries and appended entries; "+
			"branch and reset work in every thread",
			events.ErrControl, t, d, ompDialect)
	}
	return nil
}

// appendUnder makes an entry and appends it under a parent.
func (d *draft) appendUnder(ctx context.Context, draft sessions.Draft, parent string, a addition) error {
	e := &d.e
	id := events.AppendedID(d.st.Key, e.Producer, e.Epoch, e.Seq)
	entry, err := draft.Entry(sessions.Stamp{ID: id, Time: time.UnixMilli(d.said())}, parent)
	if err != nil {
		return fmt.Errorf("%w: %w", events.ErrControl, err)
	}
	if err := e.cut(entry.Raw); err != nil {
		return fmt.Errorf("%w: %w", events.ErrControl, err)
	}
	var ok bool
	if a.dialect, ok = dialect.Lookup(ompDialect); !ok {
		return fmt.Errorf("%w: this version has no dialect %s", events.ErrControl, ompDialect)
	}
	return d.step(ctx, a)
}

// cut applies the size rules to a JSON entry (SPEC T).
func (e *Staged) cut(raw []byte) (err error) {
	e.Blobs = nil
	e.Cuts, err = truncate.Entry(raw, func(b []byte) string {
		ref := casstore.SumBlob(b)
		e.Blobs = append(e.Blobs, Blob{ref, b})
		return ref.String()
	}, SizeRules(e.Dialect, e.How))
	e.Text = e.Cuts.Text
	return err
}

// leaf is LeafID of the thread; what has to be read must be committed.
func (d *draft) leaf(ctx context.Context) (id string, err error) {
	if !knowsLeaf(d.Head) {
		if err := d.w.Settle(ctx, d.st.Key); err != nil {
			return "", err
		}
	}
	return LeafID(ctx, d.w.Reader(), d.Head)
}

// LeafID is the id of the entry that the next one of a session goes under, "" for none. Behind what is no entry of a
// session file, a header or a line that is no JSON for instance, it is the entry before.
func LeafID(ctx context.Context, r threads.Reader, head threads.Head) (string, error) {
	if knowsLeaf(head) {
		return head.Leaf, nil
	}
	for step, err := range r.Walk(ctx, head.Head()) {
		if err != nil {
			return "", err
		}
		switch e := step.State.Entry; {
		case e.Dialect != ompDialect || isHeader(e.Type):
		case e.ID == "":
			return "", fmt.Errorf("%w: the entry at the leaf has no id, so that nothing can name it as its parent: "+
				"branch to one that has", events.ErrControl)
		default:
			return e.ID, nil
		}
	}
	return "", nil
}

// knowsLeaf reports whether a head says itself what the leaf is.
func knowsLeaf(h threads.Head) bool {
	return len(h.Recent) == 0 || h.Dialect == ompDialect && h.Leaf != ""
}

// moved is the thread's head after its leaf went to an entry, or with no entry named, to before the first one.
func (d *draft) moved(ctx context.Context, to events.Branch) (threads.Head, error) {
	head := d.Head.Clone()
	if to == (events.Branch{}) {
		head.MoveTo(nil)
		head.Leaf = ""
		return head, nil
	}
	if to.Entry != "" && to.Entry == head.Leaf {
		return head, nil
	}
	if err := d.w.Settle(ctx, d.st.Key); err != nil {
		return head, err
	}
	step, err := FindEntry(ctx, d.w.Reader(), head, to)
	if err != nil {
		return head, err
	}
	recent, err := d.w.Reader().Recent(ctx, step.At)
	if err == nil {
		head.MoveTo(recent)
		head.Leaf = step.State.Entry.ID
	}
	return head, err
}

// FindEntry reads the state of an entry; of several with an id, the newest. The error is sessions.NotFound, or wraps
// events.ErrControl, threads.ErrNoPoint or those of threads.Reader.
func FindEntry(ctx context.Context, r threads.Reader, head threads.Head, to events.Branch) (threads.Step, error) {
	if to.Node == "" {
		step, err := r.Find(ctx, head, func(st threads.State) bool {
			return to.Entry != "" && st.Entry.ID == to.Entry && isEntry(head, st.Entry)
		})
		if errors.Is(err, threads.ErrNoStep) {
			err = sessions.NotFound(to.Entry)
		}
		return step, err
	}
	ref, err := casstore.ParseRef(to.Node)
	if err != nil || to.Entry != "" {
		err = errors.Join(err, errors.New("want an entry's id or its node"))
		return threads.Step{}, fmt.Errorf("%w: branch: %w", events.ErrControl, err)
	}
	step, err := r.FindNode(ctx, head, ref)
	if err == nil && !isEntry(head, step.State.Entry) {
		err = fmt.Errorf("%w: branch: %s is no entry", events.ErrControl, ref)
	}
	return step, err
}

// isEntry reports whether the thread's agent wrote it, and it has a place in a tree.
func isEntry(head threads.Head, r threads.Record) bool {
	return r.Dialect != "" && !dialect.Beside(head.Dialect, r.Dialect) && (r.Dialect != ompDialect || !isHeader(r.Type))
}

func isHeader(typ string) bool { return typ == sessions.TypeHeader || typ == sessions.TypeTitleSlot }

// leafOf is the id of the leaf once an entry is appended; the header of a session file is none.
func leafOf(d dialect.Dialect, e *dialect.Entry) string {
	if d.Name() == ompDialect && isHeader(e.Type) {
		return ""
	}
	return e.ID
}
