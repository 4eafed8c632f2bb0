package events_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"spool/internal/must"
	"spool/pkg/events"
)

// tokens are names, and whether they may stand in a subject, an object name and a record key (SPEC B2).
var tokens = []struct {
	name string
	ok   bool
}{
	{"a", true}, {"main", true}, {"019aa0c4-5be0-7c31-9f42-6d0e8b7a2c15", true}, {"_", true}, {"-", true}, {"A-Z_0-9", true},
	{strings.Repeat("x", 128), true},
	{"", false}, {strings.Repeat("x", 129), false}, {strings.Repeat("é", 100), false},
	{".", false}, {"..", false}, {"a.b", false}, {"a.", false}, {"*", false}, {"a*", false}, {">", false}, {"a>", false},
	{" ", false}, {"a b", false}, {"a\tb", false}, {"a\n", false}, {"a\r", false}, {"\x00", false}, {"a\x00b", false}, {"\x7f", false},
	{"é", false}, {"日本", false}, {"𝒶", false}, {"a\u200b", false}, {"\xff", false}, {"\xc3", false},
	{"a/b", false}, {`a\b`, false}, {"../etc", false}, {"a:b", false}, {"a%2e", false}, {"$JS", false}, {"{a}", false},
	{"'", false}, {"~", false},
}

func TestCheckToken(t *testing.T) {
	for _, tt := range tokens {
		err := events.CheckToken("session", tt.name)
		if (err == nil) != tt.ok {
			t.Errorf("CheckToken(%q) = %v, want ok %v", tt.name, err, tt.ok)
		}
		if tt.ok {
			continue
		}
		if !errors.Is(err, events.ErrToken) || !strings.Contains(err.Error(), "session") || !strings.Contains(err.Error(), "use") {
			t.Errorf("CheckToken(%q) = %v, want ErrToken that says what it is and what to use", tt.name, err)
		}
		if strings.ContainsFunc(fmt.Sprint(err), func(r rune) bool { return r < ' ' || r == 0x7f }) {
			t.Errorf("CheckToken(%q) = %q, want no control characters in it", tt.name, err)
		}
	}
}

func TestTokenIsAlwaysOne(t *testing.T) {
	for _, tt := range tokens {
		got := events.Token(tt.name)
		must.Is(t, events.CheckToken("", got), nil, "Token(%q) = %q", tt.name, got)
		if tt.ok && got != tt.name {
			t.Errorf("Token(%q) = %q, want it unchanged", tt.name, got)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.String().Draw(t, "s")
		got := events.Token(s)
		if err := events.CheckToken("", got); err != nil || events.Token(got) != got {
			t.Fatalf("Token(%q) = %q, %v", s, got, err)
		}
	})
}

func TestParseThread(t *testing.T) {
	for text, want := range map[string]events.Thread{
		"s": {Session: "s", Name: "main"}, "s/t": {Session: "s", Name: "t"}, "S-1/agent_2": {Session: "S-1", Name: "agent_2"},
	} {
		must.Same(t, must.Get(events.ParseThread(text))(t), want, "ParseThread(%q) = %v, want %v", text)
	}
	for _, text := range []string{"", "/", "s/", "/t", "s/t/u", "s/..", "*/t", "s/>", "s t"} {
		if got, err := events.ParseThread(text); !errors.Is(err, events.ErrToken) {
			t.Errorf("ParseThread(%q) = %v, %v, want ErrToken", text, got, err)
		}
	}
}

func TestParseStored(t *testing.T) {
	th := events.Thread{Session: "s", Name: "t"}
	for _, kind := range []events.Kind{events.KindEntry, events.KindChunk, events.KindControl} {
		subject := "spool.v1.p.17.s.t." + kind.String()
		if got, k, err := events.ParseStored(subject); err != nil || got != th || k != kind {
			t.Errorf("ParseStored(%q) = %v, %v, %v, want %v, %v", subject, got, k, err, th, kind)
		}
		must.Same(t, events.EventSubject(th, kind), "spool.v1.event.s.t."+kind.String(), "EventSubject(%v, %v) = %q, want %q", th, kind)
	}
	for _, subject := range []string{
		"", "spool.v1.p", "spool.v1.p.1.s.t", "spool.v1.p.1.s.t.entry.more", "spool.v1.event.s.t.entry", "spool.v1.p.1.s.t.end",
		"spool.v1.p.1..t.entry", "spool.v1.p.1.s.*.entry", "spool.v2.p.1.s.t.entry",
	} {
		if got, k, err := events.ParseStored(subject); err == nil {
			t.Errorf("ParseStored(%q) = %v, %v, nil, want an error", subject, got, k)
		}
	}
}

