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
// A source is told from another of the same session by its first complete line. The first source that comes takes the thread
// that its harness names; a different one gets a thread of its own, "main-1a2b3c4d" after that line. Before anything is added
// to a thread, its newest entry is held against the line in its place; of a file of oh-my-pi, all of them. Such a file is its
// session, whatever was rewritten in it: what the thread had before gets another name (docs/adr/0026). Another file that has parted from what was imported, because
// it was rewritten or is a copy that went its own way, gets a thread of its own too, called after its lines up to the first that
// is different. So a thread is always one file, and a second import decides as the first did. A shorter version of a file adds
// nothing.
//
// An entry is a line without its newline, or the lines of an object that spans some. Everything else stays in it, so that a
// thread's entries joined by newlines are the file. Where a line holds more than one object, or bytes that are none before one,
// each object is an entry, and what stands between it and the one before in place of a newline is a part, an entry of the
// dialect "part" (SPEC S6). A last line without newline is the tail (events.Tail).
package transcript
