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
// Errors wrap one of these; errors.Is finds it. What may pass by itself is tried again by the calls that publish, for as long as
// their context lives.
//
//	ErrBusy           nothing was stored: the server is busy, away, or has no leader      try again
//	ErrFull           nothing was stored: SPOOL_EVENTS or the account is at its limit     try again, or make room
//	ErrUnknown        no answer in time                                                   try again: it is harmless
//	ErrServerRefused  the server said no: a permission, a stream of another make          an operator has to look
//	ErrOfflineFull    no server, and the offline directory is full too                    wait, or allow it more
//	ErrTooLarge       an entry that no server takes now and that no memory holds          wait for a server
//	ErrClosed         the program has closed the Client, or the Async
//	ErrName           a name that is none                                                 [A-Za-z0-9_-]{1,128}
//	ErrFilter         a filter or a position that means nothing
//	ErrPlace          no place that a SessionPage named                                   take its Next as it is, or begin anew
//	ErrDurable        a durable subscription of that name is to other items               choose another name, or Forget it
//	ErrGap, *Gap      items that are kept nowhere any more                                go on, or begin elsewhere
//	ErrNotFound       no such record, blob, prompt or durable subscription
//	ErrNoThread       no thread of that name; *Renamed has its new one
//	ErrBehind         what was published before is not applied yet: what is read lacks it   start a persister, or wait
//	ErrThreadExists   a thread of that name is there already
//	ErrEnded          the thread is completed: it takes nothing more                      fork it
//	ErrLatched        the thread's head cannot be read                                    spool fsck names what is wrong
//	ErrTitled         the user gave the session its title; one that was made up is not taken
//	ErrRefused        an operation, or an event that was awaited, was not applied         its dead letter says why
//	ErrRemoved        its thread or session was removed behind what was published
//	ErrMissingRef     a step refers to what is not stored                                 store it first
//	ErrNoContext      the thread holds no entries of which a context is made
//	ErrNoPrompt       no prompt of that id in the thread
//	ErrPromptTaken    another question has the prompt's id                             ask under another id
//	ErrAnswered       the prompt was settled before: the error says how
//	ErrNoAgent        no agent of that id in the session, which could start another one
//	ErrNoRun          no run of that id in the session
//	ErrRunEnded       the run has ended, perhaps by another hand
//	ErrOutputTaken    the output's id is another's, or of an earlier attempt              send it under another id
//	ErrOutputClosed   something was written behind the end of an output
//	ErrBusyThread     somebody works in the thread                                        wait, or use force
//	ErrSessionNotFound no such session
//	ErrSessionWritten  something happened in the session since its deletion was decided
//	ErrSessionNeeded  another session goes on from it, without having it                 remove that first, or use force
//	ErrTooLong        an item too large for memory                                        read its local_log: ThreadHandle.Log
//	*LeafMoved        another entry was the leaf; both are kept
//	context's         the caller's context ended
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
