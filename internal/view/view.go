// Package view has the forms in which programs read sessions, threads, open outputs and prompts of the history. The HTTP API answers
// with them, and the command line writes them with --json; artifacts, runs and prompts that wait have theirs in pkg/client. Each type is a
// schema of internal/httpapi/schemas.json.
package view

import (
	"encoding/hex"
	"time"

	"spool/internal/history"
	"spool/internal/project"
	"spool/pkg/artifacts"
	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/sessions"
	"spool/pkg/threads"
)

// Session is a session of a listing.
type Session struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Title       string `json:"title,omitempty"`
	Summary     string `json:"summary,omitempty"` // its newest
	FirstPrompt string `json:"first_prompt,omitempty"`
	Cwd         string `json:"cwd,omitempty"`
	Host        string `json:"host,omitempty"`
	File        string `json:"file,omitempty"` // of its main thread on that host, as far as an import said it: <harness>:<path>
	Harness     string `json:"harness,omitempty"`
	Dialect     string `json:"dialect,omitempty"` // of its main thread
	Model       string `json:"model,omitempty"`
	Branch      string `json:"git_branch,omitempty"`
	Parent      string `json:"parent,omitempty"`
	Status      string `json:"status"`               // by the last message: complete, interrupted, aborted, error, pending, unknown
	State       string `json:"state"`                // one of States
	RunningBy   string `json:"running_by,omitempty"` // why it counts as running: run, activity
	Created     string `json:"created,omitempty"`
	Modified    string `json:"modified,omitempty"`
	Threads     int    `json:"threads"`
	Entries     int64  `json:"entries"`
	Messages    int64  `json:"messages"`
	Turns       int64  `json:"turns"` // that have ended
	Tokens      Tokens `json:"tokens"`
	OpenTurn    Tokens `json:"open_turn,omitzero"` // of Tokens, those of turns without an end: they go on, or were cut off
	Bytes       int64  `json:"bytes"`
	Prompts     int    `json:"prompts"` // that wait for an answer
	Runs        []any  `json:"runs"`
	Answered    bool   `json:"answered"`

	Captured *Captured `json:"captured,omitempty"` // of its main thread

	// Only where one session is asked for. AgentSessions are the subagents that are sessions of their own, with the calls that they work for.
	ThreadList    []Thread          `json:"thread_list,omitempty"`
	AgentSessions map[string]string `json:"agent_sessions,omitempty"`
}

// Captured is the file that a thread's newest imported lines came from, as it was when they were read: all of it is what the import said.
type Captured struct {
	By       string `json:"by,omitempty"` // a name of the home of who read it, that no other one has
	Host     string `json:"host,omitempty"`
	Home     string `json:"home,omitempty"`
	Size     int64  `json:"size,omitempty"` // bytes, uncompressed; not there while more of them come
	Modified string `json:"mtime,omitempty"`
	Sum      string `json:"sha256,omitempty"` // of those bytes
}

func ofCaptured(c threads.Captured) *Captured {
	if c == (threads.Captured{}) {
		return nil
	}
	out := &Captured{By: c.By, Host: c.Host, Home: c.Home, Size: c.Size, Modified: events.Stamp(c.Modified / int64(time.Millisecond))}
	if c.Size > 0 {
		out.Sum = hex.EncodeToString(c.Sum[:])
	}
	return out
}

// Tokens are sums over the turns that told theirs.
type Tokens struct {
	In     int64 `json:"in"`
	Cached int64 `json:"cached"` // of in
	Out    int64 `json:"out"`
}

