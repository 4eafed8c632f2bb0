package persist

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

// ompDialect is the dialect whose entries make a session file, and that of the entries which operations append.
const ompDialect = "omp"

// tree applies an operation on the tree of a thread's entries (SPEC S3, S4).
func (l *lane) tree(ctx context.Context, c *commit, t *thread, s *staged, op events.Control) error {
	switch op.Op {
	case events.OpBranch:
		if *op.Branch == (events.Branch{}) {
			return fmt.Errorf("%w: branch: name an entry; reset goes before the first one", events.ErrControl)
		}
		head, err := l.moved(ctx, c, t, *op.Branch)
		if err != nil {
			return err
		}
		c.news(t, s, head)
		return nil
	case events.OpReset:
		if t.head.Start.IsZero() {
			return fmt.Errorf("%w: reset: there is no thread %s", events.ErrControl, t.key)
		}
		head := t.head.Clone()
		head.MoveTo(nil)
		head.Leaf = ""
		c.news(t, s, head)
		return nil
	case events.OpLabel:
		return l.label(ctx, c, t, s, *op.Label)
	case events.OpSummary:
		return l.summarize(ctx, c, t, s, *op.Summary)
	}
	draft, err := sessions.ParseDraft(op.Append.Entry)
	if err != nil {
		return fmt.Errorf("%w: append: %w", events.ErrControl, err)
	}
	return l.append(ctx, c, t, s, draft, op.Append.Leaf)
}

// label names an entry, which must be there.
func (l *lane) label(ctx context.Context, c *commit, t *thread, s *staged, op events.Label) error {
	return l.append(ctx, c, t, s, sessions.Label(op.Target, op.Label), nil)
}

// summarize appends a branch summary under the entry, or as a root (SPEC S3).
func (l *lane) summarize(ctx context.Context, c *commit, t *thread, s *staged, op events.Summary) error {
	if err := TakesAppends(t.key, t.head); err != nil {
		return err
	}
	sum := sessions.Summarized{Summary: op.Summary, Details: op.Details}
	if op.FromExtension != nil {
		sum.FromExtension = strconv.AppendBool(nil, *op.FromExtension)
	}
	head, err := l.moved(ctx, c, t, events.Branch{Entry: op.Entry})
	if err != nil {
		return err
	}
	return l.put(ctx, c, t, s, sessions.BranchSummary(op.Entry, sum), op.Entry, addition{at: &head})
}

// append puts a draft after the leaf. A writer that takes another entry for the leaf lost the race for it: its entry goes
// where it was meant to be, says which entry is the leaf, and that one stays it (SPEC S13).
func (l *lane) append(ctx context.Context, c *commit, t *thread, s *staged, d sessions.Draft, meant *string) error {
	if err := TakesAppends(t.key, t.head); err != nil {
		return err
	}
	leaf, err := l.leaf(ctx, c, t)
	if err != nil {
		return err
	}
	if id := d.Target(); d.Type() == sessions.TypeLabel && (id != leaf || id == "") {
		if err := l.barrier(ctx, c); err != nil {
			return err
		}
		if _, err := l.find(ctx, t.head, events.Branch{Entry: id}); err != nil {
			return err
		}
	}
	if meant == nil || *meant == leaf {
		at := t.head.Clone()
		return l.put(ctx, c, t, s, d, leaf, addition{at: &at})
	}
	at, err := l.moved(ctx, c, t, events.Branch{Entry: *meant})
	if err != nil {
		return err
	}
	before, memory := t.head.Clone(), t.memory
	if err := l.put(ctx, c, t, s, d, *meant, addition{at: &at, meta: metaMap(events.MetaTaken, leaf)}); err != nil {
		return err
	}
	t.head.MoveTo(before.Recent)
	t.head.Leaf, t.head.Dialect, t.memory = before.Leaf, before.Dialect, memory
	c.locate(&t.head) // what comes next builds on it
	if pack := before.Head().Pack; pack != c.pack {
		c.byKey[t.key].beside = append(c.byKey[t.key].beside, pack)
	}
	return nil
}

// TakesAppends refuses threads whose entries are no omp entries.
func TakesAppends(t events.Thread, head threads.Head) error {
	if d := head.Dialect; d != "" && d != ompDialect && d != rawDialect {
		return fmt.Errorf("%w: %s holds entries of the dialect %s: only %s sessions take labels, summaries and appended entries; branch and reset work in every thread",
			events.ErrControl, t, d, ompDialect)
	}
	return nil
}

