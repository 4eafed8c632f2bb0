package main

import (
	"errors"
	"fmt"
	"time"

	"spool/internal/service"
	"spool/internal/shortid"
	"spool/internal/text"
	"spool/internal/view"
	"spool/pkg/client"
	"spool/pkg/events"
)

type outputCmd struct {
	Ls     outputLsCmd     `cmd:"" help:"List outputs that are open."`
	Follow outputFollowCmd `cmd:"" help:"Write an output from its first byte to its end, live."`
}

type outputLsCmd struct{ listArgs }

func (c *outputLsCmd) Run(a *app) error {
	find := func(cl *client.Client) ([]client.OpenOutput, error) { return cl.Session(c.Session).Outputs(a.ctx) }
	return list(a, &c.listArgs, find, look[client.OpenOutput]{
		json: func(o client.OpenOutput) any {
			return struct {
				Session string `json:"session"`
				Thread  string `json:"thread"`
				view.Output
				Last string `json:"last_at"`
			}{o.Session, o.Name, view.OfOutput(o, o.Tail), events.Stamp(o.Last.UnixMilli())}
		},
		none:   "no output is open",
		ids:    func(cl *client.Client) ([]string, error) { return a.outputIDs(cl, c.Session, "") },
		header: "THREAD\tOUTPUT\tTOOL\tBYTES\tBEGUN\tLAST",
		row: func(o client.OpenOutput) string {
			return fmt.Sprintf("%s\t%s\t%s\t%d\t%s\t%s", o.Thread, text.Printable(o.ID), text.Printable(o.Tool), o.Bytes,
				o.Begun.Format(time.DateTime), o.Last.Format(time.DateTime))
		},
	})
}

type outputFollowCmd struct {
	Thread string `arg:"" name:"session[/thread]" help:"The thread; main unless named."`
	Output string `arg:"" help:"Id of the output, or the beginning of one that is open."`
	Wait   bool   `help:"Where there is no such output, wait for it to begin."`
}

func (c *outputFollowCmd) Run(a *app) error {
	if err := events.CheckToken("output", c.Output); err != nil {
		return service.UsageError{Err: err}
	}
	return a.readThread(c.Thread, func(cl *client.Client, t events.Thread) error {
		if err := c.find(a, cl, t); err != nil {
			return err
		}
		return c.follow(a, cl, t)
	})
}

// find finds the output, or the only one that is open and begins so; it reports why there is none. One that is waited for has its whole id.
func (c *outputFollowCmd) find(a *app, cl *client.Client, t events.Thread) error {
	if !c.Wait { // what was published before is to be there
		if err := cl.Thread(t).Settled(a.ctx); err != nil {
			return err
		}
	}
	switch err := cl.Thread(t).MayBegin(a.ctx, client.OutputConfig{ID: c.Output}); {
	case errors.Is(err, client.ErrOutputTaken): // it is open, or has ended
		return nil
	case errors.Is(err, client.ErrEnded), errors.Is(err, client.ErrLatched):
		return fmt.Errorf("%s has no output %s, and none can begin: %w", t, c.Output, err)
	case c.Wait:
		return err
	}
	if _, err := cl.Thread(t).AwaitHead(a.ctx); err != nil {
		return err
	}
	ids, err := a.outputIDs(cl, t.Session, t.Name)
	if err != nil {
		return err
	}
	switch id, err := shortid.Find("open outputs", ids, c.Output); {
	case errors.Is(err, shortid.ErrNone):
		return fmt.Errorf("%s has no output %s: spool output ls %s lists those that are open; --wait waits for one to begin", t,
			c.Output, t.Session)
	case err != nil:
		return fmt.Errorf("%s has no output %s\n%w", t, c.Output, err)
	case id != c.Output:
		fmt.Fprintf(a.err, "spool: %s is the output %s\n", c.Output, id)
		c.Output = id
	}
	return nil
}

// outputIDs are those of open outputs, of every thread unless one is named.
func (a *app) outputIDs(cl *client.Client, session, thread string) (ids []string, err error) {
	all, err := cl.Session(session).Outputs(a.ctx)
	for _, o := range all {
		if thread == "" || o.Name == thread {
			ids = append(ids, o.ID)
		}
	}
	return ids, err
}

func (c *outputFollowCmd) follow(a *app, cl *client.Client, t events.Thread) error {
	waits := time.AfterFunc(2*time.Second, func() {
		a.noteAwaited(cl, t.Session, t.Name)
		fmt.Fprintf(a.err, "spool: %s has no output %s yet: waiting for it to begin\n", t, text.Printable(c.Output))
	})
	defer waits.Stop()
	for f, err := range cl.Thread(t).Follow(a.ctx, c.Output) {
		if waits.Stop(); err != nil {
			return err
		}
		if f.Missed > 0 {
			text.Fprintf(a.err, "spool: %d bytes are not kept: the result says why\n", f.Missed)
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
