package natsio

import (
	"context"
	"time"
)

// AckWait is ackWait.
const AckWait = ackWait

// PinnedTTL is pinnedTTL.
const PinnedTTL = pinnedTTL

// LastOfEach is lastOfEach.
var LastOfEach = Objects.lastOfEach

// PagedKeys is Keys page by page, however many there are. meanwhile is called behind the first page.
func PagedKeys(ctx context.Context, recs Records, filter string, meanwhile func()) ([]string, error) {
	p, err := recs.keysPage(ctx, filter, 0)
	if err != nil {
		return nil, err
	}
	meanwhile()
	return recs.pagedKeys(ctx, filter, p)
}

// Watched reports how many wait over a connection for threads, and whether a watch tells them of moves.
func Watched(c *Conn) (waiting int, stands bool) {
	c.moves.mu.Lock()
	defer c.moves.mu.Unlock()
	return len(c.moves.waiting), c.moves.stands
}

// ChangesWithin is Changes where a reader that gives no sign for so long is taken for dead.
func ChangesWithin(ctx context.Context, recs Records, wait time.Duration, name, filter string, deal func(Change) time.Duration) error {
	c := changes{recs: recs, deal: deal, wait: wait}
	return c.run(ctx, name, filter)
}

// AloneWithin is Alone where a process that gives no sign for so long is taken for dead.
func AloneWithin(
	ctx context.Context, its Items, lease time.Duration, name, session string, do func(context.Context) error,
) error {
	return its.alone(ctx, name, session, lease, do)
}
