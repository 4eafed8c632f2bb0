package natsio

import (
	"cmp"
	"context"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// eachMessage gives the messages of a stream that a consumer selects to f, in order, until there is none behind the last.
func (c *Conn) eachMessage(
	ctx context.Context, stream string, cfg jetstream.OrderedConsumerConfig,
	f func(jetstream.Msg, *jetstream.MsgMetadata) error,
) error {
	cfg.InactiveThreshold = cmp.Or(cfg.InactiveThreshold, 10*time.Second)
	cons, err := c.js.OrderedConsumer(ctx, stream, cfg)
	if err != nil {
		return wrapErr(err)
	}
	return c.each(ctx, cons, f)
}
