package tenants_test

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"os"
	"reflect"
	"strings"
	"testing"

	"spool/internal/must"
	"spool/pkg/events"
)

// names is one way in which an event, or a request, names what is another session's.
type names struct {
	kind   events.Kind                    // entry unless given
	op     func(*scoped) any              // the body: a Control, a Chunk, or bytes
	change func(*scoped, *events.Event)   // what else the event says
	dead   string                         // in the reason of its dead letter; "": it is applied, in its own session
	method string                         // POST unless given
	root   string                         // /v1/sessions/ unless given
	path   string                         // the same over HTTP; "": there is no way to say it
	body   func(*scoped) string           // of the request
	status int                            // of its answer
	also   []asked                        // other ways to say it over HTTP
	check  func(*scoped, *testing.T)      // what else must be
	ask    func(*scoped) (string, []byte) // in the place of an event: subject and bytes, which the server refuses
}

// asked is a request of another kind, and the status of its answer.
type asked struct {
	method, path, body string
	header             [2]string
	status             int
}

var plainText = [2]string{"Content-Type", "text/plain"}

// foreign is every field of an event that can name what is another session's, with one try each; plain is every other
// field. A field that is in neither fails TestEveryFieldHasARow; docs/permissions.md has a row for each of foreign.
var foreign = map[string]names{
	"Event.Thread.Session": {
		ask: func(*scoped) (string, []byte) {
			e := event("other", "x", 1)
			return events.EventSubject(e.Thread, e.Kind), e.Encode()
		},
		path: "other/threads/main/entries?dialect=omp", body: said(`{"type":"message","id":"a"}`), status: 403,
		also: []asked{
			{http.MethodPost, "/v1/events",
				`{"session":"other","thread":"main","dialect":"omp","body":{"type":"message","id":"a"}}`,
				[2]string{"Content-Type", "application/x-ndjson"}, 403},
			{http.MethodPost, "/v1/sessions/other/threads/main/append", `{"entry":{"type":"custom","customType":"x"}}`,
				[2]string{}, 403},
			{http.MethodPost, "/v1/sessions/other/threads/outputs/outputs?tool=x", "printed", plainText, 403},
			{http.MethodPost, "/v1/sessions/other/artifacts?filename=x", "bytes", plainText, 403},
			{http.MethodPost, "/v1/sessions/other/threads/asks/prompts/q1/answer", `{"answer":true}`, [2]string{}, 403},
			{http.MethodPut, "/v1/stream/other/main", "{}", [2]string{}, 403},
		},
	},
	"Event.Scope": {
		ask: func(*scoped) (string, []byte) {
			e := event("mine", "x", 1)
			return events.Scope("mine,other").Stamp(events.EventSubject(e.Thread, events.KindControl)), e.Encode()
		},
	},
	"Event.Thread.Name": {
		change: func(_ *scoped, e *events.Event) { e.Thread.Session = "other" }, dead: "was published as mine/main",
	},
	"Event.Ref.Object": {
		change: func(s *scoped, e *events.Event) {
			e.Ref, e.Body = &events.BodyRef{Object: s.claimed.Object, Size: s.claimed.Size}, nil
		},
		dead: "has another hash",
		check: func(s *scoped, t *testing.T) {
			if _, err := s.admin.Objects().Stat(t.Context(), events.InboxBucket, s.claimed.Object); err != nil {
				t.Errorf("the other session's body in the inbox: %v", err)
			}
		},
	},
	"Event.Body": {
		op: func(*scoped) any {
			guess := sha256.Sum256([]byte("a guess"))
			return fmt.Appendf(nil, `{"role":"user","content":"x","refs":["blob:sha256:%x"]}`, guess)
		},
		change: func(_ *scoped, e *events.Event) { e.Dialect, e.Thread.Name = "step", "steps" }, dead: "is not stored",
		path: "mine/threads/steps/entries?dialect=step", body: func(*scoped) string {
			guess := sha256.Sum256([]byte("a guess"))
			return fmt.Sprintf(`{"role":"user","content":"x","refs":["blob:sha256:%x"]}`, guess)
		}, status: 400,
	},
	"Control.Fork.Session": {
		op: whole("other"), dead: "beyond the publisher's sessions",
		path: "other/threads/main/fork", body: said(`{"to":"mine/stolen"}`), status: 403,
		also: []asked{{http.MethodPut, "/v1/stream/mine/stolen", "",
			[2]string{"Stream-Forked-From", "/v1/stream/other/main"}, 403}},
	},
	"Control.Fork.Thread": {
		op: func(*scoped) any {
			return events.Control{Op: events.OpFork, Fork: &events.Fork{Session: "mine", Thread: "other/main"}}
		}, dead: "bad name",
		path: "mine/threads/main/fork", body: said(`{"to":"other/stolen"}`), status: 403,
	},
	"Control.Fork.Node": {
		op: func(s *scoped) any {
			from := events.Fork{Session: "mine", Thread: "main", Node: s.node.String()}
			return events.Control{Op: events.OpFork, Fork: &from}
		}, dead: "no such fork point",
		path:   "mine/threads/main/fork",
		body:   func(s *scoped) string { return `{"to":"stolen","node":"` + s.node.String() + `"}` },
		status: 404,
	},
	"Control.Fork.Entry": {
		op: func(*scoped) any {
			return events.Control{Op: events.OpFork, Fork: &events.Fork{Session: "mine", Thread: "main", Entry: "00000777"}}
		}, dead: "no such fork point",
		path: "mine/threads/main/fork", body: said(`{"to":"stolen","entry":"00000777"}`), status: 404,
	},
	"Control.Fork.Header": {
		op: func(*scoped) any {
			return events.Control{Op: events.OpFork, Fork: &events.Fork{Session: "mine", Thread: "main", Whole: true,
				Header: []byte(`{"type":"session","version":3,"id":"other","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/"}`)}}
		}, dead: "header",
	},
	"Control.Answer.Prompt": {
		op: func(*scoped) any {
			return events.Control{Op: events.OpAnswer, Answer: &events.Answer{Prompt: "q1", Answer: []byte(`true`)}}
		}, change: in("main"), dead: "no such prompt",
		path: "mine/threads/main/prompts/q1/answer", body: said(`{"answer":true}`), status: 404,
	},
	"Control.Run.ID": {
		op: func(*scoped) any {
			return events.Control{Op: events.OpRun, Run: &events.Run{ID: "r1", State: "failed"}}
		}, change: in("runs"),
		dead: "was never begun",
	},
	"Control.Branch.Entry": {
		op: func(*scoped) any {
			return events.Control{Op: events.OpBranch, Branch: &events.Branch{Entry: "00000777"}}
		}, change: in("main"), dead: "not found",
		path: "mine/threads/main/branch", body: said(`{"entry":"00000777"}`), status: 404,
	},
	"Control.Branch.Node": {
		op: func(s *scoped) any {
			return events.Control{Op: events.OpBranch, Branch: &events.Branch{Node: s.node.String()}}
		}, change: in("main"), dead: "no such fork point",
	},
	"Control.Label.Target": {
		op: func(*scoped) any {
			return events.Control{Op: events.OpLabel, Label: &events.Label{Target: "00000777", Label: "x"}}
		}, change: in("main"), dead: "not found",
		path: "mine/threads/main/label", body: said(`{"entry":"00000777","label":"x"}`), status: 404,
	},
	"Control.Summary.Entry": {
		op: func(*scoped) any {
			return events.Control{Op: events.OpSummary, Summary: &events.Summary{Entry: "00000777", Summary: "x"}}
		}, change: in("main"), dead: "not found",
	},
	"Control.Append.Leaf": {
		op: func(*scoped) any {
			leaf, entry := "00000777", []byte(`{"type":"custom","customType":"x"}`)
			return events.Control{Op: events.OpAppend, Append: &events.Append{Entry: entry, Leaf: &leaf}}
		}, change: in("main"), dead: "not found",
	},
	"Control.Compact.FirstKept": {
		op: func(*scoped) any {
			return events.Control{Op: events.OpCompact, Compact: &events.Compact{Summary: "x", FirstKept: "00000777"}}
		}, change: in("main"), dead: "not found",
		path: "mine/threads/main/compact", body: said(`{"summary":"x","first_kept":"00000777"}`), status: 404,
	},
	"Control.Rename.To": {
		op: func(*scoped) any {
			return events.Control{Op: events.OpRename, Rename: &events.Rename{To: "other/main", Force: true}}
		}, change: in("main"), dead: "bad name",
		path: "mine/threads/main/rename", body: said(`{"to":"other/main"}`), status: 400,
	},
	"Control.Delete": {
		op: func(*scoped) any {
			return events.Control{Op: events.OpDelete, Delete: &events.Delete{Force: true}}
		}, change: in("main"), dead: "removes nothing",
		method: http.MethodDelete, path: "mine", status: 403,
	},
	"Control.Remove": {
		op: func(*scoped) any {
			return events.Control{Op: events.OpRemove, Remove: &events.Remove{Force: true}}
		}, change: in("main"), dead: "removes nothing",
		method: http.MethodDelete, root: "/v1/stream/", path: "mine/main", status: 403,
	},
	"Chunk.Output": {
		kind: events.KindChunk,
		op: func(*scoped) any {
			return events.Chunk{Op: events.ChunkData, Output: "o1", Seq: 1, Stream: events.Stdout, Data: []byte("x")}
		}, change: in("outputs"), dead: "o1",
	},
	"Chunk.Start.Run": {
		kind: events.KindChunk,
		op: func(*scoped) any {
			start := events.OutputStart{Tool: "x", Run: "r1", Agent: "other", Keep: true}
			return events.Chunk{Op: events.ChunkStart, Output: "o2", Start: start}
		}, change: in("outputs"),
		also: []asked{
			{http.MethodPost, "/v1/sessions/mine/threads/outputs/outputs?tool=x&run=r1&keep=true", "printed", plainText, 404},
			{http.MethodPost, "/v1/sessions/mine/artifacts?filename=x&run=r1", "bytes", plainText, 404},
		},
		check: func(s *scoped, t *testing.T) { s.endsWithoutRun(t, "o2") },
	},
}

