package natsio_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"spool/internal/must"
	"spool/internal/natsio"
	"spool/internal/natstest"
	"spool/internal/record"
	"spool/pkg/events"
)

// TestOneIsAlone: of several processes one is at it, for as long as it likes; the next comes when that one ends, or when the server has not
// heard from it for a lease, and by then it knows.
func TestOneIsAlone(t *testing.T) {
	const lease = 2 * time.Second
	srv := natstest.Server(t)
	c := natstest.Dial(t, srv)
	must.Do(t, c.Ensure(t.Context(), natsio.Limits{EventsBytes: 1 << 30, ItemsBytes: 1 << 30}))
	var at, most atomic.Int32
	begin := func(c *natsio.Conn) (in <-chan struct{}, end func()) {
		began, over := make(chan struct{}, 10), make(chan struct{})
		stop := natstest.Run(t, func(ctx context.Context) error {
			err := natsio.AloneWithin(ctx, c.Items(), lease, "desk", "s", func(ctx context.Context) error {
				most.Store(max(most.Load(), at.Add(1)))
				defer at.Add(-1)
				began <- struct{}{}
				select {
				case <-ctx.Done():
				case <-over:
				}
				return ctx.Err()
			})
			if ctx.Err() != nil || errors.Is(err, record.ErrClosed) {
				return nil
			}
			return err
		})
		return began, func() { close(over); stop() }
	}
	dies := natstest.Dial(t, srv)
	first, end := begin(dies)
	must.Receive(t, first, "the first does not begin")
	second, endSecond := begin(natstest.Dial(t, srv))
	select {
	case <-second:
		t.Error("the second did not wait")
	case <-time.After(2 * lease):
	}
	err := natsio.Alone(t.Context(), c.Items(), "desk", "", nil)
	if !errors.Is(err, natsio.ErrReader) {
		t.Errorf("for another session: %v", err)
	}
	dies.Close()
	must.Receive(t, second, "nobody follows one that died")
	end()
	third, endThird := begin(natstest.Dial(t, srv))
	endSecond()
	must.Receive(t, third, "nobody follows one that ended")
	must.Do(t, c.JetStream().DeleteConsumer(t.Context(), events.ItemsStream, events.ReaderConsumer("desk", "")))
	must.Receive(t, third, "one whose place was removed does not begin again")
	endThird()
	if most.Load() != 1 {
		t.Errorf("%d were at it at a time", most.Load())
	}
}
