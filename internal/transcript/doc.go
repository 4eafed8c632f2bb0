// Package transcript imports the files in which agents keep their sessions, and gives every byte of them a place in a
// thread (SPEC X).
//
//	paths ─▶ Find ─▶ sources ─▶ Identify: harness, session, thread, source
//	                               │
//	                               ▼
//	                            claim: which thread the source has, or gets
//	                               ▼
//	                            lines ─▶ batches of events ─▶ tail
//
// Identity comes from the place in the source, never from the content (SPEC X2): the producer stands for the file, whatever
// its name, and an event's sequence is the offset of its line, plus one. So an import that stopped anywhere goes on where it
// stopped, a second one adds nothing, and a copy of a file is the same source.
//
// A source is what its harness calls it: the session, and of a subagent's file the agent. Before anything is added to
// its thread, all that the thread has is held against the file. A file that has parted from it was rewritten: what
// the thread had gets another name, and the thread is what the file says now (docs/adr/0026). A shorter version of a
// file adds nothing, nor does what an export wrote of any thread of the session (holder.go). Where the thread that the
// harness names holds only what users and tools wrote into the session, the file goes on behind that; where it is another
// source's or an agent's, the source gets one beside it, "main-1a2b3c4d". A file that begins as an export of the thread
// does, and goes on from there, is the thread's: it is held against what an export writes.
//
// An entry is a line without its newline, or the lines of an object that spans some. Everything else stays in it, so that a
// thread's entries joined by newlines are the file. Where a line holds more than one object, or bytes that are none before one,
// each object is an entry, and what stands between it and the one before in place of a newline is a part, an entry of the
// dialect "part" (SPEC S6). A last line without newline is the tail (events.Tail).
package transcript
