package faulttest

import (
	"context"
	"encoding/json"

	"spool/pkg/client"
	"spool/pkg/events"
)

// ItemsOf makes the items from..to of a thread again from its nodes, and reads them. from and to beyond what the thread has are no error.
func ItemsOf(ctx context.Context, c *client.Client, t events.Thread, from, to int64) (items []client.Item, err error) {
	head, err := c.Thread(t).Head(ctx)
	if err != nil {
		return nil, err
	}
	for p, err := range c.Thread(t).ItemsFrom(ctx, head, from) {
		if err != nil {
			return nil, err
		}
		if p.N > to {
			break
		}
		it := client.Item{Raw: p.Data}
		if err := json.Unmarshal(p.Data, &it); err != nil {
			return nil, err
		}
		items = append(items, it)
	}
	return items, nil
}
