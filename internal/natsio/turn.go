package natsio

import "context"

// turn lets one caller at a time do what takes several messages to the server and back. Whoever waits for it gives up with its context.
type turn chan struct{}

func newTurn() turn { return make(turn, 1) }

func (t turn) take(ctx context.Context) error {
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return WrapErr(ctx.Err())
	}
}

func (t turn) give() { <-t }
