package natsio_test

import (
	"context"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/must"
	"spool/internal/natstest"
	"spool/pkg/events"
)

// unaware is EVENTS as a server shows it that has acknowledged events and not told its consumers yet.
type unaware struct{ jetstream.Stream }

func (u unaware) ListConsumers(ctx context.Context) jetstream.ConsumerInfoLister {
	return unawareList{u.Stream.ListConsumers(ctx)}
}

type unawareList struct{ jetstream.ConsumerInfoLister }

func (l unawareList) Info() <-chan *jetstream.ConsumerInfo {
	out := make(chan *jetstream.ConsumerInfo)
	go func() {
		defer close(out)
		for info := range l.ConsumerInfoLister.Info() {
			info.NumPending = 0
			out <- info
		}
	}()
	return out
}

// TestUnappliedBeforeConsumersKnow: an event that was acknowledged is not applied because its partition's consumer has nothing to do.
func TestUnappliedBeforeConsumersKnow(t *testing.T) {
	c, ctx := natstest.Conn(t), t.Context()
	e := &events.Event{Kind: events.KindEntry, Dialect: "omp", Thread: events.Thread{Session: "s", Name: "main"},
		Producer: "p", Seq: 1, Body: []byte(`{}`)}
	must.Do(t, c.Events().PublishEvents(ctx, []*events.Event{e}))
	s := must.Get(c.JetStream().Stream(ctx, events.EventsStream))(t)
	must.Same(t, must.Get(c.Streams().UnappliedOf(ctx, unaware{s}))(t), 1, "UnappliedOf = %d, want %d")
}
