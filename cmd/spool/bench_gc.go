package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/term"

	"spool/internal/bench"
	"spool/internal/service"
)

type benchGCCmd struct {
	Nodes   []int  `default:"10000,100000,1000000" placeholder:"N,…" help:"Sizes of the stores that are marked (${default}). 10000000 takes about 2 GB of memory and a minute."`
	Packs   int    `default:"400" placeholder:"N" help:"Packs of the store that is repacked, of 200 KiB or so each (${default})."`
	Seconds int    `default:"5" placeholder:"N" help:"Seconds of load beside a collector that runs every second, and as long without one; below 0: none (${default})."`
	Rounds  int    `default:"3" placeholder:"R" help:"How often both run; the medians count (${default})."`
	Rate    int    `default:"1000" placeholder:"N" help:"Entries a second of that load (${default})."`
	Dir     string `placeholder:"DIR" type:"existingdir" help:"Where the servers keep their data while they run."`
	JSON    bool   `name:"json" help:"Print one JSON object."`
	Check   bool   `help:"Fail when a figure is below its floor."`
}

func (c *benchGCCmd) Run(a *app) error {
	cfg := bench.GCConfig{Nodes: c.Nodes, Packs: c.Packs, Seconds: c.Seconds, Rounds: c.Rounds, Rate: c.Rate, Dir: c.Dir}
	if f, ok := a.err.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		cfg.Note = func(s string) { fmt.Fprintln(f, s) }
	}
	rep, err := bench.GC(a.ctx, cfg)
	if errors.Is(err, bench.ErrConfig) {
		return service.UsageError{Err: err}
	}
	if err != nil {
		return fmt.Errorf("bench gc: %w", err)
	}
	if c.JSON {
		err = json.NewEncoder(a.out).Encode(rep)
	} else {
		err = rep.Write(a.out)
	}
	if missed := rep.Missed(); err == nil && c.Check && len(missed) > 0 {
		err = fmt.Errorf("bench gc: %s", strings.Join(missed, "; "))
	}
	return err
}
