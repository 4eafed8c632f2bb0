package natsio

import (
	"context"
	"errors"
	"slices"

	"github.com/nats-io/nats.go/jetstream"
)

// hdrStatus marks what a server says to a consumer's client; such a message has no body.
const hdrStatus = "Status"

// unseen reports whether exactly the n deliveries before this one, behind a stream sequence, are messages that look like the server's own
// word (likeServer). They are read from the stream, for takeUnseen to give. They have no ack of their own: removeUnseen
// is it.
func (f *feed) unseen(ctx context.Context, after uint64, meta *jetstream.MsgMetadata, n uint64) bool {
	var found []*jetstream.RawStreamMsg
	for uint64(len(found)) <= n {
		m, err := f.following(ctx, after)
		if err != nil || m == nil {
			return false
		}
		if m.Sequence >= meta.Sequence.Stream {
			break
		}
		if !likeServer(m) {
			return false
		}
		found, after = append(found, m), m.Sequence
	}
	if uint64(len(found)) != n {
		return false
	}
	f.hidden = append(f.hidden, found...)
	return true
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

// passUnseen delivers the events right above the ack floor that look like the server's word: one that says that the consumer was deleted
// ends each try to consume.
func (p *partitionFeed) passUnseen(ctx context.Context, f *feed, link uint64) error {
	info := f.cons.CachedInfo()
	if info.NumPending == 0 && info.NumAckPending == 0 {
		return nil
	}
	after := info.AckFloor.Stream
	for {
		m, err := f.following(ctx, after)
		if err != nil || m == nil || !likeServer(m) {
			return err
		}
		p.deliverUnseen(f, m, link)
		f.removeUnseen(m.Sequence) // all before it are acknowledged
		after = m.Sequence
	}
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

// deliverUnseen delivers a message that is removed once it is through, so that it meets nobody else who reads the stream: the removal is
// its ack, and the server takes that for an ack of all before it. A crash before leaves it to the next process.
func (p *partitionFeed) deliverUnseen(f *feed, m *jetstream.RawStreamMsg, link uint64) {
	p.c.log.Warn("an event that looks like the server's word is removed", "subject", m.Subject, "seq", m.Sequence)
	f.mu.Lock()
	f.stay = append(f.stay, m.Sequence)
	f.mu.Unlock()
	term := f.term.Load()
	p.deliver(Delivery{
		Subject: m.Subject, Data: m.Data, Seq: m.Sequence, Stored: m.Time.UnixNano(),
		Partition: p.partition, Link: link, Open: f.open, Term: term, Acks: &Acks{feed: f, term: term, link: link, seq: m.Sequence},
	})
}

// removeUnseen removes the unseen events up to a sequence, up to which all are through. What cannot be now is with the next ack.
func (f *feed) removeUnseen(upTo uint64) {
	f.mu.Lock()
	due := slices.DeleteFunc(slices.Clone(f.stay), func(seq uint64) bool { return seq > upTo })
	f.stay = slices.DeleteFunc(f.stay, func(seq uint64) bool { return seq <= upTo })
	f.mu.Unlock()
	for _, seq := range due {
		if !f.remove(seq) {
			f.mu.Lock()
			f.stay = append(f.stay, seq)
			f.mu.Unlock()
		}
	}
}

// remove removes an event, and reports whether it is gone.
func (f *feed) remove(seq uint64) bool {
	ctx, cancel := context.WithTimeout(context.Background(), f.c.timeout)
	defer cancel()
	s, err := f.c.js.Stream(ctx, f.stream)
	if err == nil {
		err = s.DeleteMsg(ctx, seq)
	}
	if err == nil || errors.Is(err, jetstream.ErrMsgNotFound) {
		return true
	}
	f.c.log.Warn("remove an event that looks like the server's word", "seq", seq, "error", err)
	return false
}

// takeUnseen gives what was found before the last delivery that was in order, once.
func (f *feed) takeUnseen() []*jetstream.RawStreamMsg {
	found := f.hidden
	f.hidden = nil
	return found
}

// pinOf is the pin that the server gave with a message. It stands behind one that the message's publisher wrote into the headers.
func pinOf(m jetstream.Msg) string {
	pins := m.Headers()[hdrPinID]
	if len(pins) == 0 {
		return ""
	}
	return pins[len(pins)-1]
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
