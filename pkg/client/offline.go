package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/sync/errgroup"

	"spool/internal/family"
	"spool/internal/natsio"
	queue "spool/internal/offline"
	"spool/internal/record"
	"spool/internal/retry"
	"spool/pkg/events"
)

// ErrOfflineFull: no server takes what is published, and the offline directory holds as much as it may. Whether a server has the
// entries is not known when one was tried before; see Publisher.
var ErrOfflineFull = queue.ErrFull

// ErrTooLarge: an entry given by Open is too large to be kept offline.
var ErrTooLarge = family.Unavailable.New("entry is too large")

// offlineEntry is the largest entry given by Open that is kept offline, in bytes: it has to fit into memory.
const offlineEntry = 64 << 20

// offlineAfter is how long a server is tried before an entry is kept offline.
const offlineAfter = 2 * time.Second

// offline is a queue on disk, and the goroutine that publishes from it.
type offline struct {
	*queue.Queue
	stop context.CancelFunc
	done errgroup.Group
}

func openOffline(conn *natsio.Conn, cfg Config) (*offline, error) {
	q, err := queue.Open(queue.Config{Dir: cfg.Offline, Limit: cfg.OfflineBytes, Log: cfg.Logger})
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	o := &offline{Queue: q, stop: stop}
	o.done.Go(func() error {
		for q.Wait(ctx) == nil {
			_ = retry.Do(ctx, nil, func() error {
				return unknown(q.Drain(ctx, func(ctx context.Context, evs []*events.Event) error { return publish(ctx, conn, evs) }))
			})
		}
		return nil
	})
	return o, nil
}

// unknown makes whatever stopped a drain worth another try: there is nobody to tell, and nothing is lost by it.
func unknown(err error) error {
	if err == nil || record.Temporary(err) {
		return err
	}
	return fmt.Errorf("%w: %w", record.ErrUnknown, err)
}

// publish does not touch a connection that does not stand: it knows nothing of the server then, not even how large a message may be.
func publish(ctx context.Context, conn *natsio.Conn, evs []*events.Event) error {
	if !conn.Connected() {
		return fmt.Errorf("%w: not connected", record.ErrBusy)
	}
	return conn.Events().PublishEvents(ctx, evs)
}

// close ends the goroutine first: the queue belongs to it while it drains.
func (o *offline) close() {
	o.stop()
	_ = o.done.Wait()
	_ = o.Close()
}

// away reports that what a producer publishes now goes to the offline directory.
func (c *Client) away(producer string) bool {
	return c.offline != nil && (c.offline.Behind(producer) || !c.offline.Empty() || !c.conn.Connected())
}

// callBytes is how much of what is published at once is stored before more is sent, beside a single larger event. A call to a server
// that a full stream refused is made again as a whole, and what it stored before fills the room that came free.
const callBytes = 8 << 20

// call is how many of the events one call to a server takes; one at least, if there is any.
func call(evs []*events.Event) (n int) {
	for size := 0; n < len(evs); n++ {
		if size += len(evs[n].Body); n > 0 && size > callBytes {
			break
		}
	}
	return n
}

// keep makes the events of one producer durable, a call after the other.
func (c *Client) keep(ctx context.Context, evs []*events.Event) error {
	for len(evs) > 0 {
		n := call(evs)
		if err := c.keepCall(ctx, evs[:n]); err != nil {
			return err
		}
		evs = evs[n:]
	}
	return nil
}

// keepCall makes events durable: in SPOOL_EVENTS, or on this machine's disk when no server takes them. They go through the disk for as
// long as some wait there, of this process or of a predecessor of the producer, so that they stay in order.
func (c *Client) keepCall(ctx context.Context, evs []*events.Event) error {
	if c.offline == nil {
		return retry.Do(ctx, nil, func() error { return c.events.PublishEvents(ctx, evs) })
	}
	short, cancel := context.WithTimeout(ctx, offlineAfter)
	defer cancel()
	c.offline.Yield(short)
	if !c.away(evs[0].Producer) {
		err := retry.Do(short, nil, func() error { return publish(short, c.conn, evs) })
		if err == nil || ctx.Err() != nil || short.Err() == nil && !record.Temporary(err) {
			return err
		}
	}
	return c.offline.Append(evs)
}

// Flush returns when nothing that this client published waits in the offline directory any more.
func (c *Client) Flush(ctx context.Context) error {
	for c.offline != nil && !c.offline.Empty() {
		select {
		case <-c.offline.Drained():
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// inMemory reads an entry that is given by Open.
func inMemory(e Entry) (Entry, error) {
	r, err := e.Open()
	if err != nil {
		return e, err
	}
	e.Body, err = io.ReadAll(io.LimitReader(r, offlineEntry+1))
	if err = errors.Join(err, r.Close()); err != nil {
		return e, err
	}
	if len(e.Body) > offlineEntry {
		return e, fmt.Errorf("%w: offline it may have %d bytes", ErrTooLarge, offlineEntry)
	}
	e.Open = nil
	return e, nil
}
