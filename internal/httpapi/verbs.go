package httpapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"spool/internal/access"
	"spool/pkg/artifacts"
	"spool/pkg/client"
	"spool/pkg/events"
)

// verbs are the routes for what an agent does beside storing entries.
var verbs = []route{
	{
		method: "POST", path: threadPath + "/start", need: access.Write, in: storing,
		about: "Begin a thread with the task and the limits of its workflow.", takes: object("start"),
		gives: object("thread"), status: 201, also: []int{409, 415}, do: changes(http.StatusCreated, (*api).startThread),
	},
	{
		method: "POST", path: sessionPath, need: access.Write, in: storing,
		about: "Begin a session of omp entries. Nothing of its parent is taken.", takes: object("new_session"),
		gives: object("ok"), status: 201, also: []int{409, 415}, do: taking((*api).newSession),
	},
	{
		method: "POST", path: sessionPath + "/name", need: access.Write, in: storing,
		about: "Give the session a title; with auto, unless the user gave one.", takes: object("name"),
		gives: object("ok"), also: []int{409, 415}, do: taking((*api).nameSession),
	},
	{
		method: "POST", path: sessionPath + "/move", need: access.Write, in: storing,
		about: "Make the session one of another working directory.", takes: object("move"),
		gives: object("ok"), also: []int{409, 415}, do: taking((*api).moveSession),
	},
	{
		method: "POST", path: sessionPath + "/agents", need: access.Write, in: storing,
		about: "Take the id of the next agent that one starts: PARENT.INDEX-NAME.", takes: object("agent_name"),
		gives: object("labelled"), status: 201, also: []int{415, 503}, do: (*api).agentID,
	},
	{
		method: "POST", path: sessionPath + "/artifacts/number", need: access.Write, in: storing,
		about: "Take the number of an artifact that is stored later.", takes: object("tool_name"),
		gives: object("numbered"), status: 201, also: []int{415, 503}, do: taking((*api).artifactNumber),
	},
	{
		method: "POST", path: "/v1/blobs", need: access.Write, in: uploading,
		about: "Store the body as a blob, at most 8 MiB, for the refs of a step.",
		takes: []body{{typeBytes, ""}}, gives: object("labelled"), status: 201, also: []int{413, 503}, do: (*api).putBlob,
	},
	{
		method: "POST", path: threadPath + "/reopen", need: access.Write, in: storing,
		about: "Make a failed thread active again.", takes: object("empty"), gives: object("thread"),
		also: []int{409, 415}, do: changes(http.StatusOK, (*api).reopen),
	},
	{
		method: "POST", path: threadPath + "/runs", need: access.Write, in: storing,
		about: "Begin a run, or give a sign of life of it: the same request again, within its lease.",
		takes: object("begin_run"), gives: object("labelled"), status: 201, also: []int{409, 415}, do: takingOnThread((*api).beginRun),
	},
	{
		method: "POST", path: sessionPath + "/runs/{run}/end", need: access.Write, in: storing, about: "End a run.",
		takes: object("end_run"), gives: object("ok"), also: []int{409, 415}, do: taking((*api).endRun),
	},
	{
		method: "POST", path: sessionPath + "/artifacts/register", need: access.Write, in: storing,
		about: "Make an artifact of an object that its tool put into the bucket spool_artifacts.",
		takes: object("register"), gives: object("artifact"), status: 201, also: []int{409, 415}, do: taking((*api).register),
	},
	{
		method: "POST", path: sessionPath + "/artifacts/cleanup", need: access.Admin, in: storing,
		about: "Say which artifacts of debugging would be removed; with apply remove them.",
		takes: object("cleanup"), gives: object("deleted"), also: []int{415, 503}, do: taking((*api).cleanup),
	},
	{
		method: "DELETE", path: threadPath, need: access.Admin, in: storing,
		about: "Remove a thread: its name is free then, its states stay while another thread has them.",
		query: []param{{name: "force", kind: "boolean", about: "although a run or an output is live"}},
		gives: object("ok"), also: []int{409, 503}, do: onThread((*api).removeThread),
	},
}

