package spooltest

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
)

// ProtocolCases are what docs/protocol.md promises and can be seen by a client of NATS alone.
func ProtocolCases() []Case { return protocol }

// entry is an envelope of an item; more are members of it, as in `"epoch":2`.
func entry(producer string, seq int, text string, more ...string) string {
	members := append([]string{fmt.Sprintf(`"producer":%q,"seq":%d,"dialect":"item"`, producer, seq)}, more...)
	if text != "" {
		members = append(members, `"body":`+item(text))
	}
	return "{" + strings.Join(members, ",") + "}"
}

// hears holds that the thread main has just these texts, then the one of a last entry that is published now.
func (w *wire) hears(texts ...string) []wireItem {
	w.event("main", "entry", entry("~"+rand.Text(), 1, "last"))
	w.consume("spool.v1.item.{id}.main.>", "all")
	all := w.items(len(texts) + 1)
	for i, want := range append(texts, "last") {
		w.r.is(all[i].text() == want && all[i].N == int64(i+1), "item %d is number %d, %q, want %q", i+1, all[i].N, all[i].text(), want)
	}
	return all
}

var protocol = []Case{
	{"protocol: an ack", "The answer is JetStream's: `{\"stream\":\"SPOOL_EVENTS\",\"seq\":8}` means durable.", func(r *run) {
		w := r.dial()
		first, second := w.event("main", "entry", entry("p", 1, "one")), w.event("main", "entry", entry("p", 2, "two"))
		r.is(first.Stream == "SPOOL_EVENTS" && first.Seq > 0 && second.Seq > first.Seq, "acks = %+v, %+v", first, second)
		w.hears("one", "two")
	}},
	{"protocol: sent again", "It is applied once, however often it is sent.", func(r *run) {
		w := r.dial()
		for range 3 {
			w.event("main", "entry", entry("p", 7, "once"))
		}
		w.event("main", "entry", entry("p", 9, "behind a gap"))
		w.hears("once", "behind a gap")
	}},
	{"protocol: an old sequence", "what comes behind a later one and was never stored is a dead letter", func(r *run) {
		w := r.dial()
		w.event("main", "entry", entry("p", 5, "five"))
		w.event("main", "entry", entry("p", 4, "four"))
		w.letter("main", "entry", "four")
		w.hears("five")
	}},
	{"protocol: a sequence names one event", "An entry that comes second, with another `dialect` or `body`", func(r *run) {
		w := r.dial()
		w.event("main", "entry", entry("p", 1, "first"))
		w.event("main", "entry", entry("p", 1, "other"))
		w.letter("main", "entry", "other")
		w.hears("first")
	}},
	{"protocol: an older incarnation", "incarnation of the producer, 0 if left out. A higher one fences the lower ones", func(r *run) {
		w := r.dial()
		w.event("main", "entry", entry("p", 1, "first"))
		w.event("main", "entry", entry("p", 1, "second", `"epoch":1`))
		w.event("main", "entry", entry("p", 2, "fenced"))
		w.letter("main", "entry", "fenced")
		w.hears("first", "second")
	}},
	{"protocol: a predecessor", "When that one was never stored, this one is not applied: send both again.", func(r *run) {
		w := r.dial()
		w.event("main", "entry", entry("p", 1, "one"))
		w.event("main", "entry", entry("p", 3, "three", `"prev":2`))
		w.event("main", "entry", entry("p", 2, "two", `"prev":1`))
		w.event("main", "entry", entry("p", 3, "three", `"prev":2`))
		w.hears("one", "two", "three")
	}},
	{"protocol: bodies", "A JSON value is stored as it is spelled; of a string, its text is the entry", func(r *run) {
		w := r.dial()
		quoted, _ := json.Marshal(item("of a string"))
		w.event("main", "entry", entry("p", 1, "", `"body":`+string(quoted)))
		w.event("main", "entry", entry("p", 2, "", `"body_base64":"`+base64.StdEncoding.EncodeToString([]byte(item("of base64")))+`"`))
		w.hears("of a string", "of base64")
	}},
	{"protocol: a body in the inbox", "as an ordinary object of the bucket `spool_inbox` under a name of its own, and the event",
		func(r *run) { inTheInbox(r, r.dial()) }},
	{"protocol: one message for many", "entries that follow in the same thread: one message for many small ones", func(r *run) {
		w := r.dial()
		w.event("main", "entry", entry("p", 1, "one", `"more":[{"seq":2,"body":`+item("two")+`},{"seq":5,"body":`+item("three")+`}]`))
		w.hears("one", "two", "three")
	}},
	{"protocol: members", "Members that a reader does not know are ignored; `null` counts as left", func(r *run) {
		w := r.dial()
		w.event("main", "entry", entry("p", 1, "one", `"colour":"green","user":null,"epoch":null,"session":"{id}"`))
		w.hears("one")
	}},
	{"protocol: another session's envelope", "the subject says them; what is said here too MUST be the same", func(r *run) {
		w := r.dial()
		w.event("main", "entry", entry("p", 1, "astray", `"session":"another"`))
		w.letter("main", "entry", "astray")
		w.hears()
	}},
	{"protocol: one body", "Exactly one of `body`, `body_base64` and `ref` MUST be there.", func(r *run) {
		w := r.dial()
		w.event("main", "entry", entry("p", 1, "two bodies", `"body_base64":"e30="`))
		w.letter("main", "entry", "two bodies")
		w.event("main", "entry", entry("q", 1, "", `"user":"nobody"`))
		w.letter("main", "entry", "nobody")
		w.hears()
	}},
	{"protocol: what is no JSON", "an event that can never be applied (a body that is no JSON, an envelope of another thread)", func(r *run) {
		w := r.dial()
		w.event("main", "entry", `{"producer":"p","seq":1,"dialect":"item","body":"{"}`)
		why := w.letter("main", "entry", `"body":"{"`)
		w.event("main", "entry", "no envelope")
		r.is(w.letter("main", "entry", "no envelope") != why, "both letters have the reason %q", why)
		w.hears()
	}},
	{"protocol: depth", "The object nests at most 256 deep, the entry in it included", func(r *run) {
		w := r.dial()
		nested := func(depth int) string { return strings.Repeat("[", depth) + "1" + strings.Repeat("]", depth) }
		deep := func(seq, depth int) string {
			return entry("p", seq, "", `"body":{"content":[{"type":"text","text":"deep"}],"metadata":{"type":"text","x":`+nested(depth)+`}}`)
		}
		w.event("main", "entry", deep(1, 300))
		w.letter("main", "entry", "deep")
		w.event("main", "entry", deep(2, 200))
		w.hears("deep")
	}},
	{"protocol: subjects of items", "is every failed tool of a fleet, `spool.v1.item.build-42.>` one", func(r *run) {
		w := r.dial()
		for seq, body := range []string{
			`{"content":[],"metadata":{"type":"tool_call","tool":{"name":"bash","invocation_id":"i1","input":{}}}}`,
			`{"content":[],"metadata":{"type":"tool_result","tool":{"invocation_id":"i1","is_error":true,"output":"no such file"}}}`,
			item("it failed"),
		} {
			w.event("main", "entry", entry("p", seq+1, "", `"body":`+body))
		}
		w.event("other", "entry", entry("p", 1, "elsewhere"))
		for filter, want := range map[string]string{
			"spool.v1.item.*.*.tool_result.error": "spool.v1.item.{id}.main.tool_result.error",
			"spool.v1.item.{id}.*.tool_call.bash": "spool.v1.item.{id}.main.tool_call.bash",
			"spool.v1.item.{id}.*.text":           "spool.v1.item.{id}.main.text",
			"spool.v1.item.{id}.other.>":          "spool.v1.item.{id}.other.text",
		} {
			w := r.dial()
			w.consume(filter, "all")
			it := w.items(1)[0]
			for !strings.Contains(it.subject, r.session) { // one of a fleet
				it = w.items(1)[0]
			}
			r.is(it.subject == r.fill(want), "%s gives %s first, want %s", filter, it.subject, r.fill(want))
		}
	}},
	{"protocol: where a reader begins", "`deliver_policy` is `all`,", func(r *run) {
		w := r.dial()
		w.event("main", "entry", entry("p", 1, "one"))
		w.event("main", "entry", entry("p", 2, "two"))
		w.hears("one", "two")
		newest, later := r.dial(), r.dial()
		newest.consume("spool.v1.item.{id}.main.>", "last_per_subject")
		later.consume("spool.v1.item.{id}.main.>", "new")
		w.event("main", "entry", entry("p", 3, "three"))
		got := newest.items(2)
		r.is(got[0].text() == "last" && got[1].text() == "three", "the newest of the subject is %q, then %q", got[0].text(), got[1].text())
		r.is(later.items(1)[0].text() == "three", "what is new is another item")
	}},
	{"protocol: what an envelope claims", "What an entry, or `time`, says is a claim.", func(r *run) {
		w := r.dial()
		w.event("main", "entry", entry("p", 1, "old", `"time":"2020-02-03T04:05:06Z","user":"mira"`))
		w.event("main", "entry", entry("p", 2, "of no time", `"time":0`))
		all := w.hears("old", "of no time")
		r.is(strings.HasPrefix(all[0].Created, "2020-02-03T04:05:06"), "created_at is %s, want the time that is claimed", all[0].Created)
		r.is(all[1].Created >= "2026", "created_at is %s, want when it was stored", all[1].Created)
		r.is(all[0].User != "" && all[1].User == "", "user_id is %q and %q, want one for the first", all[0].User, all[1].User)
	}},
	{"protocol: a thread that has ended", "So does one for a thread that has ended", func(r *run) {
		w := r.dial()
		w.hears()
		w.event("main", "control", `{"producer":"p","seq":1,"body":{"op":"end","end":{"returnCode":0}}}`)
		w.event("main", "entry", entry("p", 2, "late"))
		w.letter("main", "entry", "late")
	}},
	{"protocol: a fork", "begins one.", func(r *run) {
		w := r.dial()
		w.event("main", "entry", entry("p", 1, "one"))
		w.event("main", "entry", entry("p", 2, "two"))
		w.event("copy", "control", `{"producer":"p","seq":1,"body":{"op":"fork","fork":{"session":"{id}","thread":"main","whole":true}}}`)
		w.event("copy", "entry", entry("p", 2, "three"))
		w.consume("spool.v1.item.{id}.copy.>", "all")
		it := w.items(1)[0]
		for it.text() != "three" {
			it = w.items(1)[0]
		}
		r.is(it.N == 3, "the first item behind a fork of two has the number %d, want 3", it.N)
	}},
	{"protocol: an output", "`seq` numbers its pieces from 1, and the end has the number after", func(r *run) {
		w, live := r.dial(), r.dial()
		live.subscribe("spool.v1.live." + r.session + ".main.o1")
		live.request("$JS.API.INFO", nil) // behind it the subscription stands
		for seq, body := range []string{
			`{"op":"start","output":"o1","tool":"Bash","invocation":"tu_1","cwd":"/srv"}`,
			`{"op":"data","output":"o1","seq":1,"stream":"stdout","text":"compiling\n"}`,
			`{"op":"data","output":"o1","seq":2,"stream":"stderr","bytes":"` + base64.StdEncoding.EncodeToString([]byte("failed\n")) + `"}`,
			`{"op":"end","output":"o1","seq":3,"exit_code":1,"is_error":true,"duration_ms":1200}`,
		} {
			w.event("main", "chunk", fmt.Sprintf(`{"producer":"p","seq":%d,"body":%s}`, seq+1, body))
		}
		w.consume("spool.v1.item.{id}.main.tool_result.error", "all")
		it := w.items(1)[0]
		r.is(it.Metadata.Tool.Invocation == "tu_1" && it.Metadata.Tool.IsError, "the result is %+v", it.Metadata)
		said, _ := json.Marshal([]any{it.Content, it.Metadata.Tool.Output})
		r.is(strings.Contains(string(said), "compiling") && strings.Contains(string(said), "failed"), "the result says %s", said)
		heard := ""
		for {
			m := live.next()
			var frame struct {
				Offset int
				Text   string
				End    *struct{ Item int64 }
			}
			r.do(json.Unmarshal(m.data, &frame))
			if frame.Offset == len(heard) {
				heard += frame.Text
			}
			if frame.End != nil {
				r.is(frame.End.Item == it.N, "the last frame names item %d, want %d", frame.End.Item, it.N)
				break
			}
		}
		r.is(strings.HasPrefix("compiling\nfailed\n", heard), "the frames say %q", heard)
	}},
	{"protocol: attempts", "pieces of another attempt are dead letters", func(r *run) {
		w := r.dial()
		for seq, body := range []string{
			`{"op":"start","output":"o1","tool":"Bash","invocation":"tu_1","attempt":"a"}`,
			`{"op":"data","output":"o1","seq":1,"stream":"stdout","text":"first\n","attempt":"a"}`,
			`{"op":"data","output":"o1","seq":2,"stream":"stdout","text":"second\n","attempt":"b"}`,
			`{"op":"end","output":"o1","seq":2,"exit_code":0,"is_error":false,"attempt":"a"}`,
		} {
			w.event("main", "chunk", fmt.Sprintf(`{"producer":"p","seq":%d,"body":%s}`, seq+1, body))
		}
		w.letter("main", "chunk", "second")
		w.consume("spool.v1.item.{id}.main.tool_result.ok", "all")
		w.items(1)
	}},
	{"protocol: lives", "the header `Spool-Life` of its items is another number", func(r *run) {
		w := r.dial()
		w.consume("spool.v1.item.{id}.main.>", "all")
		w.event("main", "entry", entry("p", 1, "one"))
		first := w.items(1)[0]
		w.event("main", "control", `{"producer":"p","seq":2,"body":{"op":"remove","remove":{}}}`)
		w.event("main", "entry", entry("q", 1, "of another"))
		it := w.items(1)[0]
		for it.text() != "of another" {
			it = w.items(1)[0]
		}
		r.is(it.N == 1 && it.life != first.life, "it is item %d of life %q, behind one of life %q", it.N, it.life, first.life)
	}},
	{"protocol: state", "head of an active thread; watch `$KV.spool.thread.>` for moves", func(r *run) {
		w := r.dial()
		w.event("main", "entry", entry("p", 1, "", `"body":`+ask("q", "approval", "Deploy?")))
		w.hears("Deploy?")
		w.record("thread.{id}.main")
		w.record("session.{id}")
		w.event("main", "control", `{"producer":"p","seq":2,"body":{"op":"run","run":{"id":"r","state":"running","lease":600000}}}`)
		w.record("run.{id}.r")
	}},
}

func inTheInbox(r *run, w *wire) {
	body := []byte(item("of an object"))
	name, nuid := "spooltest-"+rand.Text(), rand.Text()
	sum := sha256.Sum256(body)
	meta, _ := json.Marshal(map[string]any{"name": name, "bucket": "spool_inbox", "nuid": nuid, "size": len(body), "chunks": 1,
		"digest": "SHA-256=" + base64.URLEncoding.EncodeToString(sum[:]), "options": map[string]any{"max_chunk_size": 131072}})
	w.store("$O.spool_inbox.C."+nuid, body)
	w.store("$O.spool_inbox.M."+base64.URLEncoding.EncodeToString([]byte(name)), meta, "Nats-Rollup", "sub")
	w.event("main", "entry", entry("p", 1, "", fmt.Sprintf(`"ref":{"object":%q,"size":%d,"sha256":"%x"}`, name, len(body), sum)))
	w.hears("of an object")
}
