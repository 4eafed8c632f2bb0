package history

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"spool/pkg/events"
)

// Post is a user post as a thread has it.
type Post struct {
	Thread events.Thread
	N      int64  // number of the item in its thread
	Life   int64  // which of the threads that had the name: threads.Head.Life
	Time   int64  // Unix milliseconds, 0 = nobody said
	Seq    uint64 // in the stream, which orders those of one millisecond; 0: it came from a thread
	Text   string

	// Of an index of all items; of a prompt in a history they are empty.
	Kind   string // the item's type, events.TypeMessage for a user post
	Tool   string // of a call
	Call   string // what a call and its result share
	Failed bool   // of a result
	Stats  events.Stats
}

// Session is what is known of a session.
type Session struct{ Name, Cwd, Host, Harness, Model string }

// Position is how far a history has read a stream.
type Position struct {
	Stream string // which one; "" before the first time
	Seq    uint64 // all up to this sequence is in
}

// Batch is what one transaction adds.
type Batch struct {
	From     Position // where reading began
	To       uint64   // all between From and this is in the batch; below From.Seq: the position stays
	Posts    []Post
	Sessions []Session                // of the posts, as far as known
	Former   []Former                 // of the threads of the posts
	Filled   map[events.Thread]Filled // with this batch all posts of these threads are in, up to there
}

// Former is a thread that keeps what another one held before its source was rewritten (SPEC P6).
type Former struct {
	Thread events.Thread
	Began  int64 // stream sequence of the event that made it: the life before that is what it keeps
	N      int64 // number of its last item
}

// Filled is up to which number a thread was read whole, and the life that it is of.
type Filled struct{ N, Life int64 }

// ErrMoved says that the position is not where it was read: another process started over. Nothing was stored, or removed.
var ErrMoved = errors.New("position of the prompt history was set back")

// Apply stores a batch, all or nothing. What is in already adds nothing.
func (db *DB) Apply(ctx context.Context, b Batch) error {
	return wrap("store prompts", db.transact(ctx, func(tx *sql.Tx) error {
		at, err := position(ctx, tx)
		if err != nil {
			return err
		}
		if at.Stream != b.From.Stream || at.Seq < b.From.Seq {
			return fmt.Errorf("%w: from %d to %d", ErrMoved, b.From.Seq, at.Seq)
		}
		w := newWriter(ctx, tx)
		for _, s := range b.Sessions {
			if err := w.learn(s); err != nil {
				return err
			}
		}
		for _, p := range b.Posts {
			store := w.add
			if p.Kind != "" {
				store = w.say
			}
			if err := store(p); err != nil {
				return err
			}
		}
		for _, f := range b.Former {
			if err := w.retire(f); err != nil {
				return err
			}
		}
		for t, n := range b.Filled {
			if err := w.filled(t, n); err != nil {
				return err
			}
		}
		_, err = tx.ExecContext(ctx, "UPDATE position SET seq = max(seq, ?)", int64(b.To))
		return err
	}))
}

// Position reads how far the history has come.
func (db *DB) Position(ctx context.Context) (Position, error) {
	p, err := position(ctx, db.sql)
	return p, wrap("read the position of the prompt history", err)
}

type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

func position(ctx context.Context, q querier) (p Position, err error) {
	err = q.QueryRowContext(ctx, "SELECT stream, seq FROM position").Scan(&p.Stream, &p.Seq)
	return p, err
}

// Reset empties the history: it starts over, with the first item of that stream.
func (db *DB) Reset(ctx context.Context, stream string) error {
	return wrap("empty the prompt history", db.transact(ctx, func(tx *sql.Tx) error { return empty(ctx, tx, stream) }))
}

// Begin is Reset of a history that is still at a position. ErrMoved: it is not, for another process has begun it.
func (db *DB) Begin(ctx context.Context, was Position, stream string) error {
	return wrap("begin the prompt history", db.transact(ctx, func(tx *sql.Tx) error {
		at, err := position(ctx, tx)
		if err == nil && at != was {
			err = ErrMoved
		}
		if err != nil {
			return err
		}
		return empty(ctx, tx, stream)
	}))
}

