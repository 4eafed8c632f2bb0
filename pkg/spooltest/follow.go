package spooltest

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// tally is what a reader has of a thread, and how it goes on.
type tally struct {
	r     *run
	items []string
	at    map[string]int64
	text  map[string]string
	ended map[string]bool
	last  string
}

func (r *run) tally(last string) *tally {
	return &tally{r: r, at: map[string]int64{}, text: map[string]string{}, ended: map[string]bool{}, last: last}
}

// take adds an event, which goes on exactly where the one before it ended.
func (c *tally) take(e event) {
	c.last = e.id
	switch e.name {
	case "item":
		var it stored
		c.r.do(json.Unmarshal([]byte(e.data), &it))
		c.r.is(it.N == int64(len(c.items))+1, "item %d comes after item %d", it.N, len(c.items))
		c.items = append(c.items, e.data)
	case "live":
		var l struct {
			Output, Text string
			Offset       int64
			End          json.RawMessage
		}
		c.r.do(json.Unmarshal([]byte(e.data), &l))
		c.r.is(l.Offset == c.at[l.Output], "of %s byte %d comes after %d bytes", l.Output, l.Offset, c.at[l.Output])
		c.at[l.Output] += int64(len(l.Text))
		c.text[l.Output] += l.Text
		if len(l.End) > 0 {
			c.r.is(!c.ended[l.Output], "%s ends twice", l.Output)
			c.ended[l.Output] = true
		}
	case "reset", "failed":
		c.r.fail("the stream says %s: %s", e.name, e.data)
	}
}

