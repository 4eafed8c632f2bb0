package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"spool/internal/history"
	"spool/internal/natsio"
	"spool/internal/service"
	"spool/internal/text"
	"spool/internal/view"
	"spool/pkg/events"
)

type historyCmd struct {
	Data string `type:"path" placeholder:"DIR" help:"Data directory of spool up (default: $XDG_DATA_HOME/spool or ~/.local/share/spool)."`

	Search  historySearchCmd  `cmd:"" help:"Find prompts that have all words of the query, newest first."`
	Recent  historyRecentCmd  `cmd:"" help:"Show the newest prompts."`
	Rebuild historyRebuildCmd `cmd:"" help:"Make the prompt history, and the index of spool search, anew from what is stored."`
}

func (c *historyCmd) Help() string {
	return "The history is a local file: spool up keeps one in its data directory, for other systems there is one in the state " +
		"directory. It catches up with what is stored before it answers."
}

// historyView is how much of the history is shown, and how.
type historyView struct {
	Limit   int    `default:"20" placeholder:"N" help:"At most so many prompts, up to 1000 (${default})."`
	Cwd     string `placeholder:"DIR" help:"Only of sessions that work in this directory."`
	Session string `placeholder:"ID" help:"Only of this session."`
	JSON    bool   `help:"Each prompt as one line of JSON."`
}

type historySearchCmd struct {
	Query []string `arg:"" help:"Words, or beginnings of words; what stands inside of words is found when that gives too little. An empty one finds nothing: spool history recent shows the newest."`
	historyView
}

func (c *historySearchCmd) Run(a *app, h *historyCmd) error {
	return c.show(a, h, cmp.Or(strings.Join(c.Query, " "), " "))
}

type historyRecentCmd struct{ historyView }

func (c *historyRecentCmd) Run(a *app, h *historyCmd) error {
	return c.show(a, h, "")
}

type historyRebuildCmd struct{}

func (c *historyRebuildCmd) Run(a *app, h *historyCmd) error {
	if err := rebuild(a, h, ofPrompts, "prompts", (*history.DB).Count); err != nil {
		return err
	}
	return rebuild(a, h, ofItems, "items", (*history.DB).CountItems)
}

func rebuild(a *app, h *historyCmd, of index, what string, count func(*history.DB, context.Context) (int64, error)) error {
	return h.open(a, of, func(db *history.DB, f *history.Follower) error {
		if f == nil {
			return errors.New("nothing to rebuild from: no NATS server answers. Start Spool with: spool up; or name a server with --nats URL")
		}
		if err := f.Rebuild(a.ctx); err != nil {
			return err
		}
		n, err := count(db, a.ctx)
		if err == nil {
			_, err = fmt.Fprintf(a.out, "%d %s\n", n, what)
		}
		return err
	})
}

// index is one of the databases of a NATS system: the file, by that of the history, and who feeds it.
type index struct {
	file     func(history string) string
	follower func(*history.DB, *natsio.Conn, *slog.Logger) *history.Follower
}

var (
	ofPrompts = index{func(path string) string { return path }, history.NewFollower}
	ofItems   = index{history.ItemsFile, history.NewItemsFollower}
)

// show gives the prompts that have the words of a query, or the newest ones.
func (v *historyView) show(a *app, h *historyCmd, query string) error {
	filter, err := v.filter()
	if err != nil {
		return service.UsageError{Err: err}
	}
	return h.open(a, ofPrompts, func(db *history.DB, f *history.Follower) error {
		found, err := prompts(a.ctx, db, f, query, filter, v.Limit)
		if err == nil && len(found) == 0 && f != nil && v.Session != "" {
			if filter.Session, err = a.named(v.Session); err == nil && filter.Session != v.Session {
				found, err = prompts(a.ctx, db, f, query, filter, v.Limit)
			}
		}
		if err != nil {
			return err
		}
		return v.write(a, found)
	})
}

// prompts are those that have the words of a query, or the newest ones where it is empty: the history catches up as far as they ask for it.
func prompts(
	ctx context.Context, db *history.DB, f *history.Follower, query string, of history.Filter, limit int,
) ([]history.Prompt, error) {
	catchUp, ask := f.CatchUp, func() ([]history.Prompt, error) { return db.Search(ctx, query, of, limit) }
	if query == "" {
		catchUp = func(ctx context.Context) error { return f.CatchUpNewest(ctx, of, limit) }
		ask = func() ([]history.Prompt, error) { return db.Recent(ctx, of, limit) }
	}
	return caughtUp(ctx, f, catchUp, func(p history.Prompt) string { return p.Thread.Session }, ask)
}

