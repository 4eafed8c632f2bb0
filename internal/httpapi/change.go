package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"spool/internal/access"
	"spool/pkg/casstore"
	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/sessions"
	"spool/pkg/threads"
)

// Each of these answers when the thread has taken it: what is read next shows it.

// done answers with where the thread is now, if the token may see it.
func (a *api) done(w http.ResponseWriter, r *http.Request, status int, t events.Thread) error {
	if !sees(r) {
		answer(w, status, okay{OK: true})
		return nil
	}
	return a.showThread(w, r, status, t)
}

// sees reports whether a request may be told what is stored.
func sees(r *http.Request) bool { return access.From(r.Context()).Scopes&access.Read != 0 }

func (a *api) fork(w http.ResponseWriter, r *http.Request, t events.Thread, in struct {
	To    string `json:"to"`    // THREAD, or SESSION/THREAD
	N     *int64 `json:"n"`     // item
	Index *int64 `json:"index"` // entry
	Node  string `json:"node"`
	Entry string `json:"entry"` // its id at its source
	Role  string `json:"role"`
	Whole bool   `json:"whole"`
	Path  bool   `json:"path"` // of the main thread: the path to entry, or to the leaf, with its labels
}) error {
	n, err := fromOne("n", in.N)
	index, err2 := fromOne("index", in.Index)
	if err := errors.Join(err, err2); err != nil {
		return err
	}
	to, err := target(t, in.To)
	if err != nil {
		return err
	}
	if !access.From(r.Context()).Session(to.Session) {
		return fmt.Errorf("%w: fork into the session %s", errForbidden, to.Session)
	}
	if to.Session != t.Session {
		if err := a.charge(r, to.Session, false); err != nil {
			return err
		}
	}
	if in.Node != "" {
		if _, err := casstore.ParseRef(in.Node); err != nil {
			return fmt.Errorf("%w: node: %w", ErrRequest, err)
		}
	}
	fork := events.Fork{
		Session: t.Session, Thread: t.Name, Item: n, Index: index, Node: in.Node, Entry: in.Entry, Role: in.Role, Whole: in.Whole,
	}
	if in.Path {
		err = a.forkPath(r.Context(), to, fork)
	} else {
		err = a.cfg.Client.Thread(to).Fork(r.Context(), fork)
	}
	if errors.Is(err, threads.ErrNoPoint) && !sees(r) { // it names those that there are
		err = fmt.Errorf("%w: %w in %s", ErrRequest, threads.ErrNoPoint, t)
	}
	if err != nil {
		return err
	}
	w.Header().Set("Location", "/v1/sessions/"+to.Session+"/threads/"+to.Name)
	return a.done(w, r, http.StatusCreated, to)
}

// fromOne reads a number that counts from 1; 0 where it was left out.
func fromOne(name string, n *int64) (int64, error) {
	if n == nil {
		return 0, nil
	}
	if *n < 1 {
		return 0, fmt.Errorf("%w: %s: %d: they count from 1", ErrRequest, name, *n)
	}
	return *n, nil
}

// forkPath makes a session of the path to an entry of another one's main thread.
func (a *api) forkPath(ctx context.Context, to events.Thread, f events.Fork) error {
	point := f.Item != 0 || f.Index != 0 || f.Node != "" || f.Role != "" || f.Whole
	if point || f.Thread != events.MainThread || to.Name != events.MainThread || to.Session == f.Session {
		return fmt.Errorf("%w: path: it leads to an entry, or else to the leaf, of the main thread of a session, "+
			"and becomes the main thread of another one",
			ErrRequest)
	}
	return a.cfg.Client.Session(f.Session).Fork(ctx, to.Session, client.SessionFork{Path: true, Leaf: f.Entry})
}

// append appends an entry, and tells who lost the leaf to another writer which entry has it (SPEC S13).
func (a *api) append(w http.ResponseWriter, r *http.Request, t events.Thread, in struct {
	Entry json.RawMessage `json:"entry"`
	Leaf  *string         `json:"leaf"`
}) error {
	id, err := a.cfg.Client.Thread(t).Append(r.Context(), r.URL.Query().Get("user"), in.Entry, in.Leaf)
	out := struct {
		OK    bool    `json:"ok"`
		ID    string  `json:"id"`
		Moved bool    `json:"leaf_moved,omitempty"`
		Taken *string `json:"taken,omitempty"` // which one is the leaf; "": there is none
	}{OK: true, ID: id}
	var moved *client.LeafMoved
	if errors.As(err, &moved) {
		err, out.Moved = nil, true
		if sees(r) {
			out.Taken = &moved.Taken
		}
	}
	if err == nil {
		answer(w, http.StatusCreated, out)
	}
	return err
}

