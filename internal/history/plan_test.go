package history

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"spool/internal/must"
	"spool/pkg/events"
)

// TestPostCostsTheSame: what it takes to store a post grows neither with the posts of its thread, nor with how often it
// says the same. So each statement finds its rows by the number of the post, in an index.
func TestPostCostsTheSame(t *testing.T) {
	db := must.Get(Open(filepath.Join(t.TempDir(), "history.db")))(t)
	defer db.Close()
	main := events.Thread{Session: "s", Name: events.MainThread}
	former := events.FormerThread(main, "0123456789abcdef")
	must.Do(t, db.transact(t.Context(), func(tx *sql.Tx) error {
		w := newWriter(t.Context(), tx)
		for n, text := range []string{"one", "same", "same", "same", "two"} {
			for _, thread := range []events.Thread{main, former} {
				must.Do(t, w.add(Post{Thread: thread, N: int64(n + 1), Time: 1, Text: text}))
			}
		}
		must.Do(t, w.add(Post{Thread: main, N: 10, Time: 1, Text: "two"}))
		must.Do(t, w.add(Post{Thread: main, N: 9, Time: 1, Text: "three"}))
		must.Do(t, w.add(Post{Thread: main, N: 8, Time: 1, Text: "three"}))
		must.Do(t, w.retire(Former{Thread: former, Began: 5, N: 5}))
		for statement := range w.statements {
			for _, step := range plan(t, tx, statement) {
				amongTold := !strings.Contains(statement, "text IS NOT NULL\n") || strings.Contains(step, "prompts_told")
				if strings.Contains(step, "SCAN prompts") || strings.Contains(step, "prompts") && !byNumber(step) || !amongTold {
					t.Errorf("%s\n\treads more than the rows it asks for: %s", statement, step)
				}
			}
		}
		return nil
	}))
}

// byNumber reports whether a step of a plan finds prompts by their id or number, or all that a life of a name has.
func byNumber(step string) bool {
	for _, by := range []string{"rowid", " n=?", " n<?", " n>?", " base=?"} {
		if strings.Contains(step, by) {
			return true
		}
	}
	return false
}

// plan is how SQLite would run a statement, whatever its arguments are.
func plan(t *testing.T, tx *sql.Tx, statement string) (steps []string) {
	args := make([]any, 0, 16)
	for n := strings.Count(statement, "?"); len(args) < n; {
		args = append(args, 1)
	}
	for i := range args {
		if !strings.Contains(statement, fmt.Sprintf("?%d", i+1)) && strings.Contains(statement, "?1") {
			args = args[:i]
			break
		}
	}
	rows := must.Get(tx.Query("EXPLAIN QUERY PLAN "+statement, args...))(t)
	defer rows.Close()
	for rows.Next() {
		var step string
		must.Do(t, rows.Scan(new(int), new(int), new(int), &step))
		steps = append(steps, step)
	}
	must.Do(t, rows.Err())
	return steps
}

// TestSessionCostsItsOwn: what a session asked for, newest first and equal ones once, is found without reading what others asked for.
func TestSessionCostsItsOwn(t *testing.T) {
	db := must.Get(Open(filepath.Join(t.TempDir(), "history.db")))(t)
	defer db.Close()
	where, _ := Filter{Session: "s"}.clause()
	must.Do(t, db.transact(t.Context(), func(tx *sql.Tx) error {
		steps := strings.Join(plan(t, tx, "SELECT p.* FROM prompts p WHERE p.text IS NOT NULL"+where+" ORDER BY p.id DESC LIMIT ?"), "\n")
		for _, step := range []string{"SEARCH p USING INDEX prompts_session (session=?)", "SEARCH q USING INDEX prompts_session (session=? AND rowid<?)"} {
			if !strings.Contains(steps, step) || strings.Contains(steps, "TEMP B-TREE") {
				t.Errorf("a session's newest prompts: the plan is\n%s\nwant %s", steps, step)
			}
		}
		return nil
	}))
}

// TestOneMillisecondCostsTheSame: whether a newer thread of the name says the same is asked of the lives of that name alone, so that
// it does not take longer for all that other sessions, or the same thread, have of one time.
func TestOneMillisecondCostsTheSame(t *testing.T) {
	db := must.Get(Open(filepath.Join(t.TempDir(), "history.db")))(t)
	defer db.Close()
	where, _ := ItemFilter{}.items()
	must.Do(t, db.transact(t.Context(), func(tx *sql.Tx) error {
		for table, question := range map[string]string{
			"prompts": "SELECT count(*) FROM prompts p WHERE p.text IS NOT NULL" + unsaid("p"),
			"said":    "SELECT sum(i.tokens_in) FROM said i JOIN sessions s ON s.id = i.session WHERE true" + where,
		} {
			var looks, exact int
			for _, step := range plan(t, tx, question) {
				if !strings.Contains(step, " o ") {
					continue
				}
				looks++
				if strings.Contains(step, table+"_base (session=? AND base=? AND life>?)") ||
					strings.Contains(step, table+"_base (session=? AND base=? AND life=? AND rowid>? AND rowid<?)") {
					exact++
				}
			}
			if looks != 3 || exact != looks {
				t.Errorf("%s\n\tthe plan is\n%s\nwant three looks at the lives of the name", question, strings.Join(plan(t, tx, question), "\n"))
			}
		}
		return nil
	}))
}
