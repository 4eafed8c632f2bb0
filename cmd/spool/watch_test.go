package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"spool/internal/must"
	"spool/internal/service"
)

// TestWatchOnceOfNothing: a path that is not there is named, and the command fails; what is in the others is imported.
func TestWatchOnceOfNothing(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	url, cl := whole(t)
	absent := filepath.Join(t.TempDir(), "nosuch")
	var out, said bytes.Buffer
	code := run([]string{"watch", "--once", absent, "../../examples/codex", "--nats", url}, strings.NewReader(""), &out, &said)
	if code != service.ExitFailure || !strings.Contains(said.String(), absent+" is not there") {
		t.Errorf("watch --once = %d %q, want 1, and what is not there", code, &said)
	}
	must.Same(t, len(must.Get(cl.Sessions(t.Context(), ""))(t)), 1, "%d sessions were imported, want %d")
}