// tree lists the entries of a thread, with what branch, label and append name.
func (a *api) tree(w http.ResponseWriter, r *http.Request, t events.Thread) error {
	tree, err := a.cfg.Client.Thread(t).Tree(r.Context())
	if err != nil {
		return err
	}
	return list(w, r, "entries", tree.Listed(), "")
}

// named answers with the id of what was made.
func named(w http.ResponseWriter, status int, id string, err error) error {
	if err == nil {
		answer(w, status, map[string]any{"ok": true, "id": id})
	}
	return err
}

// target reads the name of a new thread: in the same session unless it names one.
func target(t events.Thread, name string) (events.Thread, error) {
	to := events.Thread{Session: t.Session, Name: name}
	if session, name, ok := strings.Cut(name, "/"); ok {
		to = events.Thread{Session: session, Name: name}
	}
	return to, to.Validate()
}

// changes is a route whose body tells a thread to change. It answers with where the thread is then, under its name then.
func changes[T any](
	status int, do func(a *api, ctx context.Context, t events.Thread, in T) (events.Thread, error),
) func(a *api, w http.ResponseWriter, r *http.Request) error {
	return takingOnThread(func(a *api, w http.ResponseWriter, r *http.Request, t events.Thread, in T) error {
		t, err := do(a, r.Context(), t, in)
		if err != nil {
			return err
		}
		return a.done(w, r, status, t)
	})
}

// compact makes a summary stand for all so far.
func (a *api) compact(ctx context.Context, t events.Thread, in struct {
	Summary   string `json:"summary"`
	FirstKept string `json:"first_kept"`
}) (events.Thread, error) {
	return t, a.cfg.Client.Thread(t).Compact(ctx, in.Summary, in.FirstKept)
}

func (a *api) endThread(ctx context.Context, t events.Thread, in struct {
	ReturnCode int    `json:"return_code"`
	Summary    string `json:"summary"`
}) (events.Thread, error) {
	defer a.changed(t)
	return t, a.cfg.Client.Thread(t).End(ctx, events.End{ReturnCode: in.ReturnCode, Summary: in.Summary})
}

func (a *api) rename(ctx context.Context, t events.Thread, in struct {
	To string `json:"to"`
}) (events.Thread, error) {
	defer a.changed(t)
	return events.Thread{Session: t.Session, Name: in.To}, a.cfg.Client.Thread(t).Rename(ctx, in.To)
}

// changed has the next entry of a thread look, before the records are heard of.
func (a *api) changed(t events.Thread) {
	a.doubts.note(t.String())
	a.takers.forget(t)
}

// branch moves the leaf to an entry, or with none away from all; with a summary it appends there what was learned on the path that
// is left.
func (a *api) branch(ctx context.Context, t events.Thread, in struct {
	Entry   string          `json:"entry"`
	Summary string          `json:"summary"`
	Details json.RawMessage `json:"details"`
}) (events.Thread, error) {
	var err error
	switch {
	case in.Summary != "":
		_, err = a.cfg.Client.Thread(t).BranchWithSummary(ctx, in.Entry, sessions.Summarized{Summary: in.Summary, Details: in.Details})
	case in.Details != nil:
		err = fmt.Errorf("%w: details belong to a summary, and there is none", ErrRequest)
	case in.Entry == "":
		err = a.cfg.Client.Thread(t).Reset(ctx)
	default:
		err = a.cfg.Client.Thread(t).Branch(ctx, in.Entry)
	}
	return t, err
}

// label names an entry.
func (a *api) label(w http.ResponseWriter, r *http.Request, t events.Thread, in struct {
	Entry string `json:"entry"`
	Label string `json:"label"`
}) error {
	id, err := a.cfg.Client.Thread(t).Label(r.Context(), in.Entry, in.Label)
	return named(w, http.StatusOK, id, err)
}
