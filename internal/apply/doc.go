// Package apply is what an event does to its thread (SPEC P, S, C, I, A, O), as a decision over values:
//
//	Event(world, state, event) ─▶ change, verdict
//
//	World    what is stored and asked for on the way: reads, nothing else
//	State    what is known of the thread, its session and the commit that is being made, before the event
//	Staged   the event, read and cut
//	Change   all that becomes of it: the new head, nodes, items, records, …; nothing is so before a caller takes it
//	Verdict  applied, repeated, superseded, or dead for a reason
//
// Event changes nothing that its caller sees. After an error, and after a refusal half-way, what it had made is dropped
// with the draft that it was made in; only a Change that is returned can be taken, and taking it cannot fail.
//
// An error of the World that passes is for the caller's pipeline: the event is not judged, and is tried again. So is
// ErrNextCommit, and whatever a World means by "what lies before must be committed first". Every other error is a
// refusal of the event. forCaller makes that judgement, and nobody else.
//
// A refused event is noted in its thread's head, so that what is linked to it is taken (refuse).
//
//	apply.go    the way of an event         verdict.go   fates, and what can be wrong with an event
//	intake.go   what staging it needs       skip.go      repeated, superseded: what is not applied
//	                                            reused.go    what is no repeat though its sequence is known
//	state.go    State, Staged, World        change.go    Change, and the draft that it is made in
//	step.go     an entry becomes a step     tree.go, thread.go, fork.go, run.go, prompt.go: control operations
//	control.go  which operation it is       inherit.go   what a fork into another session gets of its artifacts
//	output.go, outputstate.go, outputresult.go: streaming outputs
//	result.go   large results               delete.go    may a session be deleted?
//	refs.go     what an entry refers to     left.go      names that threads had before
//	places.go   where entries are, by id    quota.go     what a session may have
package apply
