package events_test

import (
	"strings"
	"testing"

	"spool/internal/must"
	"spool/pkg/events"
)

// Raw members of an operation travel as they are spelled (SPEC T11).
func TestControlKeepsSpelling(t *testing.T) {
	entry := `{"type":"custom","customType":"x","data":{"n":1.50,"t":"a<b>&c\u2028"}}`
	leaf := ""
	body := events.Control{Op: events.OpAppend, Append: &events.Append{Entry: []byte(entry), Leaf: &leaf}}.Encode()
	if !strings.Contains(string(body), entry) {
		t.Errorf("Encode = %s, want the entry as it is spelled: %s", body, entry)
	}
	c, err := events.ParseControl(body)
	if err != nil || string(c.Append.Entry) != entry || c.Append.Leaf == nil || *c.Append.Leaf != "" {
		t.Errorf("ParseControl = %+v, %v, want the entry and an empty leaf", c.Append, err)
	}
}

// The id of an appended entry is that of its event: fixed for ever, and another for every other event.
func TestAppendedID(t *testing.T) {
	th := events.Thread{Session: "s", Name: "main"}
	const want = "3ac070da9ca7acaa"
	must.Same(t, events.AppendedID(th, "p", 1, 2), want, "AppendedID = %s, want %s")
	seen := map[string]bool{want: true}
	for _, id := range []string{
		events.AppendedID(th, "p", 1, 3), events.AppendedID(th, "p", 2, 2), events.AppendedID(th, "q", 1, 2),
		events.AppendedID(events.Thread{Session: "s", Name: "x"}, "p", 1, 2),
		events.AppendedID(events.Thread{Session: "x", Name: "main"}, "p", 1, 2),
	} {
		if seen[id] {
			t.Errorf("id %s twice", id)
		}
		seen[id] = true
	}
}
