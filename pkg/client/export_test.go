package client

import "testing"

// SetBlockHeads makes the blocks of pages so many heads large, or a window where that is more, until the test ends.
func SetBlockHeads(t *testing.T, n int) {
	before := blockHeads
	blockHeads = n
	t.Cleanup(func() { blockHeads = before })
}