// plain is every other field, by what it is: nothing of it leads anywhere.
var plain = map[string]string{
	"an identity within the thread": "Event.Producer Event.Epoch Event.Seq Event.Prev Event.More[].Seq Chunk.Seq Chunk.Attempt Chunk.Start.Attempt",
	"a claim, shown and not believed": `Event.Time Event.User Event.Claimed Event.Host Event.File Event.Trace
		Event.Captured.By Event.Captured.Home Event.Captured.Size Event.Captured.Modified Event.Captured.Sum Event.More[].Time Control.Answer.By
		Control.Delete.By Control.Run.Agent Chunk.Start.Agent Chunk.Start.Cwd`,
	"a choice": `Event.Kind Event.Dialect Control.Op Control.Fork.Whole Control.Fork.Own Control.Delete.Force Control.Delete.Erase
		Control.Rename.Force Control.Remove.Force Control.Answer.Expired Control.Run.State Control.Summary.FromExtension
		Control.Tail.Open Control.Name.Auto Chunk.Op Chunk.Stream Chunk.Start.Keep Chunk.End.IsError`,
	"a place in the source, which is checked": "Control.Fork.Index Control.Fork.Item Control.Fork.Role",
	"a number": `Event.Ref.Size Event.Ref.Sum Control.Start.MaxRounds Control.Start.Depth Control.End.ReturnCode
		Control.Run.Lease Control.Delete.UnchangedSince Control.Answer.Life Chunk.Start.Head Chunk.Start.Columns Chunk.Start.Lease
		Chunk.Start.Show Chunk.End.ExitCode Chunk.End.DurationMS`,
	"text": `Control.Start.Name Control.Start.Hash Control.Start.Prompt Control.Tail.Bytes Control.End.Summary
		Control.Answer.Answer Control.Run.Summary Control.Label.Label Control.Summary.Summary Control.Summary.Details
		Control.Append.Entry Control.Compact.Summary Control.Name.Title Control.Move.Cwd
		Chunk.Data Chunk.Reason Chunk.Start.Tool Chunk.Start.Invocation`,
	"read as Event.Body is": "Event.More[].Body",
}

