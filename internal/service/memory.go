package service

import (
	"context"
	"math"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"time"
)

// The soft limit of a process's memory: the least; up to which it follows what is live at the moment; and what is always
// left above that. Beside what is live there may be as much again as a collection has to look through: bodies of requests
// and blocks of an embedded server cost it nothing, and twice of them is not to be held.
const (
	leanBytes  = 192 << 20
	ampleBytes = 512 << 20
	spareBytes = 64 << 20
)

// steady is for how many seconds memory must be live to count: the caches of an embedded server, which give way, count as live too.
const steady = 30

// StayLean keeps the memory of this process near what it holds until ctx ends: without it, garbage and the caches of an embedded server
// grow to several times of that before they are collected. Who sets GOMEMLIMIT decides alone.
func StayLean(ctx context.Context) {
	if os.Getenv("GOMEMLIMIT") != "" || debug.SetMemoryLimit(-1) != math.MaxInt64 {
		return
	}
	defer debug.SetMemoryLimit(math.MaxInt64)
	sample, last := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/total:bytes"}}, make([]int64, steady)
	every := time.NewTicker(time.Second)
	defer every.Stop()
	for i := 0; ; i = (i + 1) % steady {
		metrics.Read(sample)
		live := int64(sample[0].Value.Uint64())
		last[i] = live + min(live, int64(sample[1].Value.Uint64()))
		held := slices.Min(last)
		debug.SetMemoryLimit(max(leanBytes, min(last[i]+spareBytes, ampleBytes), held+spareBytes))
		select {
		case <-every.C:
		case <-ctx.Done():
			return
		}
	}
}
