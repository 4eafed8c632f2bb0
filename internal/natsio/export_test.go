package natsio

import "context"

// AckWait is ackWait.
const AckWait = ackWait

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
	return len(c.moves.waiting), c.moves.told
}
