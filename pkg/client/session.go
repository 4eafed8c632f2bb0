package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"spool/internal/apply"
	"spool/internal/family"
	"spool/internal/jsonscan"
	"spool/internal/natsio"
	"spool/internal/retry"
	"spool/pkg/casstore"
	"spool/pkg/events"
	"spool/pkg/sessions"
	"spool/pkg/threads"
)

// ErrRefused: what was published was not applied. The dead letter of its thread says why.
var ErrRefused = family.Conflict.New("it was refused: its dead letter says why")

// LeafMoved tells a writer that another entry was the leaf when its own was to be (SPEC S13). Both are kept, as siblings, and
// the other one stays the leaf.
type LeafMoved struct {
	Entry string // the writer's own, under the entry where it was meant to be
	Taken string // the entry that is the leaf; "" when there is none
}

func (e *LeafMoved) Error() string {
	if e.Taken == "" {
		return fmt.Sprintf("entry %s is kept and not the leaf: the leaf was reset", e.Entry)
	}
	return fmt.Sprintf("entry %s is kept and not the leaf: entry %s took it", e.Entry, e.Taken)
}

// Branch moves a thread's leaf to an entry, and nothing else (SPEC S3); it returns when the leaf is there. The error wraps
// sessions.ErrNotFound, threads.ErrNoThread or ErrEnded.
func (t ThreadHandle) Branch(ctx context.Context, entry string) error {
	head, err := t.c.open(ctx, t.Thread)
	if err != nil {
		return err
	}
	step, err := t.c.entry(ctx, t.Thread, head, entry)
	if err != nil {
		return err
	}
	to := events.Branch{Entry: entry}
	if step.State.Entry.ID != entry {
		to = events.Branch{Node: step.At.Ref.String()}
	}
	return t.c.operate(ctx, t.Thread, events.Control{Op: events.OpBranch, Branch: &to})
}

// Reset takes a thread's leaf away: the next entry is a new root (SPEC S3).
func (t ThreadHandle) Reset(ctx context.Context) error {
	if _, err := t.c.open(ctx, t.Thread); err != nil {
		return err
	}
	return t.c.operate(ctx, t.Thread, events.Control{Op: events.OpReset, Reset: &events.Reset{}})
}

// Label names an entry of an omp session; "" takes its name away (SPEC S4). It returns the id of the label entry.
func (t ThreadHandle) Label(ctx context.Context, entry, label string) (id string, err error) {
	if err := t.c.appendable(ctx, t.Thread, entry); err != nil {
		return "", err
	}
	return t.c.appended(ctx, t.c.Publisher(PublisherConfig{}), t.Thread, 1,
		events.Control{Op: events.OpLabel, Label: &events.Label{Target: entry, Label: label}})
}

// BranchWithSummary goes back to an entry of an omp session, "" for before the first one, and appends what was learned on
// the path that is left (SPEC S3). It returns the id of the branch_summary entry.
func (t ThreadHandle) BranchWithSummary(ctx context.Context, entry string, s sessions.Summarized) (id string, err error) {
	if err := t.c.appendable(ctx, t.Thread, entry); err != nil {
		return "", err
	}
	op := &events.Summary{Entry: entry, Summary: s.Summary, Details: s.Details}
	if err := valid(s.Details); err != nil {
		return "", err
	}
	if s.FromExtension != nil {
		from := string(s.FromExtension) == "true"
		op.FromExtension = &from
	}
	return t.c.appended(ctx, t.c.Publisher(PublisherConfig{}), t.Thread, 1, events.Control{Op: events.OpSummary, Summary: op})
}

// appendable checks what can be known before an entry is appended that refers to another, "" for none.
func (c *Client) appendable(ctx context.Context, t events.Thread, entry string) error {
	head, err := c.open(ctx, t)
	if err != nil {
		return err
	}
	if err := apply.TakesAppends(t, head); err != nil {
		return err
	}
	if _, err := apply.LeafID(ctx, c.reader, head); err != nil {
		return err
	}
	if entry != "" {
		_, err = apply.FindEntry(ctx, c.reader, head, events.Branch{Entry: entry})
	}
	return err
}

