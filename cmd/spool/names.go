package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"spool/internal/access"
	"spool/internal/mapped"
	"spool/internal/service"
	"spool/internal/shortid"
	"spool/internal/text"
	"spool/internal/view"
	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/sessions"
	"spool/pkg/threads"
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

// changed is the finder of commands that change something: a beginning is enough of an id that a program made up. Of
// any other name it is refused: it may be the name of something that is gone, or is still to come.
func (a *app) changed(cl *client.Client, name string) (string, error) {
	return a.find(cl, name, func(id string) (string, error) {
		if !shortid.Made(id) || len(name) < shortid.Least {
			return a.wholeSession(cl, name)
		}
		fmt.Fprintf(a.err, "spool: %s is the session %s\n", name, id)
		return id, nil
	})
}

// removed is the finder of commands that remove something: where nobody is asked, a beginning is refused, as that of
// what is removed already may be the beginning of another id.
func (a *app) removed(asks bool) finder {
	if asks {
		return a.changed
	}
	return a.wholeSession
}

// wholeSession refuses a beginning, with the id that it is of.
func (a *app) wholeSession(cl *client.Client, name string) (string, error) {
	return a.find(cl, name, func(id string) (string, error) {
		return "", fmt.Errorf("%w: %s\nthe session %s begins so: to change or remove something here, give all of its id",
			client.ErrSessionNotFound, name, id)
	})
}

// find looks for a session by its id, and then for the only one whose id begins so, which is handed to one.
func (a *app) find(cl *client.Client, name string, one finderOfOne) (string, error) {
	if err := checkNames(name, ""); err != nil {
		return "", service.UsageError{Err: err}
	}
	id, err := view.FindSession(a.ctx, cl, name, access.All().Session)
	switch {
	case errors.Is(err, client.ErrSessionNotFound) && view.IsAbsent(err):
		return "", listSessions(err)
	case err != nil || id == name:
		return id, err
	}
	return one(id)
}

// resumable is sessions.Resume, from here.
func (a *app) resumable(cl *client.Client, here, name string) (sessions.Row, error) {
	found, err := cl.Internal().SessionsBeginning(a.ctx, name)
	if err != nil {
		return sessions.Row{}, err
	}
	row, err := sessions.Resume(rowsOf(found), here, name)
	if errors.Is(err, sessions.ErrNoSession) {
		err = listSessions(fmt.Errorf("%w: %s", client.ErrSessionNotFound, name))
	}
	return row, err
}

// listSessions adds to the error of who named no session what lists them.
func listSessions(err error) error {
	return fmt.Errorf("%w; spool session ls --all --unanswered lists the sessions that there are", err)
}

// finderOfOne says what a session is to who gave the beginning of its id.
type finderOfOne func(id string) (string, error)

// onThread runs something that changes the thread that an argument names.
func (a *app) onThread(name string, do func(cl *client.Client, t events.Thread) error) error {
	return a.withThread(name, a.changed, do)
}

// readThread runs something that reads the thread that an argument names. Where there is none, do fails before it has
// written anything, and is run again on the thread of the session whose id begins so.
func (a *app) readThread(name string, do func(cl *client.Client, t events.Thread) error) error {
	cl, t, err := a.thread(name)
	if err == nil {
		_, err = a.reachToRead(cl, t, func(t events.Thread) error { return do(cl, t) })
	}
	return err
}

func (a *app) withThread(name string, find finder, do func(cl *client.Client, t events.Thread) error) error {
	cl, t, err := a.thread(name)
	if err == nil {
		_, err = a.reach(cl, t, find, func(t events.Thread) error { return do(cl, t) })
	}
	return err
}

// thread reads what an argument says of a thread, and connects.
func (a *app) thread(name string) (*client.Client, events.Thread, error) {
	t, err := events.ParseThread(name)
	if err != nil {
		return nil, t, service.UsageError{Err: err}
	}
	cl, err := a.client()
	return cl, t, err
}

