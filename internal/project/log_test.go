package project_test

import (
	"testing"

	"spool/internal/project"
	"spool/pkg/events"
)

// The path that an item names leads back to its thread, and no other path does (SPEC I5).
func TestLocalLog(t *testing.T) {
	want := events.Thread{Session: "s-1", Name: "main"}
	if got, ok := project.ParseLocalLog(project.LocalLog(want)); !ok || got != want {
		t.Errorf("ParseLocalLog = %v, %v, want %v", got, ok, want)
	}
	for _, path := range []string{"", "s/threads/t", "s/threads//logs/thread.log", "../threads/t/logs/thread.log",
		"s/threads/a/b/logs/thread.log", "artifact://0"} {
		if got, ok := project.ParseLocalLog(path); ok {
			t.Errorf("ParseLocalLog(%q) = %v", path, got)
		}
	}
}