func valid(raw []byte) error {
	if raw == nil {
		return nil
	}
	if err := jsonscan.Valid(raw); err != nil {
		return fmt.Errorf("%w: %w", events.ErrControl, err)
	}
	return nil
}

// open reads the head of a thread that takes operations.
func (c *Client) open(ctx context.Context, t events.Thread) (threads.Head, error) {
	head, err := c.Thread(t).AwaitHead(ctx)
	if err == nil && head.Status == threads.StatusCompleted {
		err = fmt.Errorf("%w: %s", ErrEnded, t)
	}
	return head, err
}

// operate publishes an operation and returns when the thread has taken it. ErrRefused: another one was first, or the thread takes none.
func (c *Client) operate(ctx context.Context, t events.Thread, op events.Control) error {
	p := c.Publisher(PublisherConfig{})
	if err := p.Control(ctx, t, 1, op); err != nil {
		return err
	}
	return c.taken(ctx, waited{thread: t, producer: p.Producer(), first: 1, seq: 1, stored: c.offline == nil})
}

// appended publishes an operation that appends an entry, and reads what became of it.
func (c *Client) appended(ctx context.Context, p *Publisher, t events.Thread, seq uint64, op events.Control) (id string, err error) {
	if err := p.Control(ctx, t, seq, op); err != nil {
		return "", err
	}
	if err := c.awaitStored(ctx, t, p.cfg.Producer, p.cfg.Epoch, seq); err != nil {
		return "", err
	}
	head, err := c.Thread(t).Head(ctx)
	if err != nil {
		return "", err
	}
	id = events.AppendedID(t, p.cfg.Producer, p.cfg.Epoch, seq)
	step, err := apply.FindEntry(ctx, c.reader, head, events.Branch{Entry: id})
	if errors.Is(err, sessions.ErrNotFound) {
		return "", fmt.Errorf("%s of %s: %w", op.Op, t, ErrRefused)
	}
	if err != nil {
		return "", err
	}
	if taken, lost, err := takenBy(step.State.Meta); err != nil || lost {
		return id, errors.Join(err, asError(id, taken, lost))
	}
	return id, nil
}

func asError(id, taken string, lost bool) error {
	if !lost {
		return nil
	}
	return &LeafMoved{Entry: id, Taken: taken}
}

// takenBy reads from a state which entry was the leaf, if it is not the entry itself.
func takenBy(meta []byte) (id string, lost bool, err error) {
	if meta == nil {
		return "", false, nil
	}
	v, err := casstore.DecodeValue(meta)
	if err != nil {
		return "", false, err
	}
	m, _ := v.(map[string]any)
	id, lost = m[events.MetaTaken].(string)
	return id, lost, nil
}

// SessionWriter appends entries to an omp session one by one, each after the one before it. It is for one goroutine; other
// writers may append to the session meanwhile.
type SessionWriter struct {
	client *Client
	pub    *Publisher
	thread events.Thread
	seq    uint64
	leaf   string
}

// New begins an omp session and returns when it is there: cwd is where its agent works, parent the session that it goes
// on from, "" for none (SPEC S1). Nothing of the parent is taken; Fork does that. ErrThreadExists: the name is taken;
// ErrSessionNotFound: there is no such parent.
func (s SessionHandle) New(ctx context.Context, cwd, parent string) error {
	t := events.Thread{Session: s.ID, Name: events.MainThread}
	if err := t.Validate(); err != nil {
		return err
	}
	if err := new(sessions.Info).Move(cwd); err != nil {
		return fmt.Errorf("%w: new session: %w", events.ErrControl, err)
	}
	if err := s.c.checkParent(ctx, parent); err != nil {
		return fmt.Errorf("new session %s: its parent: %w", s.ID, err)
	}
	header := sessions.Header{ID: parent, Cwd: cwd}.Child(s.ID, time.Now())
	e := events.Event{
		Kind: events.KindEntry, Dialect: "omp", Thread: t, Producer: s.c.Publisher(PublisherConfig{}).Producer(), Seq: 1, Body: header.JSON(),
		User: events.UserFrom(ctx), Scope: events.ScopeFrom(ctx),
	}
	if err := retry.Do(ctx, nil, func() error { return s.c.beginWith(ctx, &e) }); err != nil {
		return fmt.Errorf("new session %s: %w", s.ID, err)
	}
	return s.c.await(ctx, waited{t, e.Producer, e.Epoch, e.Seq, e.Seq, true})
}

