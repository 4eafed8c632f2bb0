// Package persist turns events into threads: the pipeline of the persister, against interfaces that it declares. What
// an event does to its thread is internal/apply's to decide.
//
//	partition consumers ─▶ Deliver: decode, fetch the body, check, externalize, cut      (a goroutine a partition;
//	                          │      what is too large for memory goes to the bucket now: giant.go)
//	                          │ a session beyond its part of the queue is parked as it came (parking.go)
//	                          │ queue, bounded in bytes: users and sessions share it (space.go) and take turns (queue.go, turns.go)
//	                          ▼
//	                       prepare: heads read, each event decided, its change taken into a commit   (lane, stage 1)
//	                          ▼
//	                       seal:    nodes compressed into a pack                         (lane, ahead of stage 2)
//	                          ▼
//	                       commit:  bulk · one atomic batch of records behind the fence  (lane, stage 2)
//	                          ▼
//	                       publish: dead letters · items in order · ack                  (lane, stage 3)
//	                          ▼
//	                       discard: bodies in the inbox, uploads that nobody names       (beside it, discard.go)
//
// Sessions overtake each other, and an ack covers all before it: it goes to where all of the partition is through
// (window.go).
//
// The stages work on neighbouring batches at the same time: a batch is prepared on the heads that the one before it
// will leave. When that one is refused, both are thrown away and their events go back to the queue.
//
// A change is taken as a whole or not at all, into the commit and into what is in memory (apply.go); that cannot fail.
// A batch can, after some of its events are taken: the store does not answer, a head turns out not to be the stored
// one, a record is too large for a message. Then the sessions of the batch are read again (forgetBatch).
//
// A verdict against an event (a repeat, superseded, a dead letter, its thread latched) holds only over a head that is
// verified. Another process may have moved the one in memory: it was pinned in between, or a repair set the head back.
//
//	noted in the head          the commit writes it, and expects the revision that the verdict was reached on
//	refused, and not noted     the same, and the commit demands that the head is as it was (refusals.go)
//	not noted                  the stored head is read before the commit goes on, one read a batch (verify); if it is another one, the
//	                           batch is prepared again
//	the partition's next term  what is in memory of a session is read again; queued events of an earlier term are dropped, since
//	                           those that nobody acknowledged come again in their place
//
// A verdict ends when its event goes back to the queue. An error of a store that does not answer is none: it is waited
// for (world.go). What stops a batch for good is found by trying less of it (isolate.go).
//
// What a crash leaves after each step, and who repairs it:
//
//	upload of a giant      bytes that no record names; the next gc cycle takes them
//	0 fence read           nothing
//	1 bulk uploaded        bytes that no record names; the next gc cycle takes them. Parts of an open output's artifact, which
//	                       its record names: whoever applies its events makes them again and finds them there
//	2 records committed    refused events without a letter; whoever gets them again finds them in their partition's record, and sends it
//	3 letters sent         items that are not in ITEMS; whoever gets the events again sees that they are applied, compares
//	                       the thread's last item with its head, and publishes the rest from the nodes
//	4 items published      events that are not acked; they come again and are skipped, or are refused again by the record or their letter
//	5 acked                bodies and uploads that are not dropped: the next gc cycle takes them
//
// Read persist.go (what the world outside is), intake.go, lane.go (the stages), prepare.go, load.go, headcache.go,
// apply.go (stage 1), commit.go, publish.go, discard.go; then the sides: world.go, verify.go, refusals.go, latch.go, isolate.go, delete.go,
// giant.go, outputcache.go, outputcommit.go, lease.go. What processes die over is found in deadly.go.
package persist
