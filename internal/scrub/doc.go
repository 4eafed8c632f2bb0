// Package scrub watches over what is stored, beside the work that goes on.
//
//	marks.go     every few seconds   how far each stream is, against how far it was: a stream that went back has lost its newest
//	                                 messages, and gives their sequences out again (Look)
//	world.go     with them, and     what each stream holds, against what it held; whose it is; the clocks: for all who delete
//	             whenever asked
//	heads.go     at a start          what each head leads to: its newest state must be there under its hash (Heads)
//	scrub.go     every day or so     every byte, at a bounded rate, going on where it stopped (Scrub); streams.go: messages in sequence
//	alarms.go    whenever asked      what stands of all that (Alarms)
//
// fsck finds more, at its own pace, and repairs; here is what can run for ever. What is found is kept in records of the class
// "gc", which a backup leaves out, because it is about this system and not about what is stored.
package scrub
