package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"text/tabwriter"
	"time"

	"spool/internal/text"
	"spool/pkg/client"
	"spool/pkg/events"
)

type sessionCmd struct {
	Ls sessionLsCmd `cmd:"" aliases:"list" help:"List sessions, newest first."`
}

type sessionLsCmd struct {
	JSON bool `help:"Each session as one line of JSON."`
}

func (c *sessionLsCmd) Run(a *app) error {
	cl, done, err := a.client()
	if err != nil {
		return err
	}
	defer done()
	list, err := cl.Sessions(a.ctx, "")
	if err != nil {
		return err
	}
	slices.SortStableFunc(list, func(x, y client.Session) int { return int(y.Updated() - x.Updated()) })
	if c.JSON {
		enc := json.NewEncoder(a.out)
		for _, s := range list {
			if err := enc.Encode(sessionJSON(s)); err != nil {
				return err
			}
		}
		return nil
	}
	t := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "SESSION\tHARNESS\tTHREADS\tENTRIES\tITEMS\tUPDATED\tTITLE")
	for _, s := range list {
		var entries, items int64
		for _, th := range s.Threads {
			entries, items = entries+th.Head.Entries, items+th.Head.N
		}
		title := s.Title
		if title == "" {
			title = s.Cwd
		}
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%d\t%s\t%s\n", s.ID, s.Harness, len(s.Threads), entries, items,
			text.Ago(s.Updated(), time.Now()), printable(title))
	}
	return t.Flush()
}

// sessionJSON is a session as programs read it.
func sessionJSON(s client.Session) map[string]any {
	var ts []any
	for _, th := range s.Threads {
		ts = append(ts, threadJSON(th))
	}
	return map[string]any{
		"session": s.ID, "harness": s.Harness, "title": s.Title, "cwd": s.Cwd, "model": s.Model, "created": s.Created,
		"updated": s.Updated(), "threads": ts,
	}
}

func threadJSON(t client.Thread) map[string]any {
	return map[string]any{
		"session": t.Session, "thread": t.Name, "status": t.Head.Status.String(), "entries": t.Head.Entries, "items": t.Head.N,
		"head": t.Head.Head().Ref.String(), "start": t.Head.Start.Ref.String(), "tips": len(t.Head.Tips),
		"updated": t.Head.Updated, "bytes_in": t.Head.BytesIn, "truncated": t.Head.Truncated,
		"externalized": t.Head.Externalized, "unknown": t.Head.Unknown, "failure": t.Head.Failure,
	}
}

// checkNames checks a session and, if there is one, a thread.
func checkNames(session, thread string) error {
	err := events.CheckToken("session", session)
	if thread != "" {
		err = errors.Join(err, events.CheckToken("thread", thread))
	}
	return err
}
