package client_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/must"
	"spool/internal/natsio"
	"spool/internal/natstest"
	"spool/pkg/client"
	"spool/pkg/events"
)

// What one call publishes may be larger than the room that ever comes free in a stream: what is stored of it is not published again
// with the rest, or it would take all of that room, again and again.
func TestCallLargerThanAStreamsRoom(t *testing.T) {
	conn := natstest.Dial(t, natstest.Server(t))
	must.Do(t, conn.Ensure(t.Context(), natsio.Limits{EventsBytes: 20 << 20, ItemsBytes: 20 << 20}))
	stream := must.Get(conn.JetStream().Stream(t.Context(), events.EventsStream))(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()

	seen, again := map[string]bool{}, 0
	stop := natstest.Run(t, func(context.Context) error { // whoever trims a stream does it once it is full, and takes what is applied
		for full := uint64(0); ctx.Err() == nil; time.Sleep(20 * time.Millisecond) {
			info, err := stream.Info(ctx)
			if err != nil {
				return unless(ctx, err)
			}
			if s := info.State; s.Msgs == 0 || s.LastSeq != full {
				full = s.LastSeq
				continue
			}
			for seq := info.State.FirstSeq; seq <= full; seq++ {
				m, err := stream.GetMsg(ctx, seq)
				if err != nil {
					return unless(ctx, err)
				}
				e, err := events.Open(m.Subject, m.Data)
				if err != nil {
					return err
				}
				for _, one := range e.Each() {
					key := fmt.Sprint(one.Producer, one.Seq)
					if seen[key] {
						again++
					}
					seen[key] = true
				}
			}
			if err := stream.Purge(ctx, jetstream.WithPurgeSequence(full+1)); err != nil {
				return unless(ctx, err)
			}
		}
		return nil
	})
	entries := make([]client.Entry, 60)
	for i := range entries {
		entries[i] = client.Entry{Thread: thread("s"), Dialect: "raw", Body: make([]byte, 700<<10)}
	}
	c := client.New(conn)
	must.Get(c.Publisher(client.PublisherConfig{}).Publish(ctx, entries...))(t)
	cancel()
	stop()
	if again > len(entries)/2 {
		t.Errorf("%d entries were stored again; a call that met a full stream is to repeat a part alone", again)
	}
}

// unless is an error, unless what it is about has ended.
func unless(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}
