package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"spool/internal/bench"
	"spool/internal/service"
)

type benchThreadsCmd struct {
	Entries int    `default:"100000" placeholder:"N" help:"Entries of the long thread (${default})."`
	Objects int    `default:"2000" placeholder:"N" help:"Entries that are also stored as one object a node (${default})."`
	Forks   int    `default:"100" placeholder:"N" help:"Forks (${default})."`
	Rounds  int    `default:"5" placeholder:"R" help:"How often every reading runs; the medians count (${default})."`
	Nodes   int    `placeholder:"N" help:"Instead: build a store of so many nodes, and read, check and repack it; 1000000 takes some minutes and 8 GB of disk."`
	Depth   int    `default:"1000" placeholder:"N" help:"With --nodes: forks of forks (${default})."`
	Wide    int    `default:"10000" placeholder:"N" help:"With --nodes: forks of one thread (${default})."`
	Dir     string `placeholder:"DIR" type:"existingdir" help:"Where the server keeps its data while it runs."`
	JSON    bool   `name:"json" help:"Print one JSON object."`
	Check   bool   `help:"Fail when a figure is below its floor."`
}

func (c *benchThreadsCmd) Run(a *app) error {
	var note func(string)
	if f, ok := a.err.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		note = func(s string) { fmt.Fprintln(f, s) }
	}
	var rep interface {
		Write(io.Writer) error
		Missed() []string
	}
	var err error
	if c.Nodes != 0 {
		rep, err = bench.Store(a.ctx, bench.StoreConfig{Nodes: c.Nodes, Depth: c.Depth, Forks: c.Wide, Dir: c.Dir, Note: note})
	} else {
		rep, err = bench.Threads(a.ctx, bench.ThreadsConfig{Entries: c.Entries, Objects: c.Objects, Forks: c.Forks, Rounds: c.Rounds, Dir: c.Dir, Note: note})
	}
	if errors.Is(err, bench.ErrConfig) {
		return service.UsageError{Err: err}
	}
	if err != nil {
		return fmt.Errorf("bench threads: %w", err)
	}
	if c.JSON {
		err = json.NewEncoder(a.out).Encode(rep)
	} else {
		err = rep.Write(a.out)
	}
	if missed := rep.Missed(); err == nil && c.Check && len(missed) > 0 {
		err = fmt.Errorf("bench threads: %s", strings.Join(missed, "; "))
	}
	return err
}