func empty(ctx context.Context, tx *sql.Tx, stream string) error {
	_, err := tx.ExecContext(ctx, drop+schema)
	if err == nil {
		_, err = tx.ExecContext(ctx, "UPDATE position SET stream = ?", stream)
	}
	return err
}

// Forget removes what a session asked for, whatever thread it was.
func (db *DB) Forget(ctx context.Context, session string) error {
	_, err := db.forgetBefore(ctx, session, math.MaxInt64, func(bool) bool { return false })
	return err
}

// forgetBefore removes what the threads of a session asked for whose lives began below a sequence of the events: what the session
// had before it was deleted by that event, and nothing of a new one under its name. It tells whether there was anything. Where erases
// says so then, it is due from here on to write the file anew.
func (db *DB) forgetBefore(ctx context.Context, session string, event int64, erases func(some bool) bool) (some bool, err error) {
	err = db.transact(ctx, func(tx *sql.Tx) error {
		const its = " WHERE session = (SELECT id FROM sessions WHERE name = ?1) AND life < ?2"
		for _, statement := range append(deletion(its), "DELETE FROM filled"+its,
			`DELETE FROM sessions WHERE name = ?1 AND (?2 = 9223372036854775807 OR NOT EXISTS (SELECT 1 FROM prompts p WHERE p.session = sessions.id)
				AND NOT EXISTS (SELECT 1 FROM said i WHERE i.session = sessions.id))`,
		) {
			done, err := tx.ExecContext(ctx, statement, session, event)
			if err != nil {
				return err
			}
			n, err := done.RowsAffected()
			if some = some || n > 0; err != nil {
				return err
			}
		}
		if erases(some) {
			return setDue(ctx, tx, 1+rand.Int32N(math.MaxInt32))
		}
		return nil
	})
	return some, wrap("forget the prompts of "+session, err)
}

// deletion is the statements that remove prompts and items, from the indexes first.
func deletion(where string) []string {
	return []string{
		"INSERT INTO prompt_words(prompt_words, rowid, text) SELECT 'delete', id, text FROM prompts" + where + " AND text IS NOT NULL",
		"INSERT INTO prompt_parts(prompt_parts, rowid, text) SELECT 'delete', id, text FROM prompts" + where + " AND text IS NOT NULL",
		"DELETE FROM prompts" + where,
		"INSERT INTO said_words(said_words, rowid, text) SELECT 'delete', id, text FROM said" + where + " AND text <> ''",
		"DELETE FROM said" + where,
	}
}

// Sessions names every session that has been learned of.
func (db *DB) Sessions(ctx context.Context) ([]string, error) {
	return db.names(ctx, "list the sessions of prompts", "SELECT name FROM sessions")
}

// names are the texts that a question gives.
func (db *DB) names(ctx context.Context, what, question string, args ...any) (names []string, err error) {
	rows, err := db.sql.QueryContext(ctx, question, args...)
	if err != nil {
		return nil, wrap(what, err)
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, wrap(what, err)
		}
		names = append(names, name)
	}
	return names, wrap(what, rows.Err())
}

// Filled is up to where each thread was read whole.
func (db *DB) Filled(ctx context.Context) (map[events.Thread]Filled, error) {
	rows, err := db.sql.QueryContext(ctx, "SELECT s.name, f.thread, f.n, f.life FROM filled f JOIN sessions s ON s.id = f.session")
	if err != nil {
		return nil, wrap("read what is filled", err)
	}
	defer rows.Close()
	all := map[events.Thread]Filled{}
	for rows.Next() {
		var t events.Thread
		var n Filled
		if err := rows.Scan(&t.Session, &t.Name, &n.N, &n.Life); err != nil {
			return nil, wrap("read what is filled", err)
		}
		all[t] = n
	}
	return all, wrap("read what is filled", rows.Err())
}
