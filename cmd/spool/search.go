package main

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"spool/internal/history"
	"spool/internal/service"
	"spool/internal/text"
	"spool/internal/view"
	"spool/pkg/events"
)

// itemsOf is which items of the index a command is about.
type itemsOf struct {
	Cwd     string `placeholder:"DIR" help:"Only of sessions that work in this directory."`
	Session string `placeholder:"ID" help:"Only of this session."`
	Since   moment `placeholder:"TIME" help:"Not before: a time, a date, or how long ago (36h, 7d)."`
	Until   moment `placeholder:"TIME" help:"Before, as --since."`
	Data    string `type:"path" placeholder:"DIR" help:"Data directory of spool up (default: $XDG_DATA_HOME/spool or ~/.local/share/spool)."`
	JSON    bool   `help:"As JSON, in the form of the HTTP API."`
}

type searchCmd struct {
	Query []string `arg:"" optional:"" help:"Words, or beginnings of words, that an item has all of; none: the newest items."`
	Tool  string   `placeholder:"NAME" help:"Only calls of this tool and their results."`
	Role  string   `placeholder:"ROLE" help:"Only what it said: user, assistant, tool or system."`
	Limit int      `default:"20" placeholder:"N" help:"At most so many items, up to 1000 (${default})."`
	itemsOf
}

func (c *searchCmd) Help() string {
	return "Prompts, answers, thinking, tool calls and what tools printed, newest first, each with its passage; " +
		"spool show ITEM shows one whole. The index is a local file beside the prompt history, and catches up with what is " +
		"stored before it answers."
}

func (c *searchCmd) Run(a *app) error {
	if c.Limit < 1 || c.Limit > history.MaxLimit {
		return service.UsageError{Err: fmt.Errorf("--limit %d: use 1 to %d", c.Limit, history.MaxLimit)}
	}
	f, err := c.filter()
	if f.Tool, f.Role = c.Tool, c.Role; err == nil {
		err = f.Check()
	}
	if err != nil {
		return service.UsageError{Err: err}
	}
	return withItems(a, &c.itemsOf, f, func(db *history.DB, follower *history.Follower, f history.ItemFilter) error {
		found, err := caughtUp(a.ctx, follower, follower.CatchUp, matchSession, func() ([]history.Match, error) {
			return db.Find(a.ctx, strings.Join(c.Query, " "), f, c.Limit)
		})
		if err != nil {
			return err
		}
		return c.write(a, found)
	})
}

func matchSession(m history.Match) string { return m.Thread.Session }

func (v *itemsOf) filter() (f history.ItemFilter, err error) {
	f.From, f.Until = int64(v.Since), int64(v.Until)
	f.Filter, err = historyOf(v.Session, v.Cwd)
	return f, err
}

// withItems opens the index of items, with the filter of the session that is meant: it can be given by the beginning of its id.
func withItems(a *app, v *itemsOf, f history.ItemFilter, do func(*history.DB, *history.Follower, history.ItemFilter) error) error {
	h := historyCmd{Data: v.Data}
	return h.open(a, ofItems, func(db *history.DB, follower *history.Follower) error {
		if follower != nil && f.Session != "" {
			whole, err := a.named(f.Session)
			if err != nil {
				return err
			}
			f.Session = whole
		}
		return do(db, follower, f)
	})
}

// speakers are whose words items are, by their type, as spool show names them.
var speakers = map[string]string{events.TypeMessage: "user", events.TypeText: "agent"}

func (c *searchCmd) write(a *app, found []history.Match) error {
	if c.JSON {
		return jsonLines(a.plainJSON(), found, view.OfMatch)
	}
	if len(found) == 0 {
		fmt.Fprintln(a.err, "nothing found")
		return nil
	}
	short := func(id string) (string, bool) { return "", false }
	columns := a.columns()
	if cl, err := a.client(); err == nil && columns > 0 {
		short = a.short(cl, nil)
	}
	for _, m := range found {
		item := fmt.Sprintf("%s#%d", m.Thread, m.N)
		if form, ok := short(item); ok {
			item = form
		}
		said := cmp.Or(speakers[m.Kind], strings.ReplaceAll(m.Kind, "_", " "))
		if m.Tool != "" {
			said += " " + m.Tool
		}
		if m.Failed {
			said += ", failed"
		}
		head := strings.Join([]string{text.Ago(m.Time, time.Now()), item, text.Line(said), text.Printable(m.Cwd)}, "  ")
		lines := []string{text.Line(m.Text)}
		if columns > 0 {
			head = text.Cut(strings.TrimSpace(head), columns)
			lines = text.Wrap(lines[0], max(columns-4, 20))
		}
		if _, err := fmt.Fprintf(a.out, "%s\n    %s\n", strings.TrimSpace(head), strings.Join(lines, "\n    ")); err != nil {
			return err
		}
	}
	return nil
}
