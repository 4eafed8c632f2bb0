package natsio

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/jsonscan"
	"spool/internal/record"
	"spool/internal/text"
	"spool/pkg/events"
)

// PublishItems stores items in order. On an error a prefix of them may be stored: ask LastItem before sending again. A
// reader may for a moment see an item without the one before it, when a server refused that one and not the next: it can
// have the missing one from the thread.
func (its Items) PublishItems(ctx context.Context, items []events.Posted) error {
	msgs := make([]*nats.Msg, len(items))
	for i, it := range items {
		msgs[i] = &nats.Msg{Subject: it.Subject, Data: it.Data}
		if it.Trace == "" && it.Life == 0 {
			continue
		}
		msgs[i].Header = nats.Header{}
		if it.Trace != "" {
			msgs[i].Header[events.HeaderTrace] = []string{it.Trace}
		}
		if it.Life != 0 {
			msgs[i].Header[events.HeaderLife] = []string{strconv.FormatUint(it.Life, 10)}
		}
	}
	if err := its.c.items.send(ctx, its.c, msgs); err != nil {
		return text.Errorf("publish %d items: %w", len(items), err)
	}
	return nil
}

// LastItem is the number of the newest item under a thread's name that ITEMS still holds, by its leader, and the life that it is
// of; 0 when it holds none. What is sent again by an answer that was old is there twice, and subscribers drop it.
func (its Items) LastItem(ctx context.Context, t events.Thread) (n int64, life uint64, err error) {
	s, err := MessagesOf(ctx, its.c.Streams(), events.ItemsStream)
	if err != nil {
		return 0, 0, WrapErr(err)
	}
	m, err := newestOn(ctx, s, events.ItemFilter(t.Session, t.Name, ""))
	if err != nil {
		return 0, 0, fmt.Errorf("last item of %s: %w", t, err)
	}
	if m.Sequence == 0 {
		return 0, 0, nil
	}
	if n := itemNumber(m.Data); n > 0 {
		return n, itemLife(m.Header), nil
	}
	return 0, 0, fmt.Errorf("last item of %s: its JSON has no number: %w", t, record.ErrValue)
}

// LastItemOf is the number of the newest item of one life of a thread's name that ITEMS holds; 0 when it holds none. Where a later life
// has items, all items of the name are read.
func (its Items) LastItemOf(ctx context.Context, t events.Thread, life uint64) (n int64, err error) {
	n, of, err := its.LastItem(ctx, t)
	if err != nil || n == 0 || of == life {
		return n, err
	}
	newest, n := n, int64(0)
	found := false
	err = its.c.Streams().Each(ctx, events.ItemsStream, jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{events.ItemFilter(t.Session, t.Name, "")}, DeliverPolicy: jetstream.DeliverAllPolicy,
	}, func(m jetstream.Msg, _ *jetstream.MsgMetadata) error {
		switch at := itemNumber(m.Data()); itemLife(m.Headers()) {
		case life:
			n = max(n, at)
		case of:
			found = found || at == newest
		}
		return nil
	})
	if err == nil && !found { // a consumer of a copy that is behind ends before it
		err = fmt.Errorf("%w: item %d of %s cannot be read yet", record.ErrBusy, newest, t)
	}
	if err != nil {
		return 0, fmt.Errorf("last item of %s: %w", t, err)
	}
	return n, nil
}

// itemNumber reads the number out of an item's JSON; 0 when there is none. It stands there and not in a header, because a
// header costs a server more than a hundred bytes of payload do.
func itemNumber(item []byte) int64 {
	n, _ := jsonscan.Int(jsonscan.Get(item, "n"))
	return n
}

// itemLife reads the life of the thread that an item is of. It is a header, because it is not made from the entry; only items of
// names that were used again have one.
func itemLife(h nats.Header) uint64 {
	life, _ := strconv.ParseUint(h.Get(events.HeaderLife), 10, 64)
	return life
}

// DropItems deletes a thread's items above a number, the newest ones that there are of it: its head went back before them. It
// says how many.
func (its Items) DropItems(ctx context.Context, t events.Thread, above int64) (n int, err error) {
	s, err := its.c.js.Stream(ctx, events.ItemsStream)
	if err != nil {
		return 0, WrapErr(err)
	}
	for filter := events.ItemFilter(t.Session, t.Name, ""); ; n++ {
		m, err := s.GetLastMsgForSubject(ctx, filter)
		if errors.Is(err, jetstream.ErrMsgNotFound) || err == nil && itemNumber(m.Data) <= above {
			return n, nil
		}
		if err == nil {
			err = s.DeleteMsg(ctx, m.Sequence)
		}
		if err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) {
			return n, fmt.Errorf("drop items of %s: %w", t, WrapErr(err))
		}
	}
}
