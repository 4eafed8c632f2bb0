package history

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"spool/internal/jsonscan"
	"spool/internal/project"
	"spool/internal/show"
	"spool/pkg/events"
)

// Match is an item that was found.
type Match struct {
	Thread events.Thread
	N      int64  // number of the item in its thread
	Time   int64  // Unix milliseconds; 0 = nobody said
	Kind   string // its type, events.TypeMessage for a user post
	Tool   string // of a call, and of its result
	Failed bool   // of a result
	Text   string // the passage around the words, or the beginning

	// Of the session, as far as its record tells.
	Cwd, Host, Harness, Model string
}

// ItemFilter narrows which items are looked at; empty fields choose everything.
type ItemFilter struct {
	Filter
	Tool        string // calls of a tool and their results, letter case aside
	Role        string // who said it: one of Roles
	From, Until int64  // Unix milliseconds: not before, and before
}

// Roles are who says what an item says, with the types of their items.
var Roles = map[string][]string{
	"user":      {events.TypeMessage, events.TypePendingPromptResolved},
	"assistant": {events.TypeText, events.TypeThinking, events.TypeToolCall, events.TypePendingPrompt},
	"tool":      {events.TypeToolResult},
	"system":    {events.TypeStatus},
}

// Between narrows a filter to the items from one moment on and before another, each as a time, a date, or how long ago; "" for none.
func (f *ItemFilter) Between(since, until string, now time.Time) (err error) {
	if since != "" {
		f.From, err = Moment(since, now)
	}
	if until != "" && err == nil {
		f.Until, err = Moment(until, now)
		f.Until = max(f.Until, 1) // 0 is no limit
	}
	if err != nil {
		err = fmt.Errorf("%w: %w", ErrFilter, err)
	}
	return err
}

// Moment is a point in time, in Unix milliseconds: a time, a date, which begins where now is, or how long ago.
func Moment(text string, now time.Time) (int64, error) {
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(-d).UnixMilli(), nil
	}
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.ParseUint(days, 10, 15); err == nil {
			return now.AddDate(0, 0, -int(n)).UnixMilli(), nil
		}
	}
	for _, form := range []string{time.RFC3339, time.DateOnly} {
		if at, err := time.ParseInLocation(form, text, now.Location()); err == nil {
			return at.UnixMilli(), nil
		}
	}
	return 0, fmt.Errorf("%.40q: use a time like 2026-11-20T10:00:00Z, a date like 2026-11-20, or how long ago: 36h, 7d", text)
}

// ErrFilter says that a filter cannot be taken.
var ErrFilter = errors.New("filter of items")

// Check reports what is wrong with a filter.
func (f ItemFilter) Check() error {
	if f.Role != "" && Roles[f.Role] == nil {
		return fmt.Errorf("%w: role %.40q: use user, assistant, tool or system", ErrFilter, f.Role)
	}
	return nil
}

const (
	passage  = 24  // words around what was found
	beginEnd = 300 // characters of an item that is shown without words
)

// Find gives items that have, for each word of the query, a word that begins so, whatever the case, newest first; without a query the
// newest that the filter chooses. A query without a letter or a digit finds nothing. It asks an index of all items.
func (db *DB) Find(ctx context.Context, query string, f ItemFilter, limit int) (found []Match, err error) {
	if err := f.Check(); err != nil {
		return nil, err
	}
	where, args := f.items()
	text, from := fmt.Sprintf("substr(i.text, 1, %d)", beginEnd), "said i"
	where = "i.text <> ''" + where
	if query != "" {
		words := split(query)
		if len(words) == 0 {
			return nil, nil
		}
		text, from = fmt.Sprintf("snippet(said_words, 0, '', '', '…', %d)", passage), "said_words w JOIN said i ON i.id = w.rowid"
		where, args = "said_words MATCH ? AND "+where, append([]any{prefixes(words)}, args...)
	}
	order := "i.id"
	if query != "" {
		order = "w.rowid"
	}
	rows, err := db.sql.QueryContext(ctx, "SELECT s.name, i.thread, i.n, i.time, i.kind, "+toolOf+", i.failed, "+text+
		", s.cwd, s.host, s.harness, s.model FROM "+from+" JOIN sessions s ON s.id = i.session WHERE "+where+" ORDER BY "+order+" DESC LIMIT ?",
		append(args, bounded(limit))...)
	if err != nil {
		return nil, wrap("find items", err)
	}
	defer rows.Close()
	for rows.Next() {
		var m Match
		if err := rows.Scan(&m.Thread.Session, &m.Thread.Name, &m.N, &m.Time, &m.Kind, &m.Tool, &m.Failed, &m.Text,
			&m.Cwd, &m.Host, &m.Harness, &m.Model); err != nil {
			return nil, wrap("find items", err)
		}
		found = append(found, m)
	}
	return found, wrap("find items", rows.Err())
}

// CountItems is how many items an index has.
func (db *DB) CountItems(ctx context.Context) (n int64, err error) {
	err = db.sql.QueryRowContext(ctx, "SELECT count(*) FROM said WHERE n > 0").Scan(&n)
	return n, wrap("count items", err)
}

// toolOf is the name of the tool of the item i. A result does not tell it, and a fork's can be of a call of its source.
const toolOf = `iif(i.kind = 'tool_result' AND i.call <> '', coalesce(
	(SELECT c.tool FROM said c WHERE c.session = i.session AND c.call = i.call AND c.kind = 'tool_call' LIMIT 1), ''), i.tool)`

// items chooses items i.
func (f ItemFilter) items() (where string, args []any) {
	if f.From > 0 {
		where, args = where+" AND i.id >= ?", append(args, firstOf(f.From))
	}
	if f.Until > 0 {
		where, args = where+" AND i.id < ?", append(args, firstOf(f.Until))
	}
	if kinds := Roles[f.Role]; kinds != nil {
		where += " AND i.kind IN ('" + strings.Join(kinds, "', '") + "')"
	}
	if f.Session != "" {
		where, args = where+" AND i.session = (SELECT id FROM sessions WHERE name = ?)", append(args, f.Session)
	}
	of, ofArgs := f.sessions()
	where, args = where+strings.ReplaceAll(of, "@", "i"), append(args, ofArgs...)
	if f.Tool != "" {
		where, args = where+" AND "+toolOf+" = ? COLLATE NOCASE", append(args, f.Tool)
	}
	return where + unsaidIn("said", "i", "o.kind = @.kind AND o.text = @.text"), args
}

// parseItem reads what an item says (SPEC I1). ok is false for what is of no thread.
func parseItem(raw []byte) (p Post, ok bool) {
	if jsonscan.Valid(raw) != nil {
		return p, false
	}
	i := show.Read(raw)
	p = Post{Thread: i.Thread, N: i.N, Kind: i.Kind, Tool: i.Tool, Call: i.Call, Failed: i.Failed}
	if !i.At.IsZero() {
		p.Time = i.At.UnixMilli()
	}
	switch i.Kind {
	case events.TypeTurnEnd:
		p.Stats = project.Stats(jsonscan.Get(raw, "metadata"))
	case events.TypeToolCall:
		p.Text = i.Brief + "\n" + i.Input
	case events.TypeToolResult:
		p.Text = i.Output
	case events.TypeThinking:
		p.Text = i.Text
	case events.TypeStatus:
		detail, _ := jsonscan.Text(jsonscan.Get(raw, "metadata", "detail"))
		p.Text = i.Text + "\n" + detail
	default:
		p.Text = cmp.Or(contentText(raw), i.Text)
	}
	p.Text = trim(p.Text)
	return p, p.N > 0 && p.Thread.Validate() == nil
}
