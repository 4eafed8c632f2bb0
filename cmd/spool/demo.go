package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"spool/internal/demo"
	"spool/internal/persist"
	"spool/internal/service"
	"spool/internal/text"
	"spool/pkg/client"
)

type demoCmd struct {
	Keep bool `help:"Keep it running afterwards, to look around."`
	JSON bool `help:"One JSON object for programs."`
}

func (c *demoCmd) Help() string {
	return "Starts everything in a temporary directory, imports the example transcripts, follows their items live, forks a " +
		"thread, and checks what came out. Exits 0 only if every check passed."
}

func (c *demoCmd) Run(a *app) error {
	dir, err := os.MkdirTemp("", "spool-demo-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	ctx, cancel := context.WithCancel(a.ctx)
	defer cancel()
	cfg := service.UpConfig{
		NATS: &service.NATS{}, Data: dir, Listen: "127.0.0.1:0", HTTP: "127.0.0.1:0", Log: a.log,
		Persist: service.PersisterConfig{Config: persist.Config{Lane: -1}},
	}
	up := make(chan *service.Up, 1)
	cfg.Ready = func(u *service.Up) { up <- u }
	stopped := make(chan error, 1)
	go func() { stopped <- service.RunUp(ctx, cfg) }()
	var out demo.Outcome
	select {
	case err := <-stopped:
		return err
	case u := <-up:
		out, err = c.demo(ctx, a, u)
		if err == nil && c.Keep {
			c.keep(a, u)
		}
	}
	cancel()
	if err := errors.Join(err, <-stopped); err != nil {
		return err
	}
	if !out.OK {
		return errors.New("a check failed")
	}
	return nil
}

// liveLines is how many items are shown as they arrive.
const liveLines = 12

func (c *demoCmd) demo(ctx context.Context, a *app, up *service.Up) (demo.Outcome, error) {
	var shown atomic.Int64
	show := func(it client.Item) {
		if n := shown.Add(1); !c.JSON && n <= liveLines {
			fmt.Fprintln(a.out, "  "+itemLine(&it))
		}
	}
	if !c.JSON {
		fmt.Fprintln(a.out, "Spool runs in a temporary directory. Agents' transcripts go in; their items, live:")
	}
	out, err := demo.Run(ctx, up.Conn, up.Persister, show)
	if err != nil {
		return out, err
	}
	if c.JSON {
		return out, a.plainJSON().Encode(out)
	}
	return out, c.print(a, out)
}

func (c *demoCmd) print(a *app, out demo.Outcome) error {
	s := out.Summary
	text.Fprintf(a.out, "  … %d items\n\n", s.Items)
	t := a.report()
	for _, ch := range out.Checks {
		mark := "ok"
		if !ch.OK {
			mark = "FAILED"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\n", mark, ch.Name, ch.Detail)
	}
	var kinds []string
	for _, kind := range slices.Sorted(maps.Keys(s.ItemsByType)) {
		kinds = append(kinds, fmt.Sprintf("%d %s", s.ItemsByType[kind], kind))
	}
	fmt.Fprintln(t)
	row := func(what, value string) { fmt.Fprintf(t, "%s\t%s\n", what, value) }
	row("events", text.Sprintf("%d lines of %d files, %d threads in %d sessions", s.Events, s.Files, s.Threads, s.Sessions))
	row("items", fmt.Sprintf("%d: %s", s.Items, strings.Join(kinds, ", ")))
	row("nodes", fmt.Sprint(s.Nodes))
	row("bytes in", text.Bytes(s.BytesIn))
	row("bytes stored", fmt.Sprintf("%s (%.0f %%)", text.Bytes(s.BytesStored), 100*float64(s.BytesStored)/float64(max(s.BytesIn, 1))))
	row("truncated", text.Sprintf("%d entries, kept whole beside", s.Truncated))
	row("externalized", text.Sprintf("%d values", s.Externalized))
	row("deduplicated", text.Bytes(s.Deduplicated))
	row("unknown types", text.Sprintf("%d entries, kept as they are", s.Unknown))
	row("time", time.Duration(s.Seconds*float64(time.Second)).Round(time.Millisecond).String())
	if err := t.Flush(); err != nil || c.Keep {
		return err
	}
	_, err := fmt.Fprintf(a.out, "\nLook further: spool demo --keep, or start your own:\n  spool up &\n"+
		"  spool import ~/.claude/projects ~/.codex/sessions\n"+
		"  spool session ls --all; spool tail --all; spool thread show SESSION; spool export SESSION\n")
	return err
}

// keep waits for the user to have seen enough.
func (c *demoCmd) keep(a *app, up *service.Up) {
	fmt.Fprintf(a.err, "\nIt goes on running: NATS %s, HTTP %s\n  export NATS_URL=%s\n"+
		"  spool session ls --all; spool tail --all; spool thread ls\nCtrl-C ends it and removes its data.\n", up.NATS, up.HTTP, up.NATS)
	<-a.ctx.Done()
}
