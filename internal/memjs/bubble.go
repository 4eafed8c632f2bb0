package memjs

import (
	"runtime"
	"testing"
	"testing/synctest"
)

// Bubble runs f in a synctest bubble, in which clients and a server can live one after the other with those of other
// bubbles.
//
// nats.go keeps timers that it is done with, for its next client in this process. A timer of a bubble must not get
// into another one, which panics, nor one of real time into a bubble, which would wait in real time. So the pool is
// emptied first: that takes two garbage collections. No other client of nats.go may be at work in this process
// meanwhile.
func Bubble(t *testing.T, f func(*testing.T)) {
	t.Helper()
	runtime.GC()
	runtime.GC()
	synctest.Test(t, f)
}
