package sessionstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"spool/internal/natsio"
	"spool/internal/record"
	"spool/pkg/events"
)

// FreeObjects drops bytes whose artifacts' records belong to a session that is being deleted, unless another session
// has a record that names them (SPEC A7). Doing it again changes nothing.
func (st *Store) FreeObjects(ctx context.Context, session string, objects []record.Object) error {
	for _, o := range objects {
		if o.Name == "" { // parts of an output that never ended
			if err := st.objects.Reclaim(ctx, o); err != nil {
				return err
			}
			continue
		}
		users, err := st.artifacts.NamedBy(ctx, o.Name)
		if delete(users, session); err == nil && len(users) == 0 {
			err = st.objects.Reclaim(ctx, o)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// PurgeSession drops the items and dead letters of a session that was deleted, up to where the record says. Doing it again changes
// nothing more.
func (st *Store) PurgeSession(ctx context.Context, session string, how record.Deleted) error {
	if err := st.RemoveItems(ctx, session, how.Items); err != nil {
		return fmt.Errorf("purge session %s: remove its items: %w", session, err)
	}
	s, err := st.js.Stream(ctx, events.DeadStream)
	if err == nil {
		filter := events.DeadFilter(events.Thread{Session: session})
		err = s.Purge(ctx, jetstream.WithPurgeSubject(filter), jetstream.WithPurgeSequence(how.Dead+1))
	}
	if err != nil {
		return fmt.Errorf("purge session %s: purge %s: %w", session, events.DeadStream, natsio.WrapErr(err))
	}
	return nil
}

// PurgeEvents drops the events of a session before the one that deleted it, as far as these are acknowledged, with all before them: see
// natsio.PurgeEvents.
func (st *Store) PurgeEvents(ctx context.Context, session string, partition int, seq uint64) (all bool, err error) {
	if all, err = natsio.PurgeEvents(ctx, st.events, session, partition, seq); err != nil {
		err = fmt.Errorf("purge session %s: purge %s: %w", session, events.EventsStream, err)
	}
	return all, err
}

// PurgeLate drops the items and dead letters of what a deletion took that came behind it: of lives that had begun before, of events before
// its own, whose sequence this is. Doing it again changes nothing.
func (st *Store) PurgeLate(ctx context.Context, session string, seq uint64) error {
	for _, p := range []struct{ stream, filter, header string }{
		{events.ItemsStream, events.ItemsOfSession(session), events.HeaderLife},
		{events.DeadStream, events.DeadFilter(events.Thread{Session: session}), natsio.HeaderEventSeq},
	} {
		s, err := natsio.MessagesOf(ctx, st.streams, p.stream)
		if err != nil {
			return natsio.WrapErr(err)
		}
		var seqs []uint64
		err = st.streams.Each(ctx, p.stream, jetstream.OrderedConsumerConfig{
			FilterSubjects: []string{p.filter}, DeliverPolicy: jetstream.DeliverAllPolicy, HeadersOnly: true,
		}, func(m jetstream.Msg, meta *jetstream.MsgMetadata) error {
			if of, _ := strconv.ParseUint(m.Headers().Get(p.header), 10, 64); of < seq {
				seqs = append(seqs, meta.Sequence.Stream)
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("purge what came late of session %s: %w", session, err)
		}
		slices.Reverse(seqs)
		if err := removeMessages(ctx, s, seqs, 1); err != nil {
			return fmt.Errorf("purge what came late of session %s: %w", session, err)
		}
	}
	return nil
}

// removedAlone is how many items of a session, its oldest, are removed one after the other; before them as many at a time.
const removedAlone = 64

// RemoveItems drops the items of a session, up to a sequence, each by itself. A purge of all of them would have the server count
// deliveries that a durable reader has in hand below them as acknowledged, once another item is removed alone: that
// reader dies, and nobody is given them. The newest go first, so that a reader beside it finds a thread that ends earlier,
// not one with items missing; further in, where several go at a time, it can find the last 64 with gaps. Doing it again
// changes nothing.
func (st *Store) RemoveItems(ctx context.Context, session string, upTo uint64) error {
	s, err := natsio.MessagesOf(ctx, st.streams, events.ItemsStream)
	if err != nil {
		return natsio.WrapErr(err)
	}
	filter := events.ItemsOfSession(session)
	for {
		first, err := s.GetMsg(ctx, 1, jetstream.WithGetMsgSubject(filter))
		if errors.Is(err, jetstream.ErrMsgNotFound) || err == nil && first.Sequence > upTo {
			return nil // by the leader's word: whom the list below comes from may be behind
		}
		if err != nil {
			return natsio.WrapErr(err)
		}
		seqs := []uint64{first.Sequence}
		err = st.streams.Each(ctx, events.ItemsStream, jetstream.OrderedConsumerConfig{
			FilterSubjects: []string{filter}, DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: first.Sequence + 1,
			HeadersOnly: true,
		}, func(_ jetstream.Msg, meta *jetstream.MsgMetadata) error {
			if meta.Sequence.Stream <= upTo {
				seqs = append(seqs, meta.Sequence.Stream)
			}
			return nil
		})
		if err != nil {
			return err
		}
		slices.Reverse(seqs)
		together := max(0, len(seqs)-removedAlone)
		if err := removeMessages(ctx, s, seqs[:together], removedAlone); err != nil {
			return err
		}
		if err := removeMessages(ctx, s, seqs[together:], 1); err != nil {
			return err
		}
	}
}

// removeMessages removes messages of a stream, in their order, some at a time.
func removeMessages(ctx context.Context, s natsio.Messages, seqs []uint64, atATime int) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(atATime)
	for _, seq := range seqs {
		g.Go(func() error { return natsio.UnlessGone(ctx, s, seq, s.DeleteMsg(ctx, seq)) })
	}
	return g.Wait()
}

// SessionEnds is how far the streams of items and of dead letters are now.
func (st *Store) SessionEnds(ctx context.Context) (items, dead uint64, err error) {
	last, err := st.streams.LastSeqs(ctx, events.ItemsStream, events.DeadStream)
	return last[events.ItemsStream], last[events.DeadStream], err
}
