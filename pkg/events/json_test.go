package events

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"spool/internal/must"
)

// stored is the subject under which EVENTS has what was published for s/t.
func stored(kind string) string { return "spool.v1.p.3.s.t." + kind }

func TestOpenJSON(t *testing.T) {
	entry := Event{Producer: "ci", Seq: 4, Kind: KindEntry, Dialect: "item", Thread: Thread{"s", "t"}}
	with := func(change func(*Event)) Event { e := entry; change(&e); return e }
	for _, c := range []struct {
		name, kind, json string
		want             Event
	}{
		{"least", "entry", `{"producer":"ci","seq":4,"dialect":"item","body":{"a": 1}}`,
			with(func(e *Event) { e.Body = []byte(`{"a": 1}`) })},
		{"white space in front", "entry", "\n {\"producer\":\"ci\",\"seq\":4,\"dialect\":\"item\",\"body\":[] }",
			with(func(e *Event) { e.Body = []byte(`[]`) })},
		{"all", "entry", `{"v":1,"producer":"ci","epoch":2,"seq":4,"prev":3,"kind":"entry","dialect":"item","session":"s","thread":"t","time":1790000000000,
			"user":"u","host":"h","trace":"00-1","body":true,"more":[{"seq":5,"body":{}},{"seq":6,"time":7,"body_base64":"/wA="}],"later":[1]}`,
			with(func(e *Event) {
				e.Epoch, e.Prev, e.Time, e.User, e.Host, e.Trace, e.Body = 2, 3, 1790000000000, "u", "h", "00-1", []byte("true")
				e.More = []Entry{{Seq: 5, Body: []byte("{}")}, {Seq: 6, Time: 7, Body: []byte("\xff\x00")}}
			})},
		{"text", "entry", `{"producer":"ci","seq":4,"dialect":"raw","body":"line\n\u00e9"}`,
			with(func(e *Event) { e.Dialect, e.Body = "raw", []byte("line\né") })},
		{"time as text", "entry", `{"producer":"ci","seq":4,"dialect":"item","time":"2026-11-20T10:00:00.5Z","body":1}`,
			with(func(e *Event) { e.Time, e.Body = 1795168800500, []byte("1") })},
		{"reference", "entry", `{"producer":"ci","seq":4,"dialect":"item","ref":{"object":"o","size":9,"sha256":"` +
			strings.Repeat("ab", 32) + `"}}`,
			with(func(e *Event) {
				e.Ref = &BodyRef{Object: "o", Size: 9}
				for i := range e.Ref.Sum {
					e.Ref.Sum[i] = 0xab
				}
			})},
		{"control", "control", `{"producer":"ci","seq":4,"body":{"op":"reset","reset":{}}}`,
			with(func(e *Event) { e.Kind, e.Dialect, e.Body = KindControl, "", []byte(`{"op":"reset","reset":{}}`) })},
	} {
		got, err := Open(stored(c.kind), []byte(c.json))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%s: -want +got:\n%s", c.name, d)
		}
		again, err := Open(stored(c.kind), got.Encode())
		if d := cmp.Diff(got, again); err != nil || d != "" {
			t.Errorf("%s as msgpack: %v\n%s", c.name, err, d)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	for _, c := range []struct {
		subject, json, says string
	}{
		{stored("entry"), `{"producer":"ci","seq":4,"dialect":"item","body":{}`, "byte"},
		{stored("entry"), `{"v":2,"producer":"ci","seq":4,"body":{}}`, "version 2"},
		{stored("entry"), `{"producer":"ci","seq":4}`, "body"},
		{stored("entry"), `{"producer":"ci","seq":4,"body":{},"body_base64":"eA=="}`, "give one"},
		{stored("entry"), `{"producer":"ci","seq":4,"body_base64":"eA"}`, "body_base64: want base64"},
		{stored("entry"), `{"producer":"ci","seq":-1,"body":{}}`, "seq: want a whole number"},
		{stored("entry"), `{"producer":7,"seq":1,"body":{}}`, "producer: want a string"},
		{stored("entry"), `{"seq":1,"body":{}}`, "producer must have"},
		{stored("entry"), `{"producer":"ci","body":{}}`, "seq starts at 1"},
		{stored("entry"), `{"producer":"ci","seq":1,"session":"other","body":{}}`, "it says other/t entry and was published as s/t entry"},
		{stored("entry"), `{"producer":"ci","seq":1,"kind":"control","body":{}}`, "control"},
		{stored("entry"), `{"producer":"ci","seq":1,"time":"soon","body":{}}`, "time: want Unix milliseconds"},
		{stored("entry"), `{"producer":"ci","seq":1,"body":{},"more":[{"seq":2}]}`, "without a body"},
		{stored("entry"), `{"producer":"ci","seq":1,"ref":{"object":"o","sha256":"ab"}}`, "64 hexadecimal"},
		{"spool.v1.p.3.s.t", `{"producer":"ci","seq":1,"body":{}}`, "subject"},
	} {
		e, err := Open(c.subject, []byte(c.json))
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("Open(%s) = %v, want an error that says %q", c.json, err, c.says)
		}
		if c.subject == stored("entry") && e.Thread != (Thread{"s", "t"}) {
			t.Errorf("Open(%s) is of %v beside its error, want the subject's thread", c.json, e.Thread)
		}
	}
}

