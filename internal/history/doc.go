// Package history is the prompt history (SPEC S11): what people asked for, across sessions, to be found again.
//
//	ITEMS ── user posts ──▶ Follower ──▶ DB (SQLite, FTS5) ──▶ Recent, Search
//	threads ── when ITEMS has forgotten some ──┘
//
// It is a view: nothing waits for it, and it can be made again from the stream and the threads. A Follower stores its
// position in ITEMS in the transaction that stores the prompts, so each prompt is in once, whenever the process dies:
//
//  1. Read user posts behind the position. Crash: nothing happened.
//  2. One transaction: prompts, what is known of their sessions, position. Crash: all of it or nothing; the next run reads on.
//
// A post is known by its session, thread and number, so that reading one twice, or from the stream and from the thread,
// adds nothing, and the order in which posts arrive does not matter. Any number of processes may read and feed one database.
//
// The index of all items is a database of the same form in a file beside it, fed by a follower of its own (NewItemsFollower): what was
// said and printed, asked by Find and Stats. What is said here of posts holds for its items, but that none is left out:
// subagents' tasks are in it, and equal ones too.
//
// The directory, machine and harness of a prompt are its session's, as its record says now: when a session is moved its prompts
// are found in the new directory. Neither items nor threads say where an agent stood when it was asked, so a directory that was
// noted beside each prompt would depend on when it was read, and a history that is made again would give another answer.
package history
