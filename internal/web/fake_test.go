package web_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"spool/internal/web"
)

// j is a JSON object.
type j = map[string]any

// fleet is an API of internal/httpapi's shape whose sessions a test writes itself: threads of any length at once, answers
// that fail, streams that break. The page with the real one is tested in e2e_test.go.
type fleet struct {
	*httptest.Server
	token string

	mu       sync.Mutex
	moved    chan struct{} // closed when anything changes
	sessions []j
	threads  map[string][]j    // "session/thread" → items
	calls    map[string]string // of subagents, by session/thread
	whole    map[string]j      // "session/thread/n" → the item before it was cut
	forks    map[string][]j    // session → nodes of its graph
	outputs  map[string][]j    // "session/thread" → frames of open outputs
	resets   map[string]j      // "session/thread" → why its stream ends
	prompts  []j
	answers  []j
	blobs    map[string][]byte
	building bool          // the index of /v1/search
	noIndex  bool          // there is none
	fail     string        // a path that is answered with 500
	held     chan struct{} // lists of sessions by words wait until it is closed; nil: they do not
	next     string        // the list of sessions goes on there
	depth    int           // behind so many pages of none, those of a state are
	states   j             // what is counted; nil: not all is
	asked    []string
}

func newFleet(t *testing.T) *fleet {
	f := &fleet{
		moved: make(chan struct{}), threads: map[string][]j{}, whole: map[string]j{}, forks: map[string][]j{},
		outputs: map[string][]j{}, resets: map[string]j{}, blobs: map[string][]byte{},
	}
	mux := http.NewServeMux()
	mux.Handle("/", web.Handler())
	for pattern, h := range map[string]func(*http.Request) (any, int){
		"GET /v1/sessions":                                      f.list,
		"GET /v1/states":                                        f.count,
		"GET /v1/sessions/{s}":                                  f.session,
		"GET /v1/sessions/{s}/graph":                            f.graph,
		"GET /v1/sessions/{s}/threads/{t}":                      f.thread,
		"GET /v1/sessions/{s}/threads/{t}/items":                f.items,
		"GET /v1/sessions/{s}/threads/{t}/items/{n}":            f.item,
		"GET /v1/sessions/{s}/threads/{t}/search":               f.search,
		"GET /v1/nodes/{hash}":                                  f.node,
		"GET /v1/history":                                       f.history,
		"GET /v1/search":                                        f.searchAll,
		"GET /v1/prompts":                                       func(r *http.Request) (any, int) { return j{"prompts": f.waiting(r)}, 200 },
		"POST /v1/sessions/{s}/threads/{t}/prompts/{id}/answer": f.answer,
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			f.mu.Lock()
			f.asked = append(f.asked, r.URL.RequestURI())
			if held := f.held; held != nil && r.URL.Path == "/v1/sessions" && r.URL.Query().Get("q") != "" {
				f.mu.Unlock()
				select {
				case <-held:
				case <-r.Context().Done():
				}
				f.mu.Lock()
			}
			v, status := any(j{"error": "broken on purpose"}), 500
			if f.token != "" && r.Header.Get("Authorization") != "Bearer "+f.token {
				v, status = j{"error": "wrong or missing token"}, 401
			} else if f.fail != r.URL.Path {
				v, status = h(r)
			}
			b, _ := json.Marshal(v)
			f.mu.Unlock()
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			_, _ = w.Write(b)
		})
	}
	mux.HandleFunc("GET /v1/blobs/{hash}", func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write(f.blobs[r.PathValue("hash")]) })
	for _, name := range []string{"logs/thread.log", "page"} {
		mux.HandleFunc("GET /v1/sessions/{s}/threads/{t}/"+name, func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, cmp.Or(r.URL.Query().Get("as"), "log"), " of ", key(r))
		})
	}
	mux.HandleFunc("GET /v1/heads", f.heads)
	mux.HandleFunc("GET /v1/sessions/{s}/threads/{t}/live", f.live)
	f.Server = httptest.NewServer(mux)
	t.Cleanup(func() {
		f.CloseClientConnections()
		f.Close()
	})
	return f
}

// change does something to the fleet and tells the streams.
func (f *fleet) change(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do()
	close(f.moved)
	f.moved = make(chan struct{})
}

func text(s string) []j { return []j{{"type": "text", "text": s}} }

