package history

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"spool/pkg/events"
)

// Prompt is what a person, or a parent agent, asked for in a thread.
type Prompt struct {
	Thread events.Thread
	N      int64  // number of the item in its thread
	Time   int64  // Unix milliseconds; 0 = nobody said
	Text   string // without the white space around it

	// Of the session, as far as its record tells.
	Cwd, Host, Harness string
}

// Filter narrows what is looked at; empty fields choose everything.
type Filter struct {
	Session string
	Cwd     string   // working directory of the session, exactly
	Within  []string // beginnings of the sessions' names; none: all sessions
}

// MaxLimit is the most that one question gives; a higher limit means this one, and one below 1 gives nothing.
const MaxLimit = 1000

// Recent gives the newest prompts, newest first.
func (db *DB) Recent(ctx context.Context, f Filter, limit int) ([]Prompt, error) {
	return db.since(ctx, f, 0, limit)
}

// since is Recent of those from an id on.
func (db *DB) since(ctx context.Context, f Filter, id int64, limit int) ([]Prompt, error) {
	where, args := f.clause()
	return db.read(ctx, "FROM prompts p WHERE p.text IS NOT NULL"+where+" AND p.id >= ? ORDER BY p.id DESC LIMIT ?", append(args, id, bounded(limit)))
}

// Search gives prompts that have all words of the query, whatever the case: first those where each is the beginning of a
// word, newest first, then, up to the limit, those where each stands anywhere, newest first (SPEC S11). A query without a
// letter or a digit finds nothing.
func (db *DB) Search(ctx context.Context, query string, f Filter, limit int) ([]Prompt, error) {
	words, limit := split(query), bounded(limit)
	if len(words) == 0 || limit == 0 {
		return nil, nil
	}
	where, args := f.clause()
	found, err := db.read(ctx, "FROM prompt_words w JOIN prompts p ON p.id = w.rowid WHERE prompt_words MATCH ?"+where+
		" ORDER BY w.rowid DESC LIMIT ?", append(append([]any{prefixes(words)}, args...), limit))
	if err != nil || len(found) == limit {
		return found, err
	}
	from, likes := anywhere(words)
	rest, err := db.read(ctx, from+where+" ORDER BY p.id DESC LIMIT ?", append(append(likes, args...), limit))
	if err != nil {
		return nil, err
	}
	seen := make(map[key]bool, len(found))
	for _, p := range found {
		seen[p.key()] = true
	}
	for _, p := range rest {
		if len(found) < limit && !seen[p.key()] {
			found = append(found, p)
		}
	}
	return found, nil
}

// Count is how many prompts there are.
func (db *DB) Count(ctx context.Context) (n int64, err error) {
	err = db.sql.QueryRowContext(ctx, "SELECT count(*) FROM prompts p WHERE p.text IS NOT NULL"+unsaid("p")).Scan(&n)
	return n, wrap("count prompts", err)
}

// key names a post.
type key struct {
	thread  events.Thread
	n, time int64 // threads of one name, in two lives, have the same numbers
	text    string
}

func (p *Prompt) key() key { return key{p.Thread, p.N, p.Time, p.Text} }

// unsaid leaves out of the prompts @ those that a newer thread of the name says at the same time: of a source that was rewritten,
// and imported anew (SPEC P6), each generation has them. The thread that has the name now goes before the former ones.
func unsaid(of string) string { return unsaidIn("prompts", of, "o.text = @.text") }

// unsaidIn is unsaid of a table; same tells whether its row o says the same. It looks at the lives of the name one after another, in
// each at the ids of the millisecond: mostly there is no other life, however many posts have one time.
func unsaidIn(table, of, same string) string {
	const next = "SELECT min(o.life) FROM $ o WHERE o.session = @.session AND o.base = @.base AND o.life > "
	return strings.NewReplacer("@", of, "$", table).Replace(fmt.Sprintf(` AND NOT EXISTS (
		WITH RECURSIVE lives(life) AS (`+next+`iif(@.thread = @.base, @.life, -1)
			UNION ALL SELECT (`+next+`lives.life) FROM lives WHERE lives.life IS NOT NULL)
		SELECT 1 FROM lives CROSS JOIN $ o INDEXED BY $_base WHERE o.session = @.session AND o.base = @.base AND o.life = lives.life
		AND o.id BETWEEN @.id / %d * %[1]d AND @.id / %[1]d * %[1]d + %d
		AND `+same+` AND (o.thread = o.base, o.life, o.thread) > (@.thread = @.base, @.life, @.thread))`, slots, slots-1))
}

