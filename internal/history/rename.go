package history

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"spool/internal/natsio"
	"spool/internal/record"
	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// Items that were sent keep the name that their thread had (docs/format.md, left record). A history shows the one that it has now, so
// that it says the same whether it was read as the items came, behind, or from the threads.

// followRenames gives prompts the new names of their threads, those that there are and those that come, until ctx ends or something fails.
func (f *Follower) followRenames(ctx context.Context) error {
	for r, err := range f.bucket.Watch(ctx, events.LeftKeys, natsio.FromCurrent, nil) {
		if err == nil {
			err = f.rename(ctx, r)
		}
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("follow the new name of a thread: %w", err)
		}
	}
	return nil
}

// renameAll does what followRenames does once.
func (f *Follower) renameAll(ctx context.Context, left []record.Record, err error) error {
	for _, r := range left {
		if err == nil {
			err = f.rename(ctx, r)
		}
	}
	if err != nil {
		return fmt.Errorf("new names of threads: %w", err)
	}
	return nil
}

// rename gives what was stored under a thread's former name the one of now, by what the thread left there.
func (f *Follower) rename(ctx context.Context, r record.Record) error {
	from, ok := events.ParseLeftKey(r.Key)
	left, err := record.DecodeLeft(r.Value)
	if !ok || !r.Exists() || err != nil || left.To == "" { // one that cannot be read tells nothing
		return nil
	}
	seen, err := threads.DecodeHead(left.Head)
	if err != nil {
		return nil
	}
	least := int64(seen.Life) // an earlier thread of the name had what is below
	if has, err := f.db.has(ctx, from, least); err != nil || !has {
		return err
	}
	// Of a thread that is gone nobody knows its life under the new name: the last event before the rename tells it from all others.
	to, life := events.Thread{Session: from.Session, Name: left.To}, int64(seen.Applied)
	for at, met := to, []events.Thread{from}; !slices.Contains(met, at); {
		head, err := f.client.Thread(at).Head(ctx)
		var again *client.Renamed
		switch {
		case errors.As(err, &again):
			met, at = append(met, at), again.To
			continue
		case err != nil && (ctx.Err() != nil || record.Temporary(err)):
			return err
		case err == nil && head.Began <= seen.Applied:
			to, life = at, int64(head.Life)
		}
		break
	}
	return f.db.rename(ctx, from, least, to, life)
}

// has reports whether there is anything of a thread's lives from one on.
func (db *DB) has(ctx context.Context, t events.Thread, least int64) (has bool, err error) {
	const its = " WHERE session = (SELECT id FROM sessions WHERE name = ?1) AND thread = ?2 AND life >= ?3)"
	err = db.sql.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM prompts"+its+" OR EXISTS (SELECT 1 FROM said"+its,
		t.Session, t.Name, least).Scan(&has)
	return has, wrap("find the prompts of a thread", err)
}

// rename gives what a thread's lives from one on have another name, and one life. What is there under that already stays.
func (db *DB) rename(ctx context.Context, from events.Thread, least int64, to events.Thread, life int64) error {
	return wrap("rename a thread", db.transact(ctx, func(tx *sql.Tx) error {
		const its = " WHERE session = (SELECT id FROM sessions WHERE name = ?1) AND thread = ?2 AND life >= ?3"
		statements := deletion(its)
		for _, table := range []string{"prompts", "said"} {
			statements = slices.Insert(statements, 0, "UPDATE OR IGNORE "+table+" SET thread = ?4, base = ?5, life = ?6"+its)
		}
		for _, statement := range statements {
			if _, err := tx.ExecContext(ctx, statement, from.Session, from.Name, least, to.Name, base(to), life); err != nil {
				return err
			}
		}
		return nil
	}))
}