// add appends items to a thread, and makes its session. An item is {"content", "metadata"}.
func (f *fleet) add(session, thread string, items ...j) {
	f.change(func() {
		if !slices.ContainsFunc(f.sessions, func(s j) bool { return s["id"] == session }) {
			f.sessions = append(f.sessions, j{"id": session, "title": "Session " + session, "name": "Session " + session,
				"state": "running", "modified": time.Now().UnixMilli(), "tokens": j{}})
		}
		key := session + "/" + thread
		for _, it := range items {
			n := len(f.threads[key]) + 1
			f.threads[key] = append(f.threads[key], j{
				"n": n, "hash": fmt.Sprintf("node:sha256:%x%08x", session+thread, n),
				"time": time.Unix(int64(1_790_000_000+n), 0).UTC().Format(time.RFC3339), "item": it,
			})
		}
	})
}

func user(s string) j { return j{"content": text(s)} }

func agent(s string) j { return j{"content": text(s), "metadata": j{"type": "text"}} }

func call(id, name string, input any) j {
	brief := name
	if o, ok := input.(j); ok {
		for _, k := range []string{"command", "file_path", "pattern"} {
			if v, ok := o[k].(string); ok {
				brief += " → " + v
				break
			}
		}
	}
	return j{"content": text(brief), "metadata": j{"type": "tool_call", "tool": j{"name": name, "invocation_id": id, "input": input}}}
}

func result(id, output string, isError bool) j {
	first, _, _ := strings.Cut(output, "\n")
	return j{"content": text("→ " + first), "metadata": j{"type": "tool_result",
		"tool": j{"invocation_id": id, "is_error": isError, "output": output}}}
}

func turnEnd() j {
	return j{"content": text("Turn complete"), "metadata": j{"type": "turn_end",
		"stats": j{"input_tokens": 12480, "input_tokens_cached": 9600, "output_tokens": 1322, "duration_ms": 8421}}}
}

// ask puts a prompt into a thread, and among those that wait.
func (f *fleet) ask(session, thread, id, kind, question string, body j) {
	prompt := j{"id": id, "kind": kind}
	maps.Copy(prompt, body)
	f.add(session, thread, j{"content": text(question), "metadata": j{"type": "pending_prompt", "prompt": prompt}})
	f.change(func() {
		f.prompts = append(f.prompts, j{
			"session": session, "thread": thread, "id": id, "kind": kind, "text": question, "n": len(f.threads[session+"/"+thread]),
			"asked_at": time.Now().UTC().Format(time.RFC3339), "answerable": true, "overdue": false, "prompt": prompt,
		})
	})
}

func key(r *http.Request) string { return r.PathValue("s") + "/" + r.PathValue("t") }

func number(r *http.Request, name string, usual int) int {
	n, err := strconv.Atoi(r.URL.Query().Get(name))
	if err != nil {
		return usual
	}
	return n
}

func (f *fleet) list(r *http.Request) (any, int) {
	q, state := strings.ToLower(r.URL.Query().Get("q")), r.URL.Query().Get("state")
	out := slices.DeleteFunc(slices.Clone(f.sessions), func(s j) bool {
		return !strings.Contains(strings.ToLower(fmt.Sprint(s)), q) || state != "" && s["state"] != state
	})
	if at := number(r, "after", 0); state != "" && at < f.depth {
		return j{"sessions": []j{}, "next": strconv.Itoa(at + 1)}, 200
	} else if state != "" && f.depth > 0 {
		return j{"sessions": out}, 200
	}
	if f.next != "" {
		return j{"sessions": out, "next": f.next}, 200
	}
	return j{"sessions": out}, 200
}

func (f *fleet) count(*http.Request) (any, int) {
	if f.states != nil {
		return j{"states": f.states, "more": false}, 200
	}
	states := map[string]int{}
	for _, s := range f.sessions {
		states[fmt.Sprint(s["state"])] += 60
	}
	return j{"states": states, "more": true}, 200
}

func (f *fleet) session(r *http.Request) (any, int) {
	for _, s := range f.sessions {
		if s["id"] == r.PathValue("s") {
			threads := []j{}
			for k := range f.threads {
				if session, thread, _ := strings.Cut(k, "/"); session == s["id"] {
					threads = append(threads, f.head(session, thread))
				}
			}
			s = maps.Clone(s)
			s["threads"], s["thread_list"] = len(threads), threads
			agents := j{}
			for k, call := range f.calls {
				if session, _, _ := strings.Cut(k, "/"); session != s["id"] {
					agents[session] = call
				}
			}
			s["agent_sessions"] = agents
			return s, 200
		}
	}
	return j{"error": "no such session: " + r.PathValue("s")}, 404
}