// Thread is where a thread is.
type Thread struct {
	Session  string  `json:"session"`
	Thread   string  `json:"thread"`
	State    string  `json:"state"` // pending, active, completed, failed
	Status   string  `json:"status"`
	Failure  string  `json:"failure,omitempty"`
	Head     string  `json:"head"`
	N        int64   `json:"n"` // of its last item
	Entries  int64   `json:"entries"`
	Messages int64   `json:"messages"`
	Dialect  string  `json:"dialect,omitempty"`
	Start    *Start  `json:"start,omitempty"`
	ForkOf   *Fork   `json:"fork_of,omitempty"`
	Parents  []Fork  `json:"parents,omitempty"`   // the fork's source, that one's source, …
	ToolCall string  `json:"tool_call,omitempty"` // of its session, that its agent works for; not in lists of more than one session
	Created  string  `json:"created,omitempty"`
	Modified string  `json:"modified,omitempty"`
	Ended    string  `json:"ended,omitempty"`  // UTC date
	Damage   string  `json:"damage,omitempty"` // why what it leads to cannot be read; the rest is what its head says
	Bytes    int64   `json:"bytes"`
	Cut      int64   `json:"truncated"`    // entries that a size rule cut
	Moved    int64   `json:"externalized"` // values that are in blobs
	Unknown  int64   `json:"unknown"`      // entries of a type that their dialect does not know
	Tips     int     `json:"tips"`         // branches that were left
	Turns    int64   `json:"turns"`        // that have ended
	Tokens   *Tokens `json:"tokens,omitempty"`
	OpenTurn Tokens  `json:"open_turn,omitzero"` // of Tokens

	FormerOf string    `json:"former_of,omitempty"` // the thread whose former generation it is: that one goes on
	Captured *Captured `json:"captured,omitempty"`
}

// Start is where a thread begins.
type Start struct {
	Hash      string `json:"hash"`
	Name      string `json:"name,omitempty"`
	Bundle    string `json:"bundle,omitempty"`
	MaxRounds int    `json:"max_rounds,omitempty"`
	Depth     int    `json:"depth,omitempty"`
	Prompt    string `json:"prompt,omitempty"` // only where one thread is asked for
}

// Fork is where a thread left another one.
type Fork struct {
	Session string `json:"session"`
	Thread  string `json:"thread"`
	N       int64  `json:"n"`              // items that both have
	Node    string `json:"node,omitempty"` // newest state that both have
}

// busyFor is how long after its newest entry a thread in the middle of something counts as running, when no run says more.
const busyFor = 2 * time.Minute

// Of is the form of a session in which so many prompts wait and these runs are.
func Of(s client.Session, prompts int, runs []client.RunInfo, now time.Time) Session {
	row := s.Row()
	out := Session{
		ID: row.ID, Name: row.Name(), Title: row.Title, Summary: row.Summary, FirstPrompt: row.Prompt, Cwd: row.Cwd,
		Host: row.Host, File: row.File, Harness: row.Agent(),
		Model: row.Model, Branch: row.Branch, Parent: row.Parent, Status: row.Status.String(), Created: events.Stamp(row.Created),
		Modified: events.Stamp(row.Modified), Threads: len(s.Threads), Messages: row.Messages, Bytes: row.Size, Prompts: prompts,
		Runs: make([]any, len(runs)), Answered: row.Answered,
	}
	for _, t := range s.Threads {
		out.Entries += t.Head.Entries
		out.Turns += t.Head.Turns
		all, open := ofThread(t)
		out.Tokens.add(all)
		out.OpenTurn.add(open)
		if t.Name == events.MainThread || out.Dialect == "" {
			out.Dialect = t.Head.Dialect
		}
		if t.Name == events.MainThread {
			out.Captured = ofCaptured(t.Head.Captured)
		}
	}
	for i, r := range runs {
		out.Runs[i] = client.RunJSON(r)
	}
	out.State, out.RunningBy = StateOf(s, prompts, runs, now)
	return out
}

// The states of a session.
const (
	Waiting = "waiting" // a prompt waits for a person's answer
	Running = "running" // an agent works in it
	Failed  = "failed"  // its last message, its newest run or a thread of it says so
	Idle    = "idle"    // it waits for its user, or was left
	Done    = "done"    // all its threads have ended
)

// States are those of a session; one that is of several has the first of them, but for the end of all its threads, which nothing follows.
var States = []string{Waiting, Running, Failed, Idle, Done}

// StateOf is the state of a session in which so many prompts wait and these runs are, and what makes it running: "run" for a lease that
// is not over, "activity" where its newest entry is so new that an agent may be at work. Whoever shows a state has it from here.
func StateOf(s client.Session, prompts int, runs []client.RunInfo, now time.Time) (state, by string) {
	row := s.Row()
	done, failed := len(s.Threads) > 0, row.Status == sessions.StatusError
	for _, t := range s.Threads {
		done = done && t.Head.Status == threads.StatusCompleted
		failed = failed || t.Head.Status == threads.StatusFailed
	}
	newest, active := time.Time{}, false
	for _, r := range runs {
		active = active || r.Active()
		if !r.Begun.Before(newest) {
			newest = r.Begun
			failed = failed || r.State == artifacts.RunFailed
		}
	}
	under := row.Status == sessions.StatusPending || row.Status == sessions.StatusInterrupted
	switch {
	case prompts > 0 && !done:
		return Waiting, ""
	case active:
		return Running, "run"
	case done:
		return Done, ""
	case failed:
		return Failed, ""
	case under && len(runs) == 0 && now.Sub(time.UnixMilli(row.Modified)) < busyFor:
		return Running, "activity"
	}
	return Idle, ""
}

