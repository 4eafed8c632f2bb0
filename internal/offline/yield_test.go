package offline

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"spool/internal/must"
	"spool/pkg/events"
)

// busy publishes as a client does: to the server when nothing waits in the queue, else through it.
type busy struct {
	t         *testing.T
	q         *Queue
	kept, met int // entries in the queue, and by the server
}

func (b *busy) publish() {
	ctx, cancel := context.WithTimeout(b.t.Context(), 2*time.Second)
	defer cancel()
	b.q.Yield(ctx)
	if b.q.Empty() {
		b.met++
		return
	}
	b.kept++
	must.Do(b.t, b.q.Append([]*events.Event{event("p", uint64(b.kept), 10)}))
}

// A drain comes to an end although something is published during each of its sends, and then the server gets what is published.
func TestDrainBesideWhoPublishes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &busy{t: t, q: open(t, Config{Dir: t.TempDir()})}
		must.Do(t, b.q.Append([]*events.Event{event("q", 1, 10)}))
		sends := 0
		must.Do(t, b.q.Drain(t.Context(), func(context.Context, []*events.Event) error {
			if sends++; sends < 100 {
				go b.publish()
				synctest.Wait()
			}
			return nil
		}))
		synctest.Wait()
		if sends != 2 || b.kept != 1 || b.met != 1 {
			t.Errorf("%d sends, %d entries through the queue and %d to the server, want 2, 1 and 1", sends, b.kept, b.met)
		}
		must.Do(t, b.q.Close())
	})
}

// A server that is silent keeps nobody from publishing for longer than who publishes wants to wait, and the next one does not wait.
func TestYieldToASilentServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &busy{t: t, q: open(t, Config{Dir: t.TempDir()})}
		must.Do(t, b.q.Append([]*events.Event{event("q", 1, 10)}))
		sends := 0
		must.Do(t, b.q.Drain(t.Context(), func(context.Context, []*events.Event) error {
			if sends++; sends == 2 {
				began := time.Now()
				for range 5 {
					b.publish()
				}
				must.Same(t, time.Since(began), 2*time.Second, "five entries wait for %v, want %v")
			} else if sends == 1 {
				b.publish()
			}
			return nil
		}))
		if sends != 3 || b.kept != 6 {
			t.Errorf("%d sends, %d entries through the queue, want 3 and 6", sends, b.kept)
		}
		must.Do(t, b.q.Close())
	})
}
