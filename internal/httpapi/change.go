package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"spool/internal/access"
	"spool/pkg/casstore"
	"spool/pkg/events"
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

func (a *api) fork(w http.ResponseWriter, r *http.Request, t events.Thread) error {
	var in struct {
		To    string `json:"to"`    // THREAD, or SESSION/THREAD
		N     int64  `json:"n"`     // item
		Index int64  `json:"index"` // entry
		Node  string `json:"node"`
		Entry string `json:"entry"` // its id at its source
		Role  string `json:"role"`
		Whole bool   `json:"whole"`
	}
	if err := read(w, r, &in); err != nil {
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
	err = a.cfg.Client.Fork(r.Context(), to, events.Fork{
		Session: t.Session, Thread: t.Name, Item: in.N, Index: in.Index, Node: in.Node, Entry: in.Entry, Role: in.Role, Whole: in.Whole,
	})
	if errors.Is(err, threads.ErrNoPoint) && !sees(r) { // it names those that there are
		err = fmt.Errorf("%w: %w in %s", ErrRequest, threads.ErrNoPoint, t)
	}
	if err != nil {
		return err
	}
	w.Header().Set("Location", "/v1/sessions/"+to.Session+"/threads/"+to.Name)
	return a.done(w, r, http.StatusCreated, to)
}

// target reads the name of a new thread: in the same session unless it names one.
func target(t events.Thread, name string) (events.Thread, error) {
	to := events.Thread{Session: t.Session, Name: name}
	for i := range name {
		if name[i] == '/' {
			to = events.Thread{Session: name[:i], Name: name[i+1:]}
			break
		}
	}
	return to, to.Validate()
}

// compact makes a summary stand for all so far.
func (a *api) compact(w http.ResponseWriter, r *http.Request, t events.Thread) error {
	var in struct {
		Summary   string `json:"summary"`
		FirstKept string `json:"first_kept"`
	}
	if err := read(w, r, &in); err != nil {
		return err
	}
	if err := a.cfg.Client.Compact(r.Context(), t, in.Summary, in.FirstKept); err != nil {
		return err
	}
	return a.done(w, r, http.StatusOK, t)
}

func (a *api) endThread(w http.ResponseWriter, r *http.Request, t events.Thread) error {
	var in struct {
		ReturnCode int    `json:"return_code"`
		Summary    string `json:"summary"`
	}
	if err := read(w, r, &in); err != nil {
		return err
	}
	if err := a.cfg.Client.End(r.Context(), t, events.End{ReturnCode: in.ReturnCode, Summary: in.Summary}); err != nil {
		return err
	}
	return a.done(w, r, http.StatusOK, t)
}

func (a *api) rename(w http.ResponseWriter, r *http.Request, t events.Thread) error {
	var in struct {
		To string `json:"to"`
	}
	if err := read(w, r, &in); err != nil {
		return err
	}
	if err := a.cfg.Client.Rename(r.Context(), t, in.To); err != nil {
		return err
	}
	return a.done(w, r, http.StatusOK, events.Thread{Session: t.Session, Name: in.To})
}

// branch moves the leaf to an entry, or with none away from all.
func (a *api) branch(w http.ResponseWriter, r *http.Request, t events.Thread) error {
	var in struct {
		Entry string `json:"entry"`
	}
	if err := read(w, r, &in); err != nil {
		return err
	}
	move := a.cfg.Client.Reset
	if in.Entry != "" {
		move = func(ctx context.Context, t events.Thread) error { return a.cfg.Client.Branch(ctx, t, in.Entry) }
	}
	if err := move(r.Context(), t); err != nil {
		return err
	}
	return a.done(w, r, http.StatusOK, t)
}

// label names an entry.
func (a *api) label(w http.ResponseWriter, r *http.Request, t events.Thread) error {
	var in struct {
		Entry string `json:"entry"`
		Label string `json:"label"`
	}
	if err := read(w, r, &in); err != nil {
		return err
	}
	id, err := a.cfg.Client.Label(r.Context(), t, in.Entry, in.Label)
	if err == nil {
		answer(w, http.StatusOK, map[string]any{"ok": true, "id": id})
	}
	return err
}
