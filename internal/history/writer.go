package history

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"unicode"

	"spool/pkg/events"
)

// writer adds to a transaction.
type writer struct {
	ctx        context.Context // of the transaction, which is as long as the writer lives
	tx         *sql.Tx
	sessions   map[string]int64
	statements map[string]*sql.Stmt // by their text; closed with the transaction
}

func newWriter(ctx context.Context, tx *sql.Tx) *writer {
	return &writer{ctx: ctx, tx: tx, sessions: map[string]int64{}, statements: map[string]*sql.Stmt{}}
}

func (w *writer) prepare(statement string) (*sql.Stmt, error) {
	if s := w.statements[statement]; s != nil {
		return s, nil
	}
	s, err := w.tx.PrepareContext(w.ctx, statement)
	if err == nil {
		w.statements[statement] = s
	}
	return s, err
}

func (w *writer) exec(statement string, args ...any) error {
	s, err := w.prepare(statement)
	if err == nil {
		_, err = s.ExecContext(w.ctx, args...)
	}
	return err
}

// get reads the first row of a question; ok is false if there is none.
func (w *writer) get(question string, args []any, into ...any) (ok bool, err error) {
	s, err := w.prepare(question)
	if err == nil {
		err = s.QueryRowContext(w.ctx, args...).Scan(into...)
	}
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// learn takes what is known of a session. What nobody says keeps its value.
func (w *writer) learn(s Session) error {
	return w.exec(`INSERT INTO sessions(name, cwd, host, harness, model) VALUES(?, ?, ?, ?, ?) ON CONFLICT(name) DO UPDATE SET
		cwd = iif(excluded.cwd = '', cwd, excluded.cwd), host = iif(excluded.host = '', host, excluded.host),
		harness = iif(excluded.harness = '', harness, excluded.harness),
		model = iif(excluded.model = '', model, excluded.model)`, s.Name, s.Cwd, s.Host, s.Harness, s.Model)
}

func (w *writer) session(name string) (id int64, err error) {
	if id, ok := w.sessions[name]; ok {
		return id, nil
	}
	if err = w.learn(Session{Name: name}); err != nil {
		return 0, err
	}
	if _, err = w.get("SELECT id FROM sessions WHERE name = ?", []any{name}, &id); err == nil {
		w.sessions[name] = id
	}
	return id, err
}

// add stores a post at its place in its thread. The order of a thread is that of its numbers: a post that arrives late can
// end a row of equal ones, or begin it.
func (w *writer) add(p Post) error {
	text := trim(p.Text)
	if text == "" {
		return nil
	}
	at, known, err := w.find("prompts", p)
	if err != nil || known {
		return err
	}
	var before string
	if _, err := w.get(`SELECT text FROM prompts WHERE session = ? AND thread = ? AND life = ? AND n < ? AND text IS NOT NULL
		ORDER BY n DESC LIMIT 1`, at, &before); err != nil {
		return err
	}
	if err := w.mend(at, before, text); err != nil {
		return err
	}
	id, err := w.place("prompts", p)
	if err != nil {
		return err
	}
	if err := w.exec("INSERT INTO prompts(id, session, thread, life, n, time, base) VALUES(?, ?, ?, ?, ?, ?, ?)",
		slices.Concat([]any{id}, at, []any{p.Time, base(p.Thread)})...); err != nil {
		return err
	}
	if text == before {
		return nil
	}
	return w.write(id, text)
}

// say stores an item at its place in its thread.
func (w *writer) say(p Post) error {
	at, known, err := w.find("said", p)
	if err != nil || known {
		return err
	}
	id, err := w.place("said", p)
	if err != nil {
		return err
	}
	err = w.exec(`INSERT INTO said(id, session, thread, life, n, time, base, kind, tool, call, failed, tokens_in, tokens_cached, tokens_out, text)
		VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, slices.Concat([]any{id}, at, []any{p.Time, base(p.Thread), p.Kind, p.Tool, p.Call,
		p.Failed, p.Stats.InputTokens, p.Stats.InputTokensCached, p.Stats.OutputTokens, p.Text})...)
	if err == nil && p.Kind == events.TypeTurnEnd { // the open turn of a head that had not told of it
		err = w.exec("DELETE FROM said WHERE session = ? AND thread = ? AND life = ? AND n BETWEEN 1 - ? AND 0", at...)
	}
	if err != nil || p.Text == "" {
		return err
	}
	return w.exec("INSERT INTO said_words(rowid, text) VALUES(?, ?)", id, p.Text)
}

// find gives what names a post in a table, and whether it is there: its session, thread, life and number.
func (w *writer) find(table string, p Post) (at []any, known bool, err error) {
	session, err := w.session(p.Thread.Session)
	if err != nil {
		return nil, false, err
	}
	at = []any{session, p.Thread.Name, p.Life, p.N}
	question := "SELECT 1 FROM " + table + " WHERE session = ?1 AND thread = ?2 AND life = ?3 AND n = ?4"
	if events.FormerOf(p.Thread) != "" { // it can have the life of when its name was another
		question = "SELECT 1 FROM " + table + " WHERE session = ?1 AND thread = ?2 AND ?3 IS NOT NULL AND n = ?4 AND thread <> base"
	}
	known, err = w.get(question, at, new(int))
	return at, known, err
}

// base is the name of a thread, of a former generation the one that it had.
func base(t events.Thread) string { return cmp.Or(events.FormerOf(t), t.Name) }

// retire gives the prompts and items of a life that has become a former thread the name of that.
func (w *writer) retire(f Former) error {
	session, err := w.session(f.Thread.Session)
	if err != nil {
		return err
	}
	return errors.Join(w.retireIn("prompts", session, f), w.retireIn("said", session, f))
}

func (w *writer) retireIn(table string, session int64, f Former) error {
	var life sql.NullInt64
	base := events.FormerOf(f.Thread)
	if _, err := w.get("SELECT max(life) FROM "+table+" WHERE session = ? AND base = ? AND life < ?", []any{session, base, f.Began},
		&life); err != nil || !life.Valid {
		return err
	}
	const its = " WHERE session = ? AND thread = ? AND life = ? AND n <= ?"
	at := []any{session, base, life.Int64, f.N}
	there := strings.ReplaceAll(` AND NOT EXISTS (SELECT 1 FROM @ f
		WHERE f.session = @.session AND f.thread = ? AND f.thread <> f.base AND f.n = @.n)`, "@", table)
	if err := w.exec("UPDATE "+table+" SET thread = ?"+its+there,
		slices.Concat([]any{f.Thread.Name}, at, []any{f.Thread.Name})...); err != nil {
		return err
	}
	for _, statement := range deletion(its) { // what was read from the former thread before
		if err := w.exec(statement, at...); err != nil {
			return err
		}
	}
	return nil
}

// mend looks at the post behind the one that is put in: if it repeated what stood before, it repeats that no more; if it
// equals the new one, it does so now.
func (w *writer) mend(at []any, before, text string) error {
	var id int64
	var next sql.NullString
	found, err := w.get("SELECT id, text FROM prompts WHERE session = ? AND thread = ? AND life = ? AND n > ? ORDER BY n LIMIT 1", at, &id,
		&next)
	switch {
	case err != nil || !found || text == before:
		return err
	case !next.Valid:
		return w.write(id, before)
	case next.String == text:
		return w.erase(id, text)
	}
	return nil
}

func (w *writer) write(id int64, text string) error {
	return errors.Join(
		w.exec("UPDATE prompts SET text = ? WHERE id = ?", text, id),
		w.exec("INSERT INTO prompt_words(rowid, text) VALUES(?, ?)", id, text),
		w.exec("INSERT INTO prompt_parts(rowid, text) VALUES(?, ?)", id, text))
}

// erase is the opposite of write.
func (w *writer) erase(id int64, text string) error {
	return errors.Join(
		w.exec("INSERT INTO prompt_words(prompt_words, rowid, text) VALUES('delete', ?, ?)", id, text),
		w.exec("INSERT INTO prompt_parts(prompt_parts, rowid, text) VALUES('delete', ?, ?)", id, text),
		w.exec("UPDATE prompts SET text = NULL WHERE id = ?", id))
}

// slots is how many ids a millisecond has. What is more takes the next free ones, at the price of its exact order.
const slots = 1 << 21

// firstOf is the first id of a millisecond.
func firstOf(ms int64) int64 { return max(0, min(ms, 1<<42-1)) * slots }

// idOf is the id of a post of that time and place in the stream.
func idOf(ms int64, seq uint64) int64 { return firstOf(ms) + int64(seq%slots) }

// place is the id for a post, in whatever order posts are read: that of its time and its place in the stream, or where it has none, or
// another one has that, behind all of its millisecond.
func (w *writer) place(table string, p Post) (id int64, err error) {
	taken := p.Seq == 0
	if id = idOf(p.Time, p.Seq); !taken {
		if taken, err = w.get("SELECT 1 FROM "+table+" WHERE id = ?", []any{id}, new(int)); err != nil || !taken {
			return id, err
		}
	}
	first := firstOf(p.Time)
	_, err = w.get("SELECT coalesce(max(id) + 1, ?1) FROM "+table+" WHERE id BETWEEN ?1 AND ?2", []any{first, first + slots - 1}, &id)
	for taken := id == first+slots; taken && err == nil; {
		if taken, err = w.get("SELECT 1 FROM "+table+" WHERE id = ?", []any{id}, new(int)); taken {
			id++
		}
	}
	return id, err
}

func (w *writer) filled(t events.Thread, to Filled) error {
	session, err := w.session(t.Session)
	if err != nil {
		return err
	}
	return w.exec(`INSERT INTO filled VALUES(?, ?, ?, ?) ON CONFLICT DO UPDATE SET
		n = iif(life = excluded.life, max(n, excluded.n), excluded.n), life = excluded.life`, session, t.Name, to.N, to.Life)
}

// trim takes off white space as the program does that the oracle is of: JavaScript's, which has the byte order mark and
// lacks U+0085.
func trim(text string) string {
	return strings.TrimFunc(text, func(r rune) bool { return unicode.IsSpace(r) && r != 0x85 || r == 0xfeff })
}
