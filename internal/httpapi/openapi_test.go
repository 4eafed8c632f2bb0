package httpapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"spool/internal/history"
	"spool/internal/httpapi"
	"spool/internal/must"
	"spool/pkg/artifacts"
	"spool/pkg/client"
	"spool/pkg/events"
)

// document is what the test reads of an OpenAPI document.
type document struct {
	OpenAPI string
	Paths   map[string]map[string]struct {
		OperationID string `json:"operationId"`
		Summary     string
		Parameters  []struct{ Name, In string }
		RequestBody struct{ Content map[string]form } `json:"requestBody"`
		Responses   map[string]struct{ Content map[string]form }
		Scope       string `json:"x-scope"`
	}
	Components struct{ Schemas map[string]any }
}

type form struct{ Schema map[string]any }

// example is a request that an operation answers with success.
type example struct {
	path   string // with the query
	kind   string // of the body
	body   string
	header []string
}

// The document tells of every route, every route of the document answers, and what it answers is what the document says:
// status, media type, and each member of the body.
func TestDocument(t *testing.T) {
	file := filepath.Join(t.TempDir(), "history.db")
	conn, ctx, cl, url := worldOn(t, httpapi.Config{History: file})
	_, _, text := get(t, url, "/v1/openapi.json")
	var doc document
	if err := json.Unmarshal([]byte(text), &doc); err != nil || !strings.HasPrefix(doc.OpenAPI, "3.1.") {
		t.Fatalf("document of version %q: %v", doc.OpenAPI, err)
	}
	bucket := must.Get(conn.JetStream().ObjectStore(ctx, events.ArtifactsBucket))(t)
	must.Get(bucket.PutBytes(ctx, "build/report.log", []byte("ok\n")))(t)
	examples := furnish(t, ctx, cl)
	must.Do(t, history.With(file, func(db *history.DB) error { return history.NewFollower(db, conn, nil).CatchUp(ctx) }))
	must.Do(t, history.With(history.ItemsFile(file),
		func(db *history.DB) error { return history.NewItemsFollower(db, conn, nil).CatchUp(ctx) }))
	v := validator{doc.Components.Schemas}
	for name, schema := range doc.Components.Schemas {
		must.Is(t, v.wellFormed(schema), nil, "schema %s", name)
	}
	ids := map[string]bool{}
	order := slices.Sorted(maps.Keys(doc.Paths))
	for _, method := range []string{"get", "post", "put", "delete"} { // what takes something away comes last
		for _, path := range order {
			op, ok := doc.Paths[path][method]
			if !ok {
				continue
			}
			name := strings.ToUpper(method) + " " + path
			if ids[op.OperationID] || op.Summary == "" {
				t.Errorf("%s: operation %q, %q", name, op.OperationID, op.Summary)
			}
			ids[op.OperationID] = true
			list := examples[name]
			if list == nil {
				t.Errorf("%s has no example", name)
				continue
			}
			delete(examples, name)
			for _, e := range list {
				if e.kind != "" && op.RequestBody.Content[e.kind].Schema != nil && e.kind == "application/json" {
					var body any
					_ = json.Unmarshal([]byte(e.body), &body)
					must.Is(t, v.check(op.RequestBody.Content[e.kind].Schema, body), nil, "%s: request %s", name, e.body)
				}
				status, header, body := ask(t, ctx, url, method, e)
				guarded(t, name, header)
				res, known := op.Responses[strconv.Itoa(status)]
				media, _, _ := strings.Cut(header.Get("Content-Type"), ";")
				want, told := res.Content[media]
				if status >= 300 || !known || !told && len(res.Content["application/octet-stream"].Schema) != 0 {
					t.Errorf("%s %s = %d %s %.300s, want a success that the document tells of", name, e.path, status, media, body)
					continue
				}
				for _, one := range bodies(media, body) {
					var got any
					if err := json.Unmarshal([]byte(one), &got); err != nil {
						t.Errorf("%s: %v in %.200s", name, err, one)
					} else if err := v.check(want.Schema, got); err != nil {
						t.Errorf("%s: %v in %.600s", name, err, one)
					}
				}
			}
			// What is refused is told as an error.
			if op.Scope != "" && strings.Contains(path, "{session}") {
				e := list[0]
				e.path = "/v1/sessions/a.b" + strings.TrimPrefix(e.path, "/v1/sessions/"+strings.Split(e.path, "/")[3])
				status, header, body := ask(t, ctx, url, method, e)
				guarded(t, name+" refused", header)
				var got any
				_ = json.Unmarshal([]byte(body), &got)
				if err := v.check(op.Responses["400"].Content["application/json"].Schema, got); status != 400 || err != nil {
					t.Errorf("%s of a session a.b = %d %s, %v, want 400", name, status, body, err)
				}
			}
		}
	}
	for name := range examples {
		t.Errorf("%s is not in the document", name)
	}
}

