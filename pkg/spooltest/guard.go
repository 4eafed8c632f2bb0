package spooltest

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// guarding is who may do what, how much, and what agents are shown: of tokens and quotas that a server was set up with for these tests.
var guarding = []Case{
	{"tokens: read alone", "`read` sees, `write` stores and changes", func(r *run) {
		r.needs(r.server.Reader != "", "a token that only reads")
		r.say("hello")
		r.post(202, "{t}/entries?dialect=item", ask("q", "approval", "Deploy?"))
		r.until("{t}/prompts/q")
		for _, path := range []string{"{s}", "{t}", "{t}/items", "/v1/prompts?session={id}", "/v1/sessions?limit=1"} {
			r.want(200, call{path: path, token: r.server.Reader})
		}
		for path, body := range map[string]string{
			"{t}/entries?dialect=item": item("not mine to say"), "{t}/end": `{"return_code":0}`, "{t}/prompts/q/answer": `{"answer":true}`,
			"{t}/fork": `{"to":"copy","whole":true}`, "{s}/name": `{"title":"Mine"}`, "{t}/runs": `{"run":"r"}`,
		} {
			r.want(403, call{method: "POST", path: path, kind: js, body: body, token: r.server.Reader})
		}
		r.want(403, call{method: "POST", path: "/v1/events", kind: nd, token: r.server.Reader,
			body: `{"session":"{id}","dialect":"item","body":` + item("nor here") + "}\n"})
		r.want(403, call{method: "DELETE", path: "{s}", token: r.server.Reader})
		r.get("{t}/prompts/q", `"answerable":true`)
		r.get("{t}/items", "!mine", "!nor here")
	}},
	{"tokens: write alone", "So an agent with `write` asks, and does not approve.", func(r *run) {
		r.needs(r.server.Writer != "", "a token that only writes")
		post := func(status int, path, body string) {
			r.want(status, call{method: "POST", path: path, kind: js, body: body, token: r.server.Writer})
		}
		post(202, "{t}/entries?dialect=item", ask("q", "approval", "Deploy?"))
		r.until("{t}/prompts/q", `"answerable":true`)
		for _, path := range []string{"{s}", "{t}/items", "{t}/prompts/q", "/v1/sessions", "/v1/live", "{t}/live"} {
			r.want(403, call{path: path, token: r.server.Writer}, "!Deploy")
		}
		post(403, "{t}/prompts/q/answer", `{"answer":true}`)
		post(403, "{t}/entries?dialect=item", `{"content":[],"metadata":{"type":"pending_prompt_resolved",
			"prompt":{"id":"q","outcome":"approved","answer":true}}}`)
		r.want(403, call{method: "DELETE", path: "{s}", token: r.server.Writer})
		r.get("{t}/prompts/q", `"answerable":true`, `!"outcome":"approved"`)
	}},
	{"tokens: what a writer is not told", "A token that only writes is not told whether somebody has stored something", func(r *run) {
		r.needs(r.server.Writer != "", "a token that only writes")
		step := `{"role":"coder","content":"x","refs":["blob:sha256:` + strings.Repeat("0", 64) + `"]}`
		r.post(400, "{t}/entries?dialect=step", step)
		r.want(202, call{method: "POST", path: "{t}/entries?dialect=step", kind: js, body: step, token: r.server.Writer})
	}},
	{"tokens: some sessions", "whose names begin so, and lists show it no others; `/v1/events` is not for it", func(r *run) {
		r.needs(r.server.Narrow != "", "a token for some sessions")
		as := func(status int, c call, words ...string) answer {
			c.token = r.server.Narrow
			return r.want(status, c, words...)
		}
		r.say("theirs")
		as(202, call{method: "POST", path: "/v1/sessions/{narrow}/threads/main/entries?dialect=item", kind: js, body: item("own")})
		r.until("/v1/sessions/{narrow}/threads/main/items/1", `"own"`)
		as(200, call{path: "/v1/sessions/{narrow}"})
		as(200, call{path: "/v1/sessions?unanswered=1&limit=1000"}, "{narrow}", "!{id}")
		as(403, call{method: "POST", path: "/v1/events", kind: nd, body: `{"session":"{narrow}","dialect":"item","body":` + item("x") + "}\n"})
		for _, path := range []string{"{s}", "{t}/items", "{t}/context", "{t}/live", "/v1/live?session={id}", "/v1/runs?session={id}"} {
			as(403, call{path: path}, "!theirs")
		}
		as(403, call{method: "POST", path: "{t}/entries?dialect=item", kind: js, body: item("intruder")})
		as(403, call{method: "POST", path: "/v1/sessions/{narrow}/threads/main/fork", kind: js, body: `{"to":"{id}/main","whole":true}`})
		r.get("{t}/items", "!intruder")
		a := as(200, mcpCall("tools/call", `{"name":"list_sessions","arguments":{}}`), "!{id}")
		r.is(strings.Contains(a.body, r.narrow), "an agent is not shown %s: %s", r.narrow, a.body)
		as(200, mcpCall("tools/call", `{"name":"read_thread","arguments":{"session":"{id}"}}`), "!theirs", `"isError":true`)
	}},
	{"limits: beyond a quota", "Beyond one, 429 with `Retry-After`, before anything is stored", func(r *run) {
		r.needs(r.server.SessionBytes > 0, "a quota of sessions")
		r.post(202, "{t}/entries?dialect=item", item(strings.Repeat("paid for later ", 3*r.server.SessionBytes/15)))
		late := call{method: "POST", path: "{t}/entries?dialect=item", kind: js, body: item("late"), once: true}
		a := r.want(429, late, `"quota":"session_bytes"`, fmt.Sprintf(`"limit":%d`, r.server.SessionBytes))
		said := as[struct {
			After int `json:"retry_after"`
		}](r, a).After
		after, err := strconv.Atoi(a.header.Get("Retry-After"))
		r.is(err == nil && after > 0 && after == said, "Retry-After is %q, retry_after %d", a.header.Get("Retry-After"), said)
		r.want(202, call{method: "POST", path: "{s}-2/threads/main/entries?dialect=item", kind: js, body: item("of another"), once: true})
		late.once = false
		r.want(202, late) // when it said
		r.until("{t}/items/2", `"late"`)
		r.want(404, call{path: "{t}/items/3"})
	}},
	{"limits: too large", "too large: the text says what is not; behind the end", func(r *run) {
		r.want(413, call{method: "POST", path: "/v1/blobs", kind: "application/octet-stream", body: strings.Repeat("x", 8<<20+1)}, "8388608")
		r.post(201, "{s}", `{"cwd":"/w"}`)
		r.post(413, "{s}/name", `{"title":"`+strings.Repeat("x", 1<<20)+`"}`, "1048576")
		r.want(413, call{method: "POST", path: "/mcp", kind: js, body: strings.Repeat(" ", 64<<10) + "{}"}, "65536")
		r.get("{s}", "!xxxx")
	}},
	{"mcp: a message, and its answer", "There are no sessions of that protocol, and nothing is pushed", func(r *run) {
		const peer = `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"spooltest","version":"1"}}`
		a := r.want(200, mcpCall("initialize", peer), `"protocolVersion":"2025-11-25"`, `"serverInfo"`)
		kind, _, _ := strings.Cut(a.header.Get("Content-Type"), ";")
		r.is(kind == js && a.header.Get("Mcp-Session-Id") == "", "an answer is %s, with the session %q", kind, a.header.Get("Mcp-Session-Id"))
		r.want(405, call{path: "/mcp"})
		r.want(405, call{method: "DELETE", path: "/mcp"})
		one := `{"jsonrpc":"2.0","id":1,"method":"ping"}`
		r.post(400, "/mcp", "["+strings.Repeat(one+",", 16)+one+"]", "16")
	}},
	{"mcp: what agents are shown", "GET and DELETE get 405. A token is shown its sessions alone", func(r *run) {
		r.say("the words that an agent looks for")
		tools := r.want(200, mcpCall("tools/list", `{}`), `"list_sessions"`, `"read_thread"`)
		for _, tool := range as[struct {
			Result struct {
				Tools []struct {
					Name        string
					Annotations struct{ ReadOnlyHint bool }
				}
			}
		}](r, tools).Result.Tools {
			r.is(tool.Annotations.ReadOnlyHint != (tool.Name == "answer_prompt"), "the tool %s says that it only reads: %v",
				tool.Name, tool.Annotations.ReadOnlyHint)
		}
		for tool, args := range map[string]string{"read_thread": `{"session":"{id}"}`, "read_item": `{"session":"{id}","n":1}`} {
			r.want(200, mcpCall("tools/call", `{"name":"`+tool+`","arguments":`+args+`}`), "the words that an agent looks for", "{id}")
		}
		r.want(200, mcpCall("tools/call", `{"name":"read_thread","arguments":{"session":"{id}-2"}}`), `"isError":true`)
		r.want(200, mcpCall("resources/templates/list", `{}`), `"uriTemplate"`)
		r.want(200, mcpCall("resources/read", `{"uri":"spool://session/{id}/item/1"}`), "the words that an agent looks for")
	}},
}

func mcpCall(method, params string) call {
	b, _ := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": json.RawMessage(params)})
	return call{method: "POST", path: "/mcp", kind: js, body: string(b),
		header: []string{"Accept", js + ", text/event-stream", "Mcp-Protocol-Version", "2025-11-25"}}
}
