package view

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"spool/internal/apply"
	"spool/internal/mapped"
	"spool/pkg/casstore"
	"spool/pkg/client"
	"spool/pkg/dialect"
	"spool/pkg/events"
	"spool/pkg/sessions"
	"spool/pkg/threads"
)

// Reader reads what the forms need beside a record: what waits and runs in sessions, and where threads come from. It is safe for
// concurrent use.
type Reader struct {
	cl *client.Client

	mu    sync.Mutex
	forks map[origin]*Fork // where threads come from: it never changes, and finding it out walks back to that point
}

// origin names a thread and its life: one of the same name may have been before.
type origin struct {
	events.Thread
	created int64
	start   casstore.Ref
}

// mostForks is how many threads a Reader remembers.
const mostForks = 10_000

// NewReader makes a Reader of what cl reads.
func NewReader(cl *client.Client) *Reader { return &Reader{cl: cl, forks: map[origin]*Fork{}} }

// ListedSession is a session and its form.
type ListedSession struct {
	client.Session
	View Session
}

// Sessions reads one session, or all where session is "", with what waits and runs in them.
func (r *Reader) Sessions(ctx context.Context, session string) ([]ListedSession, error) {
	all, err := r.cl.Sessions(ctx, session)
	if err != nil {
		return nil, err
	}
	work, err := r.work(ctx, session)
	if err != nil {
		return nil, err
	}
	return work.of(all), nil
}

// Page reads some sessions, the newest first, with what waits and runs in them; with a state, those that are in it. What the page says of
// the others is at.
func (r *Reader) Page(ctx context.Context, q client.SessionQuery, state string) (out []ListedSession, at client.SessionPage, err error) {
	if state != "" {
		return r.inState(ctx, q, state)
	}
	page, err := r.cl.SessionPage(ctx, q)
	if err != nil {
		return nil, page, err
	}
	working, err := r.cl.Internal().Working(ctx, mapped.List(page.Sessions, func(s client.Session) string { return s.ID }))
	if err != nil {
		return nil, page, err
	}
	out = work{}.of(page.Sessions)
	each, ctx := errgroup.WithContext(ctx)
	each.SetLimit(atOnce)
	for i, s := range page.Sessions {
		if !working[s.ID] {
			continue
		}
		each.Go(func() error {
			work, err := r.work(ctx, s.ID)
			if err == nil {
				out[i] = work.of([]client.Session{s})[0]
			}
			return err
		})
	}
	return out, page, each.Wait()
}

// inState is Page for one state. What waits and runs is read at once: it may be in any session, and no other one waits, nor runs but by
// what was stored in it just now.
func (r *Reader) inState(ctx context.Context, q client.SessionQuery, state string) (out []ListedSession, at client.SessionPage, err error) {
	if !slices.Contains(States, state) {
		return nil, at, fmt.Errorf("%w: state %.40q: use one of %s", client.ErrFilter, state, strings.Join(States, ", "))
	}
	work, err := r.work(ctx, "")
	if err != nil {
		return nil, at, err
	}
	keep, now := q.Keep, time.Now()
	q.Keep = func(s client.Session) bool {
		is, _ := StateOf(s, work.waiting[s.ID], work.running[s.ID], now)
		return is == state && (keep == nil || keep(s))
	}
	switch state {
	case Waiting:
		q.Among = slices.AppendSeq([]string{}, maps.Keys(work.waiting))
	case Running:
		q.Since, q.Most = now.Add(-busyFor), 0 // all that was stored since, where it is less than a page
	}
	if at, err = r.cl.SessionPage(ctx, q); err == nil && state == Running && len(work.running) > 0 {
		var runs client.SessionPage
		q.Among = slices.Collect(maps.Keys(work.running))
		runs, err = r.cl.SessionPage(ctx, q)
		at = at.With(runs, q.Limit)
	}
	return work.of(at.Sessions), at, err
}

