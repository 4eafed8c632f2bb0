package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"spool/internal/interchange"
	"spool/internal/must"
	"spool/pkg/client"
	"spool/pkg/sessions"
)

func TestBreadcrumb(t *testing.T) {
	state := t.TempDir()
	t.Setenv("XDG_STATE_HOME", state)
	for _, name := range paneVariables {
		t.Setenv(name, "")
	}
	t.Setenv("ZELLIJ_SESSION_NAME", "")
	t.Setenv("TMUX_PANE", "%7/../x")
	if terminal() != "TMUX_PANE--7----x" {
		t.Skipf("this test runs in the terminal %s", terminal())
	}
	if b := readBreadcrumb(); b != (breadcrumb{}) {
		t.Errorf("a new terminal remembers %+v", b)
	}
	want := breadcrumb{cwd: "/srv/mill wheel", session: "019aa0"}
	leaveBreadcrumb(want)
	must.Same(t, readBreadcrumb(), want, "readBreadcrumb = %+v, want %+v")
	name := filepath.Join(state, "spool", "terminals", "TMUX_PANE--7----x")
	if text, err := os.ReadFile(name); err != nil || string(text) != "/srv/mill wheel\n019aa0\n" {
		t.Errorf("%s = %q, %v, want two lines", name, text, err)
	}
	t.Setenv("TMUX_PANE", "%8")
	if b := readBreadcrumb(); b != (breadcrumb{}) {
		t.Errorf("another terminal remembers %+v", b)
	}
	t.Setenv("TMUX_PANE", "")
	leaveBreadcrumb(want)
	if entries, err := os.ReadDir(filepath.Dir(name)); err != nil || len(entries) != 1 {
		t.Errorf("%d breadcrumbs, %v, want one: a process without a terminal leaves none", len(entries), err)
	}
}

func TestGoOn(t *testing.T) {
	for harness, want := range map[string]string{"claude": "spool resume s1", "omp": "spool resume s1", "step": "spool tail --all s1"} {
		if got := goOn(sessions.Row{Info: sessions.Info{ID: "s1", Harness: harness, Cwd: "/srv/mill"}}); got != want {
			t.Errorf("goOn(%s) = %s, want %s", harness, got, want)
		}
	}
	for _, tt := range []struct{ harness, cwd, want string }{
		{"claude", "/srv/mill", "cd /srv/mill && claude --resume s1"},
		{"codex", "/srv/old mill's", `cd '/srv/old mill'\''s' && codex resume s1`},
		{"omp", "", "omp --resume s1"},
	} {
		h, _ := interchange.HarnessOf(sessions.Info{Harness: tt.harness})
		if got := (resumed{Command: h.Resume("s1", ""), Cwd: tt.cwd}).line(); got != tt.want {
			t.Errorf("the command of %s in %q = %s, want %s", tt.harness, tt.cwd, got, tt.want)
		}
	}
}

func TestHiddenSessions(t *testing.T) {
	row := func(cwd string, answered bool) sessions.Row {
		return sessions.Row{Info: sessions.Info{Cwd: cwd, Answered: answered}}
	}
	rows := []sessions.Row{
		row("/srv/a", true), row("/srv/a", true), row("/srv/a", false), row("/srv/b", true), row("", false),
	}
	for _, c := range []struct {
		q    sessions.Query
		want string
	}{
		{sessions.Query{Unanswered: true}, ""},
		{sessions.Query{}, "not listed of 5 sessions: 2 in which no agent has answered yet (--unanswered)"},
		{sessions.Query{Unanswered: true, Limit: 2}, "not listed of 5 sessions: 3 beyond --limit"},
		{sessions.Query{Cwd: "/srv/a", Limit: 1}, "not listed of 5 sessions: 2 of other directories or none (--all), " +
			"1 in which no agent has answered yet (--unanswered), 1 beyond --limit"},
	} {
		must.Same(t, hiddenSessions(rows, c.q), c.want, "hiddenSessions(%+v) = %q, want %q", c.q)
	}
}

// One of what a receipt keeps, and of what an export lacks, is said as one.
func TestOneOfThem(t *testing.T) {
	var said strings.Builder
	must.Do(t, (&sessionRmCmd{}).write(&said, client.Receipt{Kept: []client.Kept{{What: "artifacts", Count: 1, Why: "as others"}}}))
	if want := "kept: 1 artifact: as others"; !strings.Contains(said.String(), want) {
		t.Errorf("a receipt says %q, want %q in it", &said, want)
	}
	if err := lacking(1); !strings.Contains(err.Error(), "1 value, whose") {
		t.Errorf("an export says %q", err)
	}
}

// A listing that did not look for all says back to when it looked, and what looks further.
func TestUncounted(t *testing.T) {
	back := time.Date(2026, 11, 20, 10, 0, 0, 0, time.Local)
	for _, c := range []struct {
		back time.Time
		next string
		want string
	}{
		{time.Time{}, "", ""},
		{time.Time{}, "there", "not listed, where there are any: sessions beyond --limit (0 for all, or --after there)"},
		{back, "there", "not listed, where there are any: sessions that were stored before 2026-11-20 10:00:00 (--after there)"},
	} {
		got := uncounted(sessions.Query{Unanswered: true, Limit: 50}, c.next, c.back)
		must.Same(t, got, c.want, "uncounted = %q, want %q")
	}
}
