package rehydrate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"spool/internal/jsonscan"
	"spool/internal/mapped"
	"spool/internal/project"
	"spool/pkg/casstore"
	"spool/pkg/dialect"
	"spool/pkg/events"
	"spool/pkg/sessions"
	"spool/pkg/threads"
)

// ompDialect is the dialect whose entries make session files.
const ompDialect = "omp"

// Placed is an entry in the tree of its thread.
type Placed struct {
	sessions.Entry
	At    casstore.Located // its state
	Index int64            // its place in the thread, from 1
}

// Session reads a thread as a session.
type Session struct {
	Header  sessions.Header // that of the file; of a thread without one, its ID is ""
	OMP     bool            // the entries are those of session files
	Entries []Placed        // in the order in which they came, branches included
	Leaf    sessions.Leaf

	under map[casstore.Ref]string // state → the entry that the next one goes under
}

// at is the leaf while the thread's head is at that state.
func (s *Session) at(state casstore.Ref) sessions.Leaf {
	if id := s.under[state]; id != "" {
		return sessions.At(id)
	}
	return sessions.Root
}

// Session reads a thread whole. Entries are in the current form of the format (SPEC S5). One that does not say its parent is
// a child of what was the leaf when it came, and one without an id has EntryID, or "#" and its index in a thread of another
// dialect.
func (s Source) Session(ctx context.Context, head threads.Head, form Form) (*Session, error) {
	r := newPlacer(s, head, form)
	for step, err := range s.Reader.Entries(ctx, head) {
		if err != nil {
			return nil, err
		}
		if err := r.take(ctx, step); err != nil {
			return nil, err
		}
	}
	if len(head.Recent) > 0 {
		r.session.Leaf = r.session.at(head.Recent[0].Ref)
	}
	return &r.session, nil
}

// Tree is the session in memory, with its leaf where the thread has it.
func (s *Session) Tree() *sessions.Tree {
	entries := mapped.List(s.Entries, func(e Placed) sessions.Entry { return e.Entry })
	t := sessions.NewTree(s.Header, entries...)
	if id := s.Leaf.ID(); id == "" || t.Branch(id) != nil {
		t.ResetLeaf()
	}
	return t
}

// placer gives entries their places, in the order in which they came.
type placer struct {
	src     Source
	dialect string // the thread's
	form    Form
	session Session
	migrate *sessions.Migration // nil before the header
	taken   map[string]bool
}

func newPlacer(s Source, head threads.Head, form Form) *placer {
	return &placer{
		src: s, dialect: head.Dialect, form: form, taken: map[string]bool{},
		session: Session{Leaf: sessions.Root, under: map[casstore.Ref]string{}},
	}
}

func (r *placer) take(ctx context.Context, step threads.Step) error {
	record := &step.State.Entry
	parent := r.session.under[step.Parent]
	r.session.under[step.At.Ref] = parent
	if record.Dialect == "" || record.Dialect == rawDialect || record.Dialect == partDialect ||
		dialect.Beside(r.dialect, record.Dialect) {
		return nil
	}
	raw, err := r.src.text(ctx, step, r.form)
	if err != nil {
		return err
	}
	var e sessions.Entry
	if record.Dialect == ompDialect {
		var ok bool
		if jsonscan.KindOf(raw) != jsonscan.KindObject || r.begins(raw) {
			return nil
		}
		if e, ok = r.entry(raw, record.ID, parent); !ok {
			return nil
		}
	} else {
		e = sessions.Entry{Type: record.Type, ID: record.ID, Parent: parent, Raw: raw}
		if e.ID == "" {
			e.ID = fmt.Sprintf("#%d", record.Index)
		}
	}
	r.taken[e.ID] = true
	r.session.under[step.At.Ref] = e.ID
	r.session.Entries = append(r.session.Entries, Placed{Entry: e, At: step.At, Index: record.Index})
	return nil
}

// rawDialect holds what is no JSON: nothing of a tree.
const rawDialect = "raw"

