package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"time"

	"spool/internal/jsonscan"
	"spool/pkg/artifacts"
	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/sessions"
	"spool/pkg/threads"
)

// What programs read: each type here is a schema of schemas.json.

// sessionOut is a session of a listing.
type sessionOut struct {
	ID          string    `json:"id"`
	Name        string    `json:"name"`
	Title       string    `json:"title,omitempty"`
	FirstPrompt string    `json:"first_prompt,omitempty"`
	Cwd         string    `json:"cwd,omitempty"`
	Host        string    `json:"host,omitempty"`
	Harness     string    `json:"harness,omitempty"`
	Dialect     string    `json:"dialect,omitempty"` // of its main thread
	Model       string    `json:"model,omitempty"`
	Branch      string    `json:"git_branch,omitempty"`
	Parent      string    `json:"parent,omitempty"`
	Status      string    `json:"status"`            // by the last message: complete, interrupted, aborted, error, pending, unknown
	Live        string    `json:"live"`              // running, idle, failed, done
	LiveBy      string    `json:"live_by,omitempty"` // why it counts as running: run, activity
	Created     string    `json:"created,omitempty"`
	Modified    string    `json:"modified,omitempty"`
	Threads     int       `json:"threads"`
	Entries     int64     `json:"entries"`
	Messages    int64     `json:"messages"`
	Turns       int64     `json:"turns"`
	Tokens      tokensOut `json:"tokens"`
	Bytes       int64     `json:"bytes"`
	Prompts     int       `json:"prompts"` // that wait for an answer
	Runs        []any     `json:"runs"`
	Answered    bool      `json:"answered"`

	ThreadList []threadOut `json:"thread_list,omitempty"` // only where one session is asked for
}

// tokensOut are sums over the turns that told theirs.
type tokensOut struct {
	In     int64 `json:"in"`
	Cached int64 `json:"cached"` // of in
	Out    int64 `json:"out"`
}

// threadOut is where a thread is.
type threadOut struct {
	Session  string     `json:"session"`
	Thread   string     `json:"thread"`
	State    string     `json:"state"` // pending, active, completed, failed
	Status   string     `json:"status"`
	Failure  string     `json:"failure,omitempty"`
	Head     string     `json:"head"`
	N        int64      `json:"n"` // of its last item
	Entries  int64      `json:"entries"`
	Messages int64      `json:"messages"`
	Dialect  string     `json:"dialect,omitempty"`
	Start    *startOut  `json:"start,omitempty"`
	ForkOf   *forkOut   `json:"fork_of,omitempty"`
	Parents  []forkOut  `json:"parents,omitempty"` // the fork's source, that one's source, …
	Created  string     `json:"created,omitempty"`
	Modified string     `json:"modified,omitempty"`
	Ended    string     `json:"ended,omitempty"`  // UTC date
	Damage   string     `json:"damage,omitempty"` // why what it leads to cannot be read; the rest is what its head says
	Bytes    int64      `json:"bytes"`
	Cut      int64      `json:"truncated"`
	Tips     int        `json:"tips"` // branches that were left
	Turns    int64      `json:"turns"`
	Tokens   *tokensOut `json:"tokens,omitempty"`
}

type startOut struct {
	Hash      string `json:"hash"`
	Name      string `json:"name,omitempty"`
	Bundle    string `json:"bundle,omitempty"`
	MaxRounds int    `json:"max_rounds,omitempty"`
	Depth     int    `json:"depth,omitempty"`
	Prompt    string `json:"prompt,omitempty"` // only where one thread is asked for
}

type forkOut struct {
	Session string `json:"session"`
	Thread  string `json:"thread"`
	N       int64  `json:"n"`              // items that both have
	Node    string `json:"node,omitempty"` // newest state that both have
}

// itemOut is an item and where it is.
type itemOut struct {
	N       int64           `json:"n"`
	Session string          `json:"session"`
	Thread  string          `json:"thread"`
	Hash    string          `json:"hash"` // of its state
	Subject string          `json:"subject"`
	Time    string          `json:"time,omitempty"`
	Item    json.RawMessage `json:"item"`
}

// itemOf describes an item by its JSON.
func itemOf(raw []byte) itemOut {
	out := itemOut{Item: raw}
	var kind, detail string
	_ = jsonscan.Object(raw, func(key, value []byte) bool {
		switch string(key) {
		case "n":
			out.N, _ = jsonscan.Int(value)
		case "session":
			out.Session, _ = jsonscan.Text(value)
		case "thread":
			out.Thread, _ = jsonscan.Text(value)
		case "node":
			out.Hash, _ = jsonscan.Text(value)
		case "created_at":
			out.Time, _ = jsonscan.Text(value)
		case "metadata":
			kind, detail = kindOf(value)
		}
		return true
	})
	out.Subject = events.ItemSubject(events.Thread{Session: out.Session, Name: out.Thread}, kind, detail)
	return out
}

