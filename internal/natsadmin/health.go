package natsadmin

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"spool/internal/natsio"
	"spool/internal/record"
	"spool/pkg/events"
)

// StreamStates reads how far every stream is, and what its server says it has lost. One that is not there has Created 0. A server
// that was cut off from the others tells what was: it is record.ErrBusy while the leader of a stream hears from no majority.
func (a *Admin) StreamStates(ctx context.Context) ([]record.StreamState, error) {
	var out []record.StreamState
	for _, cfg := range natsio.Topology(natsio.Limits{EventsBytes: 1, ItemsBytes: 1}) {
		s, err := a.js.Stream(ctx, cfg.Name)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			out = append(out, record.StreamState{Stream: cfg.Name})
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("stream %s: %w", cfg.Name, natsio.WrapErr(err))
		}
		info := s.CachedInfo()
		if !natsio.Leads(info) {
			return nil, fmt.Errorf("%w: stream %s: who says to lead it has not heard from a majority lately; its word may be old",
				record.ErrBusy, cfg.Name)
		}
		st := record.StreamState{
			Stream: cfg.Name, Store: natsio.StoreOf(info.Config), MaxAge: info.Config.MaxAge,
			Created: info.Created.UnixNano(), Now: info.TimeStamp.UnixNano(), First: info.State.FirstSeq, Last: info.State.LastSeq,
			Messages: info.State.Msgs, Bytes: info.State.Bytes, Limit: max(info.Config.MaxBytes, 0), Deleted: uint64(info.State.NumDeleted),
		}
		if !info.State.LastTime.IsZero() {
			st.Newest = info.State.LastTime.UnixNano()
		}
		if lost := info.State.Lost; lost != nil {
			st.Lost, st.LostBytes = len(lost.Msgs), lost.Bytes
		}
		out = append(out, st)
	}
	return out, nil
}

// StoreMarks keeps a second copy of the marks, in a stream other than the record bucket's. record.ErrNoStream: that is gone.
func (a *Admin) StoreMarks(ctx context.Context, marks []byte) error {
	_, err := a.streams.Send(ctx, []*nats.Msg{{Subject: events.MarksSubject, Data: marks, Header: nats.Header{"Nats-Rollup": {"sub"}}}})
	if errors.Is(err, record.ErrBusy) { // so it is, too, where nothing listens
		if _, gone := a.js.Stream(ctx, events.GCStream); errors.Is(gone, jetstream.ErrStreamNotFound) {
			return natsio.WrapErr(gone)
		}
	}
	return err
}

// StoredMarks reads that copy; nil when there is none.
func (a *Admin) StoredMarks(ctx context.Context) ([]byte, error) {
	return natsio.StoredMarks(ctx, a.streams)
}

// ReplayEvents has every partition's consumer begin again with an event, or the oldest behind it that is stored. What a thread has, it
// skips.
func (a *Admin) ReplayEvents(ctx context.Context, from uint64) error {
	s, err := a.js.Stream(ctx, events.EventsStream)
	if err != nil {
		return fmt.Errorf("replay events: %w", natsio.WrapErr(err))
	}
	state := s.CachedInfo().State
	if state.Msgs == 0 || from > state.LastSeq {
		return nil
	}
	from = max(from, state.FirstSeq, 1)
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(4)
	for p := range events.Partitions {
		g.Go(func() error {
			_, err := a.js.ResetConsumerToSequence(ctx, events.EventsStream, events.PartitionConsumer(p), from)
			if err != nil {
				return fmt.Errorf("replay partition %d: %w", p, natsio.WrapErr(err))
			}
			return nil
		})
	}
	return g.Wait()
}

// Messages reads a stream from a sequence on, to where it ends now. What the server cannot read it passes over and says
// nothing: sequences that f is not given are deleted, lost or bad (see Message).
func (a *Admin) Messages(ctx context.Context, stream string, from uint64, f func(seq uint64, subject string, data []byte) error) error {
	s, err := a.streams.LeaderStream(ctx, stream)
	if err != nil {
		return fmt.Errorf("read %s: %w", stream, natsio.WrapErr(err))
	}
	err = a.streams.EachUntilNewest(ctx, s, from, func(m jetstream.Msg, meta *jetstream.MsgMetadata) error {
		return f(meta.Sequence.Stream, m.Subject(), m.Data())
	})
	if err != nil {
		return fmt.Errorf("read %s: %w", stream, err)
	}
	return nil
}

// Message reads one message of a stream from its leader: record.ErrNotFound if it does not have it.
func (a *Admin) Message(ctx context.Context, stream string, seq uint64) (data []byte, err error) {
	s, err := natsio.MessagesOf(ctx, a.streams, stream)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", stream, natsio.WrapErr(err))
	}
	m, err := s.GetMsg(ctx, seq)
	if err != nil {
		return nil, fmt.Errorf("message %d of %s: %w", seq, stream, natsio.WrapErr(err))
	}
	return m.Data, nil
}

// ServerID is what the server that the connection stands to calls itself: another name after each start.
func (a *Admin) ServerID() string { return a.nc.ConnectedServerId() }

// Incarnation is ServerID, or empty when the server is one of a cluster.
func (a *Admin) Incarnation() string {
	if a.nc.ConnectedClusterName() != "" {
		return ""
	}
	return a.ServerID()
}