func TestChunkJSON(t *testing.T) {
	for text, want := range map[string]Chunk{
		`{"op":"start","output":"o1","tool":"Bash","invocation":"tu","cwd":"/srv","agent":"a","run":"r","head":100,"columns":80,"lease":60000,"keep":true,"show":9}`: {
			Op: ChunkStart, Output: "o1", Start: OutputStart{"Bash", "tu", "/srv", "a", "r", 100, 80, 60000, true, 9, ""}},
		`{"op":"start","output":"o1","attempt":"k"}`: {Op: ChunkStart, Output: "o1", Start: OutputStart{Attempt: "k"}},
		`{"op":"data","output":"o1","attempt":"k","seq":1,"text":"x"}`: {
			Op: ChunkData, Output: "o1", Attempt: "k", Seq: 1, Stream: Stdout, Data: []byte("x")},
		`{"op":"end","output":"o1","attempt":"k","seq":2,"exit_code":1}`: {
			Op: ChunkEnd, Output: "o1", Attempt: "k", Seq: 2, End: OutputEnd{1, false, 0}},
		`{"op":"data","output":"o1","seq":1,"text":"h\u00e9\n"}`: {Op: ChunkData, Output: "o1",
			Seq: 1, Stream: Stdout, Data: []byte("hé\n")},
		`{"op":"data","output":"o1","seq":2,"stream":"stderr","bytes":"/w=="}`: {Op: ChunkData, Output: "o1",
			Seq: 2, Stream: Stderr, Data: []byte{0xff}},
		`{"op":"end","output":"o1","seq":3,"exit_code":-1,"is_error":true,"duration_ms":12}`: {Op: ChunkEnd, Output: "o1", Seq: 3,
			End: OutputEnd{-1, true, 12}},
		`{"op":"abort","output":"o1","seq":3,"reason":"lease"}`: {Op: ChunkAbort, Output: "o1",
			Seq: 3, Reason: "lease"},
	} {
		got, err := ParseChunk([]byte(text))
		if d := cmp.Diff(want, got); err != nil || d != "" {
			t.Errorf("ParseChunk(%s): %v\n%s", text, err, d)
			continue
		}
		again, err := ParseChunk(got.Encode())
		if d := cmp.Diff(want, again); err != nil || d != "" {
			t.Errorf("%s as msgpack: %v\n%s", text, err, d)
		}
	}
	for _, text := range []string{`{}`, `{"op":"data"}`, `{"op":"go","output":"o"}`,
		`{"op":"data","output":"o","seq":1,"stream":"stdin","text":"x"}`,
		`{"op":"data","output":"o.x","seq":1}`, `{"op":"end","output":"o","seq":1,"exit_code":"1"}`} {
		must.Is(t, must.Err(ParseChunk([]byte(text))), ErrChunk, "ParseChunk(%s)", text)
	}
}

// Whatever JSON is read as an event is the same event as msgpack.
func FuzzOpenJSON(f *testing.F) {
	f.Add([]byte(`{"producer":"ci","epoch":1,"seq":4,"dialect":"item","time":1,"body":{"a":1},"more":[{"seq":5,"body":"x"}]}`))
	f.Add([]byte(`{"producer":"ci","seq":4,"ref":{"object":"o","size":9,"sha256":"00"}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := Open(stored("entry"), b)
		if err != nil {
			return
		}
		if isJSON(b) && !json.Valid([]byte(strings.ToValidUTF8(string(b), "?"))) {
			t.Fatalf("%q is taken and no JSON", b)
		}
		again, err := Open(stored("entry"), e.Encode())
		if d := cmp.Diff(e, again); err != nil || d != "" {
			t.Fatalf("%q: %v\n%s", b, err, d)
		}
	})
}
