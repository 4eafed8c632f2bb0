package sim

import (
	"encoding/binary"
	"io"
	"math/rand/v2"
	_ "unsafe" // for go:linkname

	"github.com/oklog/ulid/v2"

	"spool/internal/memjs"
)

// exact reports whether a seed replays exactly: the runtime takes what it leaves to chance in a bubble from
// a number, as testdata/replay makes it.
const exact = false

// setChance sets that number for the caller's bubble, and at one in how many unlocks others go first; nil: the runtime is as it is.
var setChance func(from, passes uint64)

// seedChance has what is left to chance follow from the program's seed and the step from here on, whatever was before.
func seedChance(p Program, step uint64) {
	if setChance != nil {
		setChance(p.Seed*0x9e3779b97f4a7c15^step, uint64(p.Passes))
	}
}

// ulids is what ulid.Make makes ids of in this process.
//
//go:linkname ulids github.com/oklog/ulid/v2.defaultEntropy
var ulids io.Reader

// forgetEarlier makes what the process keeps of earlier bubbles unknown to this one.
func forgetEarlier(p Program) {
	seedChance(p, 0)
	memjs.ForgetClients()
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], p.Seed)
	ulids = &ulid.LockedMonotonicReader{MonotonicReader: ulid.Monotonic(rand.NewChaCha8(key), 0)}
}