// put makes an entry of a draft and appends it under a parent.
func (l *lane) put(ctx context.Context, c *commit, t *thread, s *staged, d sessions.Draft, parent string, a addition) error {
	e := &s.event
	ms := e.Time
	if ms == 0 {
		ms = t.head.Updated
	}
	id := events.AppendedID(t.key, e.Producer, e.Epoch, e.Seq)
	entry, err := d.Entry(sessions.Stamp{ID: id, Time: time.UnixMilli(ms)}, parent)
	if err != nil {
		return fmt.Errorf("%w: %w", events.ErrControl, err)
	}
	s.blobs = nil // it may be that it is applied again
	if s.cuts, err = truncate.Entry(entry.Raw, s.externalize, truncate.Options{}); err != nil {
		return fmt.Errorf("%w: %w", events.ErrControl, err)
	}
	s.text = s.cuts.Text
	var ok bool
	if a.dialect, ok = dialect.Lookup(ompDialect); !ok {
		return fmt.Errorf("%w: this version has no dialect %s", events.ErrControl, ompDialect)
	}
	return l.step(ctx, c, t, s, a)
}

// leaf is LeafID of the thread; what has to be read must be committed.
func (l *lane) leaf(ctx context.Context, c *commit, t *thread) (id string, err error) {
	if !knowsLeaf(t.head) {
		if err := l.barrier(ctx, c); err != nil {
			return "", err
		}
	}
	err = l.p.retry(ctx, "leaf", func() error {
		id, err = LeafID(ctx, l.p.reader, t.head)
		return err
	})
	return id, err
}

// LeafID is the id of the entry that the next one of a session goes under, "" for none. Behind what is no entry of a session
// file, a header or a line that is no JSON for instance, it is the entry before.
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
			return "", fmt.Errorf("%w: the entry at the leaf has no id, so that nothing can name it as its parent: branch to one that has", events.ErrControl)
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
func (l *lane) moved(ctx context.Context, c *commit, t *thread, to events.Branch) (threads.Head, error) {
	head := t.head.Clone()
	if to == (events.Branch{}) {
		head.MoveTo(nil)
		head.Leaf = ""
		return head, nil
	}
	if to.Entry != "" && to.Entry == head.Leaf {
		return head, nil
	}
	if err := l.barrier(ctx, c); err != nil {
		return head, err
	}
	step, err := l.find(ctx, head, to)
	if err != nil {
		return head, err
	}
	err = l.p.retry(ctx, "branch", func() error {
		recent, err := l.p.reader.Recent(ctx, step.At)
		if err == nil {
			head.MoveTo(recent)
			head.Leaf = step.State.Entry.ID
		}
		return err
	})
	return head, err
}

// find reads the state of an entry; all before must be committed.
func (l *lane) find(ctx context.Context, head threads.Head, to events.Branch) (step threads.Step, err error) {
	err = l.p.retry(ctx, "find an entry", func() error {
		step, err = FindEntry(ctx, l.p.reader, head, to)
		return err
	})
	return step, err
}

// FindEntry reads the state of an entry; of several with an id, the newest. The error is sessions.NotFound, or wraps
// events.ErrControl, threads.ErrNoPoint or those of threads.Reader.
func FindEntry(ctx context.Context, r threads.Reader, head threads.Head, to events.Branch) (threads.Step, error) {
	if to.Node == "" {
		step, err := r.Find(ctx, head, func(st threads.State) bool { return to.Entry != "" && st.Entry.ID == to.Entry && isEntry(st.Entry) })
		if errors.Is(err, threads.ErrNoStep) {
			err = sessions.NotFound(to.Entry)
		}
		return step, err
	}
	ref, err := casstore.ParseRef(to.Node)
	if err != nil || to.Entry != "" {
		return threads.Step{}, fmt.Errorf("%w: branch: %w", events.ErrControl, errors.Join(err, errors.New("want an entry's id or its node")))
	}
	step, err := r.FindNode(ctx, head, ref)
	if err == nil && !isEntry(step.State.Entry) {
		err = fmt.Errorf("%w: branch: %s is no entry", events.ErrControl, ref)
	}
	return step, err
}

// isEntry reports whether an agent wrote it, and it has a place in a tree.
func isEntry(r threads.Record) bool {
	return r.Dialect != "" && (r.Dialect != ompDialect || !isHeader(r.Type))
}

func isHeader(typ string) bool { return typ == sessions.TypeHeader || typ == sessions.TypeTitleSlot }

// leafOf is the id of the leaf once an entry is appended; the header of a session file is none.
func leafOf(d dialect.Dialect, e *dialect.Entry) string {
	if d.Name() == ompDialect && isHeader(e.Type) {
		return ""
	}
	return e.ID
}

// where is the head that an addition goes after.
func (l *lane) where(ctx context.Context, c *commit, t *thread, a addition, said dialect.Place) (threads.Head, error) {
	if a.at != nil {
		return *a.at, nil
	}
	return l.place(ctx, c, t, said)
}
