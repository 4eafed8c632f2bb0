package client

import (
	"context"
	"iter"

	"spool/internal/rehydrate"
	"spool/pkg/threads"
)

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
