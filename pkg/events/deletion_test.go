package events

import (
	"strings"
	"testing"

	"spool/internal/must"
)

// Every filter of a session's records matches keys that SessionOf gives to that session, and no class is in one list alone.
func TestOfSession(t *testing.T) {
	classes := map[string]bool{}
	for _, filter := range OfSession("s1") {
		key := strings.ReplaceAll(filter, "*", "x")
		must.Same(t, SessionOf(key), "s1", "SessionOf(%s) = %q, want %q", key)
		class, _, _ := strings.Cut(filter, ".")
		classes[class] = true
	}
	for class := range ofSession {
		if !classes[class] {
			t.Errorf("OfSession has no filter for the records of the class %s", class)
		}
	}
	for _, key := range []string{PackKey("p"), BlobKey("b"), MovedKey("p"), FenceKey(1), GCReportKey, DeletedKey("s1"),
		DeletingKey("s1"), "session"} {
		if got := SessionOf(key); got != "" {
			t.Errorf("SessionOf(%s) = %q, want none", key, got)
		}
	}
}

func TestDeleteOperation(t *testing.T) {
	want := Delete{Force: true, Erase: true, By: "mira"}
	got, err := ParseControl(Control{Op: OpDelete, Delete: &want}.Encode())
	if err != nil || got.Delete == nil || *got.Delete != want {
		t.Errorf("ParseControl = %+v, %v, want %+v", got.Delete, err, want)
	}
	if _, err := ParseControl([]byte(`{"op":"delete"}`)); err == nil {
		t.Error("an operation without its operands is taken")
	}
}
