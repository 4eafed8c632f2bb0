package history

import (
	"cmp"
	"context"
	"database/sql"
	"errors"

	"spool/internal/project"
	"spool/pkg/client"
	"spool/pkg/events"
)

// openTurn is the kind of a row of said that is of no item: what a thread's agent has taken since the end of its last turn. Its number is
// that of the thread's last item then, below zero, so that the turn's end takes its place.
const openTurn = "open_turn"

// LearnOpenTurns brings in what no item tells: what agents have taken since the last ends of their turns. It reads the heads that were
// stored since it was called before.
func (db *DB) LearnOpenTurns(ctx context.Context, cl *client.Client) error {
	for {
		was, err := db.mark(ctx, db.sql)
		if err != nil {
			return err
		}
		heads, now, all, err := cl.Internal().HeadsSince(ctx, was)
		if err != nil || now == was {
			return err
		}
		var left, changed []Post
		for t, err := range heads {
			if err != nil {
				return err
			}
			if t.Head.Start.IsZero() {
				left = append(left, Post{Thread: t.Thread})
				continue
			}
			stats := project.OpenTurn(&t.Head)
			if events.FormerOf(t.Thread) == "" && (!all || stats != events.Stats{}) { // a former one goes on in the next generation
				changed = append(changed, Post{Thread: t.Thread, N: -t.Head.N, Life: int64(t.Head.Life), Time: t.Head.Updated, Kind: openTurn,
					Stats: stats})
			}
		}
		if err = db.applyOpenTurns(ctx, was, now, all, append(left, changed...)); !errors.Is(err, ErrMoved) {
			return wrap("store open turns", err)
		}
	}
}

// applyOpenTurns stores what heads say. ErrMoved: another process has read what was stored since.
func (db *DB) applyOpenTurns(ctx context.Context, was, now client.Mark, all bool, changed []Post) error {
	return db.transact(ctx, func(tx *sql.Tx) error {
		if at, err := db.mark(ctx, tx); err != nil || at != was {
			return cmp.Or(err, ErrMoved)
		}
		w := newWriter(ctx, tx)
		if all {
			if err := w.exec("DELETE FROM said WHERE n <= 0"); err != nil {
				return err
			}
		}
		for _, p := range changed {
			err := w.exec("DELETE FROM said WHERE session = (SELECT id FROM sessions WHERE name = ?) AND base = ? AND n <= 0", p.Thread.Session,
				p.Thread.Name)
			if err == nil && p.Stats != (events.Stats{}) {
				err = w.sayOpen(p)
			}
			if err != nil {
				return err
			}
		}
		return w.exec("UPDATE position SET store = ?, heads = ?", now.Store, int64(now.Seq))
	})
}

// sayOpen is say for an open turn, unless its end has come meanwhile.
func (w *writer) sayOpen(p Post) error {
	at, _, err := w.find("said", p)
	if err != nil {
		return err
	}
	ended, err := w.get("SELECT 1 FROM said WHERE session = ? AND thread = ? AND life = ? AND n > -? AND kind = '"+events.TypeTurnEnd+"'",
		at, new(int))
	if err != nil || ended {
		return err
	}
	return w.say(p)
}

// mark is up to where heads were read.
func (db *DB) mark(ctx context.Context, q querier) (m client.Mark, err error) {
	err = q.QueryRowContext(ctx, "SELECT store, heads FROM position").Scan(&m.Store, &m.Seq)
	return m, wrap("read up to where heads were read", err)
}
