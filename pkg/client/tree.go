package client

import (
	"context"
	"errors"
	"fmt"
	"io"

	"spool/internal/apply"
	"spool/internal/family"
	"spool/internal/rehydrate"
	"spool/pkg/events"
	"spool/pkg/sessions"
	"spool/pkg/threads"
)

// Tree is the entries of a thread as they go on from each other, with labels and leaf (SPEC S3). Entries of other dialects
// than omp have what the tree needs: type, id and parent; one without an id has "#" and its index.
type Tree struct {
	*sessions.Tree
	Head threads.Head
	OMP  bool // the entries are those of a session file

	places map[string]rehydrate.Placed // by their ids
}

// Tree reads a thread whole, entries as they are stored: long strings cut, images as refs. threads.ErrNoThread: there is none
// of that name.
func (t ThreadHandle) Tree(ctx context.Context) (*Tree, error) {
	head, err := t.c.caughtUp(ctx, t.Thread)
	if err != nil {
		return nil, err
	}
	return t.c.tree(ctx, t.Thread, head, rehydrate.Stored, nil)
}

func (c *Client) tree(
	ctx context.Context, t events.Thread, head threads.Head, form rehydrate.Form, warn func(rehydrate.Missing),
) (*Tree, error) {
	src := c.Internal().Source()
	src.Warn = warn
	s, err := src.Session(ctx, head, form)
	if err != nil {
		return nil, err
	}
	info, err := c.Internal().SessionInfo(ctx, t.Session)
	if err != nil {
		return nil, err
	}
	fork, _, err := c.forkHeader(ctx, t, head, info)
	if err != nil {
		return nil, err
	}
	if s.Header, err = rehydrate.HeaderOn(t, info, s.Header, fork); err != nil {
		return nil, err
	}
	out := &Tree{Tree: s.Tree(), Head: head, OMP: s.OMP, places: make(map[string]rehydrate.Placed, len(s.Entries))}
	for _, e := range s.Entries {
		out.places[e.ID] = e
	}
	return out, nil
}

// exportFork writes a thread of a session that was forked, under the session's own header (SPEC S9, S12): the main one as a file of the
// current version, with its leaf in the header if it is not the last entry, and all of it is in memory meanwhile; one that its harness
// forked as the file that it has, and every other as its entries are. forked is false, and nothing is written, for the threads of every
// other session.
func (c *Client) exportFork(ctx context.Context, t events.Thread, head threads.Head, form rehydrate.Form, w io.Writer,
	warn func(rehydrate.Missing), info sessions.Info) (entries int, forked bool, err error) {
	main := t.Name == events.MainThread
	header, own, err := c.forkHeader(ctx, t, head, info)
	if err != nil || header == nil {
		return 0, false, err
	}
	if main && !own {
		tree, err := c.tree(ctx, t, head, form, warn)
		if err != nil {
			return 0, true, err
		}
		_, err = tree.WriteTo(w)
		return len(tree.Entries()), true, err
	}
	src := c.Internal().Source()
	src.Warn = warn
	out := &sessions.HeaderWriter{W: w}
	if main {
		out.Info = info
	}
	if !own {
		if header, err = src.HeaderOfEntries(ctx, head, header); err != nil {
			return 0, true, err
		}
	}
	entries, err = src.ExportUnder(ctx, head, header, form, out)
	return entries, true, errors.Join(err, out.Flush())
}

// forkHeader is the header of a thread's session if that was forked, nil if it was not: the thread holds it itself, or was forked where its
// session's main thread did not yet have it. own: the session's harness forked it.
func (c *Client) forkHeader(ctx context.Context, t events.Thread, head threads.Head, info sessions.Info) (
	header []byte, own bool, err error,
) {
	if info.Parent == "" { // only a session that has a parent is looked through
		return nil, false, nil
	}
	src := c.Internal().Source()
	header, own, err = src.ForkHeader(ctx, head, t.Session)
	if err != nil || header != nil || t.Name == events.MainThread || head.Dialect != "omp" {
		return header, own, err
	}
	main, err := c.Thread(events.Thread{Session: t.Session, Name: events.MainThread}).Head(ctx)
	if errors.Is(err, threads.ErrNoThread) || err == nil && main.Start.Ref != head.Start.Ref {
		return nil, false, nil
	}
	if err == nil {
		header, _, err = src.ForkHeader(ctx, main, t.Session)
	}
	return header, false, err
}

// ErrNoContext: the thread holds no session of omp entries. Of entries of the dialect step StepContext makes one.
var ErrNoContext = family.Conflict.New("no context")

// Missing is a blob that could not be put back where an entry refers to it; its ref stands there instead (SPEC T10).
type Missing = rehydrate.Missing

// Context is what the model is sent at a leaf, and the state that the agent goes on with (SPEC S7): of entries as their agent
// wrote them, every image in line, also one whose ref came with the entry (SPEC P9). sessions.Last is where the
// thread's leaf is. Only the path to the leaf is read. A blob that is missing or corrupt is told to warn and its ref
// stays in place (SPEC T10); with a nil warn it is an error. Errors wrap sessions.ErrNotFound, threads.ErrNoThread or
// ErrNoContext.
func (t ThreadHandle) Context(ctx context.Context, leaf sessions.Leaf, warn func(Missing)) (sessions.Context, error) {
	head, err := t.c.caughtUp(ctx, t.Thread)
	if err != nil {
		return sessions.Context{}, err
	}
	if err := apply.TakesAppends(t.Thread, head); err != nil {
		return sessions.Context{}, fmt.Errorf("%w: %s holds entries of the dialect %s", ErrNoContext, t.Thread, head.Dialect)
	}
	var at = head.Head()
	switch {
	case leaf == sessions.Root, leaf == sessions.Last && len(head.Recent) == 0:
		return sessions.NewTree(sessions.Header{}).Context(sessions.Root), nil
	case leaf != sessions.Last:
		step, err := t.c.entry(ctx, t.Thread, head, leaf.ID())
		if err != nil {
			return sessions.Context{}, err
		}
		at = step.At
	}
	src := t.c.Internal().Source()
	src.Warn = warn
	path, err := src.Path(ctx, head, at, rehydrate.Loaded)
	if err != nil {
		return sessions.Context{}, err
	}
	return path.Tree().Context(path.Leaf), nil
}

// entry finds an entry by its id, also by one that Tree made. The error wraps sessions.ErrNotFound.
func (c *Client) entry(ctx context.Context, t events.Thread, head threads.Head, id string) (threads.Step, error) {
	step, err := apply.FindEntry(ctx, c.reader, head, events.Branch{Entry: id})
	if !errors.Is(err, sessions.ErrNotFound) {
		return step, err
	}
	tree, e := c.tree(ctx, t, head, rehydrate.Stored, nil)
	if e != nil {
		return step, e
	}
	place, ok := tree.places[id]
	if !ok {
		return step, err
	}
	return c.reader.Step(ctx, place.At)
}
