package main

import (
	"strings"
	"testing"

	"spool/internal/interchange"
	"spool/internal/must"
)

// Variables of the environment say where a program keeps its sessions, as they do to the program itself.
func TestDirectoryOf(t *testing.T) {
	for _, h := range interchange.Harnesses {
		for _, env := range h.Env {
			t.Setenv(strings.Split(env, "/")[0], "")
		}
	}
	t.Setenv("HOME", "/home/dev")
	for _, c := range []struct{ harness, env, is, want string }{
		{"claude", "CLAUDE_CONFIG_DIR", "/srv/c", "/srv/c"},
		{"claude", "CLAUDE_CONFIG_DIR", "c", "/home/dev/.claude"},
		{"gemini", "", "", "/home/dev/.gemini"},
		{"gemini", "GEMINI_CLI_HOME", "/srv/g", "/srv/g/.gemini"},
		{"qwen", "", "", "/home/dev/.qwen"},
		{"qwen", "QWEN_HOME", "/srv/q", "/srv/q"},
		{"qwen", "QWEN_RUNTIME_DIR", "/srv/r", "/srv/r"}, // QWEN_HOME is set
	} {
		if c.env != "" {
			t.Setenv(c.env, c.is)
		}
		for _, h := range interchange.Harnesses {
			if h.Name == c.harness {
				must.Same(t, must.Get(directoryOf(h))(t), c.want, "directory = %s, want %s")
			}
		}
	}
}
