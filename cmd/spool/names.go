package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"spool/internal/service"
	"spool/internal/view"
	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/sessions"
)

// What the arguments of commands mean that name a session or a thread which is to be there. Commands that begin one, or
// may wait for one, take the name as it is.

// finder finds the session that an argument means. client.ErrSessionNotFound, or a *sessions.AmbiguousError: none, and
// what to do.
type finder func(cl *client.Client, name string) (string, error)

// session is the finder of commands that only read: the beginning of one session's id is enough, and standard error
// says whose it is.
func (a *app) session(cl *client.Client, name string) (string, error) {
	return a.find(cl, name, func(id string) (string, error) {
		fmt.Fprintf(a.err, "spool: %s is the session %s\n", name, id)
		return id, nil
	})
}

// wholeSession is the finder of commands that change something: a beginning is refused, with the id that it is of.
func (a *app) wholeSession(cl *client.Client, name string) (string, error) {
	return a.find(cl, name, func(id string) (string, error) {
		return "", fmt.Errorf("%w: %s\nthe session %s begins so: to change something in it, give all of its id",
			client.ErrSessionNotFound, name, id)
	})
}

// otherSession adds to an error that says that there is no session of a name which session is meant, perhaps.
func (a *app) otherSession(cl *client.Client, name string, err error) error {
	if !errors.Is(err, client.ErrSessionNotFound) || !view.IsAbsent(err) {
		return err
	}
	if _, none := a.wholeSession(cl, name); none != nil {
		return none
	}
	return err
}

// find looks for a session by its id, and then for the only one whose id begins so, which is handed to one.
func (a *app) find(cl *client.Client, name string, one finderOfOne) (string, error) {
	if err := checkNames(name, ""); err != nil {
		return "", service.UsageError{Err: err}
	}
	id, err := view.FindSession(a.ctx, cl, name)
	switch {
	case errors.Is(err, client.ErrSessionNotFound) && view.IsAbsent(err):
		return "", fmt.Errorf("%w\nspool session ls --all --unanswered lists the sessions that there are", err)
	case err != nil || id == name:
		return id, err
	}
	return one(id)
}

// finderOfOne says what a session is to who gave the beginning of its id.
type finderOfOne func(id string) (string, error)

// onThread runs something that changes the thread that an argument names.
func (a *app) onThread(name string, do func(cl *client.Client, t events.Thread) error) error {
	return a.withThread(name, a.wholeSession, do)
}

// readThread runs something that reads the thread that an argument names. Where there is none, do fails before it has
// written anything, and is run again on the thread of the session whose id begins so.
func (a *app) readThread(name string, do func(cl *client.Client, t events.Thread) error) error {
	return a.withThread(name, a.session, do)
}

func (a *app) withThread(name string, find finder, do func(cl *client.Client, t events.Thread) error) error {
	t, err := events.ParseThread(name)
	if err != nil {
		return service.UsageError{Err: err}
	}
	cl, err := a.client()
	if err != nil {
		return err
	}
	_, err = a.reach(cl, t, find, func(t events.Thread) error { return do(cl, t) })
	return err
}

// reach runs something on a thread. Where there is none, it looks for the session, and says what there is instead. It
// gives the thread that the name meant.
func (a *app) reach(
	cl *client.Client, t events.Thread, find finder, do func(events.Thread) error,
) (events.Thread, error) {
	err := do(t)
	if !view.IsAbsent(err) {
		return t, mendable(err, t)
	}
	session, none := find(cl, t.Session)
	if none != nil {
		return t, fmt.Errorf("%w\n%w", err, none)
	}
	if session != t.Session {
		t.Session = session
		err = do(t)
	}
	if view.IsAbsent(err) {
		err = a.withOthers(cl, t, err)
	}
	return t, mendable(err, t)
}

// noteAwaited says on standard error that what is to be followed is not there yet. Here a name stands for itself alone:
// who waits for build-4 wants nothing of build-42.
func (a *app) noteAwaited(cl *client.Client, session, thread string) {
	all, err := cl.Threads(a.ctx, session)
	if err != nil || slices.ContainsFunc(all, func(t client.Thread) bool { return thread == "" || t.Name == thread }) {
		return // who may not look, follows
	}
	if len(all) > 0 {
		fmt.Fprintf(a.err, "spool: %s has no thread %s yet: waiting for it\n", session, thread)
		return
	}
	others := ""
	if rows, err := a.rows(cl); err == nil {
		if row, err := sessions.Resume(rows, "", session); err == nil && row.ID != session {
			others = fmt.Sprintf(" (to follow the session %s, give all of its id)", row.ID)
		}
	}
	fmt.Fprintf(a.err, "spool: the session %s has nothing yet: waiting for it%s\n", session, others)
}

// mostNamed is how many threads an error names.
const mostNamed = 8

// withOthers adds to an error the threads that a session has.
func (a *app) withOthers(cl *client.Client, t events.Thread, err error) error {
	all, e := cl.Threads(a.ctx, t.Session)
	all = slices.DeleteFunc(all, func(other client.Thread) bool { return other.Thread == t })
	if e != nil || len(all) == 0 {
		return err
	}
	var names []string
	for _, other := range all[:min(len(all), mostNamed)] {
		names = append(names, other.Thread.String())
	}
	if more := len(all) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("and %d more (spool thread ls %s)", more, t.Session))
	}
	return fmt.Errorf("%w\nthere is %s", err, strings.Join(names, ", "))
}