// caughtUp is the answer of an index that has caught up, and nothing of sessions that were deleted. Without a follower it has what it had
// last.
func caughtUp[T any](
	ctx context.Context, f *history.Follower, catchUp func(context.Context) error, session func(T) string, ask func() ([]T, error),
) ([]T, error) {
	if f == nil {
		return ask()
	}
	for n := 0; ; n++ {
		if n > 1 {
			catchUp = f.CatchUp // which reads nothing again of what is forgotten
		}
		if err := catchUp(ctx); err != nil {
			return nil, err
		}
		found, err := ask()
		if err != nil {
			return nil, err
		}
		if gone, err := f.Forget(ctx, sessionsOf(found, session)); err != nil || gone == 0 {
			return found, err
		}
	}
}

// named finds the session that a flag means.
func (a *app) named(session string) (string, error) {
	cl, err := a.client()
	if err != nil {
		return "", err
	}
	return a.session(cl, session)
}

func (v *historyView) filter() (f history.Filter, err error) {
	if v.Limit < 1 || v.Limit > history.MaxLimit {
		return f, fmt.Errorf("--limit %d: use 1 to %d", v.Limit, history.MaxLimit)
	}
	return historyOf(v.Session, v.Cwd)
}

// historyOf chooses what is of a session and of a directory, where they are named.
func historyOf(session, cwd string) (f history.Filter, err error) {
	if f.Session = session; session != "" {
		err = events.CheckToken("session", session)
	}
	if cwd != "" && err == nil {
		f.Cwd, err = filepath.Abs(cwd)
	}
	return f, err
}

// open opens an index of the NATS system that the flags name. Without a server the one of the data directory answers with
// what it has, and the follower is nil.
func (c *historyCmd) open(a *app, of index, do func(*history.DB, *history.Follower) error) error {
	kept, err := c.kept()
	if err != nil {
		return err
	}
	conn, err := a.dial()
	if err != nil {
		if _, e := os.Stat(of.file(kept)); a.nats.Given() || e != nil {
			return err
		}
		fmt.Fprintln(a.err, "No NATS server answers: this is what was known last.")
		return history.With(of.file(kept), func(db *history.DB) error { return do(db, nil) })
	}
	return c.of(a, of, conn, kept, do)
}

// of opens an index of the NATS system at the other end.
func (c *historyCmd) of(a *app, of index, conn *natsio.Conn, kept string, do func(*history.DB, *history.Follower) error) error {
	file, err := c.file(a, conn, kept)
	if err != nil {
		return err
	}
	return history.WithSound(of.file(file), a.log, func(db *history.DB) error { return do(db, of.follower(db, conn, a.log)) })
}

// kept is the file that spool up keeps.
func (c *historyCmd) kept() (string, error) {
	data := c.Data
	if data == "" {
		var err error
		if data, err = service.DataDir(); err != nil {
			return "", err
		}
	}
	return service.HistoryFile(data), nil
}

// file is the one that spool up keeps if it is of the system at the other end, or else one of our own.
func (c *historyCmd) file(a *app, conn *natsio.Conn, kept string) (string, error) {
	now, err := conn.Items().Extent(a.ctx, nil)
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(kept); !errors.Is(err, fs.ErrNotExist) {
		var at history.Position
		err := history.With(kept, func(db *history.DB) (err error) {
			at, err = db.Position(a.ctx)
			return err
		})
		if err == nil && at.Stream == now.Stream {
			return kept, nil
		}
	}
	dir, err := service.StateDir()
	return filepath.Join(dir, "history", strings.ReplaceAll(now.Stream, ":", "")+".db"), err
}

// historyFile is the file of who keeps the history of a NATS system that is elsewhere.
func (a *app) historyFile(conn *natsio.Conn) (string, error) {
	var c historyCmd
	kept, err := c.kept()
	if err != nil {
		return "", err
	}
	return c.file(a, conn, kept)
}

// historyFiles are the files on this machine that may hold prompts of a NATS system. None is no error: then there is no history.
func historyFiles(a *app, conn *natsio.Conn) (files []string) {
	var c historyCmd
	kept, err := c.kept()
	if err != nil {
		return nil
	}
	file, err := c.file(a, conn, kept)
	if err != nil {
		return nil
	}
	return []string{file}
}

func sessionsOf[T any](found []T, session func(T) string) (names []string) {
	for _, one := range found {
		names = append(names, session(one))
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func (v *historyView) write(a *app, found []history.Prompt) error {
	if v.JSON {
		return jsonLines(a.plainJSON(), found, view.OfPrompt)
	}
	if len(found) == 0 {
		fmt.Fprintln(a.err, "no prompts found")
		return nil
	}
	t := a.table()
	if cl, err := a.client(); err == nil && t.Columns > 0 {
		t.Short = a.short(cl, nil)
	}
	fmt.Fprintln(t, "WHEN\tTHREAD\tDIRECTORY\tPROMPT")
	for _, p := range found {
		line := strings.Join(strings.Fields(p.Text), " ")
		if r := []rune(line); len(r) > 100 {
			line = string(r[:100]) + "…"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", text.Ago(p.Time, time.Now()), p.Thread, text.Printable(p.Cwd), text.Printable(line))
	}
	return t.Flush()
}
