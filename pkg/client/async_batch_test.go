package client

import "testing"

// A batch has a bound in bytes as well: of a stream that is nearly full, what is published again must not take all that came free.
func TestAsyncBatch(t *testing.T) {
	for _, c := range []struct{ entries, bytes, want int }{
		{0, 0, 0}, {1, 40 << 20, 1}, {3, 40 << 20, 1}, {5, 3 << 20, 2}, {100, 2 << 10, 100}, {5000, 100, asyncBatch},
	} {
		a := &Async{window: 32 << 20, waiting: make([]Entry, c.entries)}
		for i := range a.waiting {
			a.waiting[i].Body = make([]byte, c.bytes)
		}
		if n := a.next(); n != c.want {
			t.Errorf("%d entries of %d bytes make a batch of %d, want %d", c.entries, c.bytes, n, c.want)
		}
	}
}
