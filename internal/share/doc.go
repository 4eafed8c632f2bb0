// Package share divides the partitions of SPOOL_EVENTS among the persisters that are there (DESIGN 8).
//
//	each of them       says every second that it is there and which partitions it holds (Beat)
//	not heard of       for the lease, or not for a beat and the server knows that it does not hear either: it is gone
//	whose is what      follows from who is there, for all of them the same: owned
//	a partition comes  when it is one's own and nobody else says that it holds it
//	a partition goes   when it is another one's: it is no longer pulled from, and what came of it is through and acknowledged
//	                   before anybody hears that it is free. So the next one is given nothing twice
//
// Nothing that is stored rests on this. What is said may be lost or late, and two may take a partition for theirs: the server gives
// it to one of them at a time (natsio.Consume), and a commit is refused that stands on what another one has changed. A crash
// leaves nothing but a persister that is not heard of.
package share
