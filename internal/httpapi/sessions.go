package httpapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"spool/internal/access"
	"spool/internal/history"
	"spool/internal/mapped"
	"spool/internal/view"
	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/sessions"
)

// mostLooked is at how many records a page looks, where those have fewer sessions than it may.
const mostLooked = 20_000

// sessions lists sessions, newest first.
func (a *api) sessions(w http.ResponseWriter, r *http.Request) error {
	most, err := limit(r, 100, mostListed)
	if err != nil {
		return err
	}
	query := sessionQuery(r)
	query.Limit, query.After = int(most), r.URL.Query().Get("after")
	found, at, err := a.views.Page(r.Context(), query, r.URL.Query().Get("state"))
	if err != nil {
		return err
	}
	out := mapped.List(found, func(s view.ListedSession) view.Session { return s.View })
	return list(w, r, "sessions", out, at.Next)
}

// sessionQuery chooses sessions as a request says and its token grants.
func sessionQuery(r *http.Request) client.SessionQuery {
	q := r.URL.Query()
	return client.SessionQuery{
		Query: sessions.Query{Cwd: q.Get("cwd"), Unanswered: isSet(r, "unanswered")}, Most: mostLooked, Only: access.From(r.Context()).Session,
		Keep: func(s client.Session) bool { return matches(q.Get("q"), s.Title, s.Summary, s.Prompt, s.ID, s.Cwd) },
	}
}

// states counts sessions by their state.
func (a *api) states(w http.ResponseWriter, r *http.Request) error {
	out, err := a.views.Count(r.Context(), sessionQuery(r))
	if err == nil {
		answer(w, http.StatusOK, out)
	}
	return err
}

// matches reports whether each word of a query is somewhere in the texts, letter case aside.
func matches(query string, texts ...string) bool {
	all := strings.ToLower(strings.Join(texts, "\n"))
	lacks := func(word string) bool { return !strings.Contains(all, word) }
	return !slices.ContainsFunc(strings.Fields(strings.ToLower(query)), lacks)
}

func (a *api) session(w http.ResponseWriter, r *http.Request) error {
	id, err := sessionOf(r)
	if err != nil {
		return err
	}
	out, err := a.views.Session(r.Context(), id)
	if errors.Is(err, sessions.ErrNoSession) {
		if err = a.cfg.Client.Session(id).Await(r.Context()); err == nil {
			out, err = a.views.Session(r.Context(), id)
		}
	}
	if err != nil {
		return err
	}
	answer(w, http.StatusOK, out)
	return nil
}

// threadsOf reads the heads of the session that a request names. sessions.ErrNoSession: it has none.
func (a *api) threadsOf(r *http.Request) ([]client.Thread, error) {
	id, err := sessionOf(r)
	if err != nil {
		return nil, err
	}
	s := a.cfg.Client.Session(id)
	all, err := s.Threads(r.Context())
	if err == nil && len(all) == 0 {
		if err = s.Await(r.Context()); err == nil {
			all, err = s.Threads(r.Context())
		}
	}
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("%w: %s", sessions.ErrNoSession, id)
	}
	return all, err
}

func (a *api) threads(w http.ResponseWriter, r *http.Request) error {
	all, err := a.threadsOf(r)
	if err != nil {
		return err
	}
	out, err := a.views.Threads(r.Context(), all)
	if err != nil {
		return err
	}
	return list(w, r, "threads", out, "")
}

// findThreads lists threads of all sessions that the token is for, by their status and the date of their end.
func (a *api) findThreads(w http.ResponseWriter, r *http.Request) error {
	most, err := limit(r, mostListed, mostListed)
	if err != nil {
		return err
	}
	q := r.URL.Query()
	after, err := afterThread(q.Get("after"))
	if err != nil {
		return err
	}
	all, err := a.cfg.Client.FindThreads(r.Context(), client.ThreadFilter{
		Session: q.Get("session"), Status: q.Get("status"), From: q.Get("ended_from"), To: q.Get("ended_to"),
	})
	if err != nil {
		return err
	}
	grant, next := access.From(r.Context()), ""
	all = slices.DeleteFunc(all, func(t client.Thread) bool {
		return !grant.Session(t.Session) || compareThreads(t.Thread, after) <= 0
	})
	if int64(len(all)) > most {
		all = all[:most]
		next = all[most-1].Thread.String()
	}
	out, err := a.views.Threads(r.Context(), all)
	if err != nil {
		return err
	}
	return list(w, r, "threads", out, next)
}

// afterThread is the last thread of the page before; the zero Thread where there is none.
func afterThread(text string) (t events.Thread, err error) {
	if text == "" {
		return t, nil
	}
	if t, err = events.ParseThread(text); err != nil {
		return t, fmt.Errorf(`%w: after=%.50q: want the "next" of the page before`, ErrRequest, text)
	}
	return t, nil
}