func said(body string) func(*scoped) string { return func(*scoped) string { return body } }

func in(thread string) func(*scoped, *events.Event) {
	return func(_ *scoped, e *events.Event) { e.Thread.Name = thread }
}

func whole(session string) func(*scoped) any {
	return func(*scoped) any {
		return events.Control{Op: events.OpFork, Fork: &events.Fork{Session: session, Thread: "main", Whole: true}}
	}
}

// TestEveryFieldHasARow: whoever adds a field to an event says whether it can name what is another session's.
func TestEveryFieldHasARow(t *testing.T) {
	doc := must.Get(os.ReadFile("../../docs/permissions.md"))(t)
	rows := map[string]bool{}
	for field := range foreign {
		rows[field] = true
		if !strings.Contains(string(doc), "\n| `"+field+"` |") {
			t.Errorf("docs/permissions.md has no row for %s", field)
		}
	}
	for _, list := range plain {
		for _, field := range strings.Fields(list) {
			rows[field] = true
		}
	}
	for _, root := range []any{events.Event{}, events.Control{}, events.Chunk{}} {
		for _, field := range fieldsOf(reflect.TypeOf(root).Name(), reflect.TypeOf(root)) {
			if !rows[field] && !rows[field[:strings.LastIndexByte(field, '.')]] {
				t.Errorf("%s is new: give it a row in foreign, with a try and a line in docs/permissions.md, "+
					"or say in plain what it is", field)
			}
			delete(rows, field)
		}
	}
	for _, whole := range []string{"Control.Delete", "Control.Remove"} { // an operation by itself
		delete(rows, whole)
	}
	for field := range rows {
		t.Errorf("no event has a field %s", field)
	}
}

// fieldsOf lists the fields of a type that hold a value, by their way from it.
func fieldsOf(at string, t reflect.Type) (all []string) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct {
		at, t = at+"[]", t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return []string{at}
	}
	for i := range t.NumField() {
		all = append(all, fieldsOf(at+"."+t.Field(i).Name, t.Field(i).Type)...)
	}
	return all
}