// begins reports whether raw is the header, or a title slot before it: no entry.
func (r *placer) begins(raw []byte) bool {
	if r.migrate != nil {
		return false
	}
	switch typ, _ := jsonscan.Text(jsonscan.Get(raw, "type")); typ {
	case sessions.TypeTitleSlot:
		return true
	case sessions.TypeHeader:
		if h, err := sessions.ParseHeader(raw); err == nil {
			r.session.Header, r.migrate = h, sessions.NewMigration(h)
		}
		return true
	}
	return false
}

// entry is an entry of a session file in its current form, at its place. own is the id that it was stored with.
// ok is false for what is no entry (sessions.Migration).
func (r *placer) entry(raw []byte, own, parent string) (e sessions.Entry, ok bool) {
	if r.migrate == nil { // entries without a header are of the current version
		r.migrate = sessions.NewMigration(sessions.Header{Version: sessions.Version})
	}
	if e, ok = r.migrate.Entry(raw, own); !ok {
		return e, false
	}
	r.session.OMP = true
	id := e.ID
	for attempt := 0; id == "" || e.ID == "" && r.taken[id]; attempt++ {
		id = sessions.EntryID(r.session.Header.ID, len(r.session.Entries)+1, attempt)
	}
	if r.session.Header.Version != 1 && jsonscan.Get(raw, "parentId") != nil {
		parent = e.Parent
	}
	return e.Placed(id, parent), true
}

// text is the entry of a step in a form.
func (s Source) text(ctx context.Context, step threads.Step, form Form) (raw []byte, err error) {
	switch form {
	case Stored:
		raw, _, err = s.Stored(ctx, step)
	case Full:
		raw, _, err = s.Raw(ctx, step)
	case Loaded:
		s.Warn = once(s.Warn)
		raw, _, err = s.Raw(ctx, step)
		if err == nil && jsonscan.Valid(raw) == nil {
			raw, err = s.resolve(ctx, step.State.Entry.Index, raw)
		}
	}
	return raw, err
}

// once tells of each blob one time.
func once(warn func(Missing)) func(Missing) {
	if warn == nil {
		return nil
	}
	told := map[casstore.Ref]bool{}
	return func(m Missing) {
		if !told[m.Ref] {
			told[m.Ref] = true
			warn(m)
		}
	}
}

// FirstHeader is the header that the file of a thread begins with, and false if it has none: one state in eleven is read.
func (s Source) FirstHeader(ctx context.Context, head threads.Head) (h sessions.Header, ok bool, err error) {
	r := newPlacer(s, head, Stored)
	for step, err := range s.Reader.Entries(ctx, head) {
		if err == nil {
			err = r.take(ctx, step)
		}
		if err != nil {
			return h, false, err
		}
		if r.migrate != nil || len(r.session.Entries) > 0 {
			break
		}
	}
	return r.session.Header, r.session.Header.ID != "", nil
}

// Header is the header of a thread's session: that of its fork, else the first of its file, else one made of what its
// record says; with what operations on the session made of it.
func (s Source) Header(ctx context.Context, t events.Thread, head threads.Head, info sessions.Info) (
	sessions.Header, error,
) {
	first, _, err := s.FirstHeader(ctx, head)
	if err != nil {
		return first, err
	}
	var fork []byte
	if info.Parent != "" { // only a session that has a parent is looked through
		if fork, _, err = s.ForkHeader(ctx, head, t.Session); err != nil {
			return first, err
		}
	}
	return HeaderOn(t, info, first, fork)
}

// HeaderOn is Header for a caller that knows what FirstHeader gives and, of a session that was forked, ForkHeader.
func HeaderOn(t events.Thread, info sessions.Info, first sessions.Header, fork []byte) (h sessions.Header, err error) {
	if h = first; h.ID == "" {
		h = sessions.Header{Type: sessions.TypeHeader, Version: sessions.Version, ID: t.Session, Cwd: info.Cwd,
			Title: info.Title, ParentSession: info.Parent}
	}
	if fork != nil {
		if h, err = sessions.ParseHeader(fork); err != nil {
			return h, err
		}
	}
	if t.Name != events.MainThread {
		return h, nil
	}
	return info.Over(h), nil
}

