package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"spool/internal/project"
	"spool/internal/rehydrate"
	"spool/pkg/artifacts"
	"spool/pkg/client"
	"spool/pkg/events"
)

type readCmd struct {
	Address string `arg:"" name:"url" help:"artifact://3, agent://0-Review, blob:sha256:… or SESSION/threads/THREAD/logs/thread.log."`
	Session string `placeholder:"S" help:"Session that artifact:// and agent:// are about."`
	Offset  int64  `placeholder:"N" help:"First line, from 1."`
	Limit   int64  `placeholder:"N" help:"At most so many lines."`
}

func (c *readCmd) Help() string {
	return "The address of an agent's output that is JSON can go on into it: agent://0-Review/findings/0, " +
		"or agent://0-Review?q=findings[0]. A thread's log has its items as they were before any cut, one JSON object a line."
}

func (c *readCmd) Run(a *app) error {
	cl, err := a.client()
	if err != nil {
		return err
	}
	if c.Session != "" {
		if c.Session, err = a.session(cl, c.Session); err != nil {
			return err
		}
	}
	missing := 0
	cl = cl.Internal().Warning(func(m rehydrate.Missing) {
		missing++
		fmt.Fprintln(a.err, m)
	})
	res, err := c.resolve(a, cl)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	for _, note := range res.Notes {
		fmt.Fprintln(a.err, note)
	}
	if _, err = io.Copy(a.out, res.Body); err != nil {
		return err
	}
	return lacking(missing)
}

// resolve finds what the address leads to, and says what to do where it leads nowhere.
func (c *readCmd) resolve(a *app, cl *client.Client) (res artifacts.Resource, err error) {
	lines := artifacts.Lines{Offset: c.Offset, Limit: c.Limit}
	t, isLog := project.ParseLocalLog(strings.TrimPrefix(c.Address, "/"))
	if !isLog {
		res, err = cl.Session(c.Session).Resolve(a.ctx, c.Address, lines)
		switch absent := errors.Is(err, artifacts.ErrNowhere); {
		case errors.Is(err, client.ErrBehind): // it may be in that
		case absent && c.Session == "":
			err = fmt.Errorf("%w: name the session with --session", err)
		case absent, errors.Is(err, artifacts.ErrNotFound) && strings.HasPrefix(c.Address, "artifact:"):
			err = withoutArtifacts(a, cl, c.Session, err)
		}
		return res, err
	}
	_, err = a.reachToRead(cl, t, func(t events.Thread) (err error) {
		res, err = cl.EverySession().Resolve(a.ctx, project.LocalLog(t), lines)
		return err
	})
	return res, err
}

// withoutArtifacts adds to an error what makes artifacts, where the session has none.
func withoutArtifacts(a *app, cl *client.Client, session string, err error) error {
	all, e := cl.Session(session).Artifacts(a.ctx)
	if e != nil || len(all) > 0 {
		return err
	}
	return fmt.Errorf("%w\n%s has no artifacts: spool exec keeps an output of more than 50 KB as one, and any with --keep; "+
		"spool artifact put adds one", err, session)
}
