package sim

import (
	"io"
	"math/rand"
	"sync"
	_ "unsafe" // for go:linkname

	"github.com/nats-io/nuid"
	"github.com/oklog/ulid/v2"
)

// exact reports whether a seed replays exactly: the runtime takes what it leaves to chance in a bubble from
// a number, as testdata/replay makes it.
const exact = false

// setChance sets that number for the caller's bubble; nil: the runtime is as it is.
var setChance func(uint64)

// seedChance has what is left to chance follow from the seed and the step from here on, whatever was before.
func seedChance(seed, step uint64) {
	if setChance != nil {
		setChance(seed*0x9e3779b97f4a7c15 ^ step)
	}
}

// natsTimers is where nats.go keeps timers for their next use, for the whole process. One that was made in a
// bubble must not be used in the next one.
//
//go:linkname natsTimers github.com/nats-io/nats%2ego.globalTimerPool
var natsTimers struct{ p sync.Pool }

// nuids and ulids number what is made in this process.
var (
	//go:linkname nuids github.com/nats-io/nuid.globalNUID
	nuids *struct {
		sync.Mutex
		*nuid.NUID
	}
	//go:linkname ulids github.com/oklog/ulid/v2.defaultEntropy
	ulids io.Reader
)

// forgetEarlier makes what the process keeps of earlier bubbles unknown to this one. Of timers, taking all out would
// leave what other processors hold for themselves.
func forgetEarlier(seed uint64) {
	seedChance(seed, 0)
	natsTimers.p = sync.Pool{}
	nuids.NUID = nuid.New()
	ulids = &ulid.LockedMonotonicReader{MonotonicReader: ulid.Monotonic(rand.New(rand.NewSource(int64(seed))), 0)}
}
