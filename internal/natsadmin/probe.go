package natsadmin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/family"
	"spool/internal/natsio"
	"spool/internal/record"
	"spool/pkg/events"
)

// probeBytes is what Stores stores: more than what is left in the last block of a full disk.
const probeBytes = 32 << 10

// Stores finds out whether every stream takes writes. A server whose disk is full answers every question, and no
// publish; and a stream that has met a full disk takes no write any more, whatever room there is, until its server is
// started again. Stores asks each stream, then stores something that nobody reads, in the place of what it stored the
// last time: while no stream has met anything yet, that alone shows a disk that has just become full. Else it is
// ErrStopped, or record.ErrDenied where this user may find out nothing.
func (a *Admin) Stores(ctx context.Context) error {
	takes := a.Takes(ctx)
	var stopped []string
	for _, stream := range slices.Sorted(maps.Keys(takes)) {
		if err := takes[stream]; err != nil {
			stopped = append(stopped, fmt.Sprintf("%s: %v", stream, err))
		}
	}
	if len(stopped) > 0 {
		return fmt.Errorf("%w: %s; %s", ErrStopped, strings.Join(stopped, "; "), mend)
	}
	m := &nats.Msg{Subject: events.ProbeSubject, Data: make([]byte, probeBytes), Header: nats.Header{"Nats-Rollup": {"sub"}}}
	switch _, err := a.streams.Send(ctx, []*nats.Msg{m}); {
	case errors.Is(err, record.ErrDenied) && len(takes) > 0:
		return nil
	case err != nil && !errors.Is(err, record.ErrDenied):
		return fmt.Errorf("%w: %v; %s", ErrStopped, err, mend)
	default:
		return err
	}
}

// Takes is why a stream takes no writes, by its name; nil: it takes them. Of those that are not there, or that this
// user may not ask, it says nothing.
func (a *Admin) Takes(ctx context.Context) map[string]error {
	var asked sync.WaitGroup
	var mu sync.Mutex
	out := map[string]error{}
	for _, s := range natsio.Topology(natsio.Limits{EventsBytes: 1, ItemsBytes: 1}) {
		asked.Go(func() {
			err := a.takes(ctx, s.Name)
			if errors.Is(err, record.ErrDenied) || errors.Is(err, record.ErrNotFound) {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			out[s.Name] = err
		})
	}
	asked.Wait()
	return out
}

// ErrStopped is wrapped when the server takes no writes in some stream.
var ErrStopped = family.Unavailable.New("the server stores nothing: is its disk full, read-only or failing?")

const mend = "make room or mend the disk; spool up then goes on by itself, " +
	"and a NATS server of your own must be restarted"

// noSubject is of no stream and no consumer.
const noSubject = "spool.none"

// takes asks a stream whether it takes writes, and changes nothing: a stream that takes none refuses to be purged as
// well, also of a subject that none of its messages has. Were the subject ever passed over, the sequence spares all
// messages but the first.
func (a *Admin) takes(ctx context.Context, stream string) error {
	s, err := a.js.Stream(ctx, stream)
	if err == nil {
		err = s.Purge(ctx, jetstream.WithPurgeSubject(noSubject), jetstream.WithPurgeSequence(2))
	}
	return natsio.WrapErr(err)
}
