package main

import (
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/term"

	"spool/internal/service"
)

// breadcrumb is what a terminal remembers of the last session that was begun, forked or resumed in it (SPEC S10): the file of the terminal
// under the state directory holds the working directory and the session's id, a line each.
type breadcrumb struct{ cwd, session string }

// readBreadcrumb is empty where there is none, or no terminal.
func readBreadcrumb() (b breadcrumb) {
	name := breadcrumbFile()
	if name == "" {
		return b
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return b
	}
	b.cwd, b.session, _ = strings.Cut(strings.TrimRight(string(text), "\n"), "\n")
	return b
}

// leaveHere remembers a session of the working directory.
func leaveHere(session string) {
	if cwd, err := os.Getwd(); err == nil {
		leaveBreadcrumb(breadcrumb{cwd, session})
	}
}

// leaveBreadcrumb remembers a session. It is a convenience: what goes wrong is nobody's concern.
func leaveBreadcrumb(b breadcrumb) {
	name := breadcrumbFile()
	if name == "" || strings.Contains(b.cwd, "\n") {
		return
	}
	if os.MkdirAll(filepath.Dir(name), 0o700) == nil {
		_ = os.WriteFile(name, []byte(b.cwd+"\n"+b.session+"\n"), 0o600)
	}
}

func breadcrumbFile() string {
	id := terminal()
	if id == "" {
		return ""
	}
	state, err := service.StateDir()
	if err != nil {
		return ""
	}
	return filepath.Join(state, "terminals", id)
}

// paneVariables name a pane or window of a terminal program, where the device is not known.
var paneVariables = []string{
	"ZELLIJ_PANE_ID", "TMUX_PANE", "KITTY_WINDOW_ID", "WEZTERM_PANE", "TERM_SESSION_ID", "WT_SESSION", "SSH_TTY",
}

// terminal is an id of the terminal that this process runs in, fit for a file name; "" if it runs in none.
func terminal() string {
	for _, f := range []*os.File{os.Stdin, os.Stdout, os.Stderr} {
		if !term.IsTerminal(int(f.Fd())) {
			continue
		}
		if tty, err := os.Readlink("/proc/self/fd/" + []string{"0", "1", "2"}[f.Fd()]); err == nil && strings.HasPrefix(tty, "/dev/") {
			return fileName(tty)
		}
	}
	for _, name := range paneVariables {
		if v := os.Getenv(name); v != "" {
			return fileName(name + "-" + os.Getenv("ZELLIJ_SESSION_NAME") + v)
		}
	}
	return ""
}

// fileName keeps letters, digits and "_-" of a name, at most 128 bytes, and makes dashes of the rest.
func fileName(s string) string {
	s = strings.Map(func(r rune) rune {
		if r == '_' || r == '-' || '0' <= r && r <= '9' || 'A' <= r && r <= 'Z' || 'a' <= r && r <= 'z' {
			return r
		}
		return '-'
	}, strings.TrimPrefix(s, "/"))
	return s[:min(len(s), 128)]
}
