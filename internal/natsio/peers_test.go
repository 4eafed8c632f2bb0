package natsio_test

import (
	"testing"

	"spool/internal/must"
	"spool/internal/natsio"
	"spool/internal/natstest"
)

// TestAlone: a persister knows at once whether another one hears it, and which one does no more.
func TestAlone(t *testing.T) {
	server := natstest.Server(t)
	a, b := natsio.PeersOf(natstest.Dial(t, server)), natsio.PeersOf(natstest.Dial(t, server))
	for range 200 {
		if !must.Get(a.Alone(t.Context()))(t) {
			t.Fatal("somebody listens, though nobody does")
		}
	}
	heard := make(chan string, 1)
	gone := func(p natsio.Peers, id string) bool {
		is, err := p.Gone(t.Context(), id)
		return is && err == nil
	}
	if !gone(a, "b") || gone(a, "b.>") || gone(a, "") {
		t.Error("Gone(one who is not there) = false, or true of what is no id")
	}
	stop := must.Get(b.Hear("b", func(said []byte) {
		if len(said) > 0 {
			heard <- string(said)
		}
	}))(t)
	for must.Get(a.Alone(t.Context()))(t) { // until the subscription has arrived
	}
	must.Do(t, a.Say([]byte("hello")))
	must.Same(t, <-heard, "hello", "heard %q, want %q")
	if gone(a, "b") || gone(b, "b") {
		t.Error("Gone(one who hears) = true")
	}
	stop()
	must.Until(t, "it is gone", func() bool { return gone(a, "b") })
}
