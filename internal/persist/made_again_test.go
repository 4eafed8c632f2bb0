package persist_test

import (
	"context"

	"spool/internal/faulttest"
	"spool/pkg/client"
	"spool/pkg/events"
)

// Past makes the items from..to of a thread again from its nodes.
func (r *rig) Past(ctx context.Context, t events.Thread, from, to int64) ([]client.Item, error) {
	return faulttest.ItemsOf(ctx, r.Client, t, from, to)
}