// ofThread are those of a thread, and of these those of its open turn. A turn of a former generation goes on in the next one.
func ofThread(t client.Thread) (all, open Tokens) {
	if events.FormerOf(t.Thread) == "" {
		stats := project.OpenTurn(&t.Head)
		open = Tokens{stats.InputTokens, stats.InputTokensCached, stats.OutputTokens}
	}
	all = Tokens{t.Head.TokensIn, t.Head.TokensCached, t.Head.TokensOut}
	all.add(open)
	return all, open
}

func (t *Tokens) add(o Tokens) { t.In, t.Cached, t.Out = t.In+o.In, t.Cached+o.Cached, t.Out+o.Out }

// OfThread is the form of a thread as its head tells it: without where it comes from, and of its start the hash alone.
func OfThread(t client.Thread) Thread {
	h := t.Head
	out := Thread{
		Session: t.Session, Thread: t.Name, State: h.Status.String(), Status: sessions.Status(h.Standing).String(), Failure: h.Failure,
		Head: h.Head().Ref.String(), N: h.N, Entries: h.Entries, Messages: h.Messages, Dialect: h.Dialect,
		Start: &Start{Hash: h.Start.Ref.String()}, Created: events.Stamp(h.Created), Modified: events.Stamp(h.Updated), Ended: t.Ended,
		Bytes: h.BytesIn, Cut: h.Truncated, Moved: h.Externalized, Unknown: h.Unknown,
		Tips: h.Branches(), Turns: h.Turns, Tokens: &Tokens{},
		FormerOf: events.FormerOf(t.Thread), Captured: ofCaptured(h.Captured),
	}
	*out.Tokens, out.OpenTurn = ofThread(t)
	return out
}

// Output is a streaming output that is open.
type Output struct {
	Output     string `json:"output"`
	Invocation string `json:"invocation_id"` // that its call and its result share
	Tool       string `json:"tool,omitempty"`
	Begun      string `json:"begun_at,omitempty"`
	Bytes      int64  `json:"bytes"`  // printed so far
	Offset     int64  `json:"offset"` // of the first byte that comes
}

// OfOutput is the form of an output to somebody who is given it from offset on.
func OfOutput(o client.OpenOutput, offset int64) Output {
	return Output{o.ID, o.Invocation, o.Tool, events.Stamp(o.Begun.UnixMilli()), o.Bytes, offset}
}

// Match is an item that a search found.
type Match struct {
	Session string `json:"session"`
	Thread  string `json:"thread"`
	N       int64  `json:"n"`
	Time    string `json:"time,omitempty"`
	Type    string `json:"type"`
	Tool    string `json:"tool,omitempty"`
	Failed  bool   `json:"failed,omitempty"`
	Snippet string `json:"snippet"`
	Cwd     string `json:"cwd,omitempty"`
	Host    string `json:"host,omitempty"`
	Harness string `json:"harness,omitempty"`
	Model   string `json:"model,omitempty"`
}

// OfMatch is the form of an item that was found.
func OfMatch(m history.Match) Match {
	return Match{m.Thread.Session, m.Thread.Name, m.N, events.Stamp(m.Time), m.Kind, m.Tool, m.Failed, m.Text, m.Cwd, m.Host,
		m.Harness, m.Model}
}

// Prompt is a prompt of the history.
type Prompt struct {
	Session string `json:"session"`
	Thread  string `json:"thread"`
	N       int64  `json:"n"`
	Time    string `json:"time,omitempty"`
	Text    string `json:"text"`
	Cwd     string `json:"cwd,omitempty"`
	Host    string `json:"host,omitempty"`
	Harness string `json:"harness,omitempty"`
}

// OfPrompt is the form of a prompt of the history.
func OfPrompt(p history.Prompt) Prompt {
	return Prompt{p.Thread.Session, p.Thread.Name, p.N, events.Stamp(p.Time), p.Text, p.Cwd, p.Host, p.Harness}
}