// ForkHeader is the header that the state of a session's fork holds (SPEC S9), and whether its harness forked it; nil if there is none.
func (s Source) ForkHeader(ctx context.Context, head threads.Head, session string) (header []byte, own bool, err error) {
	step, err := s.Reader.Find(ctx, head, func(st threads.State) bool {
		return st.Role == threads.RoleFork && st.Entry.ID == session && st.Entry.Type == sessions.TypeHeader
	})
	if err != nil {
		return nil, false, ignore(err, threads.ErrNoStep)
	}
	content, err := step.ReadContent(ctx)
	return content.Text, project.IsOwn(step.State), err
}

// OwnHeader is the header of a session's file if its harness forked it, as it says it before anything was said of the session in Spool; nil
// if its harness forked none of that name in this thread.
func (s Source) OwnHeader(ctx context.Context, head threads.Head, session string) ([]byte, error) {
	header, own, err := s.ForkHeader(ctx, head, session)
	if !own {
		return nil, err
	}
	return header, err
}

// HeaderOfEntries is a header of the version of which a thread's entries are: an export writes them as they were.
func (s Source) HeaderOfEntries(ctx context.Context, head threads.Head, header []byte) ([]byte, error) {
	first, ok, err := s.FirstHeader(ctx, head)
	if err != nil || !ok || first.Version == sessions.Version {
		return header, err
	}
	h, err := sessions.ParseHeader(header)
	h.Version = first.Version
	return h.JSON(), err
}

// ExportUnder is Export with a header in place of those that the thread's entries begin with.
func (s Source) ExportUnder(
	ctx context.Context, head threads.Head, header []byte, form Form, w io.Writer,
) (entries int, err error) {
	s.header = header
	return s.Export(ctx, head, form, w)
}

// Path reads the entries from the root to a state, as Session has them: the leaf is the last of them. A session of version 1
// is read whole, because places in it count from the beginning of the file.
func (s Source) Path(ctx context.Context, head threads.Head, from casstore.Located, form Form) (*Session, error) {
	var steps []threads.Step
	for step, err := range s.Reader.Walk(ctx, from) {
		if err != nil {
			return nil, err
		}
		steps = append(steps, step)
	}
	r := newPlacer(s, head, form)
	h, ok, err := s.FirstHeader(ctx, head)
	if err != nil {
		return nil, err
	}
	if ok && h.Version < 2 {
		whole, err := s.Session(ctx, head, form)
		if err != nil {
			return nil, err
		}
		whole.Leaf = whole.at(from.Ref)
		return whole, nil
	}
	if ok {
		r.session.Header, r.migrate = h, sessions.NewMigration(h)
	}
	for _, step := range slices.Backward(steps) {
		if err := r.take(ctx, step); err != nil {
			return nil, err
		}
	}
	r.session.Leaf = r.session.at(from.Ref)
	return &r.session, nil
}

// Dialect is that of a thread which ends with a state.
func (s Source) Dialect(ctx context.Context, at casstore.Located) (name string, err error) {
	for step, err := range s.Reader.Walk(ctx, at) {
		if err != nil {
			return "", err
		}
		if was := step.State.Entry.Dialect; was != "" && dialect.Lead(was, name) == was { // it came before
			name = was
		}
	}
	return name, nil
}

// Said tells whether a step is one of its thread's agent, or of Spool about it: no note beside, and no result of an output.
func Said(head threads.Head, step threads.Step) bool {
	name := step.State.Entry.Dialect
	if made, ok := project.Made(step.State.Entry.Projection); name == "" && ok {
		name = made.Name()
	}
	return name == "" || !dialect.Beside(head.Dialect, name)
}

func ignore(err, harmless error) error {
	if errors.Is(err, harmless) {
		return nil
	}
	return err
}
