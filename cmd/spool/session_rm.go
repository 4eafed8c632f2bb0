package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/user"
	"strings"

	"spool/internal/gc"
	"spool/internal/service"
	"spool/internal/text"
	"spool/pkg/artifacts"
	"spool/pkg/client"
)

type sessionRmCmd struct {
	Sessions []string `arg:"" name:"session" help:"The sessions."`
	Yes      bool     `short:"y" help:"Do not ask."`
	Force    bool     `short:"f" help:"Do not ask, and do not mind runs and outputs that are live."`
	Now      bool     `help:"Erase: collect at once what nothing else has of them, and write over it."`
	Allow    []string `placeholder:"BRAKE" help:"With --now, collect in spite of a brake of gc: no-roots, share, rewind, damage, reclaim, world, missing."`
	By       string   `placeholder:"NAME" help:"Who does it, for the receipt (default: you)."`
	JSON     bool     `name:"json" help:"Each receipt as one line of JSON."`
}

func (c *sessionRmCmd) Help() string {
	return "With a session go its threads, those of subagents too, items, events, runs, prompts and artifacts. Forks in other sessions keep " +
		"what they share with it. The receipt says what went, and what stays and why."
}

func (c *sessionRmCmd) Run(a *app) error {
	for _, name := range c.Sessions {
		if err := checkNames(name, ""); err != nil {
			return service.UsageError{Err: err}
		}
	}
	if len(c.Allow) > 0 && !c.Now {
		return service.UsageError{Err: errors.New("--allow is about the collection of --now")}
	}
	if err := c.ask(a); err != nil {
		return err
	}
	how := client.Deletion{Force: c.Force, By: c.By}
	if how.By == "" {
		if u, err := user.Current(); err == nil {
			how.By = u.Username
		}
	}
	receipts, err := c.remove(a, how)
	for _, r := range receipts {
		if e := c.write(a.out, r); e != nil {
			return errors.Join(err, e)
		}
	}
	return asActive(err)
}

// ask asks whether to remove the sessions, and finds them first: who is asked is told which they are.
func (c *sessionRmCmd) ask(a *app) error {
	if c.Yes || c.Force {
		return nil
	}
	cl, err := a.client()
	if err != nil {
		return err
	}
	for i, name := range c.Sessions {
		if c.Sessions[i], err = a.changed(cl, name); err != nil {
			return err
		}
	}
	return a.confirm(false, "remove for ever: "+strings.Join(c.Sessions, ", "))
}

// remove deletes the sessions one by one; what can not be deleted does not keep the others.
func (c *sessionRmCmd) remove(a *app, how client.Deletion) (receipts []client.Receipt, err error) {
	conn, err := a.dial()
	if err != nil {
		return nil, err
	}
	files := historyFiles(a, conn)
	cl := client.New(conn)
	if c.Now {
		e := service.Erasure{Conn: conn, How: how, Histories: files, Log: a.log}
		for _, brake := range c.Allow {
			e.Allow = append(e.Allow, gc.Brake(brake))
		}
		receipts, err = e.Run(a.ctx, c.Sessions...)
		if one := c.Sessions[0]; len(c.Sessions) == 1 && errors.Is(err, client.ErrSessionNotFound) {
			_, none := a.wholeSession(cl, one)
			err = cmp.Or(none, err)
		}
		return receipts, err
	}
	var errs []error
	for _, name := range c.Sessions {
		r, err := cl.Session(name).Delete(a.ctx, how)
		if err == nil {
			receipts = append(receipts, r)
			err = service.Forget(a.ctx, files, name)
		}
		if errors.Is(err, client.ErrSessionNotFound) {
			_, none := a.wholeSession(cl, name)
			err = cmp.Or(none, err)
		} else if err != nil {
			err = fmt.Errorf("session %s: %w", name, err)
		}
		errs = append(errs, err)
	}
	return receipts, errors.Join(errs...)
}

// asActive says what to do about a session in which somebody works.
func asActive(err error) error {
	var active *artifacts.ActiveError
	if !errors.As(err, &active) {
		return err
	}
	said := ""
	if len(active.Runs) > 0 {
		said = fmt.Sprintf("\nLive runs: %s. End them with spool run end.", strings.Join(active.Runs, ", "))
	}
	if len(active.Outputs) > 0 {
		said += fmt.Sprintf("\nOpen outputs: %s. Each ends with its tool (stop spool exec, or what prints), or as aborted "+
			"when it was silent for its lease.", strings.Join(active.Outputs, ", "))
	}
	return fmt.Errorf("%w%s\nOr say --force", err, said)
}

func (c *sessionRmCmd) write(w io.Writer, r client.Receipt) error {
	if c.JSON {
		return json.NewEncoder(w).Encode(r)
	}
	g := r.Gone
	text.Fprintf(w, "removed session %s: %d threads, %d entries, %d items, %s; %d artifacts, %s; %d runs, %d prompts\n",
		r.Session, g.Threads, g.Entries,
		g.Items, text.Bytes(g.Bytes), g.Artifacts, text.Bytes(g.ArtifactBytes), g.Runs, g.Prompts)
	for _, o := range r.Overwritten {
		text.Fprintf(w, "  written over in %s: %d messages, %s\n", o.Stream, o.Messages, text.Bytes(o.Bytes))
	}
	if d := r.Collected; d != nil {
		text.Fprintf(w, "  collected: %d packs and blobs, %d packs repacked, %d objects of %s reclaimed\n", d.Condemned,
			d.Repacked, d.Reclaimed, text.Bytes(d.Bytes))
	}
	for _, k := range r.Kept {
		what, users := k.What, ""
		if k.Count > 0 {
			what = text.Sprintf("%d "+k.What, k.Count)
		}
		if len(k.Sessions) > 0 {
			users = " (" + strings.Join(k.Sessions, ", ") + ")"
		}
		fmt.Fprintf(w, "  kept: %s: %s%s\n", what, k.Why, users)
	}
	for i, h := range r.Heads {
		if i == mostStates {
			text.Fprintf(w, "  and %d more threads: --json names the states of all\n", len(r.Heads)-i)
			break
		}
		text.Fprintf(w, "  %s, %d entries, until gc takes them: spool export %s -o FILE\n", h.Thread, h.Entries, h.State)
	}
	for _, m := range r.MayRemain {
		fmt.Fprintf(w, "  may remain: %s\n", m)
	}
	return nil
}
