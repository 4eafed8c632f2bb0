package spooltest

var changing = []Case{
	{"change: a new session", "`parent` names the session that it goes on from, which must be there (404), and 409 says that the new",
		func(r *run) {
			r.post(400, "/v1/sessions/a%20b", `{"cwd":"/w"}`)
			for _, cwd := range []string{"", "orchard", `/a\nb`} {
				r.post(400, "{s}", `{"cwd":"`+cwd+`"}`)
			}
			r.post(404, "{s}", `{"cwd":"/w","parent":"{id}-2"}`)
			r.post(201, "{s}-2", `{"cwd":"/w"}`)
			r.post(201, "{s}", `{"cwd":"/w","parent":"{id}-2"}`)
			r.post(409, "{s}", `{"cwd":"/w"}`)
			r.get("{s}", `"cwd":"/w"`)
		}},
	{"change: a title", "with `\"auto\":true` one that a program made up, which is 409 where the user gave one", func(r *run) {
		r.post(404, "{s}/name", `{"title":"Nobody's"}`)
		r.post(201, "{t}/start", `{"name":"x"}`)
		r.post(400, "{s}/name", `{"title":" "}`)
		r.post(200, "{s}/name", `{"title":"Made up","auto":true}`)
		r.post(200, "{s}/name", `{"title":"Mine"}`)
		r.post(409, "{s}/name", `{"title":"Made up again","auto":true}`)
		r.get("{s}", `"title":"Mine"`)
	}},
	{"change: a directory", "`…/move` another `cwd`.", func(r *run) {
		r.post(201, "{s}", `{"cwd":"/w"}`)
		r.post(400, "{s}/move", `{"cwd":""}`)
		r.post(400, "{s}/move", `{"cwd":"../orchard"}`)
		r.post(200, "{s}/move", `{"cwd":"C:\\orchard"}`)
		r.post(200, "{s}/move", `{"cwd":"/there"}`)
		r.get("{s}", `"cwd":"/there"`)
	}},
	{"change: when it is taken", "The answer comes when the thread has taken it.", func(r *run) {
		r.say("1", "2")
		r.post(201, "{t}/fork", `{"to":"copy","whole":true}`)
		r.get("{s}/threads/copy")
		r.post(200, "{s}/threads/copy/rename", `{"to":"new"}`)
		r.get("{s}/threads/new")
		r.post(200, "{s}/threads/new/end", `{"return_code":2,"summary":"done"}`)
		r.get("{s}/threads/new", `"completed"`)
		r.delete(200, "{s}/threads/new")
		r.want(404, call{path: "{s}/threads/new"})
		r.post(409, "{t}/fork", `{"to":"main","whole":true}`)
		r.post(404, "{s}/threads/none/fork", `{"to":"x","whole":true}`)
	}},
	{"change: a thread that has ended", "one that has ended stays so (409).", func(r *run) {
		r.say("1")
		r.post(200, "{t}/end", `{"return_code":0}`)
		r.post(409, "{t}/reopen", `{}`)
	}},
	{"change: two writers", "with `\"leaf_moved\":true` another writer was first: `taken` is the leaf, and the entry stands beside it.",
		func(r *run) {
			_, ours, theirs := r.twoWriters()
			r.get("{t}/tree", ours, theirs)
			r.post(404, "{t}/append", `{"entry":{"type":"message","message":{"role":"user","content":"lost"}},"leaf":"nobody"}`)
			r.post(400, "{t}/append", `{"entry":{"type":"session"}}`)
			r.post(400, "{t}/append", `{}`)
		}},
	{"change: the path to an entry", "the same, into another session: `\"to\":\"other/main\"` with `\"whole\":true`, or with",
		func(r *run) {
			first, ours, theirs := r.twoWriters()
			r.post(200, "{t}/label", `{"entry":"`+first+`","label":"kept"}`)
			r.post(400, "{t}/fork", `{"to":"{id}-2/main","path":true,"entry":"`+theirs+`","whole":true}`)
			r.post(400, "{t}/fork", `{"to":"beside","path":true}`)
			r.post(201, "{t}/fork", `{"to":"{id}-2/main","path":true,"entry":"`+theirs+`"}`)
			r.get("{s}-2/threads/main/tree", `"label":"kept"`, theirs, "!"+ours)
		}},
	{"change: a branch", "without an entry it is a reset, with `summary` the third", func(r *run) {
		said := `{"type":"message","id":"aaaaaaa1","message":{"role":"user","content":"begin"}}
{"type":"message","id":"aaaaaaa2","parentId":"aaaaaaa1","message":{"role":"assistant","content":[{"type":"text","text":"astray"}]}}
`
		r.want(200, call{method: "POST", path: "{t}/entries?dialect=omp", kind: nd, body: said})
		r.post(400, "{t}/branch", `{"entry":"aaaaaaa1","details":{"k":1}}`)
		r.post(404, "{t}/branch", `{"entry":"zzzzzzz1","summary":"It was a dead end."}`)
		r.post(200, "{t}/branch", `{"entry":"aaaaaaa1","summary":"It was a dead end.","details":{"k":1}}`)
		r.get("{t}/context", "dead end", "begin", "!astray")
		r.post(200, "{t}/branch", `{}`)
		r.get("{t}/context", "!begin")
	}},
	{"change: a session in which somebody works", "`DELETE /v1/sessions/{session}`; 409 says why not", func(r *run) {
		r.post(201, "{t}/runs", `{"run":"r1","lease_ms":600000}`)
		r.delete(409, "{s}", "session_active", "r1")
		r.post(200, "{s}/runs/r1/end", `{"state":"completed"}`)
		r.delete(200, "{s}", `"deleted":true`)
		r.delete(404, "{s}")
		r.delete(400, "/v1/sessions/no.name")
	}},
	{"change: by force", "`DELETE /v1/sessions/{session}/threads/{thread}`; with `force`", func(r *run) {
		r.say("1")
		r.post(201, "{t}/runs", `{"run":"r","lease_ms":600000}`)
		for _, query := range []string{"", "?force=false", "?force=0"} {
			r.delete(409, "{t}"+query)
		}
		r.delete(200, "{t}?force")
	}},
}
