package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"spool/internal/must"
	"spool/internal/record"
	"spool/internal/service"
	"spool/internal/view"
	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/sessions"
	"spool/pkg/threads"
)

// TestStates: a session has one state, whoever shows it; each is a filter, and they are counted.
func TestStates(t *testing.T) {
	w := newJSONWorld(t) // talk has a prompt that waits, and a run
	ctx, cl := context.Background(), client.New(w.up.Conn)
	for _, id := range []string{"left", "broke", "over", "works"} {
		text := strings.ReplaceAll(here(t), `"id":"talk"`, `"id":"`+id+`"`)
		if id == "broke" {
			text = strings.ReplaceAll(text, `"stop"`, `"error"`)
		}
		w.run("import", w.file(id+".jsonl", text))
	}
	must.Do(t, cl.Thread(events.Thread{Session: "over", Name: "main"}).End(ctx, events.End{}))
	run := must.Get(cl.Thread(events.Thread{Session: "works", Name: "main"}).StartRun(ctx, client.RunConfig{ID: "r"}))(t)
	must.Do(t, run.Wait(ctx))
	want := map[string]string{"talk": "waiting", "works": "running", "broke": "failed", "left": "idle", "over": "done"}

	states := func(all []any) map[string]string {
		got := map[string]string{}
		for _, s := range all {
			one := s.(map[string]any)
			got[one["id"].(string)] = fmt.Sprint(one["state"])
		}
		return got
	}
	top := w.values(w.run("top", "--once", "--json"))[0].(map[string]any)["sessions"].([]any)
	for what, all := range map[string][]any{
		"session ls":         w.values(w.run("session", "ls", "--json")),
		"session ls --limit": w.values(w.run("session", "ls", "--json", "--limit", "9")),
		"top":                top,
		"GET /v1/sessions":   w.get("/v1/sessions", "sessions"),
	} {
		if diff := gocmp.Diff(want, states(all)); diff != "" {
			t.Errorf("states of %s (-want +got):\n%s", what, diff)
		}
	}
	byID := map[string]any{}
	for _, s := range w.get("/v1/sessions", "sessions") {
		byID[s.(map[string]any)["id"].(string)] = drop(s, passing...)
	}
	for _, s := range top {
		if diff := gocmp.Diff(byID[s.(map[string]any)["id"].(string)], drop(s, append(passing, "items_per_second")...)); diff != "" {
			t.Errorf("a session of top --json is not that of GET /v1/sessions (-HTTP +top):\n%s", diff)
		}
	}
	counts := w.get("/v1/states", "")[0].(map[string]any)
	if diff := gocmp.Diff(map[string]any{"sessions": 5.0, "more": false, "states": map[string]any{
		"waiting": 1.0, "running": 1.0, "failed": 1.0, "idle": 1.0, "done": 1.0}}, counts); diff != "" {
		t.Errorf("GET /v1/states (-want +got):\n%s", diff)
	}
	table, latest := w.run("session", "ls"), w.run("session", "resume", "broke")
	for id, state := range want {
		if !strings.Contains(strings.Join(strings.Fields(table), " "), id+" omp "+state+" ") {
			t.Errorf("session ls has no %s that is %s:\n%s", id, state, table)
		}
		one := map[string]string{id: state}
		for what, all := range map[string][]any{
			"session ls":         w.values(w.run("session", "ls", "--json", "--state", state)),
			"session ls --limit": w.values(w.run("session", "ls", "--json", "--limit", "9", "--state", state)),
			"GET /v1/sessions":   w.get("/v1/sessions?state="+state, "sessions"),
		} {
			if diff := gocmp.Diff(one, states(all)); diff != "" {
				t.Errorf("%s with the state %s (-want +got):\n%s", what, state, diff)
			}
		}
	}
	must.Same(t, len(view.States), len(want), "states of the test: %d, want %d")
	if !strings.Contains(latest, "failed, 2 messages") {
		t.Errorf("session resume says:\n%s\nwant that it failed", latest)
	}
}