var following = []Case{
	{"follow: from an item", "follows one thread: from now on, from item N (`?from=N`), or from where a reader was (`Last-Event-ID`)",
		func(r *run) {
			r.say("1", "2", "3")
			for from, want := range map[string]string{"?from=2": "2 3", "?from=1": "1 2 3"} {
				s := r.follow("{t}/live"+from, "")
				r.is(s.next().name == "open", "the first event is not open")
				var got []string
				for range strings.Fields(want) {
					got = append(got, numberOf(r, s.until("item")))
				}
				s.stop()
				r.is(strings.Join(got, " ") == want, "%s gives the items %q, want %q", from, got, want)
			}
			s := r.follow("{t}/live", "")
			s.until("open")
			r.say("4")
			r.is(numberOf(r, s.until("item")) == "4", "from now on, the first item is another one than 4")
			s.stop()
		}},
	{"follow: an item", "an item, as `…/items` has it", func(r *run) {
		r.say("first")
		s := r.follow("{t}/live?from=1", "")
		var e any
		r.do(json.Unmarshal([]byte(s.until("item").data), &e))
		s.stop()
		live, _ := json.Marshal(e)
		read, _ := json.Marshal(as[any](r, r.get("{t}/items/1")))
		r.is(string(live) == string(read), "the event has %s, the page %s", live, read)
	}},
	{"follow: cut everywhere", "Wherever a connection is cut, a reader that comes back with its last id misses nothing and gets",
		func(r *run) {
			r.say("first")
			o := r.output("{t}/outputs?tool=make&id=o")
			var all strings.Builder
			print := func(text string) { all.WriteString(text); o.print(text) }
			print("begins\n")
			got := r.tally("0")
			for n := 0; len(got.items) < 12 || len(got.ended) == 0; n++ {
				switch {
				case n < 10:
					print(fmt.Sprintf("line %d: %s\n", n, strings.Repeat("木", n)))
					r.post(202, "{t}/entries?dialect=item", item(fmt.Sprint("item ", n)))
				case n == 10:
					o.end(201)
				}
				s := r.follow("{t}/live", got.last)
				e := s.next()
				for e.name == "open" || e.name == "head" {
					e = s.next()
				}
				s.stop()
				got.take(e)
			}
			r.is(got.text["o"] == all.String(), "the output is %q, want %q", got.text["o"], all.String())
		}},
	{"follow: outputs", "what an open output prints, without a gap. The last one has `end`, which names the item that supersedes it",
		func(r *run) {
			o := r.output("{t}/outputs?tool=make&id=o&invocation_id=call-1")
			o.print("before\n")
			r.until("{t}/outputs", `"o"`)
			s := r.follow("{t}/live?from=1&whole=1", "")
			first := s.next()
			r.is(first.name == "open" && strings.Contains(first.data, `"o"`) && strings.Contains(first.data, "call-1"),
				"the first event = %+v, want what is open", first)
			o.print("behind\n")
			o.end(201)
			got := r.tally("")
			for len(got.ended) == 0 || len(got.items) == 0 {
				got.take(s.next())
			}
			s.stop()
			r.is(got.text["o"] == "before\nbehind\n", "the output is %q", got.text["o"])
		}},
	{"follow: what goes", "`removed`, `renamed` (with the new name), and the stream ends", func(r *run) {
		r.say("1")
		r.post(201, "{t}/fork", `{"to":"copy","whole":true}`)
		s := r.follow("{s}/threads/copy/live", "")
		s.until("open")
		r.post(200, "{s}/threads/copy/rename", `{"to":"new"}`)
		e := s.until("reset")
		r.is(strings.Contains(e.data, "renamed") && strings.Contains(e.data, "new"), "reset = %s, want the new name", e.data)
		s.stop()
		s = r.follow("{s}/threads/new/live", "")
		s.until("open")
		r.delete(200, "{s}/threads/new")
		e = s.until("reset")
		r.is(strings.Contains(e.data, "removed"), "reset = %s, want that it is removed", e.data)
		s.stop()
	}},
	{"follow: a name that is used again", "`replaced`: the name belongs to another thread, as far as can be told", func(r *run) {
		r.say("1", "2")
		s := r.follow("{t}/live?from=1", "")
		s.until("item")
		last := s.until("item").id
		s.stop()
		r.delete(200, "{s}")
		r.say("new")
		s = r.follow("{t}/live", last)
		r.is(strings.Contains(s.until("reset").data, "replaced"), "reset says nothing of another thread")
		r.is(strings.Contains(s.until("item").data, `"new"`), "the first item is not that of the new thread")
		s.stop()
	}},
	{"follow: silence", "Every 15 seconds of silence bring a comment.", func(r *run) {
		r.say("1")
		s := r.follow("{t}/live", "")
		s.until("open")
		late := time.AfterFunc(patience, s.stop)
		defer late.Stop()
		for line := ""; !strings.HasPrefix(line, ":"); {
			var err error
			line, err = s.in.ReadString('\n')
			r.do(err)
		}
		s.stop()
	}},
	{"follow: what a tool said", "a `detail` (a tool's name; `ok` or `error`)", func(r *run) {
		r.say("1")
		for tool, code := range map[string]string{"make": "0", "curl": "1"} {
			r.want(201, call{method: "POST", path: "{t}/outputs?tool=" + tool, body: tool,
				header: []string{"Spool-Exit-Code", code, "Spool-Is-Error", fmt.Sprint(code == "1")}})
		}
		for detail, word := range map[string]string{"ok": "make", "error": "curl"} {
			s := r.follow("/v1/live?session={id}&type=tool_result&since=all&detail="+detail, "")
			data := s.until("item").data
			s.stop()
			r.is(strings.Contains(data, `"`+word), "detail %s gives %s", detail, data)
		}
	}},
	{"follow: items of a session", "follows the items of all threads, or of a `session`, a `thread`, a `type`, a `detail`", func(r *run) {
		r.post(202, "{t}/entries?dialect=item", item("1"))
		s := r.follow("/v1/live?session={id}&since=all", "")
		e := s.until("item")
		s.stop()
		r.post(202, "{s}/threads/other/entries?dialect=item", item("2"))
		s = r.follow("/v1/live?session={id}", e.id)
		e = s.until("item")
		r.is(strings.Contains(e.data, `"other"`), "behind the first item comes %s, want that of the other thread", e.data)
		s.stop()
		s = r.follow("/v1/live?session={id}&thread=main&since=all", "")
		r.say("3")
		r.is(numberOf(r, s.until("item")) == "1" && numberOf(r, s.until("item")) == "2", "the items of one thread are not its two")
		s.stop()
	}},
	{"follow: a misspelt type", "A `type` that looks like a misspelt one of Spool's own gets 400 while no item has it.", func(r *run) {
		r.want(400, call{path: "/v1/live?session={id}&type=tool_reslt"}, "tool_result")
	}},
	{"follow: without oneself", "with `not_user` without the items of a user, and what his open outputs print.", func(r *run) {
		r.want(200, call{method: "POST", path: "/v1/events", kind: nd, body: strings.Join([]string{
			`{"session":"{id}","user":"me","dialect":"item","body":` + item("mine") + `}`,
			`{"session":"{id}","user":"you","dialect":"item","body":` + item("yours") + `}`, ""}, "\n")})
		r.until("{t}/items/2")
		if as[stored](r, r.get("{t}/items/1")).Item.User != "me" {
			return // the token has a name, which stands for every user
		}
		s := r.follow("{t}/live?from=1&not_user=me", "")
		r.is(numberOf(r, s.until("item")) == "2", "the items of the user come")
		s.stop()
	}},
	{"follow: heads", "follows the heads of active threads, with `current` from where they are.", func(r *run) {
		r.say("1")
		s := r.follow("/v1/heads?current=1", "")
		for !strings.Contains(s.until("head").data, r.session) {
		}
		r.say("2")
		for !strings.Contains(s.until("head").data, r.session) {
		}
		s.stop()
	}},
}

