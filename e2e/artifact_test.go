package e2e_test

import (
	"os"
	"path/filepath"
	"spool/internal/must"
	"strings"
	"testing"
)

// artifact is a line of spool artifact ls --json.
type artifact struct {
	ID       string `json:"artifact_id"`
	Session  string
	Seq      string
	Filename string
	Category string
	Size     int64
}

// report is what spool artifact cleanup --json says.
type report struct {
	DryRun     bool `json:"dry_run"`
	Candidates []struct {
		ID     string `json:"artifact_id"`
		Reason string
	}
	Deleted, Errors []string
}

// TestArtifacts takes artifacts through the commands: put, found by number and by agent, cleaned up and removed, and kept
// over kill -9 (SPEC A1–A9).
func TestArtifacts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	up := w.up()
	w.run("spool", "session", "new", "s")
	put := func(stdin string, args ...string) string {
		t.Helper()
		out, errw, code := w.try(stdin, "spool", append([]string{"artifact", "put", "s"}, args...)...)
		if code != 0 {
			t.Fatalf("artifact put %v: exit code %d\n%s", args, code, errw)
		}
		return strings.TrimSpace(out)
	}
	fails := func(want int, says string, args ...string) {
		t.Helper()
		if out, errw, code := w.try("", "spool", args...); code != want || !strings.Contains(errw, says) {
			t.Errorf("spool %v: exit code %d, %q, %q, want %d and %q", args, code, out, errw, want, says)
		}
	}
	log := strings.Repeat("all is well\n", 200_000)
	whole := put(log, "--tool", "make test")
	agent := put(`{"findings":[{"file":"a.go"}]}`, "--agent", "0-Review")
	debug := put("wire", "--category", "debug", "--filename", "wire.txt")
	local := filepath.Join(w.home, "report.txt")
	must.Do(t, os.WriteFile(local, []byte("local\n"), 0o600))
	registered := put("", local, "--register")

	up.Kill()
	up = w.up()
	listed := decode[artifact](t, w.run("spool", "artifact", "ls", "s", "--json"))
	var names []string
	for _, a := range listed {
		names = append(names, a.Seq+" "+a.Filename)
	}
	must.Same(t, strings.Join(names, ", "), "0 0.make_test.log,  0-Review.md, 1 wire.txt, 2 report.txt", "artifact ls = %s, want %s")
	file := filepath.Join(w.home, "got.log")
	w.run("spool", "artifact", "get", whole, "-o", file)
	if b, err := os.ReadFile(file); err != nil || string(b) != log {
		t.Errorf("got %d bytes, %v, want %d", len(b), err, len(log))
	}
	for address, want := range map[string]string{
		"artifact://2": "local\n", "artifact://1": "wire", "agent://0-Review/findings/0/file": `"a.go"`,
	} {
		must.Same(t, w.run("spool", "read", address, "--session", "s"), want, "read %s = %q, want %q", address)
	}
	if got := w.run("spool", "read", "artifact://0", "--session", "s", "--offset", "199999", "--limit",
		"5"); got != "all is well\nall is well\n" {
		t.Errorf("the last lines = %q", got)
	}
	fails(1, "Artifact 9 not found. Available: 0, 1, 2", "read", "artifact://9", "--session", "s")
	fails(1, "No session - artifacts unavailable", "read", "artifact://9")

	fails(2, "--yes", "artifact", "rm", whole)
	fails(2, "--all-sessions", "artifact", "cleanup")
	fails(2, "--yes", "artifact", "cleanup", "s", "--apply")
	dry := decode[report](t, w.run("spool", "artifact", "cleanup", "s", "--json"))[0]
	applied := decode[report](t, w.run("spool", "artifact", "cleanup", "s", "--json", "--apply", "--yes"))[0]
	if !dry.DryRun || len(dry.Deleted) != 0 || len(dry.Candidates) != 1 || dry.Candidates[0].ID != debug ||
		dry.Candidates[0].Reason != "debug_artifact_cleanup" {
		t.Errorf("dry run = %+v", dry)
	}
	if applied.DryRun || len(applied.Deleted) != 1 || applied.Deleted[0] != debug {
		t.Errorf("cleanup = %+v", applied)
	}
	w.run("spool", "artifact", "rm", "--yes", whole, agent, registered)
	fails(1, "artifact not found: "+whole, "artifact", "rm", "--yes", whole)
	if left := w.run("spool", "artifact", "ls", "s", "--json"); left != "" {
		t.Errorf("left: %s", left)
	}
	must.Is(t, must.Err(os.Stat(local)), nil, "Stat(a registered file)")
	fails(1, "Artifact 0 not found. Available: none", "read", "artifact://0", "--session", "s")
	if id := put("again"); id == whole {
		t.Errorf("id %s was given out twice", id)
	}
	if got := w.run("spool", "read", "artifact://3", "--session", "s"); got != "again" {
		t.Errorf("number after 0, 1 and 2 were used reads %q", got)
	}
	must.Same(t, up.Stop(), 0, "spool up: exit code %d, want %d")
}