func (f Filter) clause() (where string, args []any) {
	where = unsaid("p")
	if f.Session != "" {
		where, args = where+" AND p.session = (SELECT id FROM sessions WHERE name = ?)", append(args, f.Session)
	}
	of, ofArgs := f.sessions()
	where, args = where+strings.ReplaceAll(of, "@", "p"), append(args, ofArgs...)
	if f.Session != "" {
		of += " AND @.session = p.session"
	}
	// Equal prompts behind each other once, whatever sessions of those, or threads of that, they are of.
	where += " AND p.text IS NOT (SELECT q.text FROM prompts q WHERE q.id < p.id AND q.text IS NOT NULL" +
		unsaid("q") + strings.ReplaceAll(of, "@", "q") + " ORDER BY q.id DESC LIMIT 1)"
	return where, append(args, ofArgs...)
}

// sessions chooses the prompts @ of several sessions.
func (f Filter) sessions() (where string, args []any) {
	if f.Cwd != "" {
		where, args = " AND @.session IN (SELECT id FROM sessions WHERE cwd = ?)", append(args, f.Cwd)
	}
	if len(f.Within) > 0 {
		begins := make([]string, len(f.Within))
		for i, prefix := range f.Within {
			begins[i], args = "substr(name, 1, length(?)) = ?", append(args, prefix, prefix)
		}
		where += " AND @.session IN (SELECT id FROM sessions WHERE " + strings.Join(begins, " OR ") + ")"
	}
	return where, args
}

func bounded(limit int) int { return max(0, min(limit, MaxLimit)) }

// mostWords is how many words of a query count: whoever pastes a page looks for what begins like it.
const mostWords = 100

// split makes words of a query as the index makes them of a prompt: runs of letters and digits.
func split(query string) []string {
	words := strings.FieldsFunc(strings.ToLower(query), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsNumber(r) })
	return words[:min(len(words), mostWords)]
}

// prefixes is the full-text query for prompts that have a word beginning with each of these. Words hold no quotes.
func prefixes(words []string) string { return `"` + strings.Join(words, `"* "`) + `"*` }

// shortest is the least number of characters of a word that the index of substrings can look up.
const shortest = 3

// anywhere chooses prompts that have each word somewhere. Words hold no wildcards. The index of substrings answers for words
// that are long enough; where there is none, prompts are read from the newest on: a word so short is soon found.
func anywhere(words []string) (from string, args []any) {
	var long []string
	var likes strings.Builder
	for _, w := range words {
		if utf8.RuneCountInString(w) >= shortest {
			long = append(long, w)
		}
		likes.WriteString(" AND p.text LIKE ?")
		args = append(args, "%"+w+"%")
	}
	if len(long) == 0 {
		return "FROM prompts p WHERE p.text IS NOT NULL" + likes.String(), args
	}
	return "FROM prompt_parts t JOIN prompts p ON p.id = t.rowid WHERE prompt_parts MATCH ?" + likes.String(),
		append([]any{`"` + strings.Join(long, `" "`) + `"`}, args...)
}

// read asks for prompts. tail is the question behind the columns, with "p" the table of prompts.
func (db *DB) read(ctx context.Context, tail string, args []any) (found []Prompt, err error) {
	const columns = "SELECT s.name, p.thread, p.n, p.time, p.text, s.cwd, s.host, s.harness FROM sessions s, "
	rows, err := db.sql.QueryContext(ctx, columns+"(SELECT p.* "+tail+") p WHERE s.id = p.session ORDER BY p.id DESC", args...)
	if err != nil {
		return nil, wrap("read prompts", err)
	}
	defer rows.Close()
	for rows.Next() {
		var p Prompt
		if err := rows.Scan(&p.Thread.Session, &p.Thread.Name, &p.N, &p.Time, &p.Text, &p.Cwd, &p.Host, &p.Harness); err != nil {
			return nil, wrap("read prompts", err)
		}
		found = append(found, p)
	}
	return found, wrap("read prompts", rows.Err())
}

// wrap adds what was done to an error, and ErrCorrupt if the file is no good.
func wrap(what string, err error) error {
	if err == nil || err == sql.ErrNoRows {
		return err
	}
	if corrupt(err) {
		return fmt.Errorf("%s: %w: %w", what, ErrCorrupt, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}