func numberOf(r *run, e event) string {
	var it stored
	r.do(json.Unmarshal([]byte(e.data), &it))
	return fmt.Sprint(it.N)
}

var claude = []Case{
	{"sessions of the Claude Agent SDK: entries", "all entries as they came, a line each, in their order; 404 where there is none",
		func(r *run) {
			const path = "/v1/claude/{id}/key"
			r.want(404, call{path: path})
			lines := `{"type":"user","uuid":"u1","cwd":"/w","message":{"role":"user","content":"hi"}}` + "\n" +
				`{"type":"assistant","uuid":"u2","parentUuid":"u1","message":{"role":"assistant","content":[{"type":"text","text":"hello"}]}}` + "\n"
			r.want(200, call{method: "POST", path: path, kind: nd, body: lines}, `"entries":2`, `"total":2`)
			r.want(200, call{method: "POST", path: path, kind: nd, body: lines}, `"repeated":2`, `"total":2`)
			r.is(r.get(path).body == lines, "the entries are others")
			r.want(400, call{method: "POST", path: path, kind: nd, body: "[]\n"})
			r.want(200, call{method: "POST", path: path + "/subagents/agent-1", kind: nd, body: lines}, `"total":2`)
			r.get(path+"?subkeys", `"subagents/agent-1"`)
			r.get("/v1/claude/{id}", `"key"`, `"mtime":`)
			r.delete(200, path, `"deleted":true`)
			r.want(404, call{path: path})
		}},
	{"sessions of the Claude Agent SDK: summaries", "412 says that it is another one by now", func(r *run) {
		const path = "/v1/claude/{id}/key"
		r.want(200, call{method: "POST", path: path, kind: nd,
			body: `{"type":"user","uuid":"u1","cwd":"/w","message":{"role":"user","content":"hi"}}` + "\n"})
		put := func(body string, header ...string) answer {
			return r.send(call{method: "PUT", path: path + "?summary", kind: js, body: body, header: header})
		}
		a := put(`{"a":1}`)
		r.is(a.status < 300, "PUT = %d %s", a.status, a.body)
		tag := r.get(path+"?summary", `"a":1`).header.Get("ETag")
		r.is(tag != "", "a summary has no ETag")
		a = put(`{"a":2}`)
		r.is(a.status == 412, "PUT without the one that is there = %d, want 412", a.status)
		a = put(`{"a":2}`, "If-Match", tag)
		r.is(a.status < 300, "PUT with it = %d %s", a.status, a.body)
		a = put(`{"a":3}`, "If-Match", tag)
		r.is(a.status == 412, "PUT with an earlier one = %d, want 412", a.status)
		r.get(path+"?summary", `"a":2`)
		r.delete(200, path)
	}},
}
