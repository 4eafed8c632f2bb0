package main

import (
	"cmp"
	"encoding/json"
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
	Ls    runLsCmd    `cmd:"" aliases:"list" help:"List the runs that are queued, pending or running."`
	Start runStartCmd `cmd:"" help:"Begin a run in a thread, with a lease, and print its id."`
	Renew runRenewCmd `cmd:"" help:"Give a sign of life of a run: its lease begins anew."`
	End   runEndCmd   `cmd:"" help:"End a run; its agent is told."`
}

type runLsCmd struct {
	listArgs
	All bool `help:"The ended ones too, and those whose lease is over: they count as failed."`
}

func (c *runLsCmd) Run(a *app) error {
	find := func(cl *client.Client) ([]client.RunInfo, error) {
		runs, err := cl.Session(c.Session).Runs(a.ctx)
		return slices.DeleteFunc(runs, func(r client.RunInfo) bool { return !c.All && !r.Active() }), err
	}
	return list(a, &c.listArgs, find, look[client.RunInfo]{
		json:   func(r client.RunInfo) any { return client.RunJSON(r) },
		none:   "no runs",
		header: "RUN\tTHREAD\tAGENT\tSTATE\tAGE\tLEASE LEFT",
		row: func(r client.RunInfo) string {
			return fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%s", r.ID, r.Thread, cmp.Or(text.Printable(r.Agent), "-"), text.Printable(string(r.State)),
				cmp.Or(text.Ago(events.MillisOf(r.Begun), time.Now()), "-"), leaseLeft(r))
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

type runStartCmd struct {
	Thread  string        `arg:"" name:"session[/thread]" help:"The thread; main unless named. One that is not there begins with the run."`
	ID      string        `name:"id" placeholder:"ID" help:"Names the run in its session, for ever (default: a new one)."`
	Agent   string        `placeholder:"NAME" help:"Who runs."`
	State   string        `default:"running" enum:"queued,pending,running" help:"Where it stands (${enum})."`
	Lease   time.Duration `default:"1m" least:"1s" most:"168h0m0s" help:"How long a sign of life counts, at least 1s."`
	Summary string        `placeholder:"TEXT" help:"What it is about, for people."`
	JSON    bool          `help:"The run as one line of JSON, instead of its id."`
}

func (c *runStartCmd) Help() string {
	return "A run without a sign of life (spool run renew) counts as failed when its lease is over."
}

func (c *runStartCmd) Run(a *app) error {
	t, err := events.ParseThread(c.Thread)
	if err != nil {
		return service.UsageError{Err: err}
	}
	cl, err := a.client()
	if err != nil {
		return err
	}
	run, err := cl.Thread(t).StartRun(a.ctx, client.RunConfig{
		ID: c.ID, Agent: c.Agent, State: artifacts.RunStatus(c.State), Lease: c.Lease, Summary: c.Summary,
	})
	if err == nil {
		err = run.Wait(a.ctx)
	}
	if errors.Is(err, events.ErrControl) {
		return service.UsageError{Err: err}
	}
	if err != nil {
		return err
	}
	return a.sayRun(cl, c.JSON, t.Session, run.ID(), run.ID())
}

// sayRun says what is done: the run as JSON, or in words.
func (a *app) sayRun(cl *client.Client, asJSON bool, session, id, words string) error {
	if !asJSON {
		_, err := fmt.Fprintln(a.out, words)
		return err
	}
	runs, err := cl.Session(session).Runs(a.ctx)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(runs, func(r client.RunInfo) bool { return r.ID == id })
	if at < 0 {
		return fmt.Errorf("%w: %s in the session %s", client.ErrNoRun, id, session)
	}
	return json.NewEncoder(a.out).Encode(client.RunJSON(runs[at]))
}

type runRenewCmd struct {
	Session string        `arg:"" help:"Session."`
	ID      string        `arg:"" name:"run" help:"Id of the run."`
	State   string        `default:"" enum:",pending,running" help:"Where it stands now: pending, running (default: as it was)."`
	Lease   time.Duration `least:"1s" most:"168h0m0s" help:"How long a sign of life counts, at least 1s (default: as it was)."`
	Summary string        `placeholder:"TEXT" help:"What it is about now, for people."`
	JSON    bool          `help:"The run as one line of JSON."`
}

func (c *runRenewCmd) Help() string {
	return "Fails with exit code 1 when the run has ended, perhaps by somebody else's hand: then its agent is to stop."
}

func (c *runRenewCmd) Run(a *app) error {
	return a.onRun(&c.Session, c.ID, func(cl *client.Client) error {
		how := client.RunConfig{State: artifacts.RunStatus(c.State), Lease: c.Lease, Summary: c.Summary}
		if err := cl.Session(c.Session).RenewRun(a.ctx, c.ID, how); err != nil {
			return err
		}
		return a.sayRun(cl, c.JSON, c.Session, c.ID, fmt.Sprintf("%s of %s lives", c.ID, c.Session))
	})
}

type runEndCmd struct {
	Session string `arg:"" help:"Session."`
	ID      string `arg:"" name:"run" help:"Id of the run."`
	State   string `default:"cancelled" enum:"completed,failed,aborted,cancelled" help:"How it ends (${enum})."`
	Summary string `placeholder:"TEXT" help:"Why, for people."`
	JSON    bool   `help:"The run as one line of JSON."`
}

func (c *runEndCmd) Run(a *app) error {
	return a.onRun(&c.Session, c.ID, func(cl *client.Client) error {
		if err := cl.Session(c.Session).EndRun(a.ctx, c.ID, artifacts.RunStatus(c.State), c.Summary); err != nil {
			return err
		}
		return a.sayRun(cl, c.JSON, c.Session, c.ID, fmt.Sprintf("%s of %s is %s", c.ID, c.Session, c.State))
	})
}

// onRun runs something on a run, and says what there is instead where there is none. Of a session's beginning it makes the session.
func (a *app) onRun(session *string, id string, do func(cl *client.Client) error) error {
	if err := errors.Join(checkNames(*session, ""), events.CheckToken("run", id)); err != nil {
		return service.UsageError{Err: err}
	}
	cl, err := a.client()
	if err != nil {
		return err
	}
	err = do(cl)
	if errors.Is(err, client.ErrNoRun) {
		found, none := a.changed(cl, *session)
		if none != nil {
			return none
		}
		if found != *session {
			*session = found
			err = do(cl)
		}
	}
	switch {
	case errors.Is(err, client.ErrNoRun):
		return fmt.Errorf("%w\nspool run ls --all %s lists its runs", err, *session)
	case errors.Is(err, events.ErrControl):
		return service.UsageError{Err: err}
	default:
		return err
	}
}
