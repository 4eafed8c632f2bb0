package natsio_test

import (
	"context"
	"slices"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/natstest"
)

// lagging is a stream whose consumers read a copy that is behind its leader. The copy gets the rest when the leader is asked for it.
type lagging struct {
	jetstream.Stream
	copied  jetstream.Stream
	arrives func()
}

func (l *lagging) OrderedConsumer(ctx context.Context, cfg jetstream.OrderedConsumerConfig) (jetstream.Consumer, error) {
	return l.copied.OrderedConsumer(ctx, cfg)
}

func (l *lagging) GetMsg(ctx context.Context, seq uint64, opts ...jetstream.GetMsgOpt) (*jetstream.RawStreamMsg, error) {
	m, err := l.Stream.GetMsg(ctx, seq, opts...)
	if err == nil {
		l.arrives()
	}
	return m, err
}

// TestReadingToTheEndFromACopyThatIsBehind: what the leader had when it was asked comes, whatever the consumer's own copy has.
func TestReadingToTheEndFromACopyThatIsBehind(t *testing.T) {
	c, ctx := natstest.Conn(t), t.Context()
	js := c.JetStream()
	stream := func(name string, messages ...string) jetstream.Stream {
		s, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: name, Subjects: []string{"test." + name}})
		for _, m := range messages {
			if err == nil {
				_, err = js.Publish(ctx, "test."+name, []byte(m))
			}
		}
		if err == nil {
			_, err = s.Info(ctx)
		}
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := &lagging{Stream: stream("LEADER", "one", "two", "three", "four"), copied: stream("COPY", "one", "two")}
	s.arrives = func() {
		for _, m := range []string{"three", "four"} {
			if _, err := js.Publish(ctx, "test.COPY", []byte(m)); err != nil {
				t.Error(err)
			}
		}
		s.arrives = func() {}
	}
	var got []string
	err := c.Streams().EachUntilNewest(ctx, s, 2, func(m jetstream.Msg, _ *jetstream.MsgMetadata) error {
		got = append(got, string(m.Data()))
		return nil
	})
	if want := []string{"two", "three", "four"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("EachUntilNewest = %q, %v, want %q", got, err, want)
	}
}
