package main

import (
	"fmt"
	"io"

	"spool/internal/rehydrate"
	"spool/internal/service"
	"spool/pkg/artifacts"
)

type readCmd struct {
	Address string `arg:"" name:"url" help:"artifact://3, agent://0-Review, blob:sha256:… or SESSION/threads/THREAD/logs/thread.log."`
	Session string `placeholder:"S" help:"Session that artifact:// and agent:// are about."`
	Offset  int64  `placeholder:"N" help:"First line, from 1."`
	Limit   int64  `placeholder:"N" help:"At most so many lines."`
}

func (c *readCmd) Help() string {
	return "The address of an agent's output that is JSON can go on into it: agent://0-Review/findings/0, or agent://0-Review?q=findings[0]. " +
		"A thread's log has its items as they were before any cut, one JSON object a line."
}

func (c *readCmd) Run(a *app) error {
	if c.Session != "" {
		if err := checkNames(c.Session, ""); err != nil {
			return service.UsageError{Err: err}
		}
	}
	cl, err := a.client()
	if err != nil {
		return err
	}
	missing := 0
	cl = cl.Warning(func(m rehydrate.Missing) {
		missing++
		fmt.Fprintln(a.err, m)
	})
	res, err := cl.Resolve(a.ctx, c.Session, c.Address, artifacts.Lines{Offset: c.Offset, Limit: c.Limit})
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
