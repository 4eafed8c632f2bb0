package client

import (
	"context"
	"iter"

	"spool/pkg/threads"
)

// NewestEntry is the raw entry that came last to a thread, as its agent wrote it; nil if there is none.
func (c *Client) NewestEntry(ctx context.Context, head threads.Head) ([]byte, error) {
	if len(head.Recent) == 0 {
		return nil, nil
	}
	for step, err := range c.reader.Walk(ctx, head.Head()) {
		if err != nil {
			return nil, err
		}
		if raw, ok, err := c.Source().Raw(ctx, step); ok || err != nil {
			return raw, err
		}
	}
	return nil, nil
}

// RawEntries iterates over the raw entries of a thread, branches included, in the order in which they came. The first error
// ends it.
func (c *Client) RawEntries(ctx context.Context, head threads.Head) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for step, err := range c.reader.Entries(ctx, head) {
			var raw []byte
			ok := false
			if err == nil {
				raw, ok, err = c.Source().Raw(ctx, step)
			}
			if (ok || err != nil) && !yield(raw, err) || err != nil {
				return
			}
		}
	}
}
