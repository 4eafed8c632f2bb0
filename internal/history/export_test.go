package history

import (
	"context"
	"math"

	"spool/pkg/client"
	"spool/pkg/events"
)

// BeginErase is what Erase leaves when its process dies.
func (db *DB) BeginErase(ctx context.Context, session string) error {
	_, err := db.forgetBefore(ctx, session, math.MaxInt64, func(bool) bool { return true })
	return err
}

// Many has a follower look for more than so many sessions as it does for very many.
func (f *Follower) Many(few int) { f.few = few }

// SetNewestWindow has followers read so few items at first for the newest prompts.
func SetNewestWindow(t interface{ Cleanup(func()) }, n uint64) {
	was := newestWindow
	newestWindow = n
	t.Cleanup(func() { newestWindow = was })
}

// OpenTurn stores what a head said that had n items: what its open turn took.
func (db *DB) OpenTurn(ctx context.Context, t events.Thread, n int64, took events.Stats) error {
	was, err := db.mark(ctx, db.sql)
	if err != nil {
		return err
	}
	return db.applyOpenTurns(ctx, was, client.Mark{Store: was.Store, Seq: was.Seq + 1}, false,
		[]Post{{Thread: t, N: -n, Kind: openTurn, Stats: took}})
}
