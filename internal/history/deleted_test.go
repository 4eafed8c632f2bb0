package history_test

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"spool/internal/history"
	"spool/internal/must"
	"spool/internal/natstest"
	"spool/internal/record"
	"spool/pkg/client"
	"spool/pkg/events"
)

// counted waits until an index of items has a number of them.
func counted(t testing.TB, file string, enough func(int64) bool) {
	t.Helper()
	var n int64
	must.Until(t, "another number of items", func() bool {
		return history.With(file, func(db *history.DB) (err error) {
			n, err = db.CountItems(t.Context())
			return err
		}) == nil && enough(n)
	})
}

// Of very many sessions those are forgotten, too, that were deleted while nobody followed, also where their names are used again.
func TestDeletedOfMany(t *testing.T) {
	s := newSpool(t)
	db := open(t, filepath.Join(t.TempDir(), "history.db"))
	for _, name := range []string{"a", "b", "c", "d"} {
		s.say(name, 1_700_000_000, "user:plum of "+name)
	}
	s.caughtUp(db)
	for _, name := range []string{"b", "c"} {
		must.Get(s.Session(name).Delete(t.Context(), client.Deletion{}))(t)
	}
	s.say("c", 1_700_000_100, "user:quince of c")
	f := history.NewFollower(db, s.conn, nil)
	f.Many(2)
	natstest.Run(t, f.Follow)
	must.Until(t, "what is there is found, and nothing else", func() bool {
		got := all(t, db)
		slices.Sort(got)
		return fmt.Sprint(got) == "[a/main 1 plum of a c/main 1 quince of c d/main 1 plum of d]"
	})
}

// What is on its way into an index when its session is deleted does not stay there.
func TestDeletedOnTheWay(t *testing.T) {
	s := newSpool(t)
	path := filepath.Join(t.TempDir(), "history.db")
	file := history.ItemsFile(path)
	s.work("first", 1_600_000_000, "plum") // so that the stream goes on to begin where it did
	lines := make([]string, 1200)          // three transactions
	for i := range lines {
		lines[i] = fmt.Sprintf("user: papayasecret %d", i)
	}
	s.say("gone/main", 1_700_000_000, lines...)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- history.Keep(ctx, path, s.conn, nil) }()
	defer func() { stop(); <-done }()
	counted(t, file, func(n int64) bool { return n > 12 }) // it has more in its hands
	must.Get(s.Session("gone").Delete(t.Context(), client.Deletion{}))(t)
	s.work("last", 1_700_090_000, "quince")
	counted(t, file, func(int64) bool {
		var found int
		must.Do(t, history.With(file, func(db *history.DB) error {
			found = len(matches(t, db, "quince", history.ItemFilter{}))
			return nil
		}))
		return found == 5
	})
	counted(t, file, func(n int64) bool { return n <= 12 }) // of the two that are there
}

// What a session said that was erased while nobody kept the index does not come to another session of its name, nor stay in the file.
func TestErasedMeanwhile(t *testing.T) {
	s := newSpool(t)
	path := filepath.Join(t.TempDir(), "history.db")
	file := history.ItemsFile(path)
	keep := func(until func()) {
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- history.Keep(ctx, path, s.conn, nil) }()
		until()
		stop()
		must.Do(t, <-done)
	}
	s.work("one", 1_700_000_000, "papayasecret")
	keep(func() { counted(t, file, func(n int64) bool { return n >= 5 }) })
	must.Get(s.Session("one").Delete(t.Context(), client.Deletion{Erase: true}))(t)
	s.work("one", 1_700_000_100, "quince")
	var found []string
	keep(func() {
		counted(t, file, func(int64) bool {
			return history.With(file, func(db *history.DB) error {
				found = matches(t, db, "papayasecret", history.ItemFilter{})
				return nil
			}) == nil && len(found) == 0
		})
	})
	for _, part := range []string{"", "-wal"} {
		if b, err := os.ReadFile(file + part); err == nil && strings.Contains(string(b), "papayasecret") {
			t.Errorf("%s still has what an erased session said", filepath.Base(file)+part)
		}
	}
}

// What an erased session said leaves the file although somebody read it when it was to be written anew, and although who did that died.
func TestErasedBesideAReader(t *testing.T) {
	s := newSpool(t)
	path := filepath.Join(t.TempDir(), "history.db")
	file := history.ItemsFile(path)
	reading := func() (end func()) {
		db := must.Get(sql.Open("sqlite", "file:"+file))(t)
		tx := must.Get(db.Begin())(t)
		must.Do(t, tx.QueryRow("SELECT count(*) FROM said").Scan(new(int)))
		return func() { must.Do(t, tx.Rollback()); must.Do(t, db.Close()) }
	}
	leaves := func(word string) {
		t.Helper()
		must.Eventually(t, "what an erased session said is gone", func() error {
			for _, part := range []string{"", "-wal"} {
				if b, err := os.ReadFile(file + part); err == nil && strings.Contains(string(b), word) {
					return fmt.Errorf("%s%s has it", filepath.Base(file), part)
				}
			}
			return nil
		})
	}
	logged := make(chan string, 100)
	keep := func() (stop func()) {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- history.Keep(ctx, path, s.conn, slog.New(slog.NewTextHandler(lines(logged), nil))) }()
		return func() { cancel(); must.Do(t, <-done) }
	}
	s.work("one", 1_700_000_000, "papayasecret")
	s.work("two", 1_700_000_100, "quincesecret")
	stop := keep()
	counted(t, file, func(n int64) bool { return n >= 10 })
	end := reading()
	must.Get(s.conn.Records().Write(t.Context(), record.Put{ // once: a deletion writes it again, and each time is a chance
		Key: events.DeletedKey("one"), Value: record.Deleted{Seq: 1 << 40, Delete: events.Delete{Erase: true}}.Encode(),
	}))(t)
	for !strings.Contains(<-logged, "somebody reads the file") {
	}
	end()
	leaves("papayasecret")
	stop()

	must.Do(t, history.With(file, func(db *history.DB) error { return db.BeginErase(t.Context(), "two") }))
	defer keep()()
	leaves("quincesecret")
}

// lines sends what is written, as far as there is room.
type lines chan string

func (l lines) Write(b []byte) (int, error) {
	select {
	case l <- string(b):
	default:
	}
	return len(b), nil
}