// TestStatesOfWhoAsks: an agent that has only asked has spoken: its session is listed and counted as one that waits, by whatever door.
func TestStatesOfWhoAsks(t *testing.T) {
	w := newJSONWorld(t) // talk waits
	ctx, stop := context.WithCancel(t.Context())
	cl := client.New(w.up.Conn)
	transcript := strings.ReplaceAll(here(t), `"id":"talk"`, `"id":"beside"`)
	w.run("import", w.file("beside.jsonl", transcript[:strings.LastIndex(transcript, `{"type":"message"`)])) // nobody has answered
	items := events.Thread{Session: "items", Name: events.MainThread}
	said := events.Item{Content: []byte(`[{"type":"text","text":"Deploy it"}]`)}
	p := cl.Publisher(client.PublisherConfig{})
	must.Get(p.Publish(ctx, client.Entry{Thread: items, Dialect: "item", Body: said.JSON()}))(t)
	must.Do(t, cl.Thread(items).Settled(ctx))
	if got := w.values(w.run("session", "ls", "--all", "--json")); len(got) != 1 {
		t.Errorf("session ls = %v, want talk alone: nobody has answered in the others", got)
	}
	var asked sync.WaitGroup
	for _, id := range []string{"beside", "items"} {
		asked.Go(func() {
			_, _ = cl.Thread(events.Thread{Session: id, Name: events.MainThread}).Ask(ctx, events.Prompt{Kind: events.PromptApproval, Text: "Now?"})
		})
		must.Until(t, id+" waits", func() bool { return len(must.Get(cl.Session(id).Prompts(ctx))(t)) > 0 })
	}
	t.Cleanup(asked.Wait)
	t.Cleanup(stop)
	for what, all := range map[string][]any{
		"session ls":                 w.values(w.run("session", "ls", "--all", "--json")),
		"session ls --limit":         w.values(w.run("session", "ls", "--all", "--json", "--limit", "9")),
		"session ls --state":         w.values(w.run("session", "ls", "--all", "--json", "--state", "waiting")),
		"session ls --state --limit": w.values(w.run("session", "ls", "--all", "--json", "--state", "waiting", "--limit", "9")),
		"top":                        w.values(w.run("top", "--once", "--json"))[0].(map[string]any)["sessions"].([]any),
		"GET /v1/sessions":           w.get("/v1/sessions", "sessions"),
		"GET /v1/sessions?state":     w.get("/v1/sessions?state=waiting", "sessions"),
	} {
		got := map[string]string{}
		for _, s := range all {
			got[s.(map[string]any)["id"].(string)] = fmt.Sprint(s.(map[string]any)["state"])
		}
		if diff := gocmp.Diff(map[string]string{"talk": "waiting", "beside": "waiting", "items": "waiting"}, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	if n := w.get("/v1/states", "")[0].(map[string]any)["states"].(map[string]any)["waiting"]; n != 3.0 {
		t.Errorf("GET /v1/states counts %v sessions that wait, want 3", n)
	}
}

// TestListGoesOn: who lists some sessions, also of one state, is told how to list those behind them, and has each once.
func TestListGoesOn(t *testing.T) {
	s, conn := plain(t)
	const n = 30
	fence := must.Get(conn.Records().Fence(t.Context(), 0))(t)
	var puts []record.Put
	for i := range n {
		id := fmt.Sprintf("s%06d", i)
		h := threads.Head{Updated: time.Now().UnixMilli() + int64(i)}
		if i < 3 {
			h.Standing = uint8(sessions.StatusError)
		}
		puts = append(puts, record.Put{Key: events.SessionKey(id), Value: sessions.Info{ID: id, Answered: true, Threads: 1}.Encode()},
			record.Put{Key: events.HeadKey(events.Thread{Session: id, Name: events.MainThread}), Value: h.Encode()})
	}
	must.Get(conn.Records().Commit(t.Context(), fence, puts))(t)
	for _, test := range []struct {
		state string
		limit string
		want  int
	}{{"", "7", n}, {"failed", "1", 3}} {
		after, got := "", map[string]int{}
		for range n {
			var out, told bytes.Buffer
			args := []string{"session", "ls", "--all", "--json", "--limit", test.limit, "--after", after, "--config", os.DevNull}
			if test.state != "" {
				args = append(args, "--state", test.state)
			}
			if code := run(append(args, "--nats", s.ClientURL()), strings.NewReader(""), &out, &told); code != service.ExitOK {
				t.Fatalf("spool %q = %d %s", args, code, told.String())
			}
			for line := range strings.Lines(out.String()) {
				var one struct{ ID string }
				must.Do(t, json.Unmarshal([]byte(line), &one))
				got[one.ID]++
			}
			_, more, found := strings.Cut(told.String(), "--after ")
			if !found {
				break
			}
			after = strings.TrimRight(strings.Fields(more)[0], "),")
		}
		if len(got) != test.want || slices.ContainsFunc(slices.Collect(maps.Values(got)), func(n int) bool { return n != 1 }) {
			t.Errorf("pages of the state %q have %v, want %d sessions, each once", test.state, got, test.want)
		}
	}
	if out, code := spool(t, "session", "ls", "--all", "--after", "no place", "--nats", s.ClientURL()); code != service.ExitUsage {
		t.Errorf("spool session ls --after a place that is none = %d %s, want %d", code, out, service.ExitUsage)
	}
}
