package history

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"time"

	"spool/internal/natsio"
	"spool/internal/record"
	"spool/pkg/events"
)

// Erase is Forget that leaves nothing in the file either: the indexes, and then the file, are written anew. Once it has begun it goes
// on to its end, whatever becomes of ctx. What it does not come to, because it dies or somebody reads the file, is due: whoever follows
// with the file, or erases from it, does it.
func (db *DB) Erase(ctx context.Context, session string) error {
	if _, err := db.forgetBefore(ctx, session, math.MaxInt64, func(bool) bool { return true }); err != nil {
		return err
	}
	return db.rewrite(ctx)
}

// due tells whether the file is to be written anew, by a number that is another one each time that it comes to be; 0: it is not.
func due(ctx context.Context, q querier) (n int32, err error) {
	err = q.QueryRowContext(ctx, "PRAGMA application_id").Scan(&n)
	return n, err
}

func setDue(ctx context.Context, tx *sql.Tx, n int32) error {
	_, err := tx.ExecContext(ctx, fmt.Sprintf("PRAGMA application_id = %d", n))
	return err
}

// rewrite makes the indexes and the file anew if that is due, without what erased sessions said.
func (db *DB) rewrite(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	was, err := due(ctx, db.sql)
	if err != nil || was == 0 {
		return wrap("erase prompts", err)
	}
	for _, statement := range []string{
		"INSERT INTO prompt_words(prompt_words) VALUES('optimize')", "INSERT INTO prompt_parts(prompt_parts) VALUES('optimize')",
		"INSERT INTO said_words(said_words) VALUES('optimize')", "VACUUM",
	} {
		if _, err := db.sql.ExecContext(ctx, statement); err != nil {
			return wrap("erase prompts", err)
		}
	}
	var busy, frames, done int
	if err := db.sql.QueryRowContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &frames, &done); err != nil {
		return wrap("erase prompts", err)
	}
	if busy != 0 {
		return errors.New("erase prompts: somebody reads the file, so the log behind it still has them")
	}
	return wrap("erase prompts", db.transact(ctx, func(tx *sql.Tx) error {
		now, err := due(ctx, tx)
		if err != nil || now != was { // another erasure began meanwhile
			return err
		}
		return setDue(ctx, tx, 0)
	}))
}

// rewriteErased writes the file anew as often as that is due, until ctx ends. It tries until it is done.
func (f *Follower) rewriteErased(ctx context.Context) error {
	for wait := firstWait; ; {
		var again <-chan time.Time
		if err := f.db.rewrite(ctx); errors.Is(err, ErrCorrupt) {
			return err
		} else if err != nil {
			f.log.Warn("the file still has what an erased session said, trying again", "wait", wait, "error", err)
			again, wait = time.After(wait), min(2*wait, mostWait)
		} else {
			wait = firstWait
		}
		select {
		case <-ctx.Done():
			return nil
		case <-f.erased:
		case <-again:
		}
	}
}

// forgetDeleted forgets sessions as they are deleted, until ctx ends or something fails. ready is called once none is missed.
func (f *Follower) forgetDeleted(ctx context.Context, ready func()) error {
	for r, err := range f.bucket.Watch(ctx, events.DeletedKey("*"), natsio.FromNow, ready) {
		if err == nil && r.Exists() {
			_, err = f.forget(ctx, r, true)
		}
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("forget the prompts of a deleted session: %w", err)
		}
	}
	return nil
}

// forget removes what a session had before it was deleted, as its record says, and tells whether there was anything. Of one that was
// erased the file is to be made anew: when the record has changed, for what was forgotten before, else where there was anything.
func (f *Follower) forget(ctx context.Context, r record.Record, changed bool) (some bool, err error) {
	d, err := record.DecodeDeleted(r.Value)
	if err != nil {
		return false, fmt.Errorf("%s: %w", r.Key, err)
	}
	session, _ := events.ParseDeletedKey(r.Key)
	some, err = f.db.forgetBefore(ctx, session, int64(d.Seq), func(some bool) bool { return d.Erase && (some || changed) })
	if err == nil && d.Erase {
		select {
		case f.erased <- struct{}{}:
		default:
		}
	}
	return some, err
}
