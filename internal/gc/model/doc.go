// Package model is the collector's protocol as a machine of a few states, small enough to try every interleaving of writers,
// collectors and their crashes. Explore does; the tests hold the protocol of internal/gc to "whatever a thread reaches is
// there, and what is in quarantine can be had back whole", and take each of its rules away in turn to see that this is then found out.
//
// The world: a blob, and packs whose nodes refer to it and to each other.
//
//	D: d ──▶ blob         made by "create": a thread of its own that has the same blob
//	Q: a ──▶ blob         the oldest
//	P: h ──▶ a   and y    h is the head of T0; y, where there is one, of T1: P is mixed
//	N: n ──▶ h            made by "append": the new head of T0
//	F: f ──▶ h or n       made by "fork": the head of T2
//	G: g ──▶ f            made by "fork": T0 again, once it is gone
//	R: of P what is live  made by a repack of P; with Merge of P and Q
//
// A record has the number of the fence that it was written behind, which is all that young and stale ask for, and a version,
// which is what a conditional write expects.
//
// Tried in every run: burying, condemning, repacks, a touch and a spare, the two fences, B0, blobs that are put again, a blob ahead of its
// commit, records read one by one, a collector that wakes up late, a crash at every step. Each by itself, because together they make too
// many states: a quarantine beside erasures, gc undelete with T0 put back, tombstones that are forgotten (Keep); a pack
// made of several, and garbage in it (Merge); a head that a persister has in memory from before its fence, P's moved
// record that is forgotten, and the verdict on a base that is gone (Cached); records that a killed server brings back
// (Returns); a backup that is restored under a running collector (Restore). Time is one moment at which all that was
// written before is older than the quarantine.
//
// Not modelled: the order of packs (what stands between the packs of a merge, internal/gc: TestUndeleteFromSharedPacks), chains of moved
// records (TestWaysStayShort), batches of records (250 tombstones are not one step here), artifacts, outputs, the inbox and claims, fsck's
// writes, brakes, servers of a cluster that disagree.
//
// SPOOL_GC_MODEL_OPERATIONS and SPOOL_GC_MODEL_CYCLES raise the bounds of TestSafe, for minutes to hours and gigabytes:
//
//	SPOOL_GC_MODEL_OPERATIONS=3 SPOOL_GC_MODEL_CYCLES=2 go test -count=1 -timeout 0 -run TestSafe/quarantine ./internal/gc/model
package model
