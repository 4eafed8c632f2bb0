// Package persist turns events into threads: the persister's decisions, against interfaces that it declares.
//
//	partition consumers ─▶ Deliver: decode, fetch the body, check, externalize, cut      (a goroutine a partition;
//	                          │      what is too large for memory goes to the bucket now: giant.go)
//	                          │ queue, bounded in bytes
//	                          ▼
//	                       prepare: heads, dialect, nodes, items → one commit            (lane, stage 1)
//	                          ▼
//	                       seal:    nodes compressed into a pack                         (lane, ahead of stage 2)
//	                          ▼
//	                       commit:  bulk · one atomic batch of records behind the fence  (lane, stage 2)
//	                          ▼
//	                       publish: items in order · dead letters · ack                  (lane, stage 3)
//
// The stages work on neighbouring batches at the same time: a batch is prepared on the heads that the one before it
// will leave. When that one is refused, both are thrown away and their events go back to the queue.
//
// What a crash leaves after each step, and who repairs it:
//
//	upload of a giant      bytes that no record names; the next gc cycle takes them
//	0 fence read           nothing
//	1 bulk uploaded        bytes that no record names; the next gc cycle takes them. Parts of an open output's artifact, which
//	                       its record names: whoever applies its events makes them again and finds them there
//	2 records committed    items that are not in ITEMS; whoever gets the events again sees that they are applied, compares
//	                       the thread's last item with its head, and publishes the rest from the nodes
//	3 items published      events that are not acked; they come again and are skipped
//	4 acked                nothing
package persist
