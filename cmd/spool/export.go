package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"spool/internal/service"
	"spool/pkg/events"
)

type exportCmd struct {
	Thread string `arg:"" name:"session[/thread]" help:"The thread; main unless named."`
	Output string `short:"o" placeholder:"FILE" help:"File to write (default: standard output)."`
}

func (c *exportCmd) Run(a *app) error {
	id, err := events.ParseThread(c.Thread)
	if err != nil {
		return service.UsageError{Err: err}
	}
	cl, done, err := a.client()
	if err != nil {
		return err
	}
	defer done()
	if c.Output == "" || c.Output == "-" {
		_, err = cl.Export(a.ctx, id, a.out)
		return err
	}
	entries := 0
	err = writeFile(c.Output, func(w io.Writer) (err error) {
		entries, err = cl.Export(a.ctx, id, w)
		return err
	})
	if err == nil {
		fmt.Fprintf(a.err, "%d entries of %s in %s\n", entries, id, c.Output)
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