// Counts is how many sessions are in each state.
type Counts struct {
	Sessions int            `json:"sessions"`
	States   map[string]int `json:"states"`
	// Of those that neither wait nor have a run only those that moved last were counted, as many as the query's Most let.
	More bool `json:"more"`
}

// Count counts sessions by their state. The query's Limit means nothing.
func (r *Reader) Count(ctx context.Context, q client.SessionQuery) (Counts, error) {
	out := Counts{States: map[string]int{}}
	work, err := r.work(ctx, "")
	if err != nil {
		return out, err
	}
	keep, now, states := q.Keep, time.Now(), map[string]string{}
	q.Limit, q.Keep = max(q.Most, 1), func(s client.Session) bool { // it keeps none: its limit is how much it reads at once
		if keep == nil || keep(s) {
			states[s.ID], _ = StateOf(s, work.waiting[s.ID], work.running[s.ID], now)
		}
		return false
	}
	page, err := r.cl.SessionPage(ctx, q)
	if err != nil {
		return out, err
	}
	out.More = page.Next != "" || !page.Back.IsZero()
	if out.More { // they may not have moved for long
		q.Among = slices.AppendSeq(slices.AppendSeq([]string{}, maps.Keys(work.waiting)), maps.Keys(work.running))
		q.Among = slices.DeleteFunc(q.Among, func(id string) bool { return states[id] != "" })
		if _, err = r.cl.SessionPage(ctx, q); err != nil {
			return out, err
		}
	}
	for _, state := range States {
		out.States[state] = 0
	}
	for _, state := range states {
		out.Sessions++
		out.States[state]++
	}
	return out, nil
}

// atOnce is of how many sessions a page asks at once what waits and runs in them.
const atOnce = 16

// work is what waits and runs in sessions.
type work struct {
	waiting map[string]int
	running map[string][]client.RunInfo
}

func (r *Reader) work(ctx context.Context, session string) (w work, err error) {
	prompts, err := r.cl.Session(session).Prompts(ctx)
	if err != nil {
		return w, err
	}
	runs, err := r.cl.Session(session).Runs(ctx)
	if err != nil {
		return w, err
	}
	w = work{map[string]int{}, map[string][]client.RunInfo{}}
	for _, p := range prompts {
		w.waiting[p.Thread.Session]++
	}
	for _, run := range runs {
		w.running[run.Thread.Session] = append(w.running[run.Thread.Session], run)
	}
	return w, nil
}

func (w work) of(all []client.Session) []ListedSession {
	out := make([]ListedSession, len(all))
	now := time.Now()
	for i, s := range all {
		out[i] = ListedSession{s, Of(s, w.waiting[s.ID], w.running[s.ID], now)}
	}
	return out
}

// Session reads one session with its threads. sessions.ErrNoSession: there is none.
func (r *Reader) Session(ctx context.Context, id string) (Session, error) {
	all, err := r.Sessions(ctx, id)
	if err != nil {
		return Session{}, err
	}
	if len(all) == 0 {
		return Session{}, fmt.Errorf("%w: %s", sessions.ErrNoSession, id)
	}
	out := all[0].View
	if out.ThreadList, err = r.Threads(ctx, all[0].Threads); err != nil {
		return out, err
	}
	calls, err := r.calls(ctx, all[0].Threads)
	for name, call := range calls {
		if session, _, of := strings.Cut(name, "/"); of {
			if out.AgentSessions == nil {
				out.AgentSessions = map[string]string{}
			}
			out.AgentSessions[session] = call
		}
	}
	return out, err
}

// Threads are the forms of threads in a list. A thread that leads to what cannot be read keeps no other one out of the list.
func (r *Reader) Threads(ctx context.Context, all []client.Thread) ([]Thread, error) {
	out := make([]Thread, len(all))
	calls, err := r.calls(ctx, all)
	if err != nil {
		return nil, err
	}
	for i, t := range all {
		var err error
		if t.Unreadable {
			out[i] = OfThread(t)
		} else if out[i], err = r.thread(ctx, t); err != nil && apply.Passing(err) {
			return nil, err
		}
		out[i] = damaged(out[i], err)
		out[i].ToolCall = calls[t.Name]
	}
	return out, nil
}

