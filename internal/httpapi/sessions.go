package httpapi

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"spool/internal/access"
	"spool/internal/apply"
	"spool/internal/history"
	"spool/pkg/casstore"
	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/sessions"
	"spool/pkg/threads"
)

// sessions lists sessions, newest first.
func (a *api) sessions(w http.ResponseWriter, r *http.Request) error {
	most, err := limit(r, 100, 1000)
	if err != nil {
		return err
	}
	q := r.URL.Query()
	after, err := parsePlace(q.Get("after"))
	if err != nil {
		return err
	}
	all, err := a.views(r.Context(), "")
	if err != nil {
		return err
	}
	grant := access.From(r.Context())
	byID := make(map[string]sessionOut, len(all))
	rows := make([]sessions.Row, 0, len(all))
	for _, s := range all {
		if grant.Session(s.ID) && matches(q.Get("q"), s.Title, s.Summary, s.Prompt, s.ID, s.Cwd) {
			rows = append(rows, s.Row())
			byID[s.ID] = s.sessionOut
		}
	}
	var out []sessionOut
	next := ""
	for _, row := range sessions.List(rows, sessions.Query{Cwd: q.Get("cwd"), Unanswered: isSet(r, "unanswered")}) {
		if !after.before(row) {
			continue
		}
		if int64(len(out)) == most {
			next = placeOf(rows, out[len(out)-1].ID)
			break
		}
		out = append(out, byID[row.ID])
	}
	return list(w, r, "sessions", out, next)
}

// listedSession is a session, and what is shown of it.
type listedSession struct {
	client.Session
	sessionOut
}

// views reads one session, or all, with what waits and runs in them.
func (a *api) views(ctx context.Context, session string) ([]listedSession, error) {
	cl := a.cfg.Client
	all, err := cl.Sessions(ctx, session)
	if err != nil {
		return nil, err
	}
	prompts, err := cl.Prompts(ctx, session)
	if err != nil {
		return nil, err
	}
	runs, err := cl.Runs(ctx, session)
	if err != nil {
		return nil, err
	}
	waiting, running := map[string]int{}, map[string][]client.RunInfo{}
	for _, p := range prompts {
		waiting[p.Thread.Session]++
	}
	for _, run := range runs {
		running[run.Thread.Session] = append(running[run.Thread.Session], run)
	}
	out := make([]listedSession, len(all))
	now := time.Now()
	for i, s := range all {
		out[i] = listedSession{s, view(s, waiting[s.ID], running[s.ID], now)}
	}
	return out, nil
}

// matches reports whether each word of a query is somewhere in the texts, letter case aside.
func matches(query string, texts ...string) bool {
	all := strings.ToLower(strings.Join(texts, "\n"))
	lacks := func(word string) bool { return !strings.Contains(all, word) }
	return !slices.ContainsFunc(strings.Fields(strings.ToLower(query)), lacks)
}

// place is where a page of sessions ended: the order of the listing.
type place struct {
	modified, created int64
	id                string
}

func placeOf(rows []sessions.Row, id string) string {
	i := slices.IndexFunc(rows, func(r sessions.Row) bool { return r.ID == id })
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%d %d %s", rows[i].Modified, rows[i].Created, id))
}

