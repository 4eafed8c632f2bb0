// Package output makes what a tool prints fit to be shown and kept.
//
// An output arrives as chunks of bytes, of any number and size (SPEC O1). The path of a chunk through a [Sink]:
//
//	chunk ─▶ Sanitizer ─▶ live chunk (SPEC O6)
//	             │
//	             ├─▶ artifact, once anything was cut: all of it, from the first byte (SPEC O2)
//	             └─▶ column cap (SPEC O4) ─▶ head and tail (SPEC O3) ─▶ Summary (SPEC O5)
//
// Memory is bounded by the limits and the largest chunk. [Head], [Tail] and [Line] cut texts that are there as a whole.
//
// The package is pure: times are given by the caller, and so is what stores an artifact.
package output
