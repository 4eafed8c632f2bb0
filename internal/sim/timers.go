package sim

import (
	"sync"
	_ "unsafe" // for go:linkname
)

// natsTimers is where nats.go keeps timers for their next use, for the whole process. One that was made in a
// bubble must not be used in the next one.
//
//go:linkname natsTimers github.com/nats-io/nats%2ego.globalTimerPool
var natsTimers struct{ p sync.Pool }

// forgetTimers makes what is kept unknown to the next bubble. Taking all out would leave what other processors hold for themselves.
func forgetTimers() { natsTimers.p = sync.Pool{} }
