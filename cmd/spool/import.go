package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"spool/internal/interchange"
	"spool/internal/service"
	"spool/internal/text"
	"spool/internal/transcript"
	"spool/pkg/client"
	"spool/pkg/dialect"
)

type importCmd struct {
	Paths   []string `arg:"" optional:"" name:"path" help:"Transcript files, and directories that are searched for *.jsonl, *.jsonl.zst and *.jsonl.gz (default: where ${harnesses} keep theirs)."`
	Dialect string   `placeholder:"D" help:"What the files are, when that cannot be told from them; there are ${dialects}."`
	Follow  bool     `xor:"how" help:"Go on with what is written to them, until it is stopped: spool watch."`
	Hook    bool     `xor:"how" help:"A hook of Claude Code: import the session whose file it names on stdin. It prints nothing where that succeeds."`
	NoWait  bool     `help:"Return when everything is stored; do not wait until it is in its threads."`
	UserID  string   `name:"user-id" placeholder:"U" help:"user_id stamped on the items."`
	JSON    bool     `help:"The result of each file as one line of JSON."`
}

func (c *importCmd) Run(a *app) error {
	if _, ok := dialect.Lookup(c.Dialect); c.Dialect != "" && !ok {
		return service.UsageError{Err: fmt.Errorf("--dialect %q: use one of %s", c.Dialect, strings.Join(dialect.Names(), ", "))}
	}
	switch {
	case c.Hook:
		return c.hook(a)
	case c.Follow && c.NoWait:
		return service.UsageError{Err: errors.New("--follow goes on, and --no-wait returns: give one of them")}
	case c.Follow:
		return (&watchCmd{Paths: c.Paths, Dialect: c.Dialect, UserID: c.UserID, JSON: c.JSON}).Run(a)
	}
	return c.run(a)
}

func (c *importCmd) run(a *app) error {
	if len(c.Paths) == 0 {
		var err error
		if c.Paths, err = placesThere(); err != nil {
			return err
		}
	}
	sources, err := transcript.Find(disk{}, c.Paths...)
	if len(sources) == 0 {
		return errors.Join(fmt.Errorf("no transcripts in %s: looked for *.jsonl, *.jsonl.zst and *.jsonl.gz", strings.Join(c.Paths, ", ")), err)
	}
	if err != nil {
		fmt.Fprintln(a.err, err)
	}
	conn, dialErr := a.dial()
	if dialErr != nil {
		return dialErr
	}
	cl := client.New(conn)

	start := time.Now()
	bar := newBar(a.err, "importing", true)
	cfg := importing(c.Dialect, c.UserID, conn.Inbox())
	cfg.Progress = func(p transcript.Progress) { bar.set(p.Bytes, p.Total, text.Sprintf("%d lines", p.Lines)) }
	cfg.Retry = locked(noteRetries(a.err))
	res, notes, importErr := interchange.Import(a.ctx, conn, sources, cfg)
	bar.end()
	took := time.Since(start)
	waitErr := c.wait(a, cl, res)
	if waitErr == nil && !c.NoWait {
		waitErr = interchange.Collided(a.ctx, conn, &res)
		for i := range res.Files {
			tellKept(a.ctx, cl, &res.Files[i])
		}
	}
	for _, n := range notes {
		fmt.Fprintln(a.err, n)
	}
	if err := c.print(a, cl, res, took); err != nil {
		return err
	}
	switch {
	case a.ctx.Err() != nil:
		return errors.New("interrupted: import the same paths again to go on")
	case waitErr != nil:
		return waitErr
	case importErr != nil:
		return importErr
	case res.Failed > 0:
		return fmt.Errorf("%d of %d files were not imported", res.Failed, len(res.Files))
	case err != nil:
		return errors.New("not all paths could be read")
	case !slices.ContainsFunc(res.Files, func(f transcript.FileResult) bool { return f.Session != "" || f.Unbegun }):
		return text.Errorf("nothing was imported: no transcript is in %d files", len(res.Files))
	}
	return nil
}

// disk is every file of the machine under the name that the operating system gives it, whatever bytes that has.
type disk struct{}

func (disk) Open(name string) (fs.File, error)          { return os.Open(name) }
func (disk) Stat(name string) (fs.FileInfo, error)      { return os.Stat(name) }
func (disk) ReadDir(name string) ([]fs.DirEntry, error) { return os.ReadDir(name) }

// print writes the table, or the JSON, and what is to be said beside it.
func (c *importCmd) print(a *app, cl *client.Client, res transcript.Result, took time.Duration) error {
	for _, f := range res.Files {
		if f.Malformed > 0 {
			fmt.Fprintf(a.err, "%s: no JSON objects, kept as they are: on %s\n", f.File, lineList(f))
		}
		for _, w := range f.Warnings {
			fmt.Fprintf(a.err, "%s: %s\n", f.File, w)
		}
		if f.Err != nil && strings.Contains(f.Err.Error(), f.File) {
			fmt.Fprintln(a.err, f.Err)
		} else if f.Err != nil {
			fmt.Fprintf(a.err, "%s: %v\n", f.File, f.Err)
		}
	}
	if c.JSON {
		return jsonLines(json.NewEncoder(a.out), res.Files, asIs)
	}
	t := a.table()
	t.Short = a.short(cl, nil)
	header := "FILE\tHARNESS\tTHREAD\tLINES\tNEW\tMALFORMED\n"
	for _, f := range res.Files {
		if f.Thread != "" {
			fmt.Fprint(t, header)
			header = ""
			fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%d\t%d\n", text.Printable(shorten(f.File)), f.Harness, f.ID(), f.Lines, f.Published, f.Malformed)
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	text.Fprintf(a.err, "%d files, %d lines, %d new, %s in %v\n", len(res.Files), res.Lines, res.Published,
		text.Bytes(res.Bytes), took.Round(time.Millisecond))
	return nil
}

// lineList is the lines of a file that are malformed (SPEC S6), the first of them.
func lineList(f transcript.FileResult) string {
	const most = 10
	var b strings.Builder
	for i, n := range f.MalformedLines[:min(len(f.MalformedLines), most)] {
		fmt.Fprint(&b, []string{"line ", ", "}[min(i, 1)], n)
	}
	if more := f.Malformed - min(len(f.MalformedLines), most); more > 0 {
		fmt.Fprintf(&b, " and %d more", more)
	}
	return b.String()
}

// shorten keeps the end of a long path, which tells files apart.
func shorten(path string) string {
	const most = 48
	if r := []rune(path); len(r) > most {
		return "…" + string(r[len(r)-most+1:])
	}
	return path
}

// wait returns when the threads have what was published.
func (c *importCmd) wait(a *app, cl *client.Client, res transcript.Result) error {
	for _, f := range res.Files {
		for i, p := range []transcript.Position{f.Last, f.Tail, f.Leaf} {
			if c.NoWait || p.Seq == 0 || i == 0 && f.Published == 0 {
				continue
			}
			if err := cl.Thread(f.ID()).Await(a.ctx, p.Producer, p.Epoch, p.Seq); err != nil {
				return fmt.Errorf("wait for %s: %w", f.ID(), err)
			}
		}
	}
	return nil
}

// locked makes a function safe for concurrent use.
func locked(f func(error, time.Duration)) func(error, time.Duration) {
	var mu sync.Mutex
	return func(err error, wait time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		f(err, wait)
	}
}
