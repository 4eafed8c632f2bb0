package service

import (
	"strings"
	"testing"

	"spool/internal/must"
)

// TestVersionOfTheLinker: what a build without a repository is told is what it says, to people and to NATS.
func TestVersionOfTheLinker(t *testing.T) {
	defer func() { version, commit = "", "" }()
	if v, _ := Version(); v == "" {
		t.Error("a build that was told nothing has no version")
	}
	version, commit = "v1.2.0-rc.1", "68e68b52"
	if !strings.HasPrefix(Build(), "v1.2.0-rc.1 68e68b52 go") {
		t.Errorf("Build = %q, want what the linker was told", Build())
	}
	must.Same(t, semantic(), "1.2.0-rc.1", "semantic = %q, want %q")
}
