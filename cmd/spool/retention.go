package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os/user"
	"time"

	"spool/internal/retention"
	"spool/internal/service"
	"spool/internal/text"
)

type retentionCmd struct {
	Report retentionReportCmd `cmd:"" help:"Say which sessions the policies would remove."`
	Apply  retentionApplyCmd  `cmd:"" help:"Remove them."`
}

func (c *retentionCmd) Help() string {
	return "Policies are the tables [[retention]] of the configuration file. gc, and spool up, apply them before each cycle, " +
		"but only report those that they see for the first time. A session in which somebody works, or that waits for a person, is never removed."
}

var errNoPolicies = errors.New(`no policies: the configuration file has no table [[retention]]; see docs/operations.md, "Deletion and retention"`)

// retention connects.
func (a *app) retention() (r service.Retention, err error) {
	policies, err := service.OpenPolicies(a.config)
	if err != nil {
		return r, err
	}
	conn, err := a.dial()
	if err != nil {
		return r, err
	}
	r = service.Retention{Conn: conn, Policies: policies, Log: a.log}
	if u, err := user.Current(); err == nil {
		r.By = u.Username
	}
	return r, nil
}

type retentionReportCmd struct {
	JSON bool `name:"json" help:"The report as one JSON object."`
}

func (c *retentionReportCmd) Run(a *app) error {
	r, err := a.retention()
	if err != nil {
		return err
	}
	rep, err := r.Report(a.ctx)
	return errors.Join(err, writeRetention(a, rep, c.JSON))
}

type retentionApplyCmd struct {
	unasked
	Share float64 `default:"0.3" most:"1" help:"Most that may be removed of all sessions; ten may always go (${default})."`
	Allow string  `placeholder:"damage" enum:",damage" default:"" help:"damage: remove although something that was lost stands, or a clock is wrong."`
	JSON  bool    `name:"json" help:"The report as one JSON object."`
}

func (c *retentionApplyCmd) Run(a *app) error {
	r, err := a.retention()
	if err == nil && len(r.Policies) == 0 {
		err = service.UsageError{Err: errNoPolicies}
	}
	if err != nil {
		return err
	}
	r.Share, r.Damaged = c.Share, c.Allow != ""
	rep, err := r.Report(a.ctx)
	if err == nil {
		err = retention.Brake(len(rep.Due), rep.Sessions, r.Share)
	}
	if err != nil {
		return err
	}
	if len(rep.Due) > 0 {
		if err := a.confirm(c.Yes, text.Sprintf("remove %d sessions of %s for ever", len(rep.Due), text.Bytes(rep.Bytes))); err != nil {
			return err
		}
		rep, err = r.Apply(a.ctx)
	}
	return errors.Join(err, writeRetention(a, rep, c.JSON))
}

func writeRetention(a *app, rep service.RetentionReport, asJSON bool) error {
	switch {
	case asJSON:
		return json.NewEncoder(a.out).Encode(rep)
	case rep.At == "": // there is none: why is said already
		return nil
	case len(rep.Policies) == 0:
		_, err := fmt.Fprintln(a.err, errNoPolicies)
		return err
	}
	t := a.table()
	fmt.Fprintln(t, "SESSION\tMODIFIED\tSIZE\tPOLICY\tWHY")
	for _, d := range rep.Due {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", d.Session, text.Ago(d.Modified, time.Now()), text.Bytes(d.Bytes), text.Printable(d.Policy), d.Why)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if rep.Applied {
		_, err := fmt.Fprintf(a.err, "%d of %d sessions were removed\n", len(rep.Removed), len(rep.Due))
		return err
	}
	_, err := fmt.Fprintf(a.err, "%d of %d sessions, %s, would be removed: spool retention apply\n", len(rep.Due),
		rep.Sessions, text.Bytes(rep.Bytes))
	return err
}
