package natsio_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/must"
	"spool/internal/natsio"
	"spool/internal/natstest"
)

// Who reads a stream that is set back meanwhile, as when a server comes up again with an older disk, has read parts of two: it is told so,
// and not that this is all.
func TestReadingEndsWhereAStreamIsSetBack(t *testing.T) {
	t.Parallel()
	const stream, before, after = "SETBACK", 3000, 20
	for name, read := range map[string]func(ctx context.Context, c *natsio.Conn, f func(jetstream.Msg, *jetstream.MsgMetadata) error) error{
		"to its end": func(ctx context.Context, c *natsio.Conn, f func(jetstream.Msg, *jetstream.MsgMetadata) error) error {
			return c.Streams().Each(ctx, stream, jetstream.OrderedConsumerConfig{}, f)
		},
		"to its newest": func(ctx context.Context, c *natsio.Conn, f func(jetstream.Msg, *jetstream.MsgMetadata) error) error {
			s, err := c.Streams().LeaderStream(ctx, stream)
			if err != nil {
				return err
			}
			return c.Streams().EachUntilNewest(ctx, s, 1, f)
		},
	} {
		for _, patient := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " ", patient), func(t *testing.T) {
				t.Parallel()
				server := natstest.Server(t)
				must.Do(t, natstest.Dial(t, server).Ensure(t.Context(), natsio.Limits{}))
				c := must.Get(natsio.Dial(t.Context(), natsio.Config{InProcess: server, Timeout: time.Second}))(t)
				defer c.Close()
				fill := func(n int) {
					t.Helper()
					must.Get(c.JetStream().CreateStream(t.Context(), jetstream.StreamConfig{Name: stream, Subjects: []string{"setback"}}))(t)
					for range n {
						must.Get(c.JetStream().Publish(t.Context(), "setback", make([]byte, 20_000)))(t)
					}
				}
				fill(before)
				ctx := t.Context()
				if patient {
					ctx = natsio.Patient(ctx)
				}
				n := 0
				err := read(ctx, c, func(jetstream.Msg, *jetstream.MsgMetadata) error {
					if n++; n == before/10 {
						must.Do(t, c.JetStream().DeleteStream(t.Context(), stream))
						fill(after)
					}
					return nil
				})
				if err == nil {
					t.Errorf("read %d messages of a stream of %d, and then of one with %d, and was told that these are all", n, before, after)
				}
			})
		}
	}
}
