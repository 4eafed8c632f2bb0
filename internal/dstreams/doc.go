// Package dstreams serves threads by the Durable Streams protocol: PUT makes a stream, POST appends, GET reads from an offset,
// waits (live=long-poll) or streams (live=sse), HEAD tells the tail, DELETE removes. What a name and an offset are, and what
// this server leaves open to choose, is in docs/streams.md.
//
// A stream is a thread and a record. The record says what the protocol knows and a thread does not: content type, expiry,
// forks. An append is one entry, of the dialect raw, or tagged when the stream is written with Stream-Seq; closing is the
// thread's end. Threads without such a record can be read as streams of JSON, and not changed.
//
//	POST ─▶ state: what the stream is after all that was published, under the stream's lock
//	          │ decide: producer, Stream-Seq, closed, content type
//	          ▼
//	        SPOOL_EVENTS, if the thread's newest event still is the one that was decided by ─▶ 2xx
//	          │ persister
//	          ▼
//	        head ─▶ GET waits until it has what this process published, then reads nodes
//
// Two processes may serve one stream: an append that was decided by an old state is refused by SPOOL_EVENTS, and decided
// again. A read sees at least what was acknowledged by the process that it asks; what another one acknowledged it sees as
// soon as it is applied, some milliseconds later.
//
// What a crash leaves, and who repairs it:
//
//	create  record, pending                the stream does not exist; PUT goes on where it was, or sweep takes it after an hour
//	        thread forked                  the same
//	        first entries durable          the same; they are one atomic batch, and known by their producer
//	        record, no longer pending      the stream
//	append  event durable                  the append; without an answer the client asks again, and a producer is recognized
//	remove  record, gone                   reads find it gone; PUT, DELETE or sweep goes on
//	        thread removed                 the same
//	        record removed, the source's   nothing
//	        count of forks lowered with it
package dstreams
