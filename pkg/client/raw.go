package client

import (
	"context"
	"iter"

	"spool/internal/rehydrate"
	"spool/pkg/threads"
)

// NewestEntry is the raw entry that came last to a thread, as its agent wrote it; of no size if there is none.
func (c *Client) NewestEntry(ctx context.Context, head threads.Head) (rehydrate.Line, error) {
	if len(head.Recent) == 0 {
		return rehydrate.Line{}, nil
	}
	for step, err := range c.reader.Walk(ctx, head.Head()) {
		if err != nil {
			return rehydrate.Line{}, err
		}
		if raw, ok, err := c.Source().Line(ctx, step); ok || err != nil {
			return raw, err
		}
	}
	return rehydrate.Line{}, nil
}

// RawEntries iterates over the raw entries of a thread, branches included, in the order in which they came. The first error
// ends it.
func (c *Client) RawEntries(ctx context.Context, head threads.Head) iter.Seq2[rehydrate.Line, error] {
	return func(yield func(rehydrate.Line, error) bool) {
		for step, err := range c.reader.Entries(ctx, head) {
			var raw rehydrate.Line
			ok := false
			if err == nil {
				raw, ok, err = c.Source().Line(ctx, step)
			}
			if (ok || err != nil) && !yield(raw, err) || err != nil {
				return
			}
		}
	}
}