// calls are those that subagents among threads of one session work for.
func (r *Reader) calls(ctx context.Context, all []client.Thread) (map[string]string, error) {
	agents := false
	for _, t := range all {
		agents = agents || t.Name != events.MainThread || dialect.AgentsAreSessions(t.Head.Dialect)
		if t.Session != all[0].Session {
			return nil, nil
		}
	}
	if !agents {
		return nil, nil
	}
	return r.cl.Session(all[0].Session).AgentCalls(ctx)
}

// Thread is the form of one thread, with its prompt.
func (r *Reader) Thread(ctx context.Context, t client.Thread) (Thread, error) {
	out, err := r.thread(ctx, t)
	if err == nil {
		out.Start.Prompt, err = r.cl.Reader().Prompt(ctx, t.Head.Start)
	}
	if calls, e := r.calls(ctx, []client.Thread{t}); e == nil {
		out.ToolCall = calls[t.Name]
	} else {
		err = errors.Join(err, e)
	}
	if err != nil && apply.Passing(err) {
		return out, err
	}
	return damaged(out, err), nil
}

// damaged is a thread that leads to what cannot be read, unless the error is nil: the rest is what its head says.
func damaged(t Thread, err error) Thread {
	if err != nil {
		t.Damage = err.Error()
	}
	return t
}

// thread is what the head of a thread says, its start, and where it comes from.
func (r *Reader) thread(ctx context.Context, t client.Thread) (Thread, error) {
	out := OfThread(t)
	start, err := r.cl.Reader().Start(ctx, t.Head.Start)
	if err != nil {
		return out, err
	}
	out.Start.Name, out.Start.Bundle, out.Start.MaxRounds, out.Start.Depth = start.Name, start.Hash, start.MaxRounds, start.Depth
	fork, err := r.ForkOf(ctx, t)
	if err != nil || fork == nil {
		return out, err
	}
	out.ForkOf = fork
	out.Parents, err = r.parents(ctx, fork)
	return out, err
}

// maxParents is how far back the sources of a fork are told.
const maxParents = 32

// parents are the sources of a fork, the nearest first. A source that is gone ends them.
func (r *Reader) parents(ctx context.Context, fork *Fork) ([]Fork, error) {
	var out []Fork
	for fork != nil && len(out) < maxParents {
		out = append(out, *fork)
		t := events.Thread{Session: fork.Session, Name: fork.Thread}
		head, err := r.cl.Thread(t).Head(ctx)
		if errors.Is(err, threads.ErrNoThread) {
			break
		}
		if err != nil {
			return out, fmt.Errorf("the sources of %s: %w", t, err)
		}
		if fork, err = r.ForkOf(ctx, client.Thread{Thread: t, Head: head}); err != nil {
			return out, fmt.Errorf("the sources of %s: %w", t, err)
		}
	}
	return out, nil
}

// ForkOf is where a thread left another one; nil if it is no fork.
func (r *Reader) ForkOf(ctx context.Context, t client.Thread) (*Fork, error) {
	key := origin{t.Thread, t.Head.Created, t.Head.Start.Ref}
	r.mu.Lock()
	out, ok := r.forks[key]
	r.mu.Unlock()
	if ok {
		return out, nil
	}
	from, isFork, err := r.cl.Internal().ForkPoint(ctx, t.Head)
	if err != nil {
		return nil, err
	}
	if isFork {
		out = &Fork{Session: from.From.Session, Thread: from.From.Name, N: from.N}
		if !from.Point.IsZero() {
			out.Node = from.Point.String()
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.forks) >= mostForks {
		clear(r.forks)
	}
	r.forks[key] = out
	return out, nil
}
