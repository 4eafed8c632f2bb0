package share

import (
	"cmp"
	"hash/fnv"
)

// owned is whose each partition is: each persister has as many of them as any other, or one more. Which, follows from a hash of both,
// so that few change hands when one comes or goes.
func owned(partitions []int, ids []string) map[int]string {
	of, has := map[int]string{}, map[string]int{}
	if len(ids) == 0 {
		return of
	}
	least := len(partitions) / len(ids)
	for _, most := range []int{least, least + 1} {
		for _, p := range partitions {
			if of[p] != "" {
				continue
			}
			best := ""
			for _, id := range ids {
				if has[id] < most && (best == "" || prefer(id, best, p)) {
					best = id
				}
			}
			if best != "" {
				of[p] = best
				has[best]++
			}
		}
	}
	return of
}

// prefer reports whether a partition is rather one persister's than another's.
func prefer(a, b string, partition int) bool {
	return cmp.Or(cmp.Compare(score(a, partition), score(b, partition)), cmp.Compare(a, b)) > 0
}

// score mixes a persister's id and a partition (the last steps are those of murmur3: FNV alone hardly changes with its last byte).
func score(id string, partition int) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(id))
	x := h.Sum64() + uint64(partition)*0x9e3779b97f4a7c15
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}
