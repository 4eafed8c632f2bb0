package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"spool/internal/rehydrate"
	"spool/internal/service"
	"spool/pkg/events"
)

type exportCmd struct {
	Thread string `arg:"" name:"session[/thread]" help:"The thread; main unless named."`
	Output string `short:"o" placeholder:"FILE" help:"File to write (default: standard output)."`
	Full   bool   `xor:"form" help:"Entries as they were, images in line (the default)."`
	Stored bool   `xor:"form" help:"Entries as they are stored: long strings cut, images as blob refs."`
}

func (c *exportCmd) Help() string {
	return "A blob that is missing or corrupt is named on standard error and its ref stays in place; the exit code is then 1."
}

func (c *exportCmd) Run(a *app) error {
	id, err := events.ParseThread(c.Thread)
	if err != nil {
		return service.UsageError{Err: err}
	}
	form := rehydrate.Full
	if c.Stored {
		form = rehydrate.Stored
	}
	cl, done, err := a.client()
	if err != nil {
		return err
	}
	defer done()
	entries, missing := 0, 0
	write := func(w io.Writer) (err error) {
		entries, err = cl.ExportAs(a.ctx, id, form, w, func(m rehydrate.Missing) {
			missing++
			fmt.Fprintln(a.err, m)
		})
		return err
	}
	if c.Output == "" || c.Output == "-" {
		err = write(a.out)
	} else if err = writeFile(c.Output, write); err == nil {
		fmt.Fprintf(a.err, "%d entries of %s in %s\n", entries, id, c.Output)
	}
	if err == nil && missing > 0 {
		err = fmt.Errorf("%d values are not what they were: their blobs are missing or corrupt", missing)
	}
	return err
}

// writeFile writes beside the file and renames: whoever finds the file finds all of it.
func writeFile(name string, write func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }()
	err = errors.Join(write(f), f.Sync(), f.Close())
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}
