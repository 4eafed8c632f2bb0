// Package model is the collector's protocol as a machine of a few states, small enough to try every interleaving of writers,
// collectors and their crashes. Explore does; the test holds the protocol of internal/gc to "whatever a thread reaches is
// there", and takes each of its rules away in turn to see that this is then found out.
//
// The world: a blob, and packs whose nodes refer to it and to each other.
//
//	D: d ──▶ blob         made by "create": a thread of its own that has the same blob
//	Q: a ──▶ blob         the oldest
//	P: h ──▶ a   and y    h is the head of T0; y, where there is one, of T1: P is mixed
//	N: n ──▶ h            made by "append": the new head of T0
//	F: f ──▶ h or n       made by "fork": the head of T2
//	G: g ──▶ f            made by "fork": T0 again, once it is gone
//	R: of P what is live  made by a repack of P
//
// A record has the number of the fence that it was written behind, which is all that young and stale ask for, and a version,
// which is what a conditional write expects.
package model
