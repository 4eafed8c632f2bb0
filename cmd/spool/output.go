package main

import (
	"encoding/json"
	"fmt"
	"time"

	"spool/internal/service"
	"spool/internal/text"
	"spool/pkg/events"
)

type outputCmd struct {
	Ls     outputLsCmd     `cmd:"" help:"List outputs that are open."`
	Follow outputFollowCmd `cmd:"" help:"Write an output from its first byte to its end, live."`
}

type outputLsCmd struct {
	Session string `arg:"" optional:"" help:"Session; default: all."`
	JSON    bool   `name:"json" help:"A JSON object a line."`
}

func (c *outputLsCmd) Run(a *app) error {
	cl, done, err := a.client()
	if err != nil {
		return err
	}
	defer done()
	open, err := cl.Outputs(a.ctx, c.Session)
	if err != nil {
		return err
	}
	if c.JSON {
		enc := json.NewEncoder(a.out)
		for _, o := range open {
			line := map[string]any{"session": o.Session, "thread": o.Name, "output": o.ID, "tool": o.Tool, "bytes": o.Bytes,
				"begun": o.Begun.UTC().Format(time.RFC3339), "last": o.Last.UTC().Format(time.RFC3339)}
			if err := enc.Encode(line); err != nil {
				return err
			}
		}
		return nil
	}
	w := text.NewTable(a.out)
	fmt.Fprintln(w, "THREAD\tOUTPUT\tTOOL\tBYTES\tBEGUN\tLAST")
	for _, o := range open {
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\t%s\n", o.Thread, o.ID, o.Tool, o.Bytes, o.Begun.Format(time.DateTime), o.Last.Format(time.DateTime))
	}
	return w.Flush()
}

type outputFollowCmd struct {
	Thread string `arg:"" help:"SESSION or SESSION/THREAD."`
	Output string `arg:"" help:"Id of the output."`
}

func (c *outputFollowCmd) Run(a *app) error {
	t, err := events.ParseThread(c.Thread)
	if err != nil {
		return service.UsageError{Err: err}
	}
	cl, done, err := a.client()
	if err != nil {
		return err
	}
	defer done()
	for f, err := range cl.Follow(a.ctx, t, c.Output) {
		if err != nil {
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