func TestItemSubjects(t *testing.T) {
	th := events.Thread{Session: "s", Name: "t"}
	for _, tt := range []struct{ typ, detail, want string }{
		{"", "", "spool.v1.item.s.t.message"},
		{"tool_call", "Bash", "spool.v1.item.s.t.tool_call.Bash"},
		{"tool_call", "mcp.a > b*", "spool.v1.item.s.t.tool_call.mcp_a___b_"},
		{"a.b", "", "spool.v1.item.s.t.a_b"},
		{"tool_result", "error", "spool.v1.item.s.t.tool_result.error"},
	} {
		got := events.ItemSubject(th, tt.typ, tt.detail)
		must.Same(t, got, tt.want, "ItemSubject(%q, %q) = %q, want %q", tt.typ, tt.detail)
		if back, ok := events.ParseItemSubject(got); !ok || back != th {
			t.Errorf("ParseItemSubject(%q) = %v, %v, want %v", got, back, ok, th)
		}
	}
	if got, ok := events.ParseItemSubject("spool.v1.dead.s.t.entry"); ok {
		t.Errorf("ParseItemSubject(dead letter) = %v, want none", got)
	}
	must.Same(t, events.DeadSubject("", "a.b", "*"), "spool.v1.dead._.a_b._", "DeadSubject = %q, want %q")
}

func TestHeadKeys(t *testing.T) {
	th := events.Thread{Session: "s", Name: "t"}
	if got, ok := events.ParseSessionKey(events.SessionKey("s")); !ok || got != "s" {
		t.Errorf("ParseSessionKey(SessionKey(s)) = %q, %v", got, ok)
	}
	for _, key := range []string{"session", "session.a.b", "thread.s.main", "sessions.s"} {
		if got, ok := events.ParseSessionKey(key); ok {
			t.Errorf("ParseSessionKey(%q) = %q, want none", key, got)
		}
	}
	if got, ok := events.ParseHeadKey(events.HeadKey(th)); !ok || got != th {
		t.Errorf("ParseHeadKey(HeadKey(%v)) = %v, %v", th, got, ok)
	}
	for _, key := range []string{"", "thread.s", "thread.s.t.u", "session.s", "pack.s.t"} {
		if got, ok := events.ParseHeadKey(key); ok {
			t.Errorf("ParseHeadKey(%q) = %v, want none", key, got)
		}
	}
}

func TestParseControl(t *testing.T) {
	for _, c := range []events.Control{
		{Op: events.OpStart, Start: &events.Start{Name: "review", Hash: "h", MaxRounds: 3, Depth: 1, Prompt: "look"}},
		{Op: events.OpFork, Fork: &events.Fork{Session: "s", Thread: "t", Index: 4}},
		{Op: events.OpTail, Tail: &events.Tail{Open: true, Bytes: []byte("\xff{")}},
		{Op: events.OpFork, Fork: &events.Fork{Session: "s", Thread: "t", Whole: true, Header: []byte(`{"id":"a<b>","n":1.50}`)}},
		{Op: events.OpBranch, Branch: &events.Branch{Entry: "a"}}, {Op: events.OpReset, Reset: &events.Reset{}},
		{Op: events.OpLabel, Label: &events.Label{Target: "a", Label: "<x>"}},
		{Op: events.OpSummary, Summary: &events.Summary{Entry: "a", Summary: "s", Details: []byte(`{"n":1.50}`)}},
		{Op: events.OpAppend, Append: &events.Append{Entry: []byte(`{"type":"custom","data":"a<b>"}`), Leaf: new(string)}},
	} {
		got, err := events.ParseControl(c.Encode())
		if err != nil || string(got.Encode()) != string(c.Encode()) {
			t.Errorf("ParseControl(%s) = %s, %v", c.Encode(), got.Encode(), err)
		}
	}
	for _, body := range []string{"", "{", "null", "[]", "{}", `{"op":"explode"}`, `{"op":"fork"}`, `{"op":"tail","start":{}}`,
		`{"op":7}`, `{"op":"branch"}`, `{"op":"reset"}`, `{"op":"branch_summary","branch":{}}`} {
		must.Is(t, must.Err(events.ParseControl([]byte(body))), events.ErrControl, "ParseControl(%q)", body)
	}
}

func TestValidateNamesEveryProblem(t *testing.T) {
	e := events.Event{Producer: strings.Repeat("p", 257), Kind: 9, Thread: events.Thread{Session: "a b", Name: ""},
		Claimed: strings.Repeat("u", 1025)}
	err := e.Validate()
	for _, want := range []string{"session", "thread", "kind", "producer", "seq", "user"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Validate() = %v, want it to name %q", err, want)
		}
	}
	good := goldenEvent
	must.Is(t, good.Validate(), nil, "Validate(golden)")
}
