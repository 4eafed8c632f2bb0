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

// setChance sets that number for the caller's bubble; nil: the runtime is as it is.
var setChance func(uint64)

// seedChance has what is left to chance follow from the seed and the step from here on, whatever was before.
func seedChance(seed, step uint64) {
	if setChance != nil {
		setChance(seed*0x9e3779b97f4a7c15 ^ step)
	}
}

// ulids is what ulid.Make makes ids of in this process.
//
//go:linkname ulids github.com/oklog/ulid/v2.defaultEntropy
var ulids io.Reader

// forgetEarlier makes what the process keeps of earlier bubbles unknown to this one.
func forgetEarlier(seed uint64) {
	seedChance(seed, 0)
	memjs.ForgetClients()
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], seed)
	ulids = &ulid.LockedMonotonicReader{MonotonicReader: ulid.Monotonic(rand.NewChaCha8(key), 0)}
}
