package httpapi_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/faulttest"
	"spool/internal/httpapi"
	"spool/internal/must"
	"spool/internal/natsio"
	"spool/internal/natstest"
	"spool/internal/service"
	"spool/internal/view"
	"spool/pkg/client"
	"spool/pkg/events"
)

// A workflow without the Go client begins a thread with its task, adds steps, and asks what its next agent is sent.
func TestWorkflow(t *testing.T) {
	conn, ctx, cl, url := worldOn(t, httpapi.Config{})
	const at, js = "/v1/sessions/flow/threads/main", "application/json"
	post := func(path, body string, want int) {
		t.Helper()
		if status, _, answer := do(t, url, request{path: path, kind: js, body: body}); status != want {
			t.Fatalf("POST %s = %d %s, want %d", path, status, answer, want)
		}
	}
	start := `{"name":"solve","bundle":"B","max_rounds":10,"depth":2,"prompt":"Fix the \"parser\"."}`
	post(at+"/start", start, 201)
	post(at+"/start", start, 409)
	_, _, body := get(t, url, at)
	var shown struct{ Start map[string]any }
	if err := json.Unmarshal([]byte(body), &shown); err != nil || shown.Start["prompt"] != `Fix the "parser".` ||
		shown.Start["name"] != "solve" || shown.Start["bundle"] != "B" || shown.Start["max_rounds"] != 10.0 {
		t.Errorf("thread = %s, %v, want its start with the prompt", body, err)
	}
	_, _, body = get(t, url, at+"/context")
	if !strings.HasPrefix(body, `{"prompt":"Fix the \"parser\".","messages":[]`) {
		t.Errorf("context before the first step = %s, want the prompt", body)
	}
	post(at+"/entries?dialect=step", `{"role":"planner","content":"plan","meta":{"k":1},"timestamp":1767225600000}`, 202)
	post(at+"/entries?dialect=step", `{"role":"coder","content":"code","meta":{}}`, 202)
	must.Do(t, faulttest.Settle(ctx, conn))
	var said struct {
		Prompt   string
		Messages []struct {
			Role, Content, Node string
			Meta                map[string]any
		}
	}
	_, _, body = get(t, url, at+"/context")
	if err := json.Unmarshal([]byte(body), &said); err != nil || said.Prompt != `Fix the "parser".` ||
		len(said.Messages) != 2 || said.Messages[0].Role != "planner" || said.Messages[0].Meta["k"] != 1.0 || said.Messages[1].Content != "code" {
		t.Fatalf("context = %s, %v, want the prompt and two steps", body, err)
	}
	post(at+"/fork", `{"to":"again","index":1}`, 201)
	post(at+"/compact", `{"summary":"planned and coded"}`, 200)
	if _, _, body := get(t, url, at+"/context"); !strings.Contains(body, `"summary":"planned and coded","messages":[]`) {
		t.Errorf("context of a compacted thread = %s, want its summary", body)
	}
	_, _, body = get(t, url, "/v1/sessions/flow/threads/again/context")
	if !strings.Contains(body, `"prompt":"Fix`) || strings.Contains(body, "coder") || !strings.Contains(body, "planner") {
		t.Errorf("context of a fork = %s, want the prompt and the first step", body)
	}
	say(ctx, t, cl, events.Thread{Session: "items", Name: "main"}, "hello")
	post("/v1/sessions/flow/threads/again/branch", `{}`, 200)
	_, _, body = get(t, url, "/v1/sessions/flow/threads/again/context")
	if !strings.HasPrefix(body, `{"prompt":"Fix the \"parser\".","messages":[]`) {
		t.Errorf("context away from all steps = %s, want the prompt alone", body)
	}
	for _, want := range []string{"0-Plan.0-Look", "0-Plan.1-Look"} {
		_, _, body := do(t, url, request{path: "/v1/sessions/flow/agents", kind: js,
			body: `{"parent":"0-Plan","name":"Look"}`})
		if !strings.Contains(body, `"id":"`+want+`"`) {
			t.Errorf("next agent = %s, want %s", body, want)
		}
	}
	post("/v1/sessions/flow/agents", `{"name":"a/b"}`, 400)
	post("/v1/sessions/flow/agents", `{"parent":"0-Plan..x","name":"Look"}`, 400)
	post("/v1/sessions/flow/agents", `{"parent":"`+strings.Repeat("0-Plan.", 80)+`1-Sub","name":"Look"}`, 400)
	if status, _, body := get(t, url, "/v1/sessions/items/threads/main/context"); status != 409 {
		t.Errorf("context of items = %d %s, want 409", status, body)
	}
}