// compareThreads orders threads as lists do.
func compareThreads(a, b events.Thread) int {
	return cmp.Or(strings.Compare(a.Session, b.Session), strings.Compare(a.Name, b.Name))
}

func (a *api) oneThread(w http.ResponseWriter, r *http.Request, t events.Thread) error {
	return a.showThread(w, r, http.StatusOK, t)
}

// mostApplied is how long a request waits for a thread to take something: as one for a context does.
const mostApplied = 5 * time.Second

func (a *api) applied(w http.ResponseWriter, r *http.Request, t events.Thread) error {
	producer := r.URL.Query().Get("producer")
	if producer == "" {
		return fmt.Errorf("%w: say which producer=P published it", ErrRequest)
	}
	epoch, _, err := number(r, "epoch")
	first, given, err2 := number(r, "first")
	last, _, err3 := number(r, "seq")
	if err := cmp.Or(err, err2, err3); err != nil {
		return err
	}
	if !given {
		first = last
	}
	if first < 1 || first > last {
		return fmt.Errorf("%w: first=%d, seq=%d: want sequences from 1 on, in their order", ErrRequest, first, last)
	}
	ctx, cancel := context.WithTimeout(r.Context(), mostApplied)
	defer cancel()
	err = a.cfg.Client.Internal().Applied(ctx, t, producer, uint64(epoch), uint64(first), uint64(last))
	if err == nil {
		answer(w, http.StatusOK, okay{OK: true})
	}
	return err
}

// showThread answers with a thread and its prompt, which lists leave out: it can be long.
func (a *api) showThread(w http.ResponseWriter, r *http.Request, status int, t events.Thread) error {
	head, err := a.cfg.Client.Thread(t).AwaitHead(r.Context())
	if err != nil {
		return err
	}
	out, err := a.views.Thread(r.Context(), client.Thread{Thread: t, Head: head, Ended: head.Ended()})
	if err == nil {
		answer(w, status, out)
	}
	return err
}

// graphNode is a thread in the graph of forks.
type graphNode struct {
	Session string     `json:"session"`
	Thread  string     `json:"thread"`
	FromN   int64      `json:"from_n"` // items that it has from its source
	N       int64      `json:"n"`
	State   string     `json:"state"`
	Status  string     `json:"status"`
	Head    string     `json:"head"`
	Source  *view.Fork `json:"source,omitempty"`
	Tips    int        `json:"tips"`
}

// graph tells how the threads of a session come from each other, and from other sessions.
func (a *api) graph(w http.ResponseWriter, r *http.Request) error {
	all, err := a.threadsOf(r)
	if err != nil {
		return err
	}
	nodes := make([]graphNode, len(all))
	for i, t := range all {
		fork, err := a.views.ForkOf(r.Context(), t)
		if err != nil {
			return err
		}
		h := t.Head
		nodes[i] = graphNode{
			Session: t.Session, Thread: t.Name, N: h.N, State: h.Status.String(), Status: sessions.Status(h.Standing).String(),
			Head: h.Head().Ref.String(), Source: fork, Tips: h.Branches(),
		}
		if fork != nil {
			nodes[i].FromN = fork.N
		}
	}
	return list(w, r, "nodes", nodes, "")
}

func (a *api) runs(w http.ResponseWriter, r *http.Request) error {
	session, err := asked(r)
	if err != nil {
		return err
	}
	all, err := a.cfg.Client.Session(session).Runs(r.Context())
	if err != nil {
		return err
	}
	grant, out := access.From(r.Context()), []any{}
	for _, run := range all {
		if grant.Session(run.Thread.Session) {
			out = append(out, client.RunJSON(run))
		}
	}
	return list(w, r, "runs", out, "")
}

// history searches what people asked for; without a query it gives the newest.
func (a *api) history(w http.ResponseWriter, r *http.Request) error {
	most, err := limit(r, 50, mostFound)
	if err != nil {
		return err
	}
	session, err := asked(r)
	if err != nil {
		return err
	}
	q, f := r.URL.Query(), history.Filter{Session: session, Cwd: r.URL.Query().Get("cwd"), Within: access.From(r.Context()).Sessions}
	found, err := a.prompted(r.Context(), q.Get("q"), f, int(most))
	if err != nil {
		return err
	}
	out := mapped.List(found, view.OfPrompt)
	return list(w, r, "prompts", out, "")
}

// prompted is what people asked for: what a query finds, or all if it is empty.
func (a *api) prompted(ctx context.Context, query string, f history.Filter, most int) (found []history.Prompt, err error) {
	if a.cfg.History == "" {
		return nil, fmt.Errorf("%w: this process keeps no prompt history; spool up and spool serve do", errNothing)
	}
	err = history.With(a.cfg.History, func(db *history.DB) (err error) {
		if query == "" {
			found, err = db.Recent(ctx, f, most)
		} else {
			found, err = db.Search(ctx, query, f, most)
		}
		return err
	})
	return found, err
}
