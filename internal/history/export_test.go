package history

import (
	"context"
	"math"
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
