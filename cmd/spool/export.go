package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"spool/internal/interchange"
	"spool/internal/natsio"
	"spool/internal/rehydrate"
	"spool/internal/service"
	"spool/internal/text"
	"spool/internal/view"
	"spool/pkg/casstore"
	"spool/pkg/client"
	"spool/pkg/events"
)

type exportCmd struct {
	Thread string `arg:"" optional:"" name:"session[/thread]" help:"The thread; main unless named. Or a state, node:sha256:…: what leads to it, also where its thread was removed."`
	Output string `type:"path" short:"o" placeholder:"FILE" help:"File to write (default: standard output)."`
	All    string `type:"path" placeholder:"DIR" help:"Write every thread, each to DIR/SESSION/THREAD.jsonl."`
	Force  bool   `short:"f" help:"Replace files: do not mind that they hold something else. A beginning of what is written is always replaced."`
	Full   bool   `xor:"form" help:"Entries as they were, images in line (the default)."`
	Stored bool   `xor:"form" help:"Entries as they are stored: long strings cut, images as blob refs."`
}

func (c *exportCmd) Help() string {
	return "A blob that is missing or corrupt is named on standard error and its ref stays in place; the exit code is then 1."
}

func (c *exportCmd) Run(a *app) error {
	form := rehydrate.Full
	if c.Stored {
		form = rehydrate.Stored
	}
	switch {
	case c.All != "" && (c.Thread != "" || c.Output != ""):
		return service.UsageError{Err: errors.New("--all takes a directory, and neither a thread nor -o")}
	case c.All == "" && c.Thread == "":
		return service.UsageError{Err: errors.New("name a thread, or give --all DIR")}
	}
	a.ctx = natsio.Patient(a.ctx)
	cl, err := a.client()
	if err != nil {
		return err
	}
	e := export{app: a, Client: cl, form: form}
	if c.All != "" {
		return e.all(c.All, c.Force)
	}
	if isRef(c.Thread) {
		ref, err := casstore.ParseRef(c.Thread)
		if err != nil {
			return fullState(err)
		}
		return e.end(c.to(&e, c.Thread, func(w io.Writer) error { return e.state(ref, w) }))
	}
	id, err := events.ParseThread(c.Thread)
	if err != nil {
		return service.UsageError{Err: err}
	}
	_, err = a.reachToRead(cl, id, func(t events.Thread) error {
		return c.to(&e, t.String(), func(w io.Writer) error { return e.write(t, w) })
	})
	if _, short := shortState(c.Thread); short && len(c.Thread) == shownDigits && view.IsAbsent(err) {
		err = fmt.Errorf("%w\nif it is a state: spool thread show --json says it in full, node:sha256:…", err)
	}
	return e.end(err)
}

// isRef reports that something is meant as the ref of a node or blob, whole or not: no name has a colon.
func isRef(s string) bool { return strings.Contains(s, ":") }

// to writes what an argument names to where the command is to write it.
func (c *exportCmd) to(e *export, what string, write func(io.Writer) error) error {
	if c.Output == "" || c.Output == "-" {
		return write(e.out)
	}
	err := writeFile(c.Output, c.Force, write)
	if err == nil {
		text.Fprintf(e.app.err, "%d entries of %s in %s\n", e.entries, what, c.Output)
	}
	return err
}

// export writes threads and counts what could not be had.
type export struct {
	*app
	*client.Client
	form    rehydrate.Form
	entries int
	missing int
}

func (e *export) write(id events.Thread, w io.Writer) error {
	n, err := e.Internal().ExportAs(e.ctx, id, e.form, w, e.warn)
	e.entries += n
	return err
}

func (e *export) warn(m rehydrate.Missing) {
	e.missing++
	fmt.Fprintln(e.err, m)
}

// state writes what leads to a state.
func (e *export) state(ref casstore.Ref, w io.Writer) error {
	n, err := e.Internal().ExportState(e.ctx, ref, e.form, w, e.warn)
	e.entries += n
	return err
}

func (e *export) end(err error) error {
	if err == nil {
		err = lacking(e.missing)
	}
	return err
}

// lacking is the error of a command that could not have some blobs in line.
func lacking(missing int) error {
	if missing == 0 {
		return nil
	}
	return text.Errorf("not as it was: %d values, whose blobs are missing or corrupt", missing)
}

// all writes every thread. One that cannot be read is named, and the others are written.
func (e *export) all(dir string, force bool) error {
	list, err := e.EverySession().Threads(e.ctx)
	if err != nil {
		return err
	}
	bar := newBar(e.app.err, "exporting", false)
	defer bar.end()
	var failed []error
	// Packs that threads share are read once, as long as these come one after the other.
	slices.SortStableFunc(list, func(a, b client.Thread) int {
		at, other := a.Head.Head().Pack, b.Head.Head().Pack
		return bytes.Compare(at[:], other[:])
	})
	for i, t := range list {
		if err := e.ctx.Err(); err != nil {
			return err
		}
		below := filepath.Join(dir, t.Session)
		if err := os.MkdirAll(below, 0o700); err != nil {
			return err
		}
		err := writeFile(filepath.Join(below, t.Name+".jsonl"), force, func(w io.Writer) error { return e.write(t.Thread, w) })
		if err == nil {
			err = e.note(below, t, list, force)
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", t.Thread, err))
		}
		bar.set(int64(i+1), int64(len(list)), t.Session)
	}
	bar.end()
	if written := len(list) - len(failed); written > 0 || len(failed) == 0 {
		text.Fprintf(e.app.err, "%d entries of %d threads in %s\n", e.entries, written, dir)
	}
	return e.end(errors.Join(failed...))
}

// note writes beside the file of a fork where it branches off.
func (e *export) note(dir string, t client.Thread, all []client.Thread, force bool) error {
	note, err := interchange.ForkNotes(e.ctx, e.Client, t, all)
	if err != nil || note == nil {
		return err
	}
	return writeFile(filepath.Join(dir, interchange.NotesFile(t.Name+".jsonl")), force, func(w io.Writer) error {
		_, err := w.Write(note)
		return err
	})
}

// writeFile writes a file, and keeps one that holds something else, unless it is forced. Its errors have the whole name.
func writeFile(name string, force bool, write func(io.Writer) error) error {
	if there, err := os.Stat(name); err == nil && there.IsDir() {
		return fmt.Errorf("write %s: it is a directory: name a file in it", name)
	}
	where := name
	dir, err := os.OpenRoot(filepath.Dir(name))
	if err != nil {
		where += ": " + filepath.Dir(name)
	} else {
		defer func() { _ = dir.Close() }()
		_, err = interchange.File{Dir: dir, Name: filepath.Base(name), Shown: name, Mode: 0o600, Force: force}.Write(write)
	}
	if what := new(fs.PathError); errors.As(err, &what) { // it has the name of a file beside it
		err = fmt.Errorf("write %s: %w", where, what.Err)
	}
	return err
}