// checkParent refuses a parent that is known not to be there. Who may not know of it, or cannot look, is not told.
func (c *Client) checkParent(ctx context.Context, parent string) error {
	if parent == "" || !events.ScopeFrom(ctx).Session(parent) {
		return nil
	}
	err := c.Session(parent).Await(ctx)
	if errors.Is(err, events.ErrToken) || errors.Is(err, ErrSessionNotFound) && !errors.Is(err, ErrBehind) {
		return err
	}
	return nil
}

// beginWith publishes what a thread is to begin with. Of several who do one succeeds; the others are told ErrThreadExists. Doing it again
// after an unknown outcome is harmless.
func (c *Client) beginWith(ctx context.Context, e *events.Event) error {
	newest, err := c.events.NewestEvent(ctx, e.Thread)
	if err != nil {
		return err
	}
	last := newest.Last
	if newest.Seq != 0 && last.Producer == e.Producer && last.Epoch == e.Epoch && last.Seq == e.Seq { // of a try that got no answer
		return nil
	}
	switch head, err := c.Thread(e.Thread).AwaitHead(ctx); {
	case err == nil && head.Duplicate(e.Producer, e.Epoch, e.Seq):
		return nil
	case err == nil:
		return fmt.Errorf("%w: %s", ErrThreadExists, e.Thread)
	case !errors.Is(err, threads.ErrNoThread) || errors.Is(err, ErrBehind):
		return err
	}
	switch done, err := c.events.Done(ctx, newest); { // who may not ask what became of that does not know that there is no thread
	case err != nil:
		return err
	case !done:
		return fmt.Errorf("%s: %w", e.Thread, ErrBehind)
	}
	ch := natsio.Chain{Last: newest.Seq, Events: []*events.Event{e}}
	c.events.PublishChains(ctx, []*natsio.Chain{&ch})
	return retry.Raced(ch.Err)
}

// ErrTitled: the user named the session, and an automatic title does not replace that.
var ErrTitled = family.Conflict.New("the user gave the session its title")

// Name gives a session a title, and returns when it has it; its id stays. auto says that a program made the
// title up: the error is ErrTitled then if the user has given one. A header that is exported has the title, too.
func (s SessionHandle) Name(ctx context.Context, title string, auto bool) error {
	name := events.Name{Title: title, Auto: auto}
	var info sessions.Info
	if err := info.Name(title, apply.TitleSource(name)); err != nil {
		return fmt.Errorf("%w: name: %w", events.ErrControl, err)
	}
	if err := s.c.describe(ctx, s.ID, events.Control{Op: events.OpName, Name: &name}); err != nil {
		return fmt.Errorf("name session %s: %w", s.ID, err)
	}
	now, err := s.c.Internal().SessionInfo(ctx, s.ID)
	if err == nil && !now.TakesTitle(info.TitleSource) {
		err = fmt.Errorf("%w: %s is %q", ErrTitled, s.ID, now.Title)
	}
	return err
}

// Move makes a session one of another working directory: listings, resuming and exports go by it. Its artifacts
// stay its own (seed 000). An entry that says where its agent works moves it again.
func (s SessionHandle) Move(ctx context.Context, cwd string) error {
	if err := new(sessions.Info).Move(cwd); err != nil {
		return fmt.Errorf("%w: move: %w", events.ErrControl, err)
	}
	if err := s.c.describe(ctx, s.ID, events.Control{Op: events.OpMove, Move: &events.Move{Cwd: cwd}}); err != nil {
		return fmt.Errorf("move session %s: %w", s.ID, err)
	}
	return nil
}

