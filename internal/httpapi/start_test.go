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
	say(ctx, t, cl, events.Thread{Session: "calls", Name: "agent-a"}, "hello")
	kept := must.Get(bucket.List(ctx))(t)
	say(ctx, t, cl, events.Thread{Session: "s", Name: "broken"}, "goodbye")
	calls := events.Thread{Session: "calls", Name: events.MainThread} // its entries say which call its agent works for
	must.Get(cl.Publisher(client.PublisherConfig{}).Publish(ctx, client.Entry{Thread: calls, Dialect: "gemini",
		Body: []byte(`{"id":"1","type":"gemini","content":"","toolCalls":[{"id":"c","name":"scout","args":{},"agentId":"a"}]}`)}))(t)
	must.Do(t, cl.Thread(calls).Settled(ctx))
	for _, o := range must.Get(bucket.List(ctx))(t) {
		if !slices.ContainsFunc(kept, func(k *jetstream.ObjectInfo) bool { return k.Name == o.Name }) {
			must.Do(t, bucket.Delete(ctx, o.Name))
		}
	}
	srv := httptest.NewServer(httpapi.For(natstest.Dial(t, server), httpapi.Config{})) // it has read nothing yet
	t.Cleanup(srv.Close)
	type listed struct{ Session, Thread, Damage string }
	for path, want := range map[string][]string{
		"/v1/threads":                {"calls/agent-a", "calls/main", "other/main", "s/broken", "s/whole"},
		"/v1/sessions/s/threads":     {"s/broken", "s/whole"},
		"/v1/sessions/s":             {"s/broken", "s/whole"},
		"/v1/sessions/calls/threads": {"calls/agent-a", "calls/main"},
		"/v1/sessions/calls":         {"calls/agent-a", "calls/main"},
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
			if broken := th.Thread == "broken" || th.Session+th.Thread == "callsmain"; broken != (th.Damage != "") {
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
	must.Do(t, cl.Thread(events.Thread{Session: "s", Name: "fork"}).Fork(ctx, events.Fork{Session: "s", Thread: "main", Index: 1}))
	bucket := must.Get(conn.JetStream().ObjectStore(ctx, events.NodesBucket))(t)
	head := must.Get(cl.Thread(events.Thread{Session: "s", Name: "main"}).Head(ctx))(t)
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
