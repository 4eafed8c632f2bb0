//go:build fewpartitions

package events

// Partitions of a build with this tag: simulations in which a run is shorter than the start of 16 consumers. Its streams are not
// those of other builds, which refuse them.
const Partitions = 4
