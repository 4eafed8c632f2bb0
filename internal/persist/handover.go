package persist

import (
	"context"
	"time"
)

// Leave waits until all that was delivered of a partition is through and acknowledged, so that the next process is given none of it,
// or until ctx ends. What is not through then is not applied here any more: it comes again, there. Nothing of the partition may be
// delivered from when Leave is called until its next term. A crash before the end leaves a note of what was tried, as any does
// (deadly.go).
func (p *Persister) Leave(ctx context.Context, partition int) {
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for !p.windows.settled(partition) {
		select {
		case <-look.C:
			continue
		case <-ctx.Done():
		}
		p.Log.Info("a partition is given away while something of it waits: another persister applies that", "partition", partition)
		p.queue.end(partition)
		break
	}
	p.deadly.takeBack(partition) // nobody died over what is noted
	p.windows.close(partition)
}
