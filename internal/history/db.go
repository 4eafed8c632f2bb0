package history

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// DB is a prompt history in a SQLite file. Safe for concurrent use, also by several processes: readers never wait (WAL).
type DB struct {
	sql  *sql.DB
	path string
}

// ErrCorrupt says that the file is not a database, or a damaged one. What is in it can be had again: see MoveAside.
var ErrCorrupt = errors.New("prompt history is damaged")

// ErrVersion says that a later version of this program made the database.
var ErrVersion = errors.New("prompt history is of a later version")

// schemaVersion counts changes of schema; a database of a lower one is made anew, since all of it is derived.
const schemaVersion = 7

// schema. The id of a prompt is its place in the order of time (see place), so every question reads from the newest on and
// stops when it has enough. text is NULL where a post repeats the one before it in its thread: prompts that are the same
// and consecutive are stored once (SPEC S11), and the post is still known. The indexes hold the texts that are not NULL; no
// trigger keeps them, because a statement that fires one makes FTS5 write its whole memory out. life tells the threads apart that
// had one name (SPEC P12): the prompts of each stay. base is the name of the thread, of a former generation (SPEC P6) the one that it
// had; a prompt that came before it got its new name keeps the life of then. The last two indexes are for one statement each, of which
// another index would read all that a thread repeats, or has: prompts_told finds what stands before a post. prompts_session has those of a
// session in the order of ids.
//
// said has the items of an index of all items, which is a file of its own (see ItemsFile), by the same rules: prompts is empty there,
// and said in a history. text is ” where there is nothing to find, and stands last: who counts does not read it. A number that is not
// positive is of no item but of a turn without an end (see openturn.go). position has how far ITEMS was read, and the heads of which store.
const schema = `
CREATE TABLE position(stream TEXT NOT NULL, seq INTEGER NOT NULL, store TEXT NOT NULL, heads INTEGER NOT NULL);
INSERT INTO position VALUES('', 0, '', 0);
CREATE TABLE sessions(id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, cwd TEXT NOT NULL, host TEXT NOT NULL, harness TEXT NOT NULL,
	model TEXT NOT NULL);
CREATE INDEX sessions_cwd ON sessions(cwd);
CREATE TABLE prompts(id INTEGER PRIMARY KEY, session INTEGER NOT NULL, thread TEXT NOT NULL, n INTEGER NOT NULL,
	time INTEGER NOT NULL, text TEXT, life INTEGER NOT NULL, base TEXT NOT NULL, UNIQUE(session, thread, life, n));
CREATE INDEX prompts_session ON prompts(session) WHERE text IS NOT NULL;
CREATE INDEX prompts_base ON prompts(session, base, life);
CREATE INDEX prompts_told ON prompts(session, thread, life, n) WHERE text IS NOT NULL;
CREATE INDEX prompts_former ON prompts(session, thread, n) WHERE thread <> base;
CREATE TABLE filled(session INTEGER NOT NULL, thread TEXT NOT NULL, n INTEGER NOT NULL, life INTEGER NOT NULL,
	PRIMARY KEY(session, thread)) WITHOUT ROWID;
CREATE VIRTUAL TABLE prompt_words USING fts5(text, content='prompts', content_rowid='id', prefix='1 2 3');
CREATE VIRTUAL TABLE prompt_parts USING fts5(text, content='prompts', content_rowid='id', tokenize='trigram');
CREATE TABLE said(id INTEGER PRIMARY KEY, session INTEGER NOT NULL, thread TEXT NOT NULL, n INTEGER NOT NULL, time INTEGER NOT NULL,
	life INTEGER NOT NULL, base TEXT NOT NULL, kind TEXT NOT NULL, tool TEXT NOT NULL, call TEXT NOT NULL, failed INTEGER NOT NULL,
	tokens_in INTEGER NOT NULL, tokens_cached INTEGER NOT NULL, tokens_out INTEGER NOT NULL, text TEXT NOT NULL,
	UNIQUE(session, thread, life, n));
CREATE INDEX said_base ON said(session, base, life);
CREATE INDEX said_open ON said(session, base) WHERE n <= 0;
CREATE INDEX said_former ON said(session, thread, n) WHERE thread <> base;
CREATE INDEX said_calls ON said(session, call, tool) WHERE kind = 'tool_call';
CREATE VIRTUAL TABLE said_words USING fts5(text, content='said', content_rowid='id');
`