// Threads that ended are found by the date of their end and by their status; what ended without a time has ended when
// that was stored.
func TestEndedThreads(t *testing.T) {
	conn, ctx, _, url := worldOn(t, httpapi.Config{})
	today := time.Now().UTC().Format(time.DateOnly)
	for _, name := range []string{"main", "done"} {
		role := map[string]string{"main": "coder", "done": "__end__"}[name]
		do(t, url, request{path: "/v1/sessions/s/threads/" + name + "/entries?dialect=step", kind: "application/json",
			body: `{"role":"` + role + `","content":"x","meta":{"returnCode":0}}`})
	}
	must.Do(t, faulttest.Settle(ctx, conn))
	if _, _, body := get(t, url, "/v1/sessions/s/threads/done"); !strings.Contains(body, `"ended":"20`) {
		t.Errorf("thread that ended = %s, want the date", body)
	}
	for query, want := range map[string]string{
		"": "done main", "?status=completed": "done", "?status=active": "main", "?ended_from=" + today: "done",
		"?ended_from=2026-01-01&ended_to=9999-01-01": "done", "?ended_to=1970-01-01": "", "?session=other": "",
		"?status=active&ended_from=2000-01-01": "",
	} {
		_, _, body := get(t, url, "/v1/threads"+query)
		var got struct{ Threads []struct{ Thread string } }
		must.Do(t, json.Unmarshal([]byte(body), &got))
		var names []string
		for _, th := range got.Threads {
			names = append(names, th.Thread)
		}
		must.Same(t, strings.Join(names, " "), want, "threads%s = %q, want %q", query)
	}
	var page struct {
		Threads []struct{ Thread string }
		Next    string
	}
	for after, want := range map[string]string{"": "done s/done", "s/done": "main "} {
		_, _, body := get(t, url, "/v1/threads?limit=1&after="+after)
		page.Next = ""
		must.Do(t, json.Unmarshal([]byte(body), &page))
		got := page.Threads[0].Thread + " " + page.Next
		must.Same(t, got, want, "page behind %q = %q, want %q", after)
	}
	if status, _, body := get(t, url, "/v1/threads?after=nothing/of/that"); status != 400 {
		t.Errorf("threads behind no thread = %d %s, want 400", status, body)
	}
	for _, query := range []string{"?status=finished", "?ended_from=yesterday", "?ended_to=2026-13-01"} {
		if status, _, body := get(t, url, "/v1/threads"+query); status != 400 {
			t.Errorf("threads%s = %d %s, want 400", query, status, body)
		}
	}
}

// A prompt that an entry settles without a time was settled when that was stored, as it was asked then.
func TestSettledWithoutTime(t *testing.T) {
	conn, ctx, _, url := worldOn(t, httpapi.Config{})
	const at = "/v1/sessions/s/threads/main"
	prompt := events.Prompt{ID: "p", Kind: events.PromptApproval, Text: "Deploy?"}
	settled := events.PendingPromptResolved("p", events.PromptApproval,
		events.Resolution{Outcome: events.OutcomeApproved, By: "mira"})
	before := time.Now().Add(-time.Second)
	for _, it := range []events.Item{prompt.Item(), settled} {
		do(t, url, request{path: at + "/entries?dialect=item", kind: "application/json", body: string(it.JSON())})
	}
	must.Do(t, faulttest.Settle(ctx, conn))
	_, _, body := get(t, url, at+"/prompts/p")
	var got struct {
		Asked      time.Time `json:"asked_at"`
		Resolution struct{ At time.Time }
	}
	if err := json.Unmarshal([]byte(body), &got); err != nil || got.Asked.Before(before) ||
		got.Resolution.At.Before(before) {
		t.Errorf("prompt = %s, %v, want it asked and settled after %v", body, err, before)
	}
}

