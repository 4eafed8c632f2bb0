package memjs

import (
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	_ "unsafe" // for go:linkname

	"github.com/nats-io/nuid"
)

// natsTimers is where nats.go keeps timers for their next use, for the whole process. One that was made in a
// bubble must not be used in the next one.
//
//go:linkname natsTimers github.com/nats-io/nats%2ego.globalTimerPool
var natsTimers struct{ p sync.Pool }

// nuids is what nats.go, and who uses its ids, takes them from in this process.
//
//go:linkname nuids github.com/nats-io/nuid.globalNUID
var nuids *struct {
	sync.Mutex
	*nuid.NUID
}

// ForgetClients has a process know nothing of the clients that it had before: the timers that nats.go kept, and the
// ids that it would go on from. Where crypto/rand is seeded, ids are the same again. No client may be at work. (Taking
// the timers out would leave what other processors hold for themselves.)
func ForgetClients() {
	natsTimers.p = sync.Pool{}
	nuids.NUID = nuid.New()
}

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
