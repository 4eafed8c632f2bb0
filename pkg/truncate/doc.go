// Package truncate keeps what is stored and posted within its budgets, and says exactly what it took away.
//
// It works between the dialect and the object store (SPEC U4): [Entry] moves images out of an entry into blobs and cuts
// what is too long (SPEC T1–T8); [Item] makes a thread item fit its budget (SPEC I4). Both edit JSON as text: tokens that
// no rule touches keep their bytes, so key order, white space, number spelling, unknown fields, lone surrogates and
// invalid UTF-8 survive (SPEC T11).
//
//	raw ──Entry──▶ Text     what is shown and replayed: images as refs, long strings cut
//	          └──▶ Full     only if Text lost something: the same entry before the cuts (SPEC T9)
//	          └──▶ Splices  where refs stand in Full, or in Text if there is no Full
//	Restore(Full or Text, Splices) = raw, byte for byte
//
// An entry of any size goes through in two passes over a source that can be read twice: [Scan] finds the edits, and
// [Plan.Apply] makes them, with the images decoded on the way; [RestoreTo] is the way back. Both forms share one scanner.
//
// What tools print is cut elsewhere, in package output.
//
// The package is pure: no clock, no files; blobs go to a callback or to writers that the caller gives.
package truncate