// describe has a thread of the session carry an operation on it: the main one, or, where there is none, another.
func (c *Client) describe(ctx context.Context, session string, op events.Control) error {
	t := events.Thread{Session: session, Name: events.MainThread}
	if err := t.Validate(); err != nil {
		return err
	}
	if _, err := c.Thread(t).AwaitHead(ctx); errors.Is(err, threads.ErrNoThread) {
		all, e := c.Session(session).Threads(ctx)
		if e != nil || len(all) == 0 {
			return cmp.Or(e, err)
		}
		t = all[0].Thread
	} else if err != nil {
		return err
	}
	return c.operate(ctx, t, op)
}

// Writer begins where the session's leaf is; a thread that is not there yet begins with its first entry.
func (t ThreadHandle) Writer(ctx context.Context, user string) (*SessionWriter, error) {
	if err := t.Validate(); err != nil {
		return nil, err
	}
	w := &SessionWriter{client: t.c, pub: t.c.Publisher(PublisherConfig{User: user}), thread: t.Thread}
	head, err := t.c.open(ctx, t.Thread)
	if errors.Is(err, threads.ErrNoThread) {
		return w, nil
	}
	if err != nil {
		return nil, err
	}
	if err := apply.TakesAppends(t.Thread, head); err != nil {
		return nil, err
	}
	w.leaf, err = apply.LeafID(ctx, t.c.reader, head)
	return w, err
}

// Leaf is the entry that the next one is meant to go after; "" for none.
func (w *SessionWriter) Leaf() string { return w.leaf }

// GoTo makes the next entry go after that one, or with "" begin a new root. The session's leaf stays where it is.
func (w *SessionWriter) GoTo(entry string) { w.leaf = entry }

// Append appends an entry and returns its id when it is in the thread. When another writer's entry is the leaf by then, the
// error is a *LeafMoved and the entry is kept all the same; the next one goes after it, unless GoTo says otherwise. After any
// other error it is not known whether the entry is kept.
func (w *SessionWriter) Append(ctx context.Context, d sessions.Draft) (id string, err error) {
	leaf, entry := w.leaf, d.JSON()
	if err := valid(entry); err != nil {
		return "", err
	}
	w.seq++
	id, err = w.client.appended(ctx, w.pub, w.thread, w.seq,
		events.Control{Op: events.OpAppend, Append: &events.Append{Entry: entry, Leaf: &leaf}})
	if id != "" {
		w.leaf = id
	}
	return id, err
}

// Append appends an entry to an omp session and returns its id when it is in the thread; user is who does. leaf is the entry
// that the caller takes for the leaf, "" for none: when another writer's entry is the leaf by then, the error is a *LeafMoved and
// the entry is kept all the same. With a nil leaf it goes after whatever the leaf is. The error wraps sessions.ErrNotFound,
// events.ErrControl or ErrEnded. A SessionWriter appends one after the other.
func (t ThreadHandle) Append(ctx context.Context, user string, entry []byte, leaf *string) (id string, err error) {
	if _, err := sessions.ParseDraft(entry); err != nil {
		return "", fmt.Errorf("%w: append: %w", events.ErrControl, err)
	}
	under := ""
	if leaf != nil {
		under = *leaf
	}
	if err := t.c.appendable(ctx, t.Thread, under); err != nil && (under != "" || !errors.Is(err, threads.ErrNoThread)) {
		return "", err // else the thread begins with it
	}
	return t.c.appended(ctx, t.c.Publisher(PublisherConfig{User: user}), t.Thread, 1,
		events.Control{Op: events.OpAppend, Append: &events.Append{Entry: entry, Leaf: leaf}})
}

// SessionFork says what of a session a fork takes.
type SessionFork struct {
	Thread string // of it; "" for main
	Path   bool   // only the entries on the path to a leaf; else all, with their branches
	Leaf   string // with Path: that entry; "" for the thread's leaf
}

