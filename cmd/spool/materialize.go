package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"spool/internal/interchange"
	"spool/internal/service"
	"spool/internal/text"
	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/sessions"
)

type sessionMaterializeCmd struct {
	Session string `arg:"" name:"session[/thread]" help:"The session, or the beginning of its id; its thread, main unless named."`
	To      string `type:"path" xor:"place" placeholder:"DIR" help:"Directory of the harness, as ~/.claude (default: where it keeps its sessions on this machine)."`
	Home    string `type:"path" xor:"place" placeholder:"DIR" help:"Home directory that has the harness's directory."`
	Cwd     string `placeholder:"DIR" help:"Working directory to go on in: it names the folder of a new file of Claude Code."`
	Force   bool   `short:"f" help:"Do not mind files that hold something else: keep them beside those that replace them."`
	JSON    bool   `help:"What was written as one line of JSON."`
}

func (c *sessionMaterializeCmd) Help() string {
	return "Writes the files of a session of Claude Code, Codex, GitHub Copilot CLI, Gemini CLI, Qwen Code, oh-my-pi or pi where the program finds them, " +
		"byte for byte as they were imported, but those of oh-my-pi as spool session export writes them; " +
		"and those of the sessions that it does not open without. A file that is there is left alone if it is the same, " +
		"goes on if it is a beginning, and is kept and named otherwise; then nothing is written. Databases of the program are never written."
}

func (c *sessionMaterializeCmd) Run(a *app) error {
	m, err := a.materializing(c.Session, c.Cwd)
	if err != nil {
		return err
	}
	m.Force = c.Force
	switch {
	case c.To != "":
		m.Path = c.To
	case c.Home != "":
		m.Path, m.Home = filepath.Join(c.Home, m.Harness.Home), c.Home
	}
	done, err := m.write(a)
	if err != nil {
		return err
	}
	if c.JSON {
		return json.NewEncoder(a.out).Encode(done)
	}
	for _, f := range done.Files {
		fmt.Fprintf(a.out, "%s  %s\n", f.Outcome, m.shown(f.File))
		if f.Kept != "" {
			fmt.Fprintf(a.out, "kept  %s\n", m.shown(f.Kept))
		}
	}
	m.tellLost(a, done)
	return nil
}

// materializing is a session that is to be written to its harness's directory.
type materializing struct {
	interchange.Materializer
	row sessions.Row
}

// materializing finds a session, and where its harness keeps its own on this machine.
func (a *app) materializing(name, cwd string) (*materializing, error) {
	here, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	conn, err := a.dial()
	if err != nil {
		return nil, err
	}
	m := &materializing{Materializer: interchange.Materializer{Client: client.New(conn), Artifacts: artifactsHere(conn),
		Tmp: os.TempDir()}}
	session, thread, named := strings.Cut(name, "/")
	if m.row, err = a.resumable(m.Client, here, session); err != nil {
		return nil, err
	}
	if named {
		t := events.Thread{Session: m.row.ID, Name: thread}
		if err := t.Validate(); err != nil {
			return nil, service.UsageError{Err: err}
		}
		t, err = a.reachToRead(m.Client, t, func(t events.Thread) error {
			_, err := m.Client.Thread(t).AwaitHead(a.ctx)
			return err
		})
		if m.Thread = t.Name; err != nil {
			return nil, err
		}
	}
	var known bool
	if m.Harness, known = interchange.HarnessOf(m.row.Info); !known {
		return nil, fmt.Errorf("%s is of no harness that opens files of it; go on with: %s, or read it with: spool show %s, or spool export %s",
			m.row.ID, goOn(m.row), m.row.ID, m.row.ID)
	}
	if cwd != "" {
		if m.Harness.Dialect == "omp" {
			return nil, service.UsageError{Err: fmt.Errorf("--cwd: the directory of a session of %s is in its file; change it with: "+
				"spool session move %s DIR",
				m.Harness.Title, m.row.ID)}
		}
		if m.Cwd, err = filepath.Abs(cwd); err != nil {
			return nil, err
		}
	}
	m.Home, _ = os.UserHomeDir() // without one no folder is named after it
	m.Path, err = directoryOf(m.Harness)
	return m, err
}

// write writes the files.
func (m *materializing) write(a *app) (done interchange.Materialized, err error) {
	if m.Path, err = filepath.Abs(m.Path); err != nil {
		return done, err
	}
	if err := os.MkdirAll(m.Path, 0o700); err != nil {
		return done, err
	}
	if m.Dir, err = os.OpenRoot(m.Path); err != nil {
		return done, err
	}
	done, err = m.Session(a.ctx, m.row.ID)
	return done, errors.Join(err, m.Dir.Close())
}

// shown is the whole name of a file below the directory.
func (m *materializing) shown(file string) string {
	return text.Printable(filepath.Join(m.Path, filepath.FromSlash(file)))
}

// tellLost says what is not restored, and what was done to files that were there.
func (m *materializing) tellLost(a *app, done interchange.Materialized) {
	for _, what := range done.Lost {
		fmt.Fprintf(a.err, "not restored: %s\n", text.Printable(what))
	}
	for _, note := range done.Notes {
		fmt.Fprintln(a.err, text.Printable(note))
	}
}
