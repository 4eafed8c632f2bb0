// Package proof makes and checks files by which people who have no access to a server, and do not trust it, check threads
// of a session: all nodes that the threads reach, behind a note that names their heads and is signed.
//
//	Write   threads.Verify over the store ──▶ each node once ──▶ packs ──▶ statement of heads and packs, signed
//	Verify  signature ──▶ statement ──▶ each pack against its digest ──▶ threads.Verify over the packs
//
// Both walk as every other check does (pkg/threads): what is proved is what would be found whole on the server. The
// signature says who stated it, not when, nor that nothing was left out (docs/proof.md). The bytes are in
// docs/format.md.
package proof
