package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"spool/internal/service"
	"spool/internal/text"
	"spool/pkg/artifacts"
	"spool/pkg/client"
	"spool/pkg/events"
)

type runCmd struct {
	Ls  runLsCmd  `cmd:"" aliases:"list" help:"List the runs that are queued, pending or running."`
	End runEndCmd `cmd:"" help:"End a run; its agent is told."`
}

type runLsCmd struct {
	listArgs
	All bool `help:"The ended ones too, and those whose lease is over: they count as failed."`
}

func (c *runLsCmd) Run(a *app) error {
	find := func(cl *client.Client) ([]client.RunInfo, error) {
		runs, err := cl.Runs(a.ctx, c.Session)
		return slices.DeleteFunc(runs, func(r client.RunInfo) bool { return !c.All && !r.Active() }), err
	}
	return list(a, &c.listArgs, find, look[client.RunInfo]{
		json:   func(r client.RunInfo) any { return client.RunJSON(r) },
		none:   "no runs",
		header: "RUN\tTHREAD\tAGENT\tSTATE\tAGE\tLEASE LEFT",
		row: func(r client.RunInfo) string {
			return fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%s", r.ID, r.Thread, cmp.Or(printable(r.Agent), "-"), printable(string(r.State)),
				cmp.Or(text.Ago(r.Begun, time.Now()), "-"), leaseLeft(r))
		},
	})
}

func leaseLeft(r client.RunInfo) string {
	switch {
	case r.Expired:
		return "over"
	case r.Left == 0:
		return "-"
	}
	return r.Left.Round(time.Second).String()
}

type runEndCmd struct {
	Session string `arg:"" help:"Session."`
	ID      string `arg:"" name:"run" help:"Id of the run."`
	State   string `default:"cancelled" enum:"completed,failed,aborted,cancelled" help:"How it ends (${enum})."`
	Summary string `placeholder:"TEXT" help:"Why, for people."`
}

func (c *runEndCmd) Run(a *app) error {
	if err := errors.Join(checkNames(c.Session, ""), events.CheckToken("run", c.ID)); err != nil {
		return service.UsageError{Err: err}
	}
	cl, err := a.client()
	if err != nil {
		return err
	}
	err = cl.EndRun(a.ctx, c.Session, c.ID, artifacts.RunStatus(c.State), c.Summary)
	if errors.Is(err, client.ErrNoRun) {
		if _, none := a.wholeSession(cl, c.Session); none != nil {
			return none
		}
		return fmt.Errorf("%w\nspool run ls --all %s lists its runs", err, c.Session)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.out, "%s of %s is %s\n", c.ID, c.Session, c.State)
	return err
}