// Fork makes a session of a thread of another one under a new id, and returns when it is there. Nothing is copied
// (SPEC S9). An omp session gets a header of its own whose parentSession is the old id; with Path its entries keep the labels
// that they have. Errors are those of Fork and Branch.
func (s SessionHandle) Fork(ctx context.Context, to string, how SessionFork) error {
	from := events.Thread{Session: s.ID, Name: cmp.Or(how.Thread, events.MainThread)}
	target := events.Thread{Session: to, Name: events.MainThread}
	if err := errors.Join(from.Validate(), target.Validate()); err != nil {
		return err
	}
	head, err := s.c.Thread(from).AwaitHead(ctx)
	if err != nil {
		return err
	}
	fork := events.Fork{Session: from.Session, Thread: from.Name, Whole: !how.Path}
	ops := []events.Control{{Op: events.OpFork, Fork: &fork}}
	now := time.Now()
	if apply.HasHeader(head) {
		info, err := s.c.Internal().SessionInfo(ctx, s.ID)
		if err != nil {
			return err
		}
		h, err := s.c.Internal().Source().Header(ctx, from, head, info)
		if err != nil {
			return err
		}
		h.ID = s.ID // as Spool names it
		fork.Header = h.Child(to, now).JSON()
	}
	if how.Path {
		labels, err := s.c.path(ctx, from, head, how.Leaf, &fork)
		if err != nil {
			return err
		}
		ops = append(ops, labels...)
	}
	if err := s.c.checkFork(ctx, target, fork); err != nil {
		return fmt.Errorf("fork %s: %w", target, err)
	}
	return s.c.begin(ctx, target, now, ops)
}

// begin publishes the operations that a thread begins with, and returns when the last of them is applied.
func (c *Client) begin(ctx context.Context, t events.Thread, now time.Time, ops []events.Control) error {
	p := c.Publisher(PublisherConfig{})
	evs := make([]*events.Event, len(ops))
	for i, op := range ops {
		evs[i] = &events.Event{Kind: events.KindControl, Thread: t, Time: now.UnixMilli(), Body: op.Encode()}
	}
	if err := p.send(ctx, evs); err != nil {
		return err
	}
	if err := c.awaitStored(ctx, t, p.Producer(), 0, uint64(len(ops))); err != nil {
		return err
	}
	head, err := c.Thread(t).Head(ctx)
	if err != nil {
		return err
	}
	if ops[0].Fork.Header == nil {
		return c.unrefused(ctx, waited{thread: t, producer: p.Producer(), first: 1, seq: 1})
	}
	header, _, err := c.Internal().Source().ForkHeader(ctx, head, t.Session)
	if err == nil && string(header) != string(ops[0].Fork.Header) { // somebody took the name meanwhile
		err = fmt.Errorf("fork: %w: %s", ErrThreadExists, t)
	}
	return err
}

// path makes a fork one of the path to an entry, and gives the operations that label its entries as they are labelled: the
// label entries themselves may be elsewhere.
func (c *Client) path(ctx context.Context, t events.Thread, head threads.Head, leaf string,
	fork *events.Fork) (labels []events.Control, err error) {
	at := head.Head()
	if leaf != "" {
		step, err := c.entry(ctx, t, head, leaf)
		if err != nil {
			return nil, err
		}
		at = step.At
	} else if len(head.Recent) == 0 {
		return nil, fmt.Errorf("%w: %s has no leaf: name the entry that the path leads to", threads.ErrNoPoint, t)
	}
	fork.Node = at.Ref.String()
	if fork.Header == nil {
		return nil, nil
	}
	tree, err := c.Thread(t).Tree(ctx)
	if err != nil {
		return nil, err
	}
	end := tree.Leaf()
	if leaf != "" {
		end = sessions.At(leaf)
	}
	path := tree.Path(end)
	own := sessions.NewTree(tree.Header(), path...)
	for _, e := range path {
		if label := tree.Label(e.ID); label != own.Label(e.ID) {
			labels = append(labels, events.Control{Op: events.OpLabel, Label: &events.Label{Target: e.ID, Label: label}})
		}
	}
	return labels, nil
}
