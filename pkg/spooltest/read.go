package spooltest

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// texts are what a page of items says, in order.
func texts(r *run, a answer) string {
	var words []string
	for _, it := range as[page](r, a).Items {
		if len(it.Item.Content) != 1 {
			r.fail("item %d has %d parts, want one", it.N, len(it.Item.Content))
		}
		words = append(words, it.Item.Content[0].Text)
	}
	return strings.Join(words, " ")
}

var reading = []Case{
	{"read: the document", "says each field, and a test holds it against what is answered.", func(r *run) {
		doc := as[struct {
			OpenAPI string
			Paths   map[string]any
		}](r, r.get("/v1/openapi.json"))
		r.is(strings.HasPrefix(doc.OpenAPI, "3.1.") && doc.Paths["/v1/sessions"] != nil,
			"it is of version %q, and has %d paths", doc.OpenAPI, len(doc.Paths))
		r.get("/healthz")
		r.get("/readyz")
	}},
	{"read: sessions", "`cwd`, `q` (words of title, prompt, id, directory), `unanswered` (also those in which no agent has answered or asked",
		func(r *run) {
			cwd := "/spooltest/" + r.session
			for _, session := range []string{"{s}", "{s}-2"} {
				r.post(201, session, `{"cwd":"`+cwd+`"}`)
				r.until(session, `"cwd":"`+cwd+`"`)
			}
			r.get("/v1/sessions?cwd="+cwd, "!"+r.session)
			r.until("/v1/sessions?unanswered=1&cwd="+cwd, `"{id}"`, `"{id}-2"`)
			var seen []string
			for after, pages := "", 0; pages == 0 || after != ""; pages++ {
				r.is(pages < 5, "pages do not end")
				a := as[struct {
					Sessions []struct{ ID string }
					Next     string
				}](r, r.get("/v1/sessions?unanswered=1&limit=1&cwd="+cwd+"&after="+after))
				r.is(len(a.Sessions) <= 1, "%d sessions on a page of one", len(a.Sessions))
				for _, s := range a.Sessions {
					seen = append(seen, s.ID)
				}
				after = a.Next
			}
			r.is(len(seen) == 2 && seen[0] != seen[1], "pages have %q, want both sessions", seen)
			r.get("/v1/sessions?unanswered=1&q="+r.session+"-2", `"{id}-2"`)
			r.want(200, call{path: "/v1/sessions?unanswered=1&q=" + r.session + "%20none"}, "!"+r.session)
		}},
	{"read: lists", "Every list is one object, `{\"sessions\":[…],\"next\":\"…\"}`, or with `Accept: application/x-ndjson` a JSON",
		func(r *run) {
			r.say("one")
			r.post(201, "{t}/fork", `{"to":"two","whole":true}`)
			one := as[struct{ Threads []struct{ Thread string } }](r, r.get("{s}/threads"))
			r.is(len(one.Threads) == 2, "threads = %+v, want two", one)
			a := r.want(200, call{path: "{s}/threads", header: []string{"Accept", nd}})
			lines := strings.Split(strings.TrimSpace(a.body), "\n")
			r.is(len(lines) == 2 && json.Valid([]byte(lines[0])) && json.Valid([]byte(lines[1])), "answer = %s, want two lines", a.body)
		}},
	{"read: artifacts and prompts", "Lists of artifacts and prompts are lines unless `Accept` says `application/json`.", func(r *run) {
		r.post(202, "{t}/entries?dialect=item", ask("one", "approval", "Deploy?"))
		r.post(202, "{t}/entries?dialect=item", ask("two", "approval", "Delete?"))
		r.until("/v1/prompts?session={id}", `"one"`, `"two"`)
		for range 2 {
			r.want(201, call{method: "POST", path: "{s}/artifacts?tool=make", kind: "text/plain", body: "x"})
		}
		for path, list := range map[string]string{"/v1/prompts?session={id}": "prompts", "{s}/artifacts": "artifacts"} {
			lines := strings.Split(strings.TrimSpace(r.get(path).body), "\n")
			r.is(len(lines) == 2 && json.Valid([]byte(lines[0])), "%s = %q, want two lines", path, lines)
			r.want(200, call{path: path, header: []string{"Accept", js}}, `"`+list+`":[`)
		}
	}},
	{"read: before there is anything", "A list with `session=S` is empty, and an event stream of it waits, where nothing of that",
		func(r *run) {
			for _, list := range []string{"runs", "prompts", "threads"} {
				r.get("/v1/" + list + "?session={id}")
			}
			s := r.follow("/v1/live?session={id}", "")
			r.say("first")
			r.is(strings.Contains(s.until("item").data, `"first"`), "the first item is another one")
			s.stop()
		}},
	{"read: pages of items", "a page, at most 1,000 items or about 8 MiB; from the thread's nodes", func(r *run) {
		r.say("1", "2", "3", "4", "5")
		for query, want := range map[string]string{
			"": "1 2 3 4 5", "?from=3": "3 4 5", "?from=2&limit=2": "2 3", "?before=3": "1 2", "?last=2": "4 5", "?before=5&limit=2": "3 4",
		} {
			got := texts(r, r.get("{t}/items"+query))
			r.is(got == want, "items%s = %q, want %q", query, got, want)
		}
		var all []string
		for next := "1"; next != ""; {
			a := r.get("{t}/items?limit=2&from=" + next)
			all = append(all, texts(r, a))
			next = strings.Trim(string(as[page](r, a).Next), `"`)
			r.is(len(all) < 10, "pages do not end: %q", all)
		}
		r.is(strings.Join(all, " ") == "1 2 3 4 5", "page by page = %q, want all of them once", all)
	}},
	{"read: one item", "one; with `full` as it was before any cut, images in line, up to 64 MiB", func(r *run) {
		long := strings.Repeat("word ", 140_000)
		r.say("short", long)
		r.get("{t}/items/1", `"short"`, `"n":1`)
		r.is(len(r.get("{t}/items/2").body) < len(long), "the item is not cut")
		r.get("{t}/items/2?full=1", long)
		r.want(404, call{path: "{t}/items/3"})
	}},
	{"read: the log", "all of them as they were before any cut, images in line, a line each", func(r *run) {
		long := strings.Repeat("word ", 140_000)
		r.say("short", long, "last")
		lines := strings.Split(strings.TrimSuffix(r.get("{t}/logs/thread.log").body, "\n"), "\n")
		r.is(len(lines) == 3 && strings.Contains(lines[1], long), "the log has %d lines, or not all of the second", len(lines))
		r.is(r.get("{t}/logs/thread.log?offset=3&limit=1").body == lines[2]+"\n", "the third line is another one")
		r.want(416, call{path: "{t}/logs/thread.log?offset=9"})
	}},
	{"read: search in a thread", "items that hold the text, newest first, letter case aside", func(r *run) {
		r.say("Compost one", "nothing", "more COMPOST")
		a := r.get("{t}/search?q=compost", "!nothing")
		r.is(strings.Index(a.body, "more COMPOST") < strings.Index(a.body, "Compost one"), "answer = %s, want the newest first", a.body)
	}},
	{"read: what a model is sent", "Of the dialect `step`: the task that the thread began with as `prompt`, the newest `summary`, and",
		func(r *run) {
			r.post(201, "{t}/start", `{"name":"solve","prompt":"Fix it."}`)
			r.get("{t}/context", `"prompt":"Fix it."`, `"messages":[]`)
			r.post(202, "{t}/entries?dialect=step", `{"role":"planner","content":"plan","meta":{"k":1},"timestamp":1767225600000}`)
			r.post(202, "{t}/entries?dialect=step", `{"role":"coder","content":"code","meta":{}}`)
			r.get("{t}/context", `"planner"`, `"meta":{"k":1}`, `"coder"`) // without waiting: a context has what was published before
			r.post(201, "{t}/fork", `{"to":"again","index":1}`)
			r.post(200, "{t}/compact", `{"summary":"planned and coded"}`)
			r.get("{t}/context", `"summary":"planned and coded"`, `"messages":[]`)
			r.get("{s}/threads/again/context", `"prompt":"Fix it."`, `"planner"`, "!coder")
			r.post(200, "{s}/threads/again/branch", `{}`)
			r.get("{s}/threads/again/context", `"prompt":"Fix it."`, `"messages":[]`)
			r.post(202, "{s}/threads/items/entries?dialect=item", item("no step"))
			r.until("{s}/threads/items/items/1")
			r.want(409, call{path: "{s}/threads/items/context"})
		}},
	{"read: a context has what was published", "A context, and `thread.log`, have what was published to the thread before", func(r *run) {
		for i := range 20 {
			r.post(202, "{t}/entries?dialect=step", fmt.Sprintf(`{"role":"coder","content":"step %d."}`, i))
			r.get("{t}/context", fmt.Sprintf("step %d.", i))
		}
	}},
	{"read: a state by its hash", "in the thread that is named, else in any that has it. A link by hash holds for every fork",
		func(r *run) {
			r.say("1", "2", "3")
			node := as[stored](r, r.get("{t}/items/2")).Hash
			r.is(node != "", "an item has no node")
			r.post(201, "{t}/fork", `{"to":"copy","whole":true}`)
			r.get("/v1/nodes/"+node+"?session={id}", `"n":2`)
			r.get("/v1/nodes/"+node+"?session={id}&thread=copy", `"thread":"copy"`, `"n":2`)
			r.want(404, call{path: "/v1/nodes/node:sha256:" + strings.Repeat("0", 64) + "?session={id}"})
		}},
	{"read: forks", "a node for each thread: `source`, and `from_n`, how many items it has from there", func(r *run) {
		r.say("1", "2", "3")
		r.post(201, "{t}/fork", `{"to":"copy","n":2}`)
		r.get("{s}/graph", `"copy"`, `"from_n":2`)
		r.get("{s}/threads/copy", `"fork_of":`)
		got := texts(r, r.get("{s}/threads/copy/items"))
		r.is(got == "1 2", "items of the fork = %q, want the first two", got)
	}},
	{"read: threads by their end", "of all sessions, by `status` and by the UTC date of the end: `ended_from`, `ended_to`; `limit`,",
		func(r *run) {
			r.say("1")
			r.post(202, "{s}/threads/done/entries?dialect=step", `{"role":"__end__","content":"x","meta":{"returnCode":0}}`)
			day := as[struct{ Ended string }](r, r.until("{s}/threads/done", `"ended":"`)).Ended[:len(time.DateOnly)]
			for query, want := range map[string]string{
				"": "done main", "&status=completed": "done", "&status=active": "main", "&ended_from=" + day: "done", "&ended_to=1970-01-01": "",
				"&status=active&ended_from=2000-01-01": "",
			} {
				var names []string
				for _, th := range as[struct{ Threads []struct{ Thread string } }](r, r.get("/v1/threads?session={id}"+query)).Threads {
					names = append(names, th.Thread)
				}
				r.is(strings.Join(names, " ") == want, "threads%s = %q, want %q", query, names, want)
			}
			a := r.get("/v1/threads?session={id}&limit=1", `"done"`, `"next":`)
			next := as[struct{ Next string }](r, a).Next
			r.get("/v1/threads?session={id}&limit=1&after="+next, `"main"`, `!"done"`)
			for _, query := range []string{"status=finished", "ended_from=yesterday", "ended_to=2026-13-01", "after=nothing/of/that"} {
				r.want(400, call{path: "/v1/threads?" + query})
			}
		}},
	{"read: the tree", "entries in the order in which they came, each with `id`, `parent`, `label` and `node`; `leaf` is true of the",
		func(r *run) {
			first, ours, theirs := r.twoWriters()
			r.post(200, "{t}/label", `{"entry":"`+first+`","label":"kept"}`)
			names := map[string]string{"": "none", first: "first", ours: "ours", theirs: "theirs"}
			var shape []string
			for _, e := range as[struct {
				Entries []struct {
					ID, Parent, Label, Node string
					Leaf                    bool
				}
			}](r, r.get("{t}/tree")).Entries {
				line := names[e.ID] + " under " + names[e.Parent]
				if e.Label != "" {
					line += " [" + e.Label + "]"
				}
				if names[e.ID] == "" { // the label is an entry of its own
					line = "label under " + names[e.Parent] + " " + strconv.FormatBool(e.Leaf)
				}
				r.is(e.Node != "", "the entry %s has no node", line)
				shape = append(shape, line)
			}
			got := strings.Join(shape, ", ")
			r.is(got == "first under none [kept], ours under first, theirs under first, label under ours true", "tree = %s", got)
		}},
}

