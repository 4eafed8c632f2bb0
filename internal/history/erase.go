package history

import (
	"context"
	"fmt"
	"sync"

	"spool/internal/record"
	"spool/pkg/events"
)

// Erase is Forget that leaves nothing in the file either: the indexes, and then the file, are written anew. Once it has begun it goes
// on to its end, whatever becomes of ctx: nobody would come back to it. A crash in between leaves pages that nothing leads to, and
// the log behind the file, until the next erasure.
func (db *DB) Erase(ctx context.Context, session string) error {
	if err := db.Forget(ctx, session); err != nil {
		return err
	}
	return db.rewrite(ctx, session)
}

// rewrite makes the indexes and the file anew, without what a session said that was forgotten.
func (db *DB) rewrite(ctx context.Context, session string) error {
	ctx = context.WithoutCancel(ctx)
	for _, statement := range []string{
		"INSERT INTO prompt_words(prompt_words) VALUES('optimize')", "INSERT INTO prompt_parts(prompt_parts) VALUES('optimize')",
		"INSERT INTO said_words(said_words) VALUES('optimize')", "VACUUM",
	} {
		if _, err := db.sql.ExecContext(ctx, statement); err != nil {
			return wrap("erase the prompts of "+session, err)
		}
	}
	var busy, frames, done int
	if err := db.sql.QueryRowContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &frames, &done); err != nil {
		return wrap("erase the prompts of "+session, err)
	}
	if busy != 0 {
		return fmt.Errorf("erase the prompts of %s: somebody reads the file, so the log behind it still has them", session)
	}
	return nil
}

// forgetDeleted forgets sessions as they are deleted, until stop is called.
func (f *Follower) forgetDeleted(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		for r, err := range f.bucket.Watch(ctx, events.DeletedKey("*"), false, nil) {
			if err == nil && r.Exists() {
				_, err = f.forget(ctx, r, true)
			}
			if err != nil && ctx.Err() == nil {
				f.log.Warn("forget the prompts of a deleted session", "error", err)
			}
		}
	})
	return func() { cancel(); wg.Wait() }
}

// forget removes what a session had before it was deleted, as its record says, and tells whether there was anything. Of one that was
// erased the file is made anew: when the record has changed, for what was forgotten before, else where there was anything.
func (f *Follower) forget(ctx context.Context, r record.Record, changed bool) (some bool, err error) {
	d, err := record.DecodeDeleted(r.Value)
	if err != nil {
		return false, fmt.Errorf("%s: %w", r.Key, err)
	}
	session, _ := events.ParseDeletedKey(r.Key)
	some, err = f.db.forgetBefore(ctx, session, int64(d.Seq))
	if err != nil || !d.Erase || !some && !changed {
		return some, err
	}
	return some, f.db.rewrite(ctx, session)
}
