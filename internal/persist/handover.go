package persist

import (
	"context"
	"time"
)

// handoverTime is how long a partition that another process is to have waits for what came of it, at most.
const handoverTime = 5 * time.Second

// Leave waits until all that was delivered of a partition is through and acknowledged, so that the next process is given none of it,
// or for handoverTime. What is not through then is not applied here any more: it comes again, there. Nothing of the partition may be
// delivered from when Leave is called until its next term.
func (p *Persister) Leave(ctx context.Context, partition int) {
	ctx, cancel := context.WithTimeout(ctx, handoverTime)
	defer cancel()
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
	p.windows.close(partition)
}