// ask makes a request; of an event stream it reads the first events.
func ask(t *testing.T, ctx context.Context, url, method string, e example) (int, http.Header, string) {
	t.Helper()
	if !strings.Contains(e.path, "/live") && !strings.Contains(e.path, "/heads") || strings.Contains(e.path, "a.b") {
		q := request{method: strings.ToUpper(method), path: e.path, kind: e.kind, body: e.body, header: map[string]string{}}
		for i := 0; i < len(e.header); i += 2 {
			q.header[e.header[i]] = e.header[i+1]
		}
		return do(t, url, q)
	}
	s := follow(t, ctx, url+e.path, "")
	defer s.stop()
	var got []string
	for range 2 {
		got = append(got, s.next().data)
	}
	return 200, s.header, strings.Join(got, "\n")
}

func bodies(media, body string) []string {
	switch media {
	case "application/json":
		return []string{body}
	case "application/x-ndjson", "text/event-stream":
		return strings.Split(strings.TrimSuffix(body, "\n"), "\n")
	}
	return nil
}

// furnish makes something of everything, and gives requests that succeed.
func furnish(t *testing.T, ctx context.Context, cl *client.Client) map[string][]example {
	t.Helper()
	th := events.Thread{Session: "s", Name: "main"}
	pub := cl.Publisher(client.PublisherConfig{User: "mira"})
	lines := []string{
		`{"type":"session","version":3,"id":"s","cwd":"/w","title":"T"}`,
		`{"type":"message","id":"aaaaaaa1","timestamp":"2026-11-20T10:00:00.000Z","message":{"role":"user","content":"Find the needle"}}`,
		`{"type":"message","id":"aaaaaaa2","parentId":"aaaaaaa1","timestamp":"2026-11-20T10:00:01.000Z","message":{"role":"assistant","content":[{"type":"text","text":"Found it"}],"stopReason":"stop","usage":{"input":10,"output":2}}}`,
	}
	for _, line := range lines {
		must.Get(pub.Publish(ctx, client.Entry{Thread: th, Dialect: "omp", Body: []byte(line)}))(t)
	}
	must.Do(t, cl.Thread(th).Await(ctx, pub.Producer(), 0, uint64(len(lines))))
	const sdkSession = "5f0c9a52-7d0e-4f0b-9a3e-2f6f1c0d7e11"
	for _, name := range []string{"main", "agent-a"} {
		of := cl.Publisher(client.PublisherConfig{})
		at := client.Entry{Thread: events.Thread{Session: sdkSession, Name: name}, Dialect: "claude",
			Body: []byte(`{"type":"user","uuid":"u","cwd":"/w","message":{"role":"user","content":"hi"}}`)}
		must.Do(t, must.Get(of.Publish(ctx, at))(t).Applied(ctx))
	}
	for _, name := range []string{"compacted", "ended", "renamed"} {
		must.Do(t, cl.Thread(events.Thread{Session: "s", Name: name}).Fork(ctx, events.Fork{Session: "s", Thread: "main", Item: 1}))
	}
	must.Do(t, cl.Thread(events.Thread{Session: "spare", Name: "main"}).Fork(ctx, events.Fork{Session: "s", Thread: "main", Item: 1}))
	items := events.Thread{Session: "items", Name: "main"}
	say(ctx, t, cl, items, "first", "second")
	asked := make(chan error, 1)
	go func() {
		_, err := cl.Thread(items).Ask(ctx, events.Prompt{ID: "p", Kind: events.PromptApproval, Text: "Deploy?"})
		asked <- err
	}()
	for waiting := 0; waiting == 0; {
		list := must.Get(cl.Session("items").Prompts(ctx))(t)
		waiting = len(list)
	}
	t.Cleanup(func() {
		if err := <-asked; err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("Ask = %v", err)
		}
	})
	run := must.Get(cl.Thread(items).StartRun(ctx, client.RunConfig{ID: "r", Agent: "coder", Summary: "x"}))(t)
	must.Do(t, run.Wait(ctx))
	must.Do(t, run.End(ctx, artifacts.RunCompleted, "done"))
	must.Do(t, run.Wait(ctx))
	must.Do(t, cl.Publisher(client.PublisherConfig{}).Control(ctx, items, 1,
		events.Control{Op: events.OpRun, Run: &events.Run{ID: "r8", State: "running", Lease: 600_000}}))
	tooLarge := `{"content":[],"metadata":{"type":"text","x":"` + strings.Repeat("x", 400<<10) + `"}}`
	e := client.Entry{Thread: events.Thread{Session: "s", Name: "failed"}, Dialect: "item", Body: []byte(tooLarge)}
	must.Do(t, must.Get(pub.Publish(ctx, e))(t).Applied(ctx))
	out := must.Get(cl.Thread(items).Output(ctx, client.OutputConfig{ID: "open", Tool: "make"}))(t)
	must.Get(out.Write([]byte("building\n")))(t)
	for f, err := range cl.Thread(items).Follow(ctx, "open") {
		must.Do(t, err)
		if len(f.Text) > 0 {
			break
		}
	}
	art, err := cl.Artifacts().Put(ctx, client.NewArtifact{Tool: "bash", Record: artifacts.Record{Session: "items"}},
		strings.NewReader("log\n"))
	must.Do(t, err)
	blob := must.Get(cl.PutBlob(ctx, []byte("blob")))(t)
	head := must.Get(cl.Thread(th).Head(ctx))(t)

	const js, nd = "application/json", "application/x-ndjson"
	main, other := "/v1/sessions/s/threads/main", "/v1/sessions/items/threads/main"
	both := func(path string) []example {
		return []example{{path: path, header: []string{"Accept", js}}, {path: path, header: []string{"Accept", nd}}}
	}
	post := func(path, body string) []example { return []example{{path: path, kind: js, body: body}} }
	const claude, claudePath, sub = "/v1/claude/{project}/{key}", "/v1/claude/-w/" + sdkSession, "/subagents/agent-a"
	threadPath, sessionPath := "/v1/sessions/{session}/threads/{thread}", "/v1/sessions/{session}"
	return map[string][]example{
		"GET /healthz":         {{path: "/healthz"}},
		"GET /readyz":          {{path: "/readyz"}},
		"GET /v1/openapi.json": {{path: "/v1/openapi.json"}},
		"POST " + threadPath + "/entries": {
			{path: "/v1/sessions/new/threads/main/entries?dialect=raw", kind: js, body: `{"a":1}`},
			{path: "/v1/sessions/new/threads/main/entries?dialect=raw", kind: nd, body: "1\nbad\n"},
		},
		"POST /v1/events": {{path: "/v1/events", kind: nd, body: `{"session":"new","dialect":"raw","body":"x"}`}},
		"GET /v1/sessions": append(both("/v1/sessions?unanswered=1"),
			example{path: "/v1/sessions?unanswered=1&limit=1&q=needle"}, example{path: "/v1/sessions?unanswered=1&state=waiting"}),
		"GET /v1/states":                  {{path: "/v1/states?unanswered=1"}},
		"GET " + sessionPath:              {{path: "/v1/sessions/s"}, {path: "/v1/sessions/items"}},
		"GET " + sessionPath + "/graph":   both("/v1/sessions/s/graph"),
		"GET " + sessionPath + "/threads": both("/v1/sessions/s/threads"),
		"GET /v1/threads":                 both("/v1/threads?status=active"),
		"POST " + threadPath + "/start": post("/v1/sessions/flow/threads/main/start",
			`{"name":"fix","max_rounds":3,"prompt":"Fix it."}`),
		"POST " + sessionPath:                       post("/v1/sessions/begun", `{"cwd":"/w","parent":"s"}`),
		"POST " + sessionPath + "/name":             post("/v1/sessions/spare/name", `{"title":"Spare","auto":true}`),
		"POST " + sessionPath + "/move":             post("/v1/sessions/spare/move", `{"cwd":"/w"}`),
		"POST " + sessionPath + "/artifacts/number": post("/v1/sessions/items/artifacts/number", `{"tool":"make"}`),
		"POST " + sessionPath + "/agents":           post("/v1/sessions/items/agents", `{"name":"Review"}`),
		"GET " + threadPath:                         {{path: main}, {path: "/v1/sessions/s/threads/ended"}},
		"GET " + threadPath + "/items": append(both(main+"/items?from=1&limit=2"),
			example{path: main + "/items?last=2"}, example{path: main + "/items?before=3&limit=1"}),
		"GET " + threadPath + "/items/{n}":       {{path: main + "/items/1"}, {path: main + "/items/2?full=1"}},
		"GET " + threadPath + "/search":          append(both(main+"/search?q=NEEDLE"), both(main+"/search?type=message")...),
		"GET " + threadPath + "/context":         {{path: main + "/context"}, {path: main + "/context?leaf=aaaaaaa1"}},
		"GET " + threadPath + "/logs/thread.log": {{path: main + "/logs/thread.log"}},
		"GET " + threadPath + "/page":            {{path: main + "/page"}, {path: main + "/page?as=md"}},
		"GET /v1/nodes/{hash}": {{path: "/v1/nodes/" + head.Head().Ref.Hex()},
			{path: "/v1/nodes/" + head.Head().Ref.String() + "?session=s"}},
		"GET " + threadPath + "/live": {{path: other + "/live?from=1"}},
		"GET /v1/live":                {{path: "/v1/live?since=all"}},
		"GET /v1/heads":               {{path: "/v1/heads?current=1"}},
		"POST " + threadPath + "/fork": {{path: main + "/fork", kind: js, body: `{"to":"retry","n":1}`},
			{path: main + "/fork", kind: js, body: `{"to":"forked/main","whole":true}`}},
		"POST " + threadPath + "/compact": post("/v1/sessions/s/threads/compacted/compact", `{"summary":"all of it"}`),
		"POST " + threadPath + "/end":     post("/v1/sessions/s/threads/ended/end", `{"return_code":1,"summary":"enough"}`),
		"POST " + threadPath + "/rename":  post("/v1/sessions/s/threads/renamed/rename", `{"to":"other"}`),
		"POST " + threadPath + "/branch": {{path: main + "/branch", kind: js, body: `{"entry":"aaaaaaa1"}`},
			{path: main + "/branch", kind: js, body: `{}`}},
		"POST " + threadPath + "/label":  post(main+"/label", `{"entry":"aaaaaaa1","label":"here"}`),
		"GET " + threadPath + "/tree":    both(main + "/tree"),
		"GET " + threadPath + "/applied": {{path: main + "/applied?producer=" + pub.Producer() + "&first=1&seq=3"}},
		"POST " + threadPath + "/append": post(main+"/append",
			`{"entry":{"type":"message","message":{"role":"user","content":"hi"}},"leaf":"aaaaaaa1"}`),
		"GET " + threadPath + "/outputs": both(other + "/outputs"),
		"POST " + threadPath + "/outputs": {{path: other + "/outputs?tool=make&id=o2",
			kind: "application/octet-stream", body: "built\n", header: []string{"Spool-Exit-Code", "2"}}},
		"GET /v1/prompts":                             both("/v1/prompts"),
		"GET " + threadPath + "/prompts/{id}":         {{path: other + "/prompts/p"}},
		"POST " + threadPath + "/prompts/{id}/answer": post(other+"/prompts/p/answer", `{"answer":true,"by":"mira"}`),
		"GET /v1/runs":                                both("/v1/runs?session=items"),
		"GET /v1/history":                             append(both("/v1/history?q=needle"), example{path: "/v1/history?limit=1"}),
		"GET /v1/search": append(both("/v1/search?q=needle&role=user&since=2020-01-01"),
			example{path: "/v1/search?limit=1"}),
		"GET /v1/stats":                      {{path: "/v1/stats"}, {path: "/v1/stats?by=day&since=2020-01-01"}},
		"GET " + sessionPath + "/artifacts":  both("/v1/sessions/items/artifacts"),
		"POST " + sessionPath + "/artifacts": {{path: "/v1/sessions/items/artifacts?tool=curl", body: "posted"}},
		"GET /v1/artifacts/{id}":             {{path: "/v1/artifacts/" + string(art.ID)}},
		"GET /v1/blobs/{sha256}":             {{path: "/v1/blobs/" + blob.Hex()}},
		"GET /v1/read":                       {{path: "/v1/read?session=items&url=artifact://0"}},
		"POST /mcp": {{path: "/mcp", kind: js,
			body: `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, header: []string{"Accept", js + ", text/event-stream"}}},
		"POST /v1/blobs":                          {{path: "/v1/blobs", kind: "application/octet-stream", body: "for a step"}},
		"POST " + threadPath + "/runs":            post(other+"/runs", `{"run":"r9","agent":"coder","lease_ms":2000}`),
		"POST " + sessionPath + "/runs/{run}/end": post("/v1/sessions/items/runs/r8/end", `{"state":"completed"}`),
		"POST " + threadPath + "/reopen":          post("/v1/sessions/s/threads/failed/reopen", `{}`),
		"POST " + sessionPath + "/artifacts/register": post("/v1/sessions/items/artifacts/register",
			`{"object":"build/report.log","tool":"build"}`),
		"POST " + sessionPath + "/artifacts/cleanup": post("/v1/sessions/items/artifacts/cleanup", `{"include_all":true,"max_bytes":1}`),
		"GET /v1/claude/{project}":                   both("/v1/claude/-w"),
		"GET " + claude:                              {{path: claudePath}, {path: claudePath + "?subkeys"}},
		"GET " + claude + "/{subpath}":               {{path: claudePath + sub}},
		"POST " + claude:                             {{path: claudePath, kind: nd, body: lines[1]}},
		"POST " + claude + "/{subpath}":              {{path: claudePath + sub, kind: nd, body: lines[1]}},
		"PUT " + claude:                              {{path: claudePath + "?summary", kind: js, body: `{"title":"T"}`}},
		"DELETE " + claude:                           {{path: claudePath}},
		"DELETE " + claude + "/{subpath}":            {{path: claudePath + sub}},
		"DELETE " + threadPath:                       {{path: "/v1/sessions/spare/threads/main"}},
		"DELETE /v1/artifacts/{id}":                  {{path: "/v1/artifacts/" + string(art.ID)}},
		"DELETE " + sessionPath:                      {{path: "/v1/sessions/s?by=mira"}},
	}
}

// validator knows the part of JSON Schema that the document uses; any other keyword is an error, so that nothing goes unchecked.
type validator struct{ schemas map[string]any }

func (v validator) wellFormed(schema any) error {
	m, ok := schema.(map[string]any)
	if !ok {
		return fmt.Errorf("%v is no schema", schema)
	}
	for key, value := range m {
		var subs []any
		switch key {
		case "description", "type", "const", "enum", "required", "pattern":
		case "additionalProperties":
			if value != false {
				subs = []any{value}
			}
		case "$ref":
			if v.schemas[strings.TrimPrefix(value.(string), "#/components/schemas/")] == nil {
				return fmt.Errorf("%v leads nowhere", value)
			}
		case "properties":
			subs = slices.Collect(maps.Values(value.(map[string]any)))
		case "items":
			subs = []any{value}
		case "anyOf":
			subs = value.([]any)
		default:
			return fmt.Errorf("keyword %s is not checked", key)
		}
		for _, sub := range subs {
			if err := v.wellFormed(sub); err != nil {
				return err
			}
		}
	}
	return nil
}

func (v validator) check(schema map[string]any, got any) error {
	if ref, ok := schema["$ref"].(string); ok {
		name := strings.TrimPrefix(ref, "#/components/schemas/")
		if err := v.check(v.schemas[name].(map[string]any), got); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		return nil
	}
	if want, ok := schema["const"]; ok && want != got {
		return fmt.Errorf("%v, want %v", got, want)
	}
	if list, ok := schema["enum"].([]any); ok && !slices.Contains(list, got) {
		return fmt.Errorf("%v, want one of %v", got, list)
	}
	if list, ok := schema["anyOf"].([]any); ok {
		var errs []error
		for _, one := range list {
			err := v.check(one.(map[string]any), got)
			if err == nil {
				errs = nil
				break
			}
			errs = append(errs, err)
		}
		if errs != nil {
			return fmt.Errorf("none of them: %w", errors.Join(errs...))
		}
	}
	kind, _ := schema["type"].(string)
	switch got := got.(type) {
	case map[string]any:
		if kind != "object" && kind != "" {
			return fmt.Errorf("an object, want %s", kind)
		}
		return v.object(schema, got)
	case []any:
		if kind != "array" && kind != "" {
			return fmt.Errorf("an array, want %s", kind)
		}
		items, _ := schema["items"].(map[string]any)
		for i, one := range got {
			if err := v.check(items, one); err != nil {
				return fmt.Errorf("[%d]: %w", i, err)
			}
		}
	case string:
		pattern, _ := schema["pattern"].(string)
		if kind != "string" && kind != "" || !regexp.MustCompile(pattern).MatchString(got) {
			return fmt.Errorf("string %q, want %s %s", got, kind, pattern)
		}
	case float64:
		if kind != "number" && kind != "" && (kind != "integer" || got != float64(int64(got))) {
			return fmt.Errorf("number %v, want %s", got, kind)
		}
	case bool:
		if kind != "boolean" && kind != "" {
			return fmt.Errorf("%v, want %s", got, kind)
		}
	case nil:
		if kind != "" {
			return fmt.Errorf("null, want %s", kind)
		}
	}
	return nil
}

func (v validator) object(schema map[string]any, got map[string]any) error {
	required, _ := schema["required"].([]any)
	for _, name := range required {
		if _, ok := got[name.(string)]; !ok {
			return fmt.Errorf("no member %s", name)
		}
	}
	properties, _ := schema["properties"].(map[string]any)
	for name, value := range got {
		property, known := properties[name].(map[string]any)
		if !known && schema["additionalProperties"] == false {
			return fmt.Errorf("member %s is not told of", name)
		}
		if rest, ok := schema["additionalProperties"].(map[string]any); ok && !known {
			property = rest
		}
		if err := v.check(property, value); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}
