package persist

import (
	"sync"
	"testing"

	"spool/internal/must"
)

// The server gives an event again, with another ack, while the persister acknowledges it.
func TestGivenAgainWhileItIsAcknowledged(t *testing.T) {
	p := &Persister{windows: windows{of: map[int]*window{}}}
	ack := func() error { return nil }
	d := p.windows.open(&Message{Seq: 1, Ack: ack})
	l := &lane{p: p, unacked: map[int]*delivery{0: d.end()}}
	var given sync.WaitGroup
	given.Go(func() {
		if again := p.windows.open(&Message{Seq: 1, Ack: ack}); again == nil || !again.again {
			t.Errorf("the delivery = %+v, want one of what was through", again)
		}
	})
	must.Do(t, l.ackAll(t.Context()))
	given.Wait()
}