// kindOf is the type of an item, "" for a user's post, and its detail: a tool's name, ok or error.
func kindOf(metadata []byte) (kind, detail string) {
	kind, _ = jsonscan.Text(jsonscan.Get(metadata, "type"))
	switch kind {
	case events.TypeToolCall:
		detail, _ = jsonscan.Text(jsonscan.Get(metadata, "tool", "name"))
	case events.TypeToolResult:
		detail = "ok"
		if failed, _ := jsonscan.Bool(jsonscan.Get(metadata, "tool", "is_error")); failed {
			detail = "error"
		}
	}
	return kind, detail
}

// busyFor is how long after its newest entry a thread in the middle of something counts as running, when no run says more.
const busyFor = 2 * time.Minute

// view is what a listing shows of a session.
func view(s client.Session, prompts int, runs []client.RunInfo, now time.Time) sessionOut {
	row := s.Row()
	out := sessionOut{
		ID: row.ID, Name: row.Name(), Title: row.Title, FirstPrompt: row.Prompt, Cwd: row.Cwd, Host: row.Host, Harness: row.Harness,
		Model: row.Model, Branch: row.Branch, Parent: row.Parent, Status: row.Status.String(), Created: stamp(row.Created),
		Modified: stamp(row.Modified), Threads: len(s.Threads), Messages: row.Messages, Bytes: row.Size, Prompts: prompts,
		Runs: make([]any, len(runs)), Answered: row.Answered,
	}
	done, failed := len(s.Threads) > 0, false
	for _, t := range s.Threads {
		out.Entries += t.Head.Entries
		out.Turns += t.Head.Turns
		out.Tokens.add(t.Head)
		done = done && t.Head.Status == threads.StatusCompleted
		failed = failed || t.Head.Status == threads.StatusFailed
		if t.Name == events.MainThread || out.Dialect == "" {
			out.Dialect = t.Head.Dialect
		}
	}
	newest, active := int64(0), false
	for i, r := range runs {
		out.Runs[i] = client.RunJSON(r)
		active = active || r.Active()
		if r.Begun >= newest {
			newest = r.Begun
			failed = failed || r.State == artifacts.RunFailed
		}
	}
	under := row.Status == sessions.StatusPending || row.Status == sessions.StatusInterrupted
	switch {
	case active:
		out.Live, out.LiveBy = "running", "run"
	case done:
		out.Live = "done"
	case failed:
		out.Live = "failed"
	case under && len(runs) == 0 && now.Sub(time.UnixMilli(row.Modified)) < busyFor:
		out.Live, out.LiveBy = "running", "activity"
	default:
		out.Live = "idle"
	}
	return out
}

func (t *tokensOut) add(h threads.Head) {
	t.In, t.Cached, t.Out = t.In+h.TokensIn, t.Cached+h.TokensCached, t.Out+h.TokensOut
}

func threadJSON(t client.Thread) threadOut {
	h := t.Head
	out := threadOut{
		Session: t.Session, Thread: t.Name, State: h.Status.String(), Status: sessions.Status(h.Standing).String(), Failure: h.Failure,
		Head: h.Head().Ref.String(), N: h.N, Entries: h.Entries, Messages: h.Messages, Dialect: h.Dialect,
		Start: &startOut{Hash: h.Start.Ref.String()}, Created: stamp(h.Created), Modified: stamp(h.Updated), Ended: t.Ended,
		Bytes: h.BytesIn, Cut: h.Truncated, Tips: h.Branches(), Turns: h.Turns, Tokens: &tokensOut{},
	}
	out.Tokens.add(h)
	return out
}

// resetJSON says why a reader begins anew, and under which name.
func resetJSON(gone error) []byte {
	out := struct {
		Reason  string `json:"reason"` // removed, renamed, replaced, trimmed
		Session string `json:"session,omitempty"`
		Thread  string `json:"thread,omitempty"` // its name now
		Message string `json:"message"`
	}{Reason: "removed", Message: gone.Error()}
	var renamed *client.Renamed
	if errors.As(gone, &renamed) {
		out.Reason, out.Session, out.Thread = "renamed", renamed.To.Session, renamed.To.Name
	}
	return encode(out)
}

// encode is JSON on one line, without a newline behind it.
func encode(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(err) // structs of strings, numbers and valid JSON
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// stamp is a time as programs read it; "" for none.
func stamp(ms int64) string { return events.Stamp(ms) }
