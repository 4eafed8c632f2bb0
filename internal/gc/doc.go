// Package gc collects what no root reaches: packs, blobs, bytes without a record, bodies in the inbox that no event claims, old
// tombstones. It stops nobody, holds no lease and reads no clock (DESIGN 9; docs/adr/0020-two-fences.md).
//
//	Plan    note how far the bulk buckets are (B0) ─▶ first fence ─▶ read the record bucket up to its end
//	        ─▶ claims of events ─▶ second fence ─▶ read on to its end ─▶ mark, newest pack to oldest ─▶ decide
//	Apply   bury: garbage in packs that stay ─▶ condemn: tombstones, referrers before referents ─▶ repack ─▶ reclaim bytes
//	        ─▶ forget old tombstones
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
// Every write of a collector expects what its plan read, and the fence that its plan moved: of two collectors the older one
// stops. After each step, what a crash leaves:
//
//	fences     commits that are prepared again
//	bury       records that say more of what is garbage
//	condemn    tombstones, in an order in which no live record refers to one; the next cycle goes on
//	upload     a pack that no record names; the next cycle takes its bytes
//	repack     all or nothing
//	reclaim    bytes of tombstones; the next cycle takes them with the tombstone
//	forget     nothing
package gc
