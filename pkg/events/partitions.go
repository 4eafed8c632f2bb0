//go:build !fewpartitions

package events

// Partitions is how many ways EVENTS is split by session, and so how many persisters can share it. It is fixed when the
// stream is created. Each partition has a consumer that looks for its own events in the whole stream and keeps its state on
// disk: 16 cost a quarter less CPU an event than 64 (docs/adr/0006-sixteen-partitions.md).
const Partitions = 16
