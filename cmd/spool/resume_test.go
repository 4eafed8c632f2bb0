package main

import (
	"os"
	"strings"
	"testing"

	"spool/internal/must"
	"spool/internal/service"
)

// TestResumeElsewhere: where the directory of a session is not there, no command is printed that finds no session.
func TestResumeElsewhere(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	for _, name := range []string{"CLAUDE_CONFIG_DIR", "CODEX_HOME"} {
		t.Setenv(name, "")
	}
	url, _ := whole(t)
	if out, code := spool(t, "import", "../../examples/claude", "../../examples/codex", "--nats", url); code != 0 {
		t.Fatalf("import = %d %q", code, out)
	}
	const claude, codex = "7b3e1c52-9d4a-4f61-8a20-5c1de0f4a9b3", "019aa0c4-5be0-7c31-9f42-6d0e8b7a2c15"
	for _, c := range []struct {
		args []string
		want string
		code int
	}{
		{[]string{claude}, "in its directory, and /home/mira/orchard is not on this machine: name one with --cwd DIR", service.ExitFailure},
		{[]string{claude, "--cwd", home + "/absent"}, "--cwd: " + home + "/absent is no directory", service.ExitUsage},
	} {
		if out, code := spool(t, append([]string{"resume", "--nats", url}, c.args...)...); code != c.code || !strings.Contains(out, c.want) {
			t.Errorf("resume %v = %d %q, want %d and %q", c.args, code, out, c.code, c.want)
		}
		must.Same(t, len(must.Get(os.ReadDir(home))(t)), 0, "%d files are written, want %d")
	}
	for session, want := range map[string]string{claude: "cd " + home + " && claude --resume", codex: "codex resume"} {
		args := []string{"resume", session, "--nats", url}
		if session == claude {
			args = append(args, "--cwd", home)
		}
		if out, code := spool(t, args...); code != 0 || !strings.Contains(out, want) {
			t.Errorf("%v = %d %q, want %q", args, code, out, want)
		}
	}
}
