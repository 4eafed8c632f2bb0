package natsio

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"spool/pkg/events"
)

// hdrStatus marks what a server says to a consumer's client; such a message has no body.
const hdrStatus = "Status"

// unseen reports whether exactly the n deliveries before this one, behind a stream sequence, are messages that look like the server's own
// word (likeServer). Then the partition is begun again, without them (removeUnseen).
func (f *feed) unseen(ctx context.Context, after uint64, meta *jetstream.MsgMetadata, n uint64) bool {
	for found := uint64(0); ; found++ {
		m, err := f.following(ctx, after)
		unreadable := errors.Is(err, nats.ErrBadHeaderMsg) // and so seen, and nobody tells where it is
		if err != nil && !unreadable || err == nil && m == nil {
			return false
		}
		if unreadable || m.Sequence >= meta.Sequence.Stream {
			if found != n {
				return false
			}
			f.over.Store(true)
			f.met()
			return true
		}
		if found == n || !likeServer(m) {
			return false
		}
		after = m.Sequence
	}
}

// unseenSince is unseen behind the last delivery that was in order, or, after a reset, behind the ack floor.
func (f *feed) unseenSince(ctx context.Context, meta *jetstream.MsgMetadata, n uint64) bool {
	after := f.last
	if f.next == 1 {
		info, err := f.cons.Info(ctx)
		if err != nil {
			return false
		}
		after = info.AckFloor.Stream
	}
	return f.unseen(ctx, after, meta, n)
}

// likeServer reports whether a message is one that nats.go takes for a heartbeat or an error of the server, and passes to nobody: without
// a body, and with a status among the headers. Whoever may publish can store one. Without what is done here, its consumer would be
// reset for ever to get what was missed, or ended again and again by what it was told.
func likeServer(m *jetstream.RawStreamMsg) bool {
	return len(m.Data) == 0 && m.Header.Get(hdrStatus) != ""
}

// following is the first message behind a stream sequence that the consumer selects; nil: there is none, or the consumer has several
// filters, as those of items have, where no stranger writes.
func (f *feed) following(ctx context.Context, after uint64) (*jetstream.RawStreamMsg, error) {
	filter := f.cons.CachedInfo().Config.FilterSubject
	if filter == "" {
		return nil, nil
	}
	// A direct answer has the message's headers, and nats.go would take it for an error.
	s, err := MessagesOf(ctx, f.c.Streams(), f.stream)
	if err != nil {
		return nil, WrapErr(err)
	}
	m, err := s.GetMsg(ctx, after+1, jetstream.WithGetMsgSubject(filter))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, nil
	}
	return m, WrapErr(err)
}

// removeUnseen removes the events that look like the server's word, right above the ack floor and right behind the last delivery that
// was in order: they are dead letters, and meet nobody else who reads the stream. One that says that the consumer was deleted ends
// each try to consume.
//
// The server counts the removal of an event that is on its way as its ack, and with it all before it, which nobody may have applied. So it
// happens while nothing is asked for and none is on its way, and the floor is set back to where it was: what is done is skipped. Not
// defended: an owner who is not known of is given events in between; or this process dies, or its last question gets no answer, before the
// floor is set back.
func (p *partitionFeed) removeUnseen(ctx context.Context, f *feed) error {
	info := f.cons.CachedInfo()
	if info.NumPending == 0 && info.NumAckPending == 0 {
		return nil
	}
	floor := info.AckFloor.Stream
	var found []*jetstream.RawStreamMsg
	for _, after := range []uint64{floor, max(floor, p.last)} {
		for {
			m, err := f.following(ctx, after)
			if err != nil && !errors.Is(err, nats.ErrBadHeaderMsg) {
				return err
			}
			if m == nil || !likeServer(m) {
				break
			}
			found, after = append(found, m), m.Sequence
		}
	}
	if len(found) == 0 {
		return nil
	}
	letters := make([]events.Dead, len(found))
	for i, m := range found {
		thread, kind, _ := events.ParseStored(m.Subject)
		_, why := events.Open(m.Subject, m.Data)
		letters[i] = events.Dead{Thread: thread, Kind: kind.String(), Subject: m.Subject, Seq: m.Sequence, Stored: m.Time.UnixNano(),
			Alone: true, Reason: fmt.Sprint(why)}
	}
	if err := p.c.DeadLetters().Dead(ctx, letters); err != nil {
		return err
	}
	s, err := MessagesOf(ctx, f.c.Streams(), f.stream)
	if err == nil {
		_, err = f.c.js.ResetConsumer(ctx, f.stream, f.name)
	}
	for _, m := range found {
		if err == nil {
			p.c.log.Warn("an event that looks like the server's word is removed", "subject", m.Subject, "seq", m.Sequence)
			err = UnlessGone(ctx, s, m.Sequence, s.DeleteMsg(ctx, m.Sequence))
		}
	}
	if err == nil {
		_, err = f.c.js.ResetConsumerToSequence(ctx, f.stream, f.name, floor+1)
	}
	return WrapErr(err)
}

// blocked reports whether nothing comes any more because the event above the ack floor is one that nobody is passed.
func (p *partitionFeed) blocked(ctx context.Context) bool {
	info, err := p.feed.cons.Info(ctx)
	if err != nil || info.NumAckPending == 0 {
		return false
	}
	m, err := p.feed.following(ctx, info.AckFloor.Stream)
	return err == nil && m != nil && likeServer(m)
}

// unpinShown gives our pin away, if we have it, and nats.go does not know: it took the publisher's pin for the server's, and asks with that
// until the server says that it is none. Then it asks without one, and would get nothing for pinnedTTL.
func (f *feed) unpinShown(ctx context.Context) {
	pin := f.shown.Load()
	info, err := f.cons.Info(ctx)
	if err != nil || pin == nil {
		return
	}
	for _, g := range info.PriorityGroups {
		if g.PinnedClientID != *pin {
			continue
		}
		if s, err := f.c.js.Stream(ctx, f.stream); err == nil {
			_ = s.UnpinConsumer(ctx, f.name, g.Group)
		}
	}
}