// reachToRead runs something that reads a thread: as reach does, or where there is none on the only one of the session
// whose name begins so.
func (a *app) reachToRead(cl *client.Client, t events.Thread, do func(events.Thread) error) (events.Thread, error) {
	t, err := a.reach(cl, t, a.session, do)
	if !view.IsAbsent(err) {
		return t, err
	}
	all, e := cl.Session(t.Session).Threads(a.ctx)
	if e != nil {
		return t, err
	}
	names := mapped.List(all, func(one client.Thread) string { return one.Name })
	name, e := shortid.Find("threads of "+t.Session, names, t.Name)
	switch {
	case errors.Is(e, shortid.ErrNone), name == t.Name:
		return t, err
	case e != nil:
		return t, fmt.Errorf("no such thread: %s\n%w", t, e)
	}
	fmt.Fprintf(a.err, "spool: %s is the thread %s\n", t.Name, name)
	t.Name = name
	return a.reach(cl, t, a.session, do)
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
		return t, none
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
	all, err := cl.Session(session).Threads(a.ctx)
	if err != nil || slices.ContainsFunc(all, func(t client.Thread) bool { return thread == "" || t.Name == thread }) {
		return // who may not look, follows
	}
	if len(all) > 0 {
		fmt.Fprintf(a.err, "spool: %s has no thread %s yet: waiting for it\n", session, thread)
		return
	}
	others := ""
	if found, err := cl.Internal().SessionsBeginning(a.ctx, session); err == nil {
		if row, err := sessions.Resume(rowsOf(found), "", session); err == nil && row.ID != session {
			others = fmt.Sprintf(" (to follow the session %s, give all of its id)", row.ID)
		}
	}
	fmt.Fprintf(a.err, "spool: the session %s has nothing yet: waiting for it%s\n", session, others)
}

// leastOfEntry is how many characters of an entry's id a command wants.
const leastOfEntry = 4

// entry runs something on the entry of a thread that a name means: on the one that has it as its id, else on the only one
// that begins so and whose id a program made up. Where there is no such entry, do fails before it has changed anything.
func (a *app) entry(cl *client.Client, t events.Thread, name string, do func(id string) error) error {
	err := do(name)
	if name == "" || !errors.Is(err, sessions.ErrNotFound) && !errors.Is(err, threads.ErrNoPoint) {
		return err
	}
	tree, e := cl.Thread(t).Tree(a.ctx)
	if e != nil {
		return err
	}
	var ids []string
	for _, e := range tree.Entries() {
		if shortid.Made(e.ID) {
			ids = append(ids, e.ID)
		}
	}
	id, e := shortid.Find("entries", ids, name)
	switch {
	case len(name) < leastOfEntry, errors.Is(e, shortid.ErrNone):
		return text.Errorf("%w\nspool session tree %s lists the entries; %d characters of an id are enough where no other one "+
			"begins so", err, t, leastOfEntry)
	case e != nil:
		return fmt.Errorf("%w\n%w", err, e)
	}
	fmt.Fprintf(a.err, "spool: %s is the entry %s\n", name, id)
	return do(id)
}

// mostNamed is how many threads an error names.
const mostNamed = 8

// withOthers adds to an error the threads that a session has.
func (a *app) withOthers(cl *client.Client, t events.Thread, err error) error {
	all, e := cl.Session(t.Session).Threads(a.ctx)
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

// short gives the function by which a table shortens ids: to what is enough of them for every command that takes such a
// beginning. What a person named is an id that has no shorter form. own gives ids beside those of sessions.
func (a *app) short(cl *client.Client, own func(*client.Client) ([]string, error)) func(cell string) (string, bool) {
	load := sync.OnceValue(func() map[string]string {
		ids, all, err := cl.Internal().SessionNames(a.ctx, mostShort)
		if own != nil && err == nil {
			var more []string
			more, err = own(cl)
			ids = append(ids, more...)
		}
		if err != nil || !all {
			return nil // then ids are cut like other cells
		}
		return formsOf(ids)
	})
	return shortBy(load)
}

// mostShort is in a store of how many records a listing works out how short an id can be.
const mostShort = 50_000

// formsOf are ids with their short forms, or themselves.
func formsOf(ids []string) map[string]string {
	short := shortid.Shorten(ids)
	for _, id := range ids {
		short[id] = cmp.Or(short[id], id)
	}
	return short
}

// shortBy is short for ids of which the forms are known.
func shortBy(forms func() map[string]string) func(cell string) (string, bool) {
	return func(cell string) (string, bool) {
		session, thread, of := strings.Cut(cell, "/")
		form, id := forms()[session]
		if of && id {
			form += "/" + thread
		}
		return form, id
	}
}
