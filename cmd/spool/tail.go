package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"spool/internal/service"
	"spool/internal/show"
	"spool/pkg/client"
	"spool/pkg/events"
)

type tailCmd struct {
	Where   string `arg:"" optional:"" name:"session[/thread]" help:"What to follow (default: everything)."`
	All     bool   `xor:"from" help:"From the first item that is kept."`
	New     bool   `xor:"from" help:"From now on (the default)."`
	Last    bool   `xor:"from" help:"The newest item of each kind in each thread, then what follows."`
	Since   moment `xor:"from" placeholder:"TIME" help:"From there on: a time, a date, or how long ago (36h, 7d)."`
	Type    string `placeholder:"TYPE" help:"Only items of this type: message, text, tool_call, tool_result, thinking, status, turn_end, pending_prompt, pending_prompt_resolved, or one of your own."`
	NotUser string `placeholder:"USER" help:"Without the items of this user_id: who posts and follows would read itself."`
	JSON    bool   `help:"Each item as one line of JSON."`
	End     bool   `short:"T" name:"terminate-at-end" help:"Stop when everything that is stored was shown."`
	Count   int    `placeholder:"N" help:"Stop after so many items."`
}

func (c *tailCmd) Run(a *app) error {
	filter, from, err := c.parse()
	if err != nil {
		return err
	}
	cl, err := a.client()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(a.ctx)
	defer cancel()
	if empty, err := c.look(ctx, a, cl, &filter, from); err != nil || c.End && empty {
		return err
	}
	shown, view := 0, newTailView(a)
	for item, err := range cl.Subscribe(ctx, filter, from) {
		if err != nil {
			return err
		}
		mine := c.NotUser != "" && item.User == c.NotUser
		switch {
		case mine:
		case c.JSON:
			_, err = fmt.Fprintf(a.out, "%s\n", item.Raw)
		case view != nil:
			_, err = fmt.Fprintln(a.out, view.line(&item))
		default:
			_, err = fmt.Fprintln(a.out, itemLine(&item))
		}
		if err != nil {
			return err
		}
		if !mine {
			shown++
		}
		if c.Count > 0 && shown == c.Count || c.End && item.More == 0 {
			return nil
		}
	}
	return nil
}

// look says what there is of what is to be followed: who reads to the end is told of a wrong name, or, where he gave the beginning of an
// id, reads the session that it is of; who waits is told that he does. empty: nothing of it is stored.
func (c *tailCmd) look(
	ctx context.Context, a *app, cl *client.Client, f *client.Filter, from client.Position,
) (empty bool, err error) {
	if err := cl.Internal().CheckType(ctx, *f); err != nil {
		return false, err
	}
	if empty, err = cl.Internal().Empty(ctx, *f, from); err != nil {
		return false, err
	}
	switch {
	case f.Session == "":
	case !c.End:
		a.noteAwaited(cl, f.Session, f.Thread)
	case empty:
		asked := f.Session
		if err := a.there(cl, f); err != nil {
			return false, err
		}
		if f.Session != asked {
			if empty, err = cl.Internal().Empty(ctx, *f, from); err != nil {
				return false, err
			}
		}
	}
	if empty && (c.All || c.Last) && c.Type == "" {
		return true, c.noteUnkept(ctx, a, cl, *f, from)
	}
	if empty && c.Type != "" && !slices.Contains(events.OwnTypes, c.Type) {
		_, err = fmt.Fprintf(a.err, "spool: no item has the type %s yet; Spool's own types are %s\n",
			c.Type, strings.Join(events.OwnTypes, ", "))
	}
	return empty, err
}

// there finds the session, and the thread, that a filter names.
func (a *app) there(cl *client.Client, f *client.Filter) (err error) {
	if f.Thread == "" {
		f.Session, err = a.session(cl, f.Session)
		return err
	}
	t, err := a.reachToRead(cl, events.Thread{Session: f.Session, Name: f.Thread}, func(t events.Thread) error {
		_, err := cl.Thread(t).AwaitHead(a.ctx)
		return err
	})
	f.Session, f.Thread = t.Session, t.Name
	return err
}

// noteUnkept says of threads whose items the stream keeps no more that they are there: items have an age, and a restored
// system begins without any.
func (c *tailCmd) noteUnkept(
	ctx context.Context, a *app, cl *client.Client, f client.Filter, from client.Position,
) error {
	all, err := cl.Session(f.Session).Threads(a.ctx)
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(t client.Thread) bool { return t.Head.N == 0 || f.Thread != "" && t.Name != f.Thread })
	if len(all) == 0 {
		return nil
	}
	if empty, err := cl.Internal().Empty(ctx, f, from); err != nil || !empty { // a thread may have begun since it was empty
		return err
	}
	others := ""
	if len(all) > 1 {
		others = fmt.Sprintf(", nor of %d more threads", len(all)-1)
	}
	_, err = fmt.Fprintf(a.err, "SPOOL_ITEMS has no items of %s%s: they are older than it keeps, or than a fork or a restore; "+
		"threads have them: spool show %s\n", all[0].Thread, others, all[0].Thread)
	return err
}

func (c *tailCmd) parse() (f client.Filter, p client.Position, err error) {
	f.Type = c.Type
	if c.Where != "" {
		session, thread, _ := strings.Cut(c.Where, "/")
		f.Session, f.Thread = session, thread
		if err := checkNames(session, thread); err != nil {
			return f, p, service.UsageError{Err: err}
		}
	}
	p.All, p.Last = c.All, c.Last
	if c.Since != 0 {
		p.Since = time.UnixMilli(int64(c.Since))
	}
	return f, p, nil
}

// itemLine is an item in one line: when, where, what.
func itemLine(i *client.Item) string {
	brief := show.Read(i.Raw).Brief
	if r := []rune(brief); len(r) > 160 {
		brief = string(r[:160]) + "…"
	}
	return fmt.Sprintf("%s %s  %s", itemPlace(i, i.Session), i.Type(), brief)
}

// itemPlace is when and where an item is, in a session that is shown so.
func itemPlace(i *client.Item, session string) string {
	at := i.CreatedAt
	if t, err := time.Parse(time.RFC3339, at); err == nil {
		at = t.Local().Format("15:04:05")
	}
	return fmt.Sprintf("%s %s/%s %d", at, session, i.Thread, i.N)
}
