package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"

	"spool/internal/interchange"
	"spool/internal/service"
	"spool/internal/text"
)

type resumeCmd struct {
	Session string `arg:"" name:"session[/thread]" help:"The session, or the beginning of its id; its thread, main unless named."`
	Cwd     string `placeholder:"DIR" help:"Working directory to go on in (default: the session's)."`
	Exec    bool   `xor:"how" help:"Run the command."`
	Force   bool   `short:"f" help:"Do not mind files that hold something else: keep them beside those that replace them."`
	JSON    bool   `xor:"how" help:"What was done as one line of JSON."`
}

func (c *resumeCmd) Help() string {
	return "Has the harness of a session find it on this machine, as spool session materialize does, says what that took, and prints the " +
		"command that goes on with it. Where two machines went on from one session, or it was rewritten, each copy is a thread: " +
		"name the one to go on with."
}

// resumed is what resume did, for programs.
type resumed struct {
	interchange.Materialized
	Outcome interchange.Outcome `json:"outcome"` // of the main thread's file
	Command []string            `json:"command"`
	Cwd     string              `json:"cwd,omitempty"` // where the command is to run; not there: anywhere
}

func (c *resumeCmd) Run(a *app) error {
	m, err := a.materializing(c.Session, c.Cwd)
	if err != nil {
		return err
	}
	m.Force, m.Ahead = c.Force, !c.Force
	cwd, missing := cmp.Or(m.Cwd, m.row.Cwd), ""
	if info, err := os.Stat(cwd); cwd != "" && (err != nil || !info.IsDir()) {
		missing, cwd = cwd, ""
	}
	switch {
	case missing != "" && c.Cwd != "":
		return service.UsageError{Err: fmt.Errorf("--cwd: %s is no directory", missing)}
	case missing != "" && m.Harness.ByFolder():
		return fmt.Errorf("%s finds a session only in its directory, and %s is not on this machine: name one with --cwd DIR",
			m.Harness.Title, missing)
	}
	done, err := m.write(a)
	if err != nil {
		return err
	}
	leaveHere(m.row.ID)
	r := resumed{Materialized: done, Outcome: done.Outcome(),
		Command: m.Harness.Resume(m.row.ID, filepath.Join(m.Path, filepath.FromSlash(done.File))), Cwd: cwd}
	if c.JSON {
		return json.NewEncoder(a.out).Encode(r)
	}
	m.tellLost(a, done)
	fmt.Fprintf(a.err, "%s: %s\n", outcomes[r.Outcome], m.shown(done.File))
	if missing != "" {
		fmt.Fprintf(a.err, "its directory %s is not on this machine: it goes on where the command runs\n", text.Printable(missing))
	}
	if c.Exec {
		return r.run(a)
	}
	_, err = fmt.Fprintln(a.out, r.line())
	return err
}

// outcomes are what resume says of the session's file.
var outcomes = map[interchange.Outcome]string{
	interchange.Same: "ready", interchange.Ahead: "ready, with more than was imported", interchange.Created: "written",
	interchange.Forwarded: "brought up to date", interchange.Replaced: "replaced",
}

// line is the command for a POSIX shell.
func (r resumed) line() string {
	var words []string
	if r.Cwd != "" {
		words = []string{"cd", shellQuote(r.Cwd), "&&"}
	}
	for _, w := range r.Command {
		words = append(words, shellQuote(w))
	}
	return strings.Join(words, " ")
}

// run runs the command with our standard input, output and error, and ends as it ends.
func (r resumed) run(a *app) error {
	name, err := exec.LookPath(r.Command[0])
	if err != nil {
		fmt.Fprintf(a.err, "spool resume: %v\n", err)
		return exitCode(exitNotFound)
	}
	a.close()
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, forwarded...)
	defer signal.Stop(signals)
	if code := a.wait(&exec.Cmd{Path: name, Args: r.Command, Dir: r.Cwd, Stdin: a.in, Stdout: a.out, Stderr: a.err}, signals); code != 0 {
		return exitCode(code)
	}
	return nil
}
