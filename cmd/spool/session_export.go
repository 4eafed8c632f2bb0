package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"spool/internal/artifactstore"
	"spool/internal/interchange"
	"spool/internal/natsio"
	"spool/internal/text"
	"spool/pkg/client"
)

type sessionExportCmd struct {
	Session string `arg:"" help:"The session."`
	Dir     string `type:"path" required:"" placeholder:"DIR" help:"Directory to write, as oh-my-pi keeps ~/.omp/agent; it may have other sessions in it."`
	Force   bool   `short:"f" help:"Replace files: do not mind that they hold what their threads do not have."`
	JSON    bool   `help:"What was written as one line of JSON."`
}

func (c *sessionExportCmd) Help() string {
	return "Writes the session's file, its blobs, its artifacts and the threads of its subagents, so that oh-my-pi opens them, " +
		"and spool import gives the same nodes again. A file that is there is replaced only if its thread has all of its lines, or by --force. " +
		"What an export wrote when the session was one of another directory is taken away, unless it has more. " +
		"What is missing or corrupt is named on standard error; the exit code is then 1."
}

func (c *sessionExportCmd) Run(a *app) error {
	a.ctx = natsio.Patient(a.ctx)
	conn, err := a.dial()
	if err != nil {
		return err
	}
	cl := client.New(conn)
	if c.Session, err = a.session(cl, c.Session); err != nil {
		return err
	}
	if err := os.MkdirAll(c.Dir, 0o755); err != nil {
		return err
	}
	dir, err := os.OpenRoot(c.Dir)
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	home, _ := os.UserHomeDir() // without one no folder is named after it
	x := interchange.Exporter{Client: cl, Artifacts: artifactsHere(conn), Dir: dir, Force: c.Force,
		Home: home, Tmp: os.TempDir()}
	out, err := x.Session(a.ctx, c.Session)
	for _, w := range out.Warnings {
		fmt.Fprintln(a.err, w)
	}
	for _, note := range out.Notes {
		fmt.Fprintln(a.err, text.Printable(note))
	}
	if err != nil {
		return err
	}
	if c.JSON {
		err = json.NewEncoder(a.out).Encode(out)
	} else {
		_, err = fmt.Fprintln(a.out, out.File)
		text.Fprintf(a.err, "%d entries, %d threads of subagents, %d artifacts, %d blobs\n", out.Entries, out.Agents, out.Artifacts, out.Blobs)
		if out.Migrated {
			fmt.Fprintln(a.err, "entries of an older version were brought to the current one; spool export writes them as they were")
		}
	}
	if len(out.Warnings) > 0 {
		err = errors.Join(err, fmt.Errorf("%d of the blobs, artifacts and threads could not be exported", len(out.Warnings)))
	}
	return err
}

// artifactsHere is the artifacts with the files that are registered of this machine: who runs the command may read them.
func artifactsHere(conn *natsio.Conn) *artifactstore.Artifacts {
	a := artifactstore.Of(conn, 0)
	a.Local = true
	return a
}
