package main

import (
	"fmt"
	"time"

	"spool/pkg/client"
	"spool/pkg/events"
)

type outputCmd struct {
	Ls     outputLsCmd     `cmd:"" help:"List outputs that are open."`
	Follow outputFollowCmd `cmd:"" help:"Write an output from its first byte to its end, live."`
}

type outputLsCmd struct{ listArgs }

func (c *outputLsCmd) Run(a *app) error {
	find := func(cl *client.Client) ([]client.OpenOutput, error) { return cl.Outputs(a.ctx, c.Session) }
	return list(a, c.listArgs, find, look[client.OpenOutput]{
		json: func(o client.OpenOutput) any {
			return map[string]any{"session": o.Session, "thread": o.Name, "output": o.ID, "tool": o.Tool, "bytes": o.Bytes,
				"begun": o.Begun.UTC().Format(time.RFC3339), "last": o.Last.UTC().Format(time.RFC3339)}
		},
		none:   "no output is open",
		header: "THREAD\tOUTPUT\tTOOL\tBYTES\tBEGUN\tLAST",
		row: func(o client.OpenOutput) string {
			return fmt.Sprintf("%s\t%s\t%s\t%d\t%s\t%s", o.Thread, printable(o.ID), printable(o.Tool), o.Bytes,
				o.Begun.Format(time.DateTime), o.Last.Format(time.DateTime))
		},
	})
}

type outputFollowCmd struct {
	Thread string `arg:"" help:"SESSION or SESSION/THREAD."`
	Output string `arg:"" help:"Id of the output."`
}

func (c *outputFollowCmd) Run(a *app) error {
	return a.onThread(c.Thread, func(cl *client.Client, t events.Thread) error { return c.follow(a, cl, t) })
}

func (c *outputFollowCmd) follow(a *app, cl *client.Client, t events.Thread) error {
	waits := time.AfterFunc(2*time.Second, func() {
		fmt.Fprintf(a.err, "spool: %s has no output %s yet: waiting for it to begin\n", t, printable(c.Output))
	})
	defer waits.Stop()
	for f, err := range cl.Follow(a.ctx, t, c.Output) {
		if waits.Stop(); err != nil {
			return err
		}
		if f.Missed > 0 {
			fmt.Fprintf(a.err, "spool: %d bytes are not kept: the result says why\n", f.Missed)
		}
		if _, err := a.out.Write(f.Text); err != nil {
			return err
		}
		if f.End != nil && f.End.Item > 0 {
			fmt.Fprintf(a.err, "spool: item %d of %s is the result\n", f.End.Item, t)
		}
	}
	return nil
}
