// Package client is Spool for Go programs: publish entries, follow items, read threads.
//
// A program that publishes needs only the JetStream ack: when Publish returns, the entry will be in its thread exactly
// once, whatever dies. A program that reads gets items live or from any point, and threads from their nodes.
//
//	publish     Publisher waits for each ack; Async does not, within a window of bytes; Config.Offline keeps what no server
//	            takes on this machine's disk, and publishes it in order when one does
//	follow      Subscribe from a Position; SubscribeDurable from one that the server keeps; Heads
//	a thread    Thread(t) is its handle: Head, ItemsFrom, Tree, Context, Export, Log read it; Start, Fork, Branch, Label, Compact,
//	            Rename, End, Remove change it
//	tools       Thread(t).Output streams what a tool prints; Follow reads it live
//	people      Thread(t).Ask waits for a person's answer; Session(id).Prompts and Thread(t).Answer are the other side
//	agents      Thread(t).StartRun gives signs of life
//	a session   Session(id) is its handle: Info, Threads, Artifacts, Runs, Prompts read it; New, Name, Move, Fork, Delete change it
//	artifacts   Artifacts().Put, Open; Session(id).Artifacts and Resolve find them
//	operators   Admin: dead letters, erasing
//
// A handle is a small value. It costs nothing, says nothing of whether there is what it names, and each of its methods asks anew.
//
// # Errors
//
// Every error wraps one of these parents; errors.Is finds it. What may pass by itself is tried again by the calls that publish, for as
// long as their context lives.
//
//	ErrNotFound       there is none, or not any more                  go on without it, or make it
//	ErrConflict       what is there forbids it                        look at what is there; the same again fails again
//	ErrInvalid        what was asked means nothing                    mend the program, or what it was given
//	ErrDenied         this user may not                               an operator has to allow it
//	ErrUnavailable    the store does not answer, or is behind         the same again, later: it is harmless
//	ErrDamaged        what is stored cannot be read                   an operator has to look: spool fsck
//	ErrServerRefused  the server said no, and will again              an operator has to look; often an ErrDenied
//	ErrClosed         the program has closed the Client, or the Async
//	context's         the caller's context ended
//
// Where a caller may want to decide otherwise, there is an error of its own, under its parent:
//
//	ErrNotFound       ErrNoThread (*Renamed has the new name), ErrSessionNotFound, ErrNoPrompt, ErrNoRun; ErrGap (*Gap says what is
//	                  missing: go on, or begin elsewhere)
//	ErrConflict       ErrThreadExists; ErrEnded: fork it; ErrLatched: the thread's head cannot be read, spool fsck says why;
//	                  ErrBusyThread: somebody works in it; ErrRefused: the dead letter says why; ErrRemoved: with its thread or
//	                  session; ErrTitled: by the user; ErrNoContext: no entries of which one is made; ErrAnswered: the error says
//	                  how; ErrPromptTaken, ErrOutputTaken: choose another id; ErrSessionWritten: since its deletion was decided;
//	                  ErrDurable: choose another name, or Forget it
//	ErrInvalid        ErrName, ErrFilter, ErrPlace: take a page's Next as it is; ErrMissingRef: store it first; ErrTooLong: read its
//	                  local_log by ThreadHandle.Log
//	ErrUnavailable    ErrBusy; ErrFull: make room; ErrUnknown: it may be stored; ErrBehind: start a persister; ErrOfflineFull: allow
//	                  more; ErrTooLarge: an entry that no memory holds waits for a server
//
// A *LeafMoved has no parent: the entry is stored, and another one was the leaf.
//
// # Limits
//
//	names                  128 bytes of A-Z a-z 0-9 _ -
//	a producer's name      256 bytes; a thread remembers the last 1,024 of them
//	an entry               any size; its text after the cuts 64 MiB, 5,000 images (a persister's -max-entry)
//	an entry given as Body memory; one by Open, offline, 64 MiB
//	an item                350,000 bytes as JSON
//	one Publish            any number of entries; they are in memory together
//	Async                  32 MiB that are not durable, unless AsyncConfig.Window says otherwise
//	offline directory      1 GiB, unless Config.OfflineBytes says otherwise; one fsync a Publish
//	a subscription         8 MiB ahead of its reader; items that are made from nodes, one at a time
//	packs that are read    64 MiB of them are kept in memory by a client
//
// Client and Publisher are safe for concurrent use; what a comment says is for one goroutine is not. Values that are returned are the
// caller's; bytes that are handed in must not be changed until the call returns, or, for Async, until it is stored.
package client