func (a *api) startThread(ctx context.Context, t events.Thread, in struct {
	Name      string `json:"name"`
	Bundle    string `json:"bundle"`
	MaxRounds int    `json:"max_rounds"`
	Depth     int    `json:"depth"`
	Prompt    string `json:"prompt"`
}) (events.Thread, error) {
	start := events.Start{Name: in.Name, Hash: in.Bundle, MaxRounds: in.MaxRounds, Depth: in.Depth, Prompt: in.Prompt}
	return t, a.cfg.Client.Thread(t).Start(ctx, start)
}

func (a *api) newSession(w http.ResponseWriter, r *http.Request, in struct {
	Cwd    string `json:"cwd"`
	Parent string `json:"parent"`
}) error {
	if err := directory(in.Cwd); err != nil {
		return err
	}
	err := a.cfg.Client.Session(r.PathValue("session")).New(r.Context(), in.Cwd, in.Parent)
	if err == nil {
		answer(w, http.StatusCreated, okay{OK: true})
	}
	return err
}

func (a *api) nameSession(w http.ResponseWriter, r *http.Request, in struct {
	Title string `json:"title"`
	Auto  bool   `json:"auto"`
}) error {
	err := a.cfg.Client.Session(r.PathValue("session")).Name(r.Context(), in.Title, in.Auto)
	if errors.Is(err, client.ErrTitled) && !sees(r) { // it says which
		err = client.ErrTitled
	}
	if err != nil {
		return err
	}
	return a.alive(w, r)
}

func (a *api) moveSession(w http.ResponseWriter, r *http.Request, in struct {
	Cwd string `json:"cwd"`
}) error {
	if err := directory(in.Cwd); err != nil {
		return err
	}
	if err := a.cfg.Client.Session(r.PathValue("session")).Move(r.Context(), in.Cwd); err != nil {
		return err
	}
	return a.alive(w, r)
}

func (a *api) agentID(w http.ResponseWriter, r *http.Request) error {
	session, err := sessionOf(r)
	if err != nil {
		return err
	}
	var in struct {
		Parent string `json:"parent"`
		Name   string `json:"name"`
	}
	if err := read(w, r, &in); err != nil {
		return err
	}
	err = events.CheckToken("agent", in.Name)
	if in.Parent != "" {
		err = errors.Join(events.CheckAgent("agent", in.Parent), err)
	}
	if err != nil {
		return err
	}
	id, err := a.cfg.Client.Session(session).TakeAgentID(r.Context(), in.Parent, in.Name)
	return named(w, http.StatusCreated, id, orBegin(session, err))
}

func (a *api) artifactNumber(w http.ResponseWriter, r *http.Request, in struct {
	Tool string `json:"tool"`
}) error {
	session, err := sessionOf(r)
	if err != nil {
		return err
	}
	n, name, err := a.cfg.Client.Session(session).TakeNumber(r.Context(), in.Tool)
	if err == nil {
		answer(w, http.StatusCreated, map[string]any{"ok": true, "number": n, "filename": name})
	}
	return orBegin(session, err)
}

func (a *api) putBlob(w http.ResponseWriter, r *http.Request) error {
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(entryTime))
	b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, client.MaxBlob))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrRequest, err)
	}
	ref, err := a.cfg.Client.PutBlob(r.Context(), b)
	return named(w, http.StatusCreated, ref.String(), err)
}

func (a *api) reopen(ctx context.Context, t events.Thread, _ struct{}) (events.Thread, error) {
	return t, a.cfg.Client.Thread(t).Reopen(ctx)
}

