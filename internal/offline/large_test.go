package offline

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"spool/internal/must"
	"spool/pkg/events"
)

// A drain comes to an end also when large entries are published meanwhile.
func TestDrainBesideLargeEntries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := open(t, Config{Dir: t.TempDir()})
		must.Do(t, q.Append([]*events.Event{event("q", 1, 10)}))
		sends, kept := 0, uint64(0)
		err := q.Drain(t.Context(), func(context.Context, []*events.Event) error {
			if sends++; sends == 8 {
				return errors.New("no end")
			}
			for range 2 { // some programs' goroutines, each of which waits for its ack
				go func() {
					q.Yield(t.Context())
					if !q.Empty() {
						kept++
						must.Do(t, q.Append([]*events.Event{event("p", kept, 2_500_000)}))
					}
				}()
				time.Sleep(time.Second)
			}
			return nil
		})
		must.Is(t, err, nil, "after %d sends", sends)
		must.Do(t, q.Close())
	})
}
