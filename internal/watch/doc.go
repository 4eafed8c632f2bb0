// Package watch tells which files of some directories changed, and since which byte, until they are captured.
//
//	notifications ─┐
//	walks ─────────┼─▶ Tree: what differs from its mark ─▶ changes ─▶ Capture ─▶ marks ─▶ Memory
//	rests, retries ┘
//
// The files are the queue: a change stays one until Capture took it, whatever dies. A Mark is what a file was when
// it was captured. It is made before the file is read, so what is written meanwhile makes the file differ again.
// Marks that are lost, or are of another store, cost that the files are captured anew: that must add nothing.
//
// Notifications make it quick, walks make it sure: a walk looks at every file, at a pace that keeps a processor
// almost idle, and needs no notification to find what was born, changed, replaced or gone. A walk over files that
// did not change costs a stat each.
//
// A change ends behind the last newline of the file. What follows waits for its newline, and is taken as it is when
// the file did not change for Quiet.
package watch
