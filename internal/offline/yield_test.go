package offline

import (
	"context"
	"errors"
	"sync/atomic"
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
				time.Sleep(time.Second)
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

// A drain comes to an end beside those who append faster than the server takes, each of whom publishes again and again.
func TestDrainBesideMoreThanTheServerTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := open(t, Config{Dir: t.TempDir()})
		const large = batchBytes/4 + 1 // three fill a batch
		var kept atomic.Uint64
		add := func() { must.Do(t, q.Append([]*events.Event{event("p", kept.Add(1), large)})) }
		for range 12 {
			add()
		}
		ctx, stop := context.WithCancel(t.Context())
		for range 2 {
			go func() {
				for ctx.Err() == nil {
					short, cancel := context.WithTimeout(ctx, 2*time.Second)
					q.Yield(short)
					cancel()
					if ctx.Err() == nil && !q.Empty() {
						add()
					}
					time.Sleep(100 * time.Millisecond)
				}
			}()
		}
		err := q.Drain(t.Context(), func(context.Context, []*events.Event) error {
			time.Sleep(time.Second)
			if kept.Load() > 300 {
				return errors.New("no end")
			}
			return nil
		})
		stop()
		time.Sleep(time.Second) // both end
		if err != nil {
			t.Errorf("%v after %d entries", err, kept.Load())
		}
		must.Do(t, q.Close())
	})
}

// Who has nothing in the queue does not wait while a drain sends what another process left.
func TestYieldBesideWhatOthersLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		must.Do(t, left(t, dir, "q", 3).Close())
		b := &busy{t: t, q: open(t, Config{Dir: dir})}
		sends := 0
		must.Do(t, b.q.Drain(t.Context(), func(context.Context, []*events.Event) error {
			sends++
			began := time.Now()
			for range 5 {
				b.publish()
			}
			must.Same(t, time.Since(began), 0, "five entries wait for %v, want %v")
			return nil
		}))
		if sends != 1 || b.met != 5 {
			t.Errorf("%d sends, %d entries to the server, want 1 and 5", sends, b.met)
		}
		must.Do(t, b.q.Close())
	})
}