// beginRun begins a run whose signs of life are requests: none follows when this one has ended.
func (a *api) beginRun(w http.ResponseWriter, r *http.Request, t events.Thread, in struct {
	ID      string `json:"run"`
	Agent   string `json:"agent"`
	State   string `json:"state"`
	Lease   int64  `json:"lease_ms"`
	Summary string `json:"summary"`
}) error {
	lease, err := leaseOf(in.Lease)
	if err != nil {
		return err
	}
	run, err := a.cfg.Client.Thread(t).StartRun(r.Context(), client.RunConfig{
		ID: in.ID, Agent: in.Agent, State: artifacts.RunStatus(in.State), Lease: lease, Summary: in.Summary,
	})
	if err != nil {
		return err
	}
	return named(w, http.StatusCreated, run.ID(), run.Wait(r.Context()))
}

func (a *api) endRun(w http.ResponseWriter, r *http.Request, in struct {
	State   string `json:"state"`
	Summary string `json:"summary"`
}) error {
	session, run := r.PathValue("session"), r.PathValue("run")
	if err := a.cfg.Client.Session(session).EndRun(r.Context(), run, artifacts.RunStatus(in.State), in.Summary); err != nil {
		return err
	}
	return a.alive(w, r)
}

// register is for tokens of all sessions: an object may be of any.
func (a *api) register(w http.ResponseWriter, r *http.Request, in struct {
	Object   string `json:"object"`
	Tool     string `json:"tool"`
	Filename string `json:"filename"`
	MIME     string `json:"mime"`
	Agent    string `json:"agent"`
	Run      string `json:"run"`
	ToolCall string `json:"tool_call"`
	Summary  string `json:"summary"`
	Category string `json:"category"`
}) error {
	if g := access.From(r.Context()); !g.Everything() {
		return fmt.Errorf("%w: %s is for some sessions only, and an object may be of any: post its bytes", errForbidden, g.Name)
	}
	session, err := sessionOf(r)
	if err != nil {
		return err
	}
	rec, err := a.cfg.Client.Artifacts().RegisterObject(r.Context(), client.NewArtifact{Tool: in.Tool, Record: artifacts.Record{
		Session: session, Filename: in.Filename, MIME: in.MIME, Agent: in.Agent, Run: in.Run,
		ToolCall: in.ToolCall, Summary: in.Summary, Category: artifacts.Category(in.Category),
	}}, in.Object)
	if err == nil {
		answer(w, http.StatusCreated, client.ArtifactJSON(rec))
	}
	return orBegin(session, err)
}

func (a *api) cleanup(w http.ResponseWriter, r *http.Request, in struct {
	Apply      bool    `json:"apply"`
	IncludeAll bool    `json:"include_all"`
	OlderThan  *string `json:"older_than"`
	MaxBytes   *int64  `json:"max_bytes"`
}) error {
	session, err := sessionOf(r)
	if err != nil {
		return err
	}
	var than time.Time
	if in.OlderThan != nil {
		if than, err = before(*in.OlderThan); err != nil {
			return fmt.Errorf("older_than: %w", err)
		}
	}
	report, err := a.cfg.Client.Artifacts().Cleanup(r.Context(), artifacts.Cleanup{
		Session: session, Apply: in.Apply, IncludeAll: in.IncludeAll, OlderThan: than, MaxBytes: in.MaxBytes,
	})
	if err == nil {
		answer(w, http.StatusOK, client.ReportJSON(report))
	}
	return orBegin(session, err)
}

// isSet reads a parameter that is true or false: it is true where it stands, unless it says false.
func isSet(r *http.Request, name string) bool {
	q := r.URL.Query()
	said := q.Get(name)
	return q.Has(name) && said != "false" && said != "0"
}

func (a *api) removeThread(w http.ResponseWriter, r *http.Request, t events.Thread) error {
	if err := a.cfg.Client.Thread(t).Remove(r.Context(), client.Force(isSet(r, "force"))); err != nil {
		return err
	}
	return a.alive(w, r)
}
