package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"spool/internal/access"
	"spool/internal/history"
	"spool/internal/mcp"
	"spool/internal/service"
	"spool/pkg/client"
)

type mcpCmd struct {
	Answer bool   `help:"Also give it a tool that answers prompts, for the person who started it."`
	By     string `placeholder:"NAME" help:"With --answer: who answers (default: mcp: and the user name)."`
	Data   string `type:"path" placeholder:"DIR" help:"Data directory of spool up, for its prompt history (default: $XDG_DATA_HOME/spool or ~/.local/share/spool)."`
}

func (c *mcpCmd) Help() string {
	return "It speaks the Model Context Protocol on standard input and output, and ends with its input. For Claude " +
		"Code: claude mcp add spool -- spool mcp. A model is given tools that list sessions, search what was asked for, said and printed, and " +
		"read threads, items and artifacts; none of them changes anything, unless --answer is given."
}

func (c *mcpCmd) Run(a *app) error {
	if c.By != "" && !c.Answer {
		return service.UsageError{Err: errors.New("--by says who answers: give --answer, too")}
	}
	conn, err := a.dial()
	if err != nil {
		return err
	}
	h := historyCmd{Data: c.Data}
	kept, err := h.kept()
	if err != nil {
		return err
	}
	cfg := mcp.Config{Client: client.New(conn).Internal().Serving()}
	cfg.Version, _ = service.Version()
	if c.Answer {
		if cfg.Answerer = c.By; c.By == "" {
			cfg.Answerer = "mcp:" + userName()
		}
	}
	cfg.Asked = func(ctx context.Context, query string, f history.Filter, limit int) (found []history.Prompt, err error) {
		err = h.of(a, ofPrompts, conn, kept, func(db *history.DB, follower *history.Follower) (err error) {
			found, err = prompts(ctx, db, follower, query, f, limit)
			return err
		})
		return found, err
	}
	cfg.Found = func(ctx context.Context, query string, f history.ItemFilter, limit int) (found []history.Match, err error) {
		err = h.of(a, ofItems, conn, kept, func(db *history.DB, follower *history.Follower) (err error) {
			found, err = caughtUp(ctx, follower, follower.CatchUp, matchSession, func() ([]history.Match, error) { return db.Find(ctx, query, f, limit) })
			return err
		})
		return found, err
	}
	if service.IsTerminal(a.in) {
		fmt.Fprintln(a.err, "spool: a program speaks to this, not a person: claude mcp add spool -- spool mcp")
	}
	stdio := &sdk.IOTransport{Reader: io.NopCloser(a.in), Writer: unclosed{a.out}}
	err = mcp.New(cfg).Run(access.With(a.ctx, access.All()), mcp.Patient{Transport: stdio})
	if a.ctx.Err() != nil { // a signal ended it
		return nil
	}
	return err
}

// unclosed leaves what is written to open.
type unclosed struct{ io.Writer }

func (unclosed) Close() error { return nil }
