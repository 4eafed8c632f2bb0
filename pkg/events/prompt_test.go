package events_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"spool/internal/must"
	"spool/pkg/events"
)

// How an answer settles a prompt depends on its kind, and from the deadline on on nothing else (SPEC I8).
func TestSettle(t *testing.T) {
	text := events.Prompt{ID: "p", Kind: events.PromptText}
	approval := events.Prompt{ID: "p", Kind: events.PromptApproval}
	timed, timedText := approval, text
	timed.Deadline, timedText.Deadline = 100, 100
	answer := func(raw string) events.Answer {
		return events.Answer{Answer: json.RawMessage(raw), By: "mira"}
	}
	expired := events.Answer{Expired: true}
	for _, q := range []struct {
		name    string
		prompt  events.Prompt
		answer  events.Answer
		at      int64
		outcome string // "" = refused
		by      string
	}{
		{"text", text, answer(`"x"`), 0, events.OutcomeAnswered, "mira"},
		{"false is an answer to a text", text, answer(`false`), 5, events.OutcomeAnswered, "mira"},
		{"approve", approval, answer(`true`), 5, events.OutcomeApproved, "mira"},
		{"deny", approval, answer(` false `), 5, events.OutcomeDenied, "mira"},
		{"approve with more", approval, answer(`{"approved":true,"note":"ok"}`), 5, events.OutcomeApproved, "mira"},
		{"no verdict", approval, answer(`"true"`), 5, "", ""},
		{"no answer", text, events.Answer{}, 5, "", ""},
		{"too long", text, answer(`"` + strings.Repeat("x", 65_536) + `"`), 5, "", ""},
		{"in time", timed, answer(`true`), 99, events.OutcomeApproved, "mira"},
		{"at the deadline", timed, answer(`true`), 100, events.OutcomeDenied, events.ByDeadline},
		{"late", timed, answer(`true`), 101, events.OutcomeDenied, events.ByDeadline},
		{"late text", timedText, answer(`"x"`), 101, events.OutcomeExpired, events.ByDeadline},
		{"without a time", timed, answer(`true`), 0, "", ""},
		{"expired", timed, expired, 100, events.OutcomeDenied, events.ByDeadline},
		{"expired before", timed, expired, 99, "", ""},
		{"expired without a deadline", approval, expired, 100, "", ""},
	} {
		r, err := q.prompt.Settle(q.answer, q.at)
		if q.outcome == "" {
			if !errors.Is(err, events.ErrControl) {
				t.Errorf("%s: %+v, %v, want it refused", q.name, r, err)
			}
			continue
		}
		if err != nil || r.Outcome != q.outcome || r.By != q.by {
			t.Errorf("%s: %+v, %v, want %s by %s", q.name, r, err, q.outcome, q.by)
		}
		if r.By == events.ByDeadline && (r.At != 100 || r.Answer != nil) {
			t.Errorf("%s: %+v, want the deadline and no answer", q.name, r)
		}
	}
}

// What an agent asks is read again from its item.
func TestPromptItem(t *testing.T) {
	p := events.Prompt{ID: "a b", Kind: events.PromptQuestion, Text: "Which?", Deadline: 42, Body: []byte(`{"questions":[1, 2],"deadline":7}`)}
	it := p.Item()
	again := must.Get(events.ParseItem(it.JSON()))(t)
	got, ok := events.ParsePrompt(again)
	if !ok || got.ID != p.ID || got.Kind != p.Kind || got.Text != p.Text || got.Deadline != 42 ||
		!strings.Contains(string(got.Body), `"questions":[1, 2]`) {
		t.Errorf("ParsePrompt = %+v %s, %v, want %+v", got, got.Body, ok, p)
	}
	if _, ok := events.ParsePrompt(events.User([]byte(`"hi"`))); ok {
		t.Error("a user post is a prompt")
	}
	r := events.Resolution{Outcome: "answered", By: "mira", At: 3, Answer: []byte(`{"x":1}`)}
	if got := events.ParseResolution(events.PendingPromptResolved("p", "text", r)); got.Outcome != r.Outcome ||
		got.By != r.By || got.At != r.At || string(got.Answer) != string(r.Answer) {
		t.Errorf("ParseResolution = %+v, want %+v", got, r)
	}
}

// A prompt's key names its thread, whatever its id is.
func TestPromptKey(t *testing.T) {
	th := events.Thread{Session: "s", Name: "t"}
	seen := map[string]bool{}
	for _, id := range []string{"a", "a.b", "a b", ">", "", strings.Repeat("x", 200)} {
		key := events.PromptKey(th, id)
		if got, ok := events.ParsePromptKey(key); !ok || got != th || seen[key] || strings.ContainsAny(key, " >*") {
			t.Errorf("PromptKey(%q) = %q, of %v", id, key, got)
		}
		seen[key] = true
	}
}

// A deadline that is no time is refused: it counted as none.
func TestCheckPromptDeadline(t *testing.T) {
	for deadline, ok := range map[string]bool{"1795176000000": true, "1.795176e12": true, "0": true, "null": true, "1e300": false, "-1": false,
		`"soon"`: false, "1.5": false, "99999999999999999999": false} {
		it := events.PendingPrompt("p", "text", "?", []byte(`{"deadline":`+deadline+`}`))
		if err := events.CheckPrompt(it); (err == nil) != ok {
			t.Errorf("a deadline of %s: %v, want it taken: %t", deadline, err, ok)
		}
	}
}
