// Package threads knows what the nodes of a thread mean: start, state and content, and the head record that says where a
// thread is. It stands between the dialects and the commit, which append, and the readers, which walk.
//
// A thread is a chain of immutable states (seed 004). Positions in a node's refs are the contract:
//
//	start    [prompt]
//	state    [start, parent or nil, content, up to 10 older ancestors, newest first, without the parent]
//	content  [blobs, artifact pointers, compact summary …]
//
// A thread's only mutable part is its head record, changed by compare-and-set. A branch moves the head and keeps the
// old one as a tip; a fork is a new head over the same nodes. Nothing is ever rewritten:
//
//	start ◀── 1 ◀── 2 ◀── 3 ◀── 4        tip, after the branch at 2
//	                ▲
//	                ├──── 5 ◀── 6        head
//	                └──── 7              head of a fork at 2
//
// Readers follow locators from pack to pack and check the hash of all they read; there is no index of the world (DESIGN 7).
// The package is pure: no clock, no logger, no goroutine, no network.
package threads