func (f *fleet) head(session, thread string) j {
	head := j{"session": session, "thread": thread, "n": len(f.threads[session+"/"+thread]), "state": "active"}
	if call := f.calls[session+"/"+thread]; call != "" {
		head["tool_call"] = call
	}
	return head
}

func (f *fleet) thread(r *http.Request) (any, int) {
	if f.threads[key(r)] == nil {
		return j{"error": "no such thread: " + key(r)}, 404
	}
	return f.head(r.PathValue("s"), r.PathValue("t")), 200
}

func (f *fleet) items(r *http.Request) (any, int) {
	all, ok := f.threads[key(r)]
	if !ok {
		return j{"error": "no such thread: " + key(r)}, 404
	}
	from := min(max(0, number(r, "from", 1)-1), len(all))
	if last := number(r, "last", 0); last > 0 {
		from = max(0, len(all)-last)
	}
	return j{"first": 1, "last": len(all), "items": all[from:min(len(all), from+number(r, "limit", 100))]}, 200
}

func (f *fleet) item(r *http.Request) (any, int) {
	n, _ := strconv.Atoi(r.PathValue("n"))
	if whole, ok := f.whole[key(r)+"/"+r.PathValue("n")]; ok && r.URL.Query().Get("full") == "1" {
		return j{"n": n, "item": whole}, 200
	}
	return f.threads[key(r)][n-1], 200
}

// search looks at 2,000 items where types are asked for.
func (f *fleet) search(r *http.Request) (any, int) {
	q := r.URL.Query()
	out := []j{}
	all := f.threads[key(r)]
	before := min(number(r, "before", len(all)+1), len(all)+1)
	for n := before - 1; n > 0; n-- {
		if q.Get("type") != "" && before-n > 2000 || len(out) == number(r, "limit", 50) {
			return j{"matches": out, "next": strconv.Itoa(n + 1)}, 200
		}
		item := all[n-1]["item"].(j)
		meta, _ := item["metadata"].(j)
		kind, _ := meta["type"].(string)
		kind = cmp.Or(kind, "message")
		tool, _ := meta["tool"].(j)
		if q.Get("type") != "" && !slices.Contains(strings.Split(q.Get("type"), ","), kind) ||
			q.Get("detail") == "error" && tool["is_error"] != true || !strings.Contains(strings.ToLower(fmt.Sprint(item)), strings.ToLower(q.Get("q"))) {
			continue
		}
		snippet := ""
		if said, _ := item["content"].([]j); len(said) > 0 {
			snippet, _ = said[0]["text"].(string)
		}
		out = append(out, j{"n": n, "type": kind, "snippet": snippet, "stats": meta["stats"]})
	}
	return j{"matches": out}, 200
}

// searchAll finds a text in items, the newest first; of the filters it has role and tool.
func (f *fleet) searchAll(r *http.Request) (any, int) {
	if f.noIndex {
		return j{"error": "not found: this process keeps no index of items; spool up and spool serve do"}, 404
	}
	q := r.URL.Query()
	out := []j{}
	for k, items := range f.threads {
		session, thread, _ := strings.Cut(k, "/")
		for _, it := range items {
			item := it["item"].(j)
			meta, _ := item["metadata"].(j)
			kind, _ := meta["type"].(string)
			tool, _ := meta["tool"].(j)
			name, _ := tool["name"].(string)
			said, _ := item["content"].([]j)[0]["text"].(string)
			for _, more := range []any{tool["output"], meta["text"]} {
				if whole, ok := more.(string); ok {
					said = whole
				}
			}
			at := strings.Index(strings.ToLower(said), strings.ToLower(q.Get("q")))
			if at < 0 || q.Get("tool") != "" && !strings.EqualFold(q.Get("tool"), name) || q.Get("role") == "user" && kind != "" {
				continue
			}
			if kind == "" {
				kind = "message"
			}
			from := max(0, at-20)
			out = append(out, j{"session": session, "thread": thread, "n": it["n"], "time": it["time"], "type": kind, "tool": name,
				"failed": tool["is_error"] == true, "snippet": said[from:min(len(said), from+120)], "cwd": "/home/mira/" + session, "harness": "claude"})
		}
	}
	slices.SortFunc(out, func(a, b j) int {
		return cmp.Or(strings.Compare(b["session"].(string), a["session"].(string)), b["n"].(int)-a["n"].(int))
	})
	return j{"matches": out[:min(len(out), number(r, "limit", 50))], "incomplete": f.building}, 200
}