func parsePlace(text string) (p place, err error) {
	if text == "" {
		return p, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(text)
	parts := strings.Split(string(b), " ")
	if err == nil && len(parts) == 3 {
		p.id = parts[2]
		if p.modified, err = strconv.ParseInt(parts[0], 10, 64); err == nil {
			p.created, err = strconv.ParseInt(parts[1], 10, 64)
		}
	}
	if err != nil || p.id == "" {
		return p, fmt.Errorf(`%w: after=%.50q: want the "next" of the page before`, ErrRequest, text)
	}
	return p, nil
}

// before reports whether a row comes behind the place.
func (p place) before(r sessions.Row) bool {
	return p.id == "" || cmp.Or(cmp.Compare(p.modified, r.Modified), cmp.Compare(p.created, r.Created), -strings.Compare(p.id, r.ID)) > 0
}

func (a *api) session(w http.ResponseWriter, r *http.Request) error {
	id, err := sessionOf(r)
	if err != nil {
		return err
	}
	all, err := a.views(r.Context(), id)
	if err != nil {
		return err
	}
	if len(all) == 0 {
		return fmt.Errorf("%w: %s", sessions.ErrNoSession, id)
	}
	out := all[0].sessionOut
	if out.ThreadList, err = a.listed(r.Context(), all[0].Session.Threads); err != nil {
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
	all, err := a.cfg.Client.Threads(r.Context(), id)
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
	out, err := a.listed(r.Context(), all)
	if err != nil {
		return err
	}
	return list(w, r, "threads", out, "")
}

// findThreads lists threads of all sessions that the token is for, by their status and the date of their end.
func (a *api) findThreads(w http.ResponseWriter, r *http.Request) error {
	most, err := limit(r, 1000, 1000)
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
	out, err := a.listed(r.Context(), all)
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

// listed is what lists show of threads. One that leads to what cannot be read keeps no other from being shown.
func (a *api) listed(ctx context.Context, all []client.Thread) ([]threadOut, error) {
	out := make([]threadOut, len(all))
	for i, t := range all {
		var err error
		if t.Unreadable {
			out[i] = threadJSON(t)
		} else if out[i], err = a.thread(ctx, t); err != nil && apply.Passing(err) {
			return nil, err
		} else if err != nil {
			out[i].Damage = err.Error()
		}
	}
	return out, nil
}

func (a *api) oneThread(w http.ResponseWriter, r *http.Request, t events.Thread) error {
	return a.showThread(w, r, http.StatusOK, t)
}

// showThread answers with a thread and its prompt, which lists leave out: it can be long.
func (a *api) showThread(w http.ResponseWriter, r *http.Request, status int, t events.Thread) error {
	head, err := a.cfg.Client.AwaitThread(r.Context(), t)
	if err != nil {
		return err
	}
	out, err := a.thread(r.Context(), client.Thread{Thread: t, Head: head, Ended: head.Ended()})
	if err == nil {
		out.Start.Prompt, err = a.cfg.Client.Reader().Prompt(r.Context(), head.Start)
	}
	if err == nil {
		answer(w, status, out)
	}
	return err
}

// thread is what is shown of one thread: what its head says, its start, and where it comes from.
func (a *api) thread(ctx context.Context, t client.Thread) (threadOut, error) {
	out := threadJSON(t)
	start, err := a.cfg.Client.Reader().Start(ctx, t.Head.Start)
	if err != nil {
		return out, err
	}
	out.Start.Name, out.Start.Bundle, out.Start.MaxRounds, out.Start.Depth = start.Name, start.Hash, start.MaxRounds, start.Depth
	fork, err := a.origins.of(ctx, a.cfg.Client, t)
	if err != nil || fork == nil {
		return out, err
	}
	out.ForkOf = fork
	out.Parents, err = a.parents(ctx, t.Thread, fork)
	return out, err
}

// maxParents is how far back the sources of a fork are told.
const maxParents = 32

// parents are the sources of a fork, the nearest first. A source that is gone ends them.
func (a *api) parents(ctx context.Context, t events.Thread, fork *forkOut) ([]forkOut, error) {
	var out []forkOut
	for fork != nil && len(out) < maxParents {
		out = append(out, *fork)
		t = events.Thread{Session: fork.Session, Name: fork.Thread}
		head, err := a.cfg.Client.Thread(ctx, t)
		if errors.Is(err, threads.ErrNoThread) {
			break
		}
		if err != nil {
			return nil, err
		}
		if fork, err = a.origins.of(ctx, a.cfg.Client, client.Thread{Thread: t, Head: head}); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// forks remembers where threads come from: it never changes, and finding it out walks back to that point.
type forks struct {
	mu    sync.Mutex
	known map[origin]*forkOut
}

// origin names a thread and its life: one of the same name may have been before.
type origin struct {
	events.Thread
	created int64
	start   casstore.Ref
}

// mostForks is how many threads are remembered.
const mostForks = 10_000

// of is where a thread left another one; nil if it is no fork.
func (f *forks) of(ctx context.Context, cl *client.Client, t client.Thread) (*forkOut, error) {
	key := origin{t.Thread, t.Head.Created, t.Head.Start.Ref}
	f.mu.Lock()
	out, ok := f.known[key]
	f.mu.Unlock()
	if ok {
		return out, nil
	}
	from, isFork, err := cl.ForkPoint(ctx, t.Head)
	if err != nil {
		return nil, err
	}
	if isFork {
		out = &forkOut{Session: from.From.Session, Thread: from.From.Name, N: from.N}
		if !from.Point.IsZero() {
			out.Node = from.Point.String()
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.known == nil || len(f.known) >= mostForks {
		f.known = map[origin]*forkOut{}
	}
	f.known[key] = out
	return out, nil
}

// graphNode is a thread in the graph of forks.
type graphNode struct {
	Session string   `json:"session"`
	Thread  string   `json:"thread"`
	FromN   int64    `json:"from_n"` // items that it has from its source
	N       int64    `json:"n"`
	State   string   `json:"state"`
	Status  string   `json:"status"`
	Head    string   `json:"head"`
	Source  *forkOut `json:"source,omitempty"`
	Tips    int      `json:"tips"`
}

// graph tells how the threads of a session come from each other, and from other sessions.
func (a *api) graph(w http.ResponseWriter, r *http.Request) error {
	all, err := a.threadsOf(r)
	if err != nil {
		return err
	}
	nodes := make([]graphNode, len(all))
	for i, t := range all {
		fork, err := a.origins.of(r.Context(), a.cfg.Client, t)
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
	all, err := a.cfg.Client.Runs(r.Context(), session)
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

// promptOut is a prompt of the history.
type promptOut struct {
	Session string `json:"session"`
	Thread  string `json:"thread"`
	N       int64  `json:"n"`
	Time    string `json:"time,omitempty"`
	Text    string `json:"text"`
	Cwd     string `json:"cwd,omitempty"`
	Host    string `json:"host,omitempty"`
	Harness string `json:"harness,omitempty"`
}

// history searches what people asked for; without a query it gives the newest.
func (a *api) history(w http.ResponseWriter, r *http.Request) error {
	most, err := limit(r, 50, history.MaxLimit)
	if err != nil {
		return err
	}
	session, err := asked(r)
	if err != nil {
		return err
	}
	if a.cfg.History == "" {
		return fmt.Errorf("%w: this process keeps no prompt history; spool up does", errNothing)
	}
	q, f := r.URL.Query(), history.Filter{Session: session, Cwd: r.URL.Query().Get("cwd"), Within: access.From(r.Context()).Sessions}
	var found []history.Prompt
	err = history.With(a.cfg.History, func(db *history.DB) (err error) {
		if q.Get("q") == "" {
			found, err = db.Recent(r.Context(), f, int(most))
		} else {
			found, err = db.Search(r.Context(), q.Get("q"), f, int(most))
		}
		return err
	})
	if err != nil {
		return err
	}
	out := make([]promptOut, len(found))
	for i, p := range found {
		out[i] = promptOut{p.Thread.Session, p.Thread.Name, p.N, stamp(p.Time), p.Text, p.Cwd, p.Host, p.Harness}
	}
	return list(w, r, "prompts", out, "")
}
