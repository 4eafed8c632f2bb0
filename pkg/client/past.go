package client

import (
	"context"
	"slices"

	"spool/internal/project"
	"spool/pkg/casstore"
	"spool/pkg/events"
)

// Past makes the items from..to of a thread again from its nodes: the same, byte for byte, as were sent (DESIGN 8). It finds
// them on the thread's path and on branches that were left; from and to beyond what the thread has are no error.
func (c *Client) Past(ctx context.Context, t events.Thread, from, to int64) ([]Item, error) {
	head, err := c.Thread(ctx, t)
	if err != nil {
		return nil, err
	}
	var posted []events.Posted
	seen := map[casstore.Ref]bool{}
	for _, root := range append([]casstore.Located{head.Head()}, head.Tips...) {
		if root.Ref == head.Start.Ref {
			continue
		}
		for step, err := range c.reader.Walk(ctx, root) {
			if err != nil {
				return nil, err
			}
			first, count := step.State.Entry.First, step.State.Entry.Count
			if first+count <= from || seen[step.At.Ref] {
				break
			}
			seen[step.At.Ref] = true
			if count == 0 || first > to {
				continue
			}
			content, err := step.ReadContent(ctx)
			if err != nil {
				return nil, err
			}
			items, err := project.Rebuild(t, step.At.Ref, step.State, content.Text)
			if err != nil {
				return nil, err
			}
			posted = append(posted, items...)
		}
	}
	slices.SortFunc(posted, func(a, b events.Posted) int { return int(a.N - b.N) })
	var out []Item
	for _, p := range posted {
		if p.N < from || p.N > to {
			continue
		}
		it, err := parseItem(p.Data)
		if err != nil {
			return nil, err
		}
		out = append(out, it)
	}
	return out, nil
}
