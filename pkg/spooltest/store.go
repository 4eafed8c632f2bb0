package spooltest

import (
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"strconv"
	"strings"
)

// ask is a question to a person, as an item.
func ask(id, kind, text string) string {
	return fmt.Sprintf(`{"content":[{"type":"text","text":%q}],"metadata":{"type":"pending_prompt","prompt":{"id":%q,"kind":%q}}}`,
		text, id, kind)
}

var storing = []Case{
	{"store: one entry", "one entry as `application/json`: 202 `{\"ok\":true,\"seq\":N}`, durable.", func(r *run) {
		r.post(202, "{t}/entries?dialect=item", item("hello"), `"ok":true`, `"seq":`)
		r.until("{t}/items?from=1", `"hello"`)
	}},
	{"store: lines", "An entry a line as `application/x-ndjson`: 200 and a line for each, while they come; a line that is wrong stops",
		func(r *run) {
			a := r.want(200, call{method: "POST", path: "{t}/entries?dialect=item", kind: nd, body: item("one") + "\n{\n" + item("two") + "\n"})
			lines := strings.Split(strings.TrimSpace(a.body), "\n")
			r.is(len(lines) == 3 && strings.Contains(lines[0], `"ok":true`) && strings.Contains(lines[1], `"error":`) &&
				strings.Contains(lines[2], `"ok":true`), "answer = %s, want a line for each, the second with an error", a.body)
			r.until("{t}/items?from=1", `"one"`, `"two"`)
		}},
	{"store: envelopes", "with another member a line is refused, by its name; `null` counts as left out, but for `body`", func(r *run) {
		a := r.want(200, call{method: "POST", path: "/v1/events", kind: nd, body: `{"session":"{id}","dialect":"item","user":null,"body":` +
			item("one") + `}` + "\n" + `{"session":"{id}","thread":"b","dialect":"item","sender":"x","body":` + item("two") + "}\n"})
		lines := strings.Split(strings.TrimSpace(a.body), "\n")
		r.is(len(lines) == 2 && strings.Contains(lines[0], `"ok":true`) && strings.Contains(lines[1], "sender"),
			"answer = %s, want that the second line is refused for its member sender", a.body)
		r.until("{t}/items?from=1", `"one"`)
	}},
	{"store: a producer sends again", "the same request can be sent again after any error and adds nothing", func(r *run) {
		c := call{method: "POST", path: "{t}/entries?dialect=item", kind: js, body: item("once"),
			header: []string{"Spool-Producer", "p" + rand.Text(), "Spool-Seq", "1"}}
		r.want(202, c, `"seq":1`)
		r.want(202, c)
		r.say("behind")
		r.get("{t}/items/2", `"behind"`)
	}},
	{"store: applied", "once the thread has taken what a producer published to it", func(r *run) {
		p := "p" + rand.Text()
		post := func(status, seq int, thread, body string) {
			r.want(status, call{method: "POST", path: "{s}/threads/" + thread + "/entries?dialect=item", kind: js, body: body,
				header: []string{"Spool-Producer", p, "Spool-Seq", strconv.Itoa(seq)}})
		}
		post(202, 7, "main", item("seven"))
		post(202, 9, "main", item("nine"))
		r.get("{t}/applied?producer="+p+"&first=7&seq=9", `"ok":true`)
		r.get("{t}/items/2", `"nine"`)
		post(202, 8, "main", item("behind a higher sequence"))
		r.want(409, call{path: "{t}/applied?producer=" + p + "&seq=8"})
		r.want(400, call{path: "{t}/applied?producer=" + p})
		r.want(400, call{path: "{t}/applied?seq=1"})
		r.want(400, call{path: "{t}/applied?producer=" + p + "&first=2&seq=1"})
	}},
	{"store: a producer's lines again", "a line may be sent again with `\\r\\n` that came with `\\n`.", func(r *run) {
		header := []string{"Spool-Producer", "p" + rand.Text(), "Spool-Seq", "1"}
		for _, end := range []string{"\n", "\r\n"} {
			body := item("1") + end + item("2") + end
			r.want(200, call{method: "POST", path: "{t}/entries?dialect=item", kind: nd, body: body, header: header}, `"seq":2`)
		}
		r.say("3")
		r.get("{t}/items/3", `"3"`)
	}},
	{"store: a sequence names one entry", "So is an entry with a sequence that its producer gave to another one.", func(r *run) {
		header := []string{"Spool-Producer", "p" + rand.Text(), "Spool-Seq", "1"}
		for _, text := range []string{"first", "another"} {
			r.want(202, call{method: "POST", path: "{t}/entries?dialect=item", kind: js, body: item(text), header: header})
		}
		r.say("behind")
		got := texts(r, r.get("{t}/items"))
		r.is(got == "first behind", "the items are %q", got)
	}},
	{"store: an older incarnation", "`Spool-Epoch` fences an older incarnation: what that sends then is a dead letter.", func(r *run) {
		name := "p" + rand.Text()
		for i, epoch := range []string{"1", "2", "1"} {
			r.want(202, call{method: "POST", path: "{t}/entries?dialect=item", kind: js, body: item("of " + epoch),
				header: []string{"Spool-Producer", name, "Spool-Epoch", epoch, "Spool-Seq", fmt.Sprint(i + 1)}})
		}
		r.say("behind")
		got := texts(r, r.get("{t}/items"))
		r.is(got == "of 1 of 2 behind", "the items are %q", got)
	}},
	{"store: an equal entry", "A request that was answered with 202 is done with: an equal one behind it is another entry.", func(r *run) {
		r.post(202, "{t}/entries?dialect=item", item("twice"))
		r.post(202, "{t}/entries?dialect=item", item("twice"))
		r.until("{t}/items/2", `"twice"`)
	}},
	{"store: a sequence needs its producer", "With `Spool-Producer`, a name that outlives the request, and a growing `Spool-Seq`",
		func(r *run) {
			for _, header := range [][]string{
				{"Spool-Producer", "p"}, {"Spool-Seq", "1"},
				{"Spool-Producer", "p", "Spool-Seq", "1", "Spool-Epoch", "x"},
			} {
				r.want(400, call{method: "POST", path: "{t}/entries?dialect=item", kind: js, body: item("x"), header: header}, "Spool-")
			}
		}},
	{"store: a thread that has ended", "An entry for a thread that has ended or was renamed gets 409, as a line `\"error\"`.",
		func(r *run) {
			r.say("first")
			r.post(201, "{t}/fork", `{"to":"other","whole":true}`)
			r.post(200, "{s}/threads/other/rename", `{"to":"new"}`)
			r.post(200, "{t}/end", `{"return_code":0,"summary":"done"}`)
			for _, thread := range []string{"main", "other"} {
				path := "{s}/threads/" + thread + "/entries?dialect=item"
				r.post(409, path, item("late"))
				a := r.want(200, call{method: "POST", path: path, kind: nd, body: item("late") + "\n"}, `"error":`)
				r.is(!strings.Contains(a.body, `"ok":true`), "answer = %s, want an error", a.body)
			}
		}},
	{"store: refs of a step", "The `refs` of a step that name nothing are refused with 400 for who may `read`", func(r *run) {
		b := rand.Text()
		ref := fmt.Sprintf("blob:sha256:%x", sha256.Sum256([]byte(b)))
		step := fmt.Sprintf(`{"role":"coder","content":"x","refs":[%q]}`, ref)
		r.post(400, "{t}/entries?dialect=step", step)
		r.want(201, call{method: "POST", path: "/v1/blobs", kind: "application/octet-stream", body: b}, `"id":"`+ref+`"`)
		r.is(r.get("/v1/blobs/"+strings.TrimPrefix(ref, "blob:sha256:")).body == b, "the blob is another one")
		r.post(202, "{t}/entries?dialect=step", step)
	}},
	{"store: a question", "without the id or the kind it gets 400, and 409 where its thread has another question under that id",
		func(r *run) {
			const path = "{t}/entries?dialect=item"
			r.post(400, path, ask("", "approval", "Deploy?"))
			r.post(400, path, ask("q", "", "Deploy?"))
			r.post(202, path, ask("q", "approval", "Deploy?"))
			r.until("/v1/prompts?session={id}", `"q"`)
			r.post(409, path, ask("q", "approval", "Delete?"))
		}},
	{"store: a question again", "The same question may be sent again.", func(r *run) {
		r.post(202, "{t}/entries?dialect=item", ask("q", "approval", "Deploy?"))
		r.until("/v1/prompts?session={id}", `"q"`)
		r.post(202, "{t}/entries?dialect=item", ask("q", "approval", "Deploy?"))
	}},
	{"store: answers", "the first answer counts, the second gets 409 and how it was settled.", func(r *run) {
		r.post(202, "{t}/entries?dialect=item", ask("a/b", "approval", "Deploy?"))
		r.until("/v1/prompts?session={id}", `"id":"a/b"`, `"answerable":true`)
		const path = "{t}/prompts/a%2Fb"
		r.post(400, path+"/answer", `{"answer":"perhaps"}`)
		by := as[struct{ Resolution struct{ By string } }](
			r, r.post(200, path+"/answer", `{"answer":false,"by":"mira"}`, `"outcome":"denied"`)).Resolution.By
		r.post(409, path+"/answer", `{"answer":true,"by":"sam"}`, `"by":"`+by+`"`)
		r.get(path, `"outcome":"denied"`)
		r.want(404, call{path: "{t}/prompts/none"})
	}},
	{"store: a question of a thread that has ended", "`answerable` is false where a transcript tells of it, or its thread has ended",
		func(r *run) {
			r.post(202, "{t}/entries?dialect=item", ask("q", "approval", "Deploy?"))
			r.until("{t}/prompts/q", `"answerable":true`)
			r.post(200, "{t}/end", `{"return_code":0}`)
			r.until("{t}/prompts/q", `"answerable":false`)
		}},
	{"store: a workflow", "201; begins a thread with what its workflow gives it: `name`, `bundle`, `max_rounds`, `depth`, `prompt`",
		func(r *run) {
			start := `{"name":"solve","bundle":"B","max_rounds":10,"depth":2,"prompt":"Fix the \"parser\"."}`
			r.post(201, "{t}/start", start)
			r.post(409, "{t}/start", start)
			r.get("{t}", `"name":"solve"`, `"bundle":"B"`, `"max_rounds":10`, `"depth":2`, `"prompt":"Fix the \"parser\"."`)
		}},
	{"store: ids of agents", "takes the id of the next agent that `parent` starts as `name`", func(r *run) {
		r.post(201, "{s}", `{"cwd":"/w"}`)
		r.post(404, "{s}/agents", `{"parent":"0-Plan","name":"Look"}`)
		r.post(201, "{s}/agents", `{"name":"Plan"}`, `"id":"0-Plan"`)
		for _, parent := range []string{"1-Plan", "0-Plan.0-Sub", "0-Plan.Sub", "Plan"} {
			r.post(404, "{s}/agents", `{"parent":"`+parent+`","name":"Look"}`)
		}
		for _, id := range []string{"0-Plan.0-Look", "0-Plan.1-Look"} {
			r.post(201, "{s}/agents", `{"parent":"0-Plan","name":"Look"}`, `"ok":true`, `"id":"`+id+`"`)
		}
		for _, body := range []string{
			`{"name":"a/b"}`, `{"parent":"0-Plan..x","name":"Look"}`,
			`{"parent":"` + strings.Repeat("0-Plan.", 80) + `1-Sub","name":"Look"}`,
		} {
			r.post(400, "{s}/agents", body)
		}
	}},
	{"store: runs", "201; begins a run, and the session or thread if it is not there, or is a sign of life", func(r *run) {
		r.post(201, "{t}/runs", `{"run":"r","lease_ms":600000,"summary":"at work"}`)
		r.until("/v1/runs?session={id}", `"run":"r"`, `"state":"running"`, `"summary":"at work"`)
		r.want(201, call{method: "POST", path: "{t}/runs", kind: js, body: `{"run":"r","lease_ms":600000}`})
		r.post(400, "{t}/runs", `{"run":"s","lease_ms":604800001}`)
	}},
	{"store: a run that gives no sign", "is a sign of life: again within `lease_ms`", func(r *run) {
		r.post(201, "{t}/runs", `{"run":"r","lease_ms":1000}`)
		r.until("/v1/runs?session={id}", `"state":"failed"`, `"expired":true`)
		r.post(201, "{t}/runs", `{"run":"r","lease_ms":600000}`)
		r.get("/v1/runs?session={id}", `"state":"running"`)
	}},
	{"store: the end of a run", "ends it: `{\"state\":\"completed\"}`, `failed`, `aborted`, `cancelled`", func(r *run) {
		for _, state := range []string{"completed", "failed", "aborted", "cancelled"} {
			r.post(201, "{t}/runs", `{"run":"`+state+`","lease_ms":600000}`)
			r.until("/v1/runs?session={id}", `"run":"`+state+`"`)
			r.post(400, "{s}/runs/"+state+"/end", `{"state":"running"}`)
			r.post(200, "{s}/runs/"+state+"/end", `{"state":"`+state+`"}`)
			r.post(409, "{s}/runs/"+state+"/end", `{"state":"completed"}`)
			r.get("/v1/runs?session={id}", `"state":"`+state+`"`)
		}
		r.post(404, "{s}/runs/none/end", `{"state":"completed"}`)
	}},
	{"store: for a session that is there", "ids of agents are for a session that is there, and `run` names a run of it; else 404",
		func(r *run) {
			for path, body := range map[string]string{
				"artifacts/number": `{"tool":"make"}`, "agents": `{"name":"Review"}`, "artifacts/cleanup": `{}`,
			} {
				r.post(404, "{s}/"+path, body)
			}
			r.want(404, call{method: "POST", path: "{s}/artifacts?tool=make", kind: "text/plain", body: "built"})
			r.want(404, call{path: "{s}/artifacts"})
			r.want(404, call{path: "{s}"})
			r.post(201, "{s}", `{"cwd":"/w"}`)
			r.get("{s}/artifacts")
			r.want(404, call{method: "POST", path: "{s}/artifacts?tool=make&run=none", kind: "text/plain", body: "built"})
		}},
	{"refusals: method and type", "another method, another type of body: the text names the right one", func(r *run) {
		r.want(405, call{path: "{t}/entries?dialect=item"}, "POST")
		r.want(415, call{method: "POST", path: "{t}/entries?dialect=item", kind: "text/plain", body: "x"}, nd)
		r.want(415, call{method: "POST", path: "/v1/events", body: "x"}, nd)
	}},
	{"refusals: what is wrong", "the request is wrong, or has a parameter that is none, or one twice, or a name in its path", func(r *run) {
		r.want(400, call{path: "/v1/sessions?limt=1"}, "limt")
		r.want(400, call{path: "/v1/sessions?limit=1&limit=2"}, "limit")
		r.want(400, call{method: "DELETE", path: "{s}?force&force=false"}, "force")
		r.want(400, call{path: "/v1/sessions/a.b"}, "a.b")
		r.post(400, "{t}/entries", item("x"), "dialect")
		r.post(400, "{t}/entries?dialect=item", "{", "JSON")
		r.post(400, "/v1/sessions/a.b/threads/main/entries?dialect=item", item("x"), "a.b")
		r.post(400, "{t}/end", `{"return":1}`, "return")
		for _, path := range []string{"/v1/history?limit=0", "/v1/history?limit=1001", "/v1/search?q=x&limit=0", "/v1/search?q=x&limit=1001"} {
			if a := r.send(call{path: path}); a.status != 404 { // an ingest has none
				r.want(400, call{path: path}, "limit")
			}
		}
	}},
	{"refusals: nothing there", "there is nothing of that name; it was collected", func(r *run) {
		for _, path := range []string{"{s}", "{t}", "{t}/items", "{t}/context", "/v1/artifacts/art_none", "/v1/none"} {
			r.want(404, call{path: path})
		}
	}},
	{"refusals: no token", "no token or a wrong one; a token that is not for this", func(r *run) {
		if r.server.Token == "" {
			return // nobody needs one
		}
		for _, path := range []string{"/v1/sessions", "{t}", "/v1/prompts", "/v1/live", "/v1/artifacts/art_none"} {
			r.want(401, call{path: path, anybody: true}, "!"+r.server.Token)
			r.want(401, call{path: path, anybody: true, header: []string{"Authorization", "Bearer " + rand.Text()}})
		}
	}},
}
