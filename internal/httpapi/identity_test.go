package httpapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"spool/internal/access"
	"spool/internal/faulttest"
	"spool/internal/httpapi"
	"spool/internal/must"
	"spool/pkg/client"
	"spool/pkg/events"
)

const agent7, mira = "agent7-0123456789", "mira-0123456789abc"

// TestNotUser: who posts and follows reads the others, and not itself.
func TestNotUser(t *testing.T) {
	conn, ctx, cl, url := worldOn(t, httpapi.Config{})
	for _, user := range []string{"me", "you", "me", "you"} {
		do(t, url, request{path: "/v1/sessions/s/threads/main/entries?dialect=item&user=" + user, kind: "application/json",
			body: `{"content":[{"type":"text","text":"of ` + user + `"}]}`})
	}
	must.Do(t, faulttest.Settle(ctx, conn))
	s := follow(t, ctx, url+"/v1/live?since=all&not_user=me", "")
	for range 2 {
		if e := s.next(); !strings.Contains(e.data, "of you") {
			t.Errorf("event %s, want one of the other user", e.data)
		}
	}
	one := follow(t, ctx, url+"/v1/sessions/s/threads/main/live?from=1&not_user=me", "")
	if e := one.next(); e.name != "open" {
		t.Errorf("first event %s %s, want open", e.name, e.data)
	}
	for range 2 {
		if e := one.next(); !strings.Contains(e.data, "of you") {
			t.Errorf("event %s, want one of the other user", e.data)
		}
	}
	th, outs := events.Thread{Session: "s", Name: "main"}, map[string]*client.Output{}
	for _, user := range []string{"me", "you"} { // outputs, too: those that begin behind the reader, and those that are open
		out := must.Get(cl.Thread(th).Output(ctx, client.OutputConfig{ID: user, Tool: "sh", User: user}))(t)
		must.Get(out.Write([]byte("printed by " + user + "\n")))(t)
		for f, err := range cl.Thread(th).Follow(ctx, user) {
			if must.Do(t, err); len(f.Text) > 0 {
				break
			}
		}
		outs[user] = out
	}
	late := follow(t, ctx, url+"/v1/sessions/s/threads/main/live?not_user=me", "")
	for _, out := range outs {
		must.Do(t, out.Close(client.OutputEnd{}))
		must.Do(t, out.Wait(ctx))
	}
	for name, reader := range map[string]*stream{"behind it": one, "before it": late} {
		texts, e := 0, event{}
		for e = reader.next(); e.name != "item"; e = reader.next() {
			if e.name == "live" && !strings.Contains(e.data, `"output":"you"`) {
				t.Errorf("begun %s: event %s, want one of the other user", name, e.data)
			}
			texts += strings.Count(e.data, "printed by you")
		}
		if texts != 1 || !strings.Contains(e.data, "printed by you") {
			t.Errorf("begun %s: %d texts and the item %s, want both of the other user", name, texts, e.data)
		}
	}
}

// TestWhoSpeaks: items, answers and receipts name the token, whatever a query or a body says, and who may write does
// not approve what it asked: neither by the answer's route nor by an entry that says that it was answered. What it
// claimed to be stays on its items as a claim (SPEC P4).
func TestWhoSpeaks(t *testing.T) {
	tokens := must.Get(access.Parse("agent7 read,write " + agent7 + " session=s\nmira admin " + mira + "\n"))(t)
	conn, ctx, cl, url := worldOn(t, httpapi.Config{Tokens: tokens})
	asked := events.Thread{Session: "s", Name: "main"}
	post := func(token, path, kind, body string, want int) string {
		t.Helper()
		status, _, answer := do(t, url, request{path: path, kind: kind, body: body,
			header: map[string]string{"Authorization": "Bearer " + token}})
		if status != want {
			t.Errorf("%s: %d %s, want %d", path, status, answer, want)
		}
		return answer
	}
	const js, nd, at = "application/json", "application/x-ndjson", "/v1/sessions/s/threads/main"
	const said = `{"content":[{"type":"text","text":"hello"}]}`
	post(agent7, at+"/entries?dialect=item&user=boss", js, said, 202)
	post(mira, "/v1/events", nd, `{"session":"s","dialect":"item","user":"boss","body":`+said+`}`, 200)
	post(agent7, at+"/outputs?tool=make&user=boss", "application/octet-stream", "built", 201)
	prompt := events.Prompt{ID: "p1", Kind: events.PromptApproval, Text: "Delete it all?"}
	post(agent7, at+"/entries?dialect=item", js, string(prompt.Item().JSON()), 202)
	own := events.PendingPromptResolved("p1", events.PromptApproval, events.Resolution{Outcome: "approved", By: "boss"})
	post(agent7, at+"/entries?dialect=item", js, string(own.JSON()), 403)
	post(agent7, at+"/entries?dialect=item", nd, string(own.JSON()), 200) // the line says why not
	noKind := strings.Replace(string(own.JSON()), `"kind":"approval"`, `"sort":"approval"`, 1)
	post(agent7, at+"/entries?dialect=item", js, noKind, 403)
	post(mira, at+"/entries?dialect=item", js, noKind, 403)
	must.Do(t, faulttest.Settle(ctx, conn))
	post(agent7, at+"/prompts/p1/answer", js, `{"answer":true,"by":"boss"}`, http.StatusForbidden)
	if p, err := cl.Thread(asked).Prompt(ctx, "p1"); err != nil || p.Resolution.Outcome != "" {
		t.Fatalf("the agent's own approval was taken: %+v, %v", p, err)
	}
	if got := post(mira, at+"/prompts/p1/answer", js, `{"answer":true,"by":"boss"}`, 200); !strings.Contains(got, `"by":"mira"`) {
		t.Errorf("answered as %s, want by mira", got)
	}
	must.Do(t, faulttest.Settle(ctx, conn))
	head := must.Get(cl.Thread(asked).Head(ctx))(t)
	var users, claims []string
	for item := range must.All(t, cl.Thread(asked).ItemsFrom(ctx, head, 1)) {
		var parsed struct {
			User    string `json:"user_id"`
			Claimed string `json:"claimed_user"`
		}
		must.Do(t, json.Unmarshal(item.Data, &parsed))
		users, claims = append(users, parsed.User), append(claims, parsed.Claimed)
	}
	must.Same(t, fmt.Sprint(users), "[agent7 mira agent7 agent7 mira]", "user ids of the items = %s, want %s")
	if want := []string{"boss", "boss", "boss", "", "boss"}; !slices.Equal(claims, want) {
		t.Errorf("claimed users of the items = %q, want %q", claims, want)
	}
}