// drop takes away what an earlier version made.
const drop = `
DROP TABLE IF EXISTS prompt_words; DROP TABLE IF EXISTS prompt_parts; DROP TABLE IF EXISTS prompts;
DROP TABLE IF EXISTS said_words; DROP TABLE IF EXISTS said; DROP TABLE IF EXISTS filled; DROP TABLE IF EXISTS sessions; DROP TABLE IF EXISTS position;
`

// Open opens a history, or makes an empty one together with its folder. A file that is no good is ErrCorrupt.
func Open(path string) (*DB, error) {
	path, err := filepath.Abs(path)
	if err == nil {
		err = private(path)
	}
	if err != nil {
		return nil, fmt.Errorf("open prompt history: %w", err)
	}
	// NORMAL: a power cut can take the last transactions, position and all, and they are read again.
	query := url.Values{
		"_pragma": {"busy_timeout(10000)", "journal_mode(WAL)", "synchronous(NORMAL)"}, "_txlock": {"immediate"},
	}
	pool, err := sql.Open("sqlite", (&url.URL{Scheme: "file", Path: path, RawQuery: query.Encode()}).String())
	if err != nil {
		return nil, fmt.Errorf("open prompt history: %w", err)
	}
	db := &DB{sql: pool, path: path}
	if err := db.migrate(); err != nil {
		_ = pool.Close()
		return nil, wrap("open prompt history "+path, err)
	}
	return db, nil
}

// private makes a file that only its owner can read, unless there is one; SQLite gives its other files the same mode.
func private(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

// Close ends it; what was applied stays.
func (db *DB) Close() error { return db.sql.Close() }

// migrate brings the schema up.
func (db *DB) migrate() error {
	var version int
	if err := db.sql.QueryRow("PRAGMA user_version").Scan(&version); err != nil || version == schemaVersion {
		return err
	}
	return db.transact(context.Background(), func(tx *sql.Tx) error {
		err := tx.QueryRow("PRAGMA user_version").Scan(&version) // another process may have been faster
		switch {
		case err != nil || version == schemaVersion:
			return err
		case version > schemaVersion:
			return fmt.Errorf("%w: %d, this program knows %d: stop it and remove %s*, and it is made anew", ErrVersion, version, schemaVersion, db.path)
		}
		_, err = tx.Exec(fmt.Sprintf("%s%sPRAGMA user_version = %d", drop, schema, schemaVersion))
		return err
	})
}

func (db *DB) transact(ctx context.Context, do func(*sql.Tx) error) error {
	tx, err := db.sql.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := do(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// Check reads the whole file and looks for damage.
func (db *DB) Check(ctx context.Context) error {
	var said string
	if err := db.sql.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&said); err != nil {
		return wrap("check prompt history", err)
	}
	if said != "ok" {
		return fmt.Errorf("%w: %s: %s", ErrCorrupt, db.path, said)
	}
	return nil
}

// moveAside renames a damaged history, and tells what it is called now. The next Open makes an empty one.
func moveAside(path string, now time.Time) (string, error) {
	aside := path + ".damaged-" + now.UTC().Format("20060102T150405.000Z")
	err := os.Rename(path, aside)
	for _, part := range []string{"-wal", "-shm"} { // they belong to that file, and would spoil a new one
		if e := os.Rename(path+part, aside+part); !errors.Is(e, os.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}
	if err != nil {
		return "", fmt.Errorf("move the damaged prompt history aside: %w", err)
	}
	return aside, nil
}

// corrupt reports whether SQLite says that the file is no good, or not a history: a table that the version promises is missing.
func corrupt(err error) bool {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return false
	}
	code := e.Code() & 0xff // without the extended part
	return code == sqlite3.SQLITE_CORRUPT || code == sqlite3.SQLITE_NOTADB
}