// A thread that leads to nodes which are lost is listed with what its head says, beside the others.
func TestDamagedThreadIsListed(t *testing.T) {
	server := natstest.Server(t)
	conn := natstest.Dial(t, server)
	must.Do(t, conn.Ensure(t.Context(), natsio.Limits{EventsBytes: 1 << 30, ItemsBytes: 1 << 30}))
	natstest.Run(t, service.NewPersister(conn, service.PersisterConfig{}, nil).Run)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	bucket := must.Get(conn.JetStream().ObjectStore(ctx, events.NodesBucket))(t)
	cl := client.New(conn)
	say(ctx, t, cl, events.Thread{Session: "s", Name: "whole"}, "hello")
	say(ctx, t, cl, events.Thread{Session: "other", Name: "main"}, "hello")
	kept := must.Get(bucket.List(ctx))(t)
	say(ctx, t, cl, events.Thread{Session: "s", Name: "broken"}, "goodbye")
	for _, o := range must.Get(bucket.List(ctx))(t) {
		if !slices.ContainsFunc(kept, func(k *jetstream.ObjectInfo) bool { return k.Name == o.Name }) {
			must.Do(t, bucket.Delete(ctx, o.Name))
		}
	}
	srv := httptest.NewServer(httpapi.For(natstest.Dial(t, server), httpapi.Config{})) // it has read nothing yet
	t.Cleanup(srv.Close)
	type listed struct{ Session, Thread, Damage string }
	for path, want := range map[string][]string{
		"/v1/threads":            {"other/main", "s/broken", "s/whole"},
		"/v1/sessions/s/threads": {"s/broken", "s/whole"},
		"/v1/sessions/s":         {"s/broken", "s/whole"},
	} {
		status, _, body := get(t, srv.URL, path)
		var got struct {
			Threads json.RawMessage `json:"threads"`
			List    []listed        `json:"thread_list"`
		}
		must.Do(t, json.Unmarshal([]byte(body), &got))
		if got.List == nil {
			must.Do(t, json.Unmarshal(got.Threads, &got.List))
		}
		var names []string
		for _, th := range got.List {
			names = append(names, th.Session+"/"+th.Thread)
			if broken := th.Thread == "broken"; broken != (th.Damage != "") {
				t.Errorf("%s: damage of %s = %q", path, th.Thread, th.Damage)
			}
		}
		if !slices.Equal(names, want) {
			t.Errorf("%s = %d %q, want %q", path, status, names, want)
		}
	}
}

// A fork whose source's sources cannot be read says where it comes from, as far as that is known, and what is wrong.
func TestForkOfADamagedThread(t *testing.T) {
	server := natstest.Server(t)
	conn := natstest.Dial(t, server)
	must.Do(t, conn.Ensure(t.Context(), natsio.Limits{EventsBytes: 1 << 30, ItemsBytes: 1 << 30}))
	natstest.Run(t, service.NewPersister(conn, service.PersisterConfig{}, nil).Run)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cl := client.New(conn)
	say(ctx, t, cl, events.Thread{Session: "s", Name: "main"}, "hello")
	say(ctx, t, cl, events.Thread{Session: "s", Name: "main"}, "and more")
	must.Do(t, cl.Fork(ctx, events.Thread{Session: "s", Name: "fork"}, events.Fork{Session: "s", Thread: "main", Index: 1}))
	bucket := must.Get(conn.JetStream().ObjectStore(ctx, events.NodesBucket))(t)
	head := must.Get(cl.Thread(ctx, events.Thread{Session: "s", Name: "main"}))(t)
	for _, o := range must.Get(bucket.List(ctx))(t) {
		if strings.HasPrefix(o.Name, head.Head().Pack.String()) {
			must.Do(t, bucket.Delete(ctx, o.Name))
		}
	}
	srv := httptest.NewServer(httpapi.For(natstest.Dial(t, server), httpapi.Config{})) // it has read nothing yet
	t.Cleanup(srv.Close)
	status, _, body := get(t, srv.URL, "/v1/sessions/s/threads/fork")
	var got view.Thread
	must.Do(t, json.Unmarshal([]byte(body), &got))
	if status != http.StatusOK || got.ForkOf == nil || len(got.Parents) != 1 || !strings.Contains(got.Damage, "s/main") {
		t.Errorf("the fork = %d %s, want its source, and that of that no more is known", status, body)
	}
}
