package sim

import (
	"fmt"
	"hash/fnv"

	"spool/pkg/events"
)

// Sessions of a program: two share a partition, one has its own.
var sessionNames, usedPartitions = func() (names []string, parts []int) {
	at := map[int]int{}
	for i := 0; len(names) < 3; i++ {
		name := fmt.Sprintf("s%d", i)
		p := partitionOf(name)
		switch {
		case len(parts) == 0, len(names) == 2 && at[p] == 0:
			parts = append(parts, p)
		case len(names) == 1 && at[p] == 1:
		default:
			continue
		}
		at[p]++
		names = append(names, name)
	}
	return names, parts
}()

var threadNames = []string{events.MainThread, "a", "b", "c"}

// partitionOf is the partition of a session, as the server's transform computes it.
func partitionOf(session string) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(session))
	return int(h.Sum32() % events.Partitions)
}

func threadOf(session, thread int) events.Thread {
	return events.Thread{Session: sessionNames[session%len(sessionNames)], Name: threadNames[thread%len(threadNames)]}
}
