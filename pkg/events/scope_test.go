package events_test

import (
	"cmp"
	"errors"
	"strings"
	"testing"

	"spool/internal/must"
	"spool/pkg/events"
)

func TestScope(t *testing.T) {
	for _, tt := range []struct {
		scope    events.Scope
		may, not string
		destroys bool
	}{
		{"", "a b", "", true},
		{events.Operator, "a b", "", true},
		{events.Everywhere, "a b", "", false},
		{"a", "a", "b ab A", false},
		{"a,b", "a b", "c a,b", false},
		{"ci-+,x", "ci- ci-1 x", "ci x1 xci-", false},
		{"ci-+,x@me", "ci- ci-1 x", "ci x1 xci- me x@me", false},
		{"+@", "a b", "", false},
	} {
		for _, session := range strings.Fields(tt.may) {
			must.Is(t, tt.scope.Check(session), nil, "%q", tt.scope)
		}
		for _, session := range strings.Fields(tt.not) {
			must.Is(t, tt.scope.Check(session), events.ErrScope, "%q.Check(%q)", tt.scope, session)
		}
		if err := tt.scope.CheckSettles("p"); (err != nil) != strings.Contains(string(tt.scope), "@") {
			t.Errorf("%q.CheckSettles = %v", tt.scope, err)
		}
		err := tt.scope.CheckDestroys("delete")
		if (err == nil) != tt.destroys || err != nil && !errors.Is(err, events.ErrScope) {
			t.Errorf("%q.CheckDestroys = %v", tt.scope, err)
		}
	}
}

// TestStamp: a scope stands in the subject, which says it again where the event is published once more; what cannot be
// read opens nothing.
func TestStamp(t *testing.T) {
	e := events.Event{Producer: "p", Seq: 1, Kind: events.KindControl, User: "boss", Thread: events.Thread{Session: "s", Name: "t"}}
	for _, scope := range []events.Scope{"", "s", "s,other", "s+", events.Everywhere, "s,other@me", "+@"} {
		stored := scope.Stamp("spool.v1.p.3.s.t.control")
		got, err := events.Open(stored, e.Encode())
		if err != nil || got.Scope != scope {
			t.Errorf("Open(%q) has the scope %q, %v", stored, got.Scope, err)
		}
		if _, user, _ := strings.Cut(string(scope), "@"); got.User != cmp.Or(user, "boss") {
			t.Errorf("Open(%q) is of the user %q, want %q", stored, got.User, cmp.Or(user, "boss"))
		}
		published, err := events.PublishedSubject(stored)
		if want := scope.Stamp("spool.v1.event.s.t.control"); published != want || err != nil {
			t.Errorf("PublishedSubject(%q) = %q, %v, want %q", stored, published, err, want)
		}
	}
	long := strings.Repeat("s+,", 200) + "s"
	for _, stamp := range []string{"@", "@!", "@other", "@s,", "@,s", "@@s", "@s@s@s", "@s@s,s", "@s@s+", "@s@" + long, "@s.t",
		"@*", "@s*", "@++", "@" + long} {
		if got, err := events.Open("spool.v1.p.3.s.t.control"+stamp, e.Encode()); err == nil {
			t.Errorf("Open of %q = %+v, want an error", stamp, got)
		}
	}
	if _, err := events.NewScope(); err == nil {
		t.Error("NewScope() = nil error")
	}
}
