// Package faulttest is what the fault suites share: a ledger, kept beside Spool, of what was published and acked, which is
// held against the threads when all faults are over; and the table of docs/faults.md, of which every test is held to exist.
//
//	l := faulttest.NewLedger(faulttest.Workload{Sessions: 4, ThreadsEach: 2})
//	go l.Run(ctx, client)     // publishes until ctx ends, whatever happens to the servers
//	…                         // faults
//	err := l.Check(ctx, conn) // the first differences, by name
//
// An entry's bytes follow from its producer and its number, so the ledger remembers none: a producer costs it a few counters
// and the spans of numbers whose publish got no answer.
package faulttest
