package persist

import (
	"context"
	"fmt"
	"time"

	"spool/internal/record"
	"spool/internal/sleep"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// Leases finds outputs whose agent fell silent, and publishes their end.
type Leases interface {
	// SilentOutputs lists the open outputs that nobody wrote to for that long, by the store's clock.
	SilentOutputs(ctx context.Context, least time.Duration) ([]record.Silent, error)
	PublishEvents(ctx context.Context, evs []*events.Event) error
}

// leaseLoop closes outputs without an end after their lease (SPEC O8), until ctx ends. Every persister may do it for every
// output: it only publishes an event that closes the output if no piece comes before, and the order in the stream, not a
// clock, says whether one did. An agent that comes back a moment later is told that its output was closed.
func (p *Persister) leaseLoop(ctx context.Context) error {
	if p.Leases == nil {
		return nil
	}
	for range sleep.Every(ctx, max(min(p.cfg.OutputLease/4, leaseLook), 100*time.Millisecond)) {
		if err := p.closeSilent(ctx); err != nil && ctx.Err() == nil {
			p.Log.Warn("look for outputs whose lease is over", "error", err)
		}
	}
	return nil
}

// leaseLook is how long after a short lease its output is closed, at most: looking costs the server a consumer.
const (
	leaseLook  = 15 * time.Second
	leastLease = time.Second // of an output that says its own
)

// closeSilent publishes an abort for every output whose lease is over.
func (p *Persister) closeSilent(ctx context.Context) error {
	silent, err := p.Leases.SilentOutputs(ctx, min(p.cfg.OutputLease, leastLease))
	if err != nil {
		return err
	}
	var evs []*events.Event
	for _, o := range silent {
		lease := o.Lease(p.cfg.OutputLease)
		if o.For < lease {
			continue
		}
		t := events.Thread{Session: o.Session, Name: o.Thread}
		p.Log.Info("an output's lease is over", "session", o.Session, "thread", o.Thread, "output", o.ID, "silent", o.For)
		evs = append(evs, &events.Event{
			// Whoever finds it again before it is applied publishes the same event, which counts once.
			Producer: threads.Ephemeral + "lease." + o.ID, Seq: o.Rev, Kind: events.KindChunk, Thread: t, Time: o.Touched,
			User: o.User, Claimed: o.Claimed,
			Body: events.Chunk{Op: events.ChunkAbort, Output: o.ID, Seq: o.Output.Seq + 1,
				Reason: fmt.Sprintf("no sign of life for %v", lease)}.Encode(),
		})
	}
	if len(evs) == 0 {
		return nil
	}
	return p.Leases.PublishEvents(ctx, evs)
}