// twoWriters append after the same leaf.
func (r *run) twoWriters() (first, ours, theirs string) {
	type appended struct {
		ID    string
		Moved bool `json:"leaf_moved"`
		Taken *string
	}
	add := func(text, leaf string) appended {
		body := `{"entry":{"type":"message","message":{"role":"user","content":"` + text + `"}}`
		if leaf != "" {
			body += `,"leaf":"` + leaf + `"`
		}
		return as[appended](r, r.post(201, "{t}/append", body+"}"))
	}
	first = add("begin", "").ID
	ours = add("ours", first).ID
	last := add("theirs", first)
	r.is(last.Moved && last.Taken != nil && *last.Taken == ours, "the second writer is told %+v, want that %s took the leaf", last, ours)
	return first, ours, last.ID
}

var artifacts = []Case{
	{"artifacts: bytes", "bytes, with `Range`, `ETag` (the digest), `If-None-Match`; they never change", func(r *run) {
		r.post(201, "{s}", `{"cwd":"/w"}`)
		text := strings.Repeat("line\n", 300_000)
		path := "/v1/artifacts/" + r.put("?tool=make", "text/html", text)
		a := r.get(path)
		r.is(a.body == text, "%d bytes, want %d", len(a.body), len(text))
		etag := a.header.Get("ETag")
		part := r.want(206, call{path: path, header: []string{"Range", "bytes=1000000-1000009"}})
		r.is(part.body == text[1_000_000:1_000_010], "range = %q", part.body)
		r.is(etag != "" && r.send(call{path: path, header: []string{"If-None-Match", etag}}).status == 304,
			"with its ETag %q it is not 304", etag)
		for _, of := range []string{"bytes=9000000-", "bites"} {
			r.want(416, call{path: path, header: []string{"Range", of}}, of)
		}
	}},
	{"artifacts: downloads", "Artifacts and blobs come as attachments, with a policy that lets a browser run and load nothing.",
		func(r *run) {
			r.post(201, "{s}", `{"cwd":"/w"}`)
			a := r.get("/v1/artifacts/" + r.put("?tool=make", "text/html", "<script>"))
			r.is(strings.HasPrefix(a.header.Get("Content-Disposition"), "attachment") && a.header.Get("Content-Security-Policy") != "" &&
				a.header.Get("X-Content-Type-Options") == "nosniff", "headers = %v", a.header)
		}},
	{"artifacts: numbers", "takes a number for `POST …/artifacts?number=5`, once", func(r *run) {
		r.post(201, "{s}", `{"cwd":"/w"}`)
		n := as[struct {
			OK               bool
			Number, Filename string
		}](r, r.post(201, "{s}/artifacts/number", `{"tool":"make"}`))
		r.is(n.OK && n.Filename == n.Number+".make.log", "answer = %+v", n)
		r.put("?tool=make&number="+n.Number, "text/plain", "once")
		r.want(409, call{method: "POST", path: "{s}/artifacts?tool=make&number=" + n.Number, kind: "text/plain", body: "twice"})
		r.is(r.get("/v1/read?session={id}&url=artifact://"+n.Number).body == "once", "the number is another artifact's")
	}},
	{"artifacts: addresses", "what an address leads to, by lines", func(r *run) {
		r.want(404, call{path: "/v1/read?url=artifact://0"}, "No session - artifacts unavailable")
		r.want(404, call{path: "/v1/read?url=artifact://0&session={id}"}, "No artifacts directory found")
		for _, query := range []string{"url=artifact://x&session={id}", "url=blob:sha256:00", "url=nonsense", "url=artifact://0&session=a.b",
			"url=artifact://0&offset=x"} {
			r.want(400, call{path: "/v1/read?" + query})
		}
		r.want(404, call{path: "/v1/read?url={id}/threads/none/logs/thread.log"}, "no such thread")
		r.post(201, "{s}", `{"cwd":"/w"}`)
		r.put("?tool=t", "text/plain", "a\nb\nc\n")
		r.post(201, "{s}/agents", `{"name":"Review"}`, `"0-Review"`)
		r.put("?agent=0-Review", js, `{"findings":["x"]}`)
		for query, want := range map[string]string{
			"artifact://0": "a\nb\nc\n", "artifact://0&offset=2&limit=1": "b\n", "agent://0-Review/findings/0": `"x"`,
			"agent://0-Review%3Fq=findings%5B0%5D": `"x"`,
		} {
			got := r.get("/v1/read?session={id}&url=" + query).body
			r.is(got == want, "%s = %q, want %q", query, got, want)
		}
		r.want(404, call{path: "/v1/read?session={id}&url=artifact://7"}, "Artifact 7 not found. Available: 0")
	}},
	{"artifacts: cleanup", "says which artifacts of debugging it would remove, and with `\"apply\":true` removes them", func(r *run) {
		r.post(201, "{s}", `{"cwd":"/w"}`)
		id, other := r.put("?tool=make&category=debug", "text/plain", "x"), r.put("?tool=make", "text/plain", "y")
		r.want(400, call{method: "POST", path: "{s}/artifacts?category=odd", kind: "text/plain", body: "x"})
		for than, found := range map[string]bool{`"0s"`: true, `"1h"`: false, `"2020-01-01T00:00:00Z"`: false, `null`: true} {
			not := "!"
			if found {
				not = ""
			}
			r.post(200, "{s}/artifacts/cleanup", `{"older_than":`+than+`}`, not+id, "!"+other)
			r.post(200, "{s}/artifacts/cleanup", `{"include_all":true,"older_than":`+than+`}`, not+id, not+other)
		}
		for _, than := range []string{`""`, `"-1h"`, `"1 day"`, `3600`} {
			r.post(400, "{s}/artifacts/cleanup", `{"apply":true,"older_than":`+than+`}`)
		}
		r.get("/v1/artifacts/" + id)
		r.post(200, "{s}/artifacts/cleanup", `{"apply":true}`, id)
		r.want(404, call{path: "/v1/artifacts/" + id})
		r.get("/v1/artifacts/" + other)
	}},
	{"artifacts: removed", "and `/v1/artifacts/{id}` remove for good.", func(r *run) {
		r.post(201, "{s}", `{"cwd":"/w"}`)
		id := r.put("?tool=make", "text/plain", "x")
		r.delete(200, "/v1/artifacts/"+id, id)
		r.delete(404, "/v1/artifacts/"+id)
		r.want(404, call{path: "/v1/artifacts/" + id})
	}},
}

// put stores an artifact.
func (r *run) put(query, kind, text string) string {
	a := as[struct {
		ID   string `json:"artifact_id"`
		Size int64
	}](r, r.want(201, call{method: "POST", path: "{s}/artifacts" + query, kind: kind, body: text}))
	r.is(a.ID != "" && a.Size == int64(len(text)), "artifact %q has %d bytes, want %d", a.ID, a.Size, len(text))
	return a.ID
}
