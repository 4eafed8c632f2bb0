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

type benchSubscribeCmd struct {
	Readers int    `default:"1000" placeholder:"N" help:"Readers of each kind, NATS subscriptions and HTTP event streams (${default})."`
	Slow    int    `default:"100" placeholder:"N" help:"Readers that stop reading, beside them (${default})."`
	Seconds int    `default:"5" placeholder:"N" help:"Seconds of each load (${default})."`
	Behind  int    `default:"1000000" placeholder:"N" help:"Items that a reader catches up with (${default}); a million take about 1 GB of disk."`
	Dir     string `placeholder:"DIR" type:"existingdir" help:"Where the server keeps its data while it runs."`
	JSON    bool   `name:"json" help:"Print one JSON object."`
	Check   bool   `help:"Fail when a figure is below its floor or above its ceiling."`
}

func (c *benchSubscribeCmd) Run(a *app) error {
	cfg := bench.SubscribeConfig{Readers: c.Readers, Slow: c.Slow, Seconds: c.Seconds, Behind: c.Behind, Dir: c.Dir}
	if f, ok := a.err.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		cfg.Note = func(s string) { fmt.Fprintln(f, s) }
	}
	rep, err := bench.Subscribe(a.ctx, cfg)
	if errors.Is(err, bench.ErrConfig) {
		return service.UsageError{Err: err}
	}
	if err != nil {
		return fmt.Errorf("bench subscribe: %w", err)
	}
	if c.JSON {
		err = json.NewEncoder(a.out).Encode(rep)
	} else {
		err = rep.Write(a.out)
	}
	if missed := rep.Missed(); err == nil && c.Check && len(missed) > 0 {
		err = fmt.Errorf("bench subscribe: %s", strings.Join(missed, "; "))
	}
	return err
}
