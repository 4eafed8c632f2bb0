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
