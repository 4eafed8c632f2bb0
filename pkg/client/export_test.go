package client

import "testing"

// SetBlockHeads makes the blocks of pages so many heads large, or a window where that is more, until the test ends.
func SetBlockHeads(t *testing.T, n int) {
	before := blockHeads
	blockHeads = n
	t.Cleanup(func() { blockHeads = before })
}

// SetMostSince makes pages keep no more of what was stored since the first one, until the test ends.
func SetMostSince(t *testing.T, n int) {
	before := mostSince
	mostSince = n
	t.Cleanup(func() { mostSince = before })
}

// Whole holds one for each entry that is read whole, and has room for as many as may be read at a time.
func Whole(c *Client) chan struct{} { return c.whole }