func (f *fleet) node(r *http.Request) (any, int) {
	for k, items := range f.threads {
		for _, it := range items {
			if session, thread, _ := strings.Cut(k, "/"); it["hash"] == "node:sha256:"+r.PathValue("hash") {
				return j{"session": session, "thread": thread, "n": it["n"]}, 200
			}
		}
	}
	return j{"error": "no such node"}, 404
}

func (f *fleet) graph(r *http.Request) (any, int) {
	return j{"nodes": append([]j{}, f.forks[r.PathValue("s")]...)}, 200
}

func (f *fleet) history(r *http.Request) (any, int) {
	out := []j{}
	for k, items := range f.threads {
		session, thread, _ := strings.Cut(k, "/")
		for _, it := range items {
			item := it["item"].(j)
			if item["metadata"] != nil {
				continue
			}
			if s := item["content"].([]j)[0]["text"].(string); strings.Contains(s, r.URL.Query().Get("q")) {
				out = append(out, j{"text": s, "session": session, "thread": thread, "n": it["n"], "time": it["time"]})
			}
		}
	}
	return j{"prompts": out}, 200
}

func (f *fleet) waiting(r *http.Request) []j {
	return slices.DeleteFunc(append([]j{}, f.prompts...), func(p j) bool {
		s := r.URL.Query().Get("session")
		return s != "" && p["session"] != s
	})
}

func (f *fleet) answer(r *http.Request) (any, int) {
	var got j
	_ = json.NewDecoder(r.Body).Decode(&got)
	got["prompt"] = r.PathValue("id")
	outcome := "answered"
	if approved, ok := got["answer"].(bool); ok {
		outcome = map[bool]string{true: "approved", false: "denied"}[approved]
	}
	resolution := j{"outcome": outcome, "answer": got["answer"], "by": got["by"]}
	for i, p := range f.prompts {
		if p["id"] == got["prompt"] {
			f.prompts = slices.Delete(f.prompts, i, i+1)
			f.answers = append(f.answers, got)
			return j{"ok": true, "resolution": resolution}, 200
		}
	}
	return j{"ok": false, "error": "the prompt was settled before", "resolution": j{"outcome": "denied", "by": "noa"}}, 409
}

// stream sends what next gives, and again when anything has changed.
func (f *fleet) stream(w http.ResponseWriter, r *http.Request, next func(send func(event, id string, v any))) {
	w.Header().Set("Content-Type", "text/event-stream")
	for {
		f.mu.Lock()
		moved := f.moved
		next(func(event, id string, v any) {
			b, _ := json.Marshal(v)
			fmt.Fprintf(w, "event: %s\nid: %s\ndata: %s\n\n", event, id, b)
		})
		f.mu.Unlock()
		w.(http.Flusher).Flush()
		select {
		case <-moved:
		case <-r.Context().Done():
			return
		}
	}
}

func (f *fleet) heads(w http.ResponseWriter, r *http.Request) {
	f.stream(w, r, func(send func(event, id string, v any)) {
		for k := range f.threads {
			session, thread, _ := strings.Cut(k, "/")
			send("head", "0", f.head(session, thread))
		}
	})
}

func (f *fleet) live(w http.ResponseWriter, r *http.Request) {
	at := number(r, "from", 1) - 1
	if id, err := strconv.Atoi(r.Header.Get("Last-Event-ID")); err == nil {
		at = id
	}
	frames := 0
	f.stream(w, r, func(send func(event, id string, v any)) {
		for all := f.threads[key(r)]; at < len(all); at++ {
			send("item", strconv.Itoa(at+1), all[at])
		}
		if frames == 0 {
			send("open", strconv.Itoa(at), j{"state": "active", "outputs": []j{}})
		}
		for all := f.outputs[key(r)]; frames < len(all); frames++ {
			send("live", strconv.Itoa(at), all[frames])
		}
		if reset, ok := f.resets[key(r)]; ok {
			send("reset", strconv.Itoa(at), reset)
		}
	})
}
