// Package memjs is a NATS server with JetStream that lives in memory, for tests and for deterministic simulation. It
// speaks the NATS client protocol over connections that are buffers, so that nats.go and all that is built on it run
// on it unchanged.
//
// It answers as nats-server 2.15 does, a single one, and models what Spool uses: streams, publishes with
// expectations, atomic and fast batches, reads from the leader and direct ones, consumers that are pulled, pinned ones
// too, message schedules. It refuses what it does not model (consumers that push, back-off, mirrors, sources,
// republishing, counters, delete markers, interest and work-queue retention, cron patterns) instead of answering
// something else; of acks it knows those that settle a message and those that ask for time. TestConformance runs one
// body of tests on both servers.
//
// # Two ways of running
//
// By itself: a command is executed inside the client's write, what comes of it stands in the buffers of its receivers
// when the write returns, and one alarm wakes the server for its next timer. There is no goroutine but the alarm's
// when it fires.
//
// Driven (Config.Manual): a command waits, and so does each message that the server has for a client. Ready lists
// what can happen next, always in the same order for the same state; Do makes one of it happen, or makes it fail. A
// driver that sees Ready empty, and every goroutine of the clients blocked (synctest.Wait), lets time pass with
// Rest.
//
//	for {
//		synctest.Wait()
//		if ready := s.Ready(); len(ready) > 0 {
//			s.Do(choose(ready), memjs.Fault{})
//		} else {
//			s.Rest(time.Second)
//		}
//	}
//
// Time is time.Now, which is virtual inside a synctest bubble: the server, its connections and the clients belong
// into one bubble, which Bubble makes. Nothing is random: names and pins are numbered. What nats.go draws by itself,
// inboxes above all, is.
//
// A build with the tag fewpartitions has 4 partitions instead of 16: a persister's start and its idle pulls are most
// of a short run.
//
// # What it leaves out of a server's freedom
//
// A server takes messages in aside of who publishes them: it may deliver part of what one write brought before it has
// stored the rest. Here a write is executed whole, unless a driver takes its commands one by one. A crash loses nothing
// that was acknowledged.
//
// # Files
//
// server.go, manual.go and crash.go are what a driver uses. A command comes through conn.go and protocol.go, finds
// its receivers in route.go, and ends at a stream (publish.go, batch.go, fastbatch.go over store.go), at the API
// (api*.go, get.go), or at a consumer (consumer.go, deliver.go, pull.go, ack.go).
package memjs
