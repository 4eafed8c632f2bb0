// Package gc collects what no root reaches: packs, blobs, bytes without a record, bodies in the inbox that no event claims, old
// tombstones. It stops nobody, holds no lease and reads no clock (DESIGN 9; docs/adr/0020-two-fences.md).
//
//	Plan    note how far the bulk buckets are (B0) ─▶ first fence ─▶ read the record bucket up to its end
//	        ─▶ claims of events ─▶ second fence ─▶ read on to its end ─▶ mark, newest pack to oldest ─▶ decide
//	Apply   bury: garbage in packs that stay ─▶ condemn: tombstones, referrers before referents ─▶ repack ─▶ follow
//	        ─▶ reclaim bytes ─▶ forget old tombstones
//
// A record is young when it was written since the first fence. Roots are the heads of threads, active or completed, with
// their starts and tips, as they were at the end of the first reading and at any time since, and every young record. Whatever a
// commit refers to that this plan does not know of is kept by them:
//
//   - A commit that was prepared before the second fence is refused after it, or is in the log that was read.
//
//   - A commit that was prepared behind the second fence read its parents, or what it forks, from heads that were there after
//     the end of the first reading. What these reach was reachable then, or was made reachable since by a commit behind the
//     first fence, which left its base young: both are marked.
//
//   - A blob may be referred to by anybody who knows its hash. Whoever does touches its record, or finds it young. So either
//     the touch fails on the tombstone, or the tombstone on the touch, and then nothing that it leads to is condemned.
//
//   - A step may refer to any node in a pack that its agent knows. It is refused when the node is buried: then the pack's record says
//     that the node is garbage, which is written before what it refers to is condemned. A node that is not buried has all that it
//     refers to, whether a thread reaches it or not.
//
// With a quarantine, what is condemned or buried stays whole until it is over: the bytes of tombstones, and in packs that stay the nodes
// that are buried. What is in quarantine marks what it reaches in a colour of its own, when a plan is made: a pack with such nodes
// is not repacked, none is merged over a tombstone in its place, and a tombstone that they need is not forgotten. That keeps nothing
// from being condemned. A plan without quarantine, and an erasure, take what earlier ones kept. Undelete is a writer like a persister: it
// reads the fence, then the records, and touches what it refers to.
//
// Every write of a collector expects what its plan read, and the fence that its plan moved: of two collectors the older one
// stops. After each step, what a crash leaves:
//
//	fences     commits that are prepared again
//	bury       records that say more of what is garbage
//	condemn    tombstones, in an order in which no live record refers to one; the next cycle goes on
//	upload     a pack that no record names; the next cycle takes its bytes
//	repack     all or nothing
//	follow     names of the old packs that lead to the new one over one step more
//	reclaim    bytes of tombstones; the next cycle takes them with the tombstone
//	forget     markers, and bytes that no record names; the next cycle takes them
//	unmark     markers; the next cycle deletes them
//
// internal/gc/model tries all of this as a machine, and says what it leaves out.
package gc
