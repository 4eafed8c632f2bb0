package natsio_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/must"
	"spool/internal/natsio"
	"spool/internal/natstest"
	"spool/internal/sessionstore"
	"spool/pkg/events"
)

var allItems = []string{events.ItemSubjects}

// postItems stores items of sessions, in order: "a1" is item 1 of session a.
func postItems(t *testing.T, c *natsio.Conn, items ...string) {
	t.Helper()
	for _, item := range items {
		th := events.Thread{Session: item[:1], Name: "main"}
		must.Do(t, c.Items().PublishItems(t.Context(), []events.Posted{
			{Subject: events.ItemSubject(th, "message", ""), N: int64(item[1] - '0'), Data: []byte(item)},
		}))
	}
}

// followItems reads under a name until it has as many items as are wanted; then calls then and dies with the last one
// in hand.
func followItems(t *testing.T, c *natsio.Conn, want int, then func()) (got []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
	defer cancel()
	for item, err := range c.Items().FollowDurable(ctx, "pair", allItems, natsio.Position{All: true}, nil) {
		must.Do(t, err)
		if got = append(got, string(item.Data)); len(got) == want {
			then()
			break
		}
	}
	return got
}

// TestDurableBesideDeletions: what a durable reader was given and has not done comes again when it dies, also where
// younger items that it was given too were removed meanwhile, one or several, of one session and then of another, and
// also from a server that was started again.
func TestDurableBesideDeletions(t *testing.T) {
	for _, items := range [][]string{
		{"a1", "b1", "a2"}, {"a1", "a2", "b1", "b2", "a3", "b3", "a4"}, {"a1", "b1", "b2", "c1"}, {"a1", "b1", "b2", "c1", "a2"},
	} {
		for _, again := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d items, started again: %v", len(items), again), func(t *testing.T) {
				if again && natstest.InMemory() {
					t.Skip("a server in memory is not started again")
				}
				ctx, dir := t.Context(), t.TempDir()
				c := func() *natsio.Conn { return natstest.Dial(t, natstest.Server(t)) }
				stop := func() {}
				if again {
					c = func() *natsio.Conn {
						server := natstest.ServerIn(t, dir)
						stop = server.Stop
						return natstest.Dial(t, server)
					}
				}
				conn := c()
				must.Do(t, conn.Ensure(ctx, natsio.Limits{EventsBytes: 1 << 28, ItemsBytes: 1 << 28}))
				postItems(t, conn, items...)
				left := slices.DeleteFunc(slices.Clone(items), func(item string) bool { return item[0] != 'a' })
				followItems(t, conn, 1, func() {
					cons := must.Get(conn.JetStream().Consumer(ctx, events.ItemsStream, events.ReaderConsumer("pair", "")))(t)
					awaitOpen(t, cons, len(items), len(items))
					for _, session := range []string{"b", "c"} {
						must.Do(t, sessionstore.Of(conn).RemoveItems(ctx, session, uint64(len(items))))
						awaitOpen(t, cons, 1, len(slices.DeleteFunc(slices.Clone(items), func(item string) bool { return item[0] <= session[0] }))+len(left))
					}
				})
				if again {
					conn.Close()
					stop()
					conn = c()
				}
				if got := followItems(t, conn, len(left), func() {}); !slices.Equal(got, left) {
					t.Errorf("the next reader was given %v, want %v", got, left)
				}
			})
		}
	}
}

// TestItemsGoFromTheEnd: who reads beside a deletion finds a thread that ends earlier, not one that lacks items.
func TestItemsGoFromTheEnd(t *testing.T) {
	c, ctx := natstest.Conn(t), t.Context()
	const items = 60
	for i := range items {
		postItems(t, c, fmt.Sprintf("a%c", '1'+i))
	}
	removed := make(chan error, 1)
	go func() { removed <- sessionstore.Of(c).RemoveItems(ctx, "a", items) }()
	for left := items; left > 0; {
		n := 0
		must.Do(t, c.Streams().Each(ctx, events.ItemsStream, jetstream.OrderedConsumerConfig{FilterSubjects: allItems},
			func(m jetstream.Msg, _ *jetstream.MsgMetadata) error {
				if n++; string(m.Data()) != fmt.Sprintf("a%c", '0'+n) {
					t.Fatalf("item %d of those that are left is %q", n, m.Data())
				}
				return nil
			}))
		left = n
	}
	must.Do(t, <-removed)
}

// awaitOpen waits until a number of deliveries of a consumer is open.
func awaitOpen(t *testing.T, cons jetstream.Consumer, least, most int) {
	t.Helper()
	must.Until(t, "its deliveries are open", func() bool {
		n := must.Get(cons.Info(t.Context()))(t).NumAckPending
		return n >= least && n <= most
	})
}

// Who forgets a subscription of its own leaves the one that others have under that name.
func TestForgetLeavesTheReaderOfOthers(t *testing.T) {
	server := natstest.Server(t)
	plain, ctx := natstest.Dial(t, server), t.Context()
	must.Do(t, plain.Ensure(ctx, natsio.Limits{EventsBytes: 1 << 28, ItemsBytes: 1 << 28}))
	postItems(t, plain, "a1", "a2", "a3")
	bob := must.Get(natsio.Dial(ctx, natsio.Config{InProcess: server, User: "bob", Password: "secret"}))(t)
	t.Cleanup(bob.Close)
	followItems(t, bob, 1, func() {})   // bob's own
	followItems(t, plain, 2, func() {}) // everybody's: made behind it
	must.Get(plain.JetStream().Consumer(ctx, events.ItemsStream, events.ReaderConsumer("pair", "")))(t)
	must.Do(t, bob.Items().ForgetReader(ctx, "pair"))
	if _, err := plain.JetStream().Consumer(ctx, events.ItemsStream, events.ReaderConsumer("pair", "")); err != nil {
		t.Errorf("the position of others is gone: %v", err)
	}
}

// TestDurableLongAtAnItem: who is longer at an item than a pin lasts, and than an ack may take, keeps what follows to itself, and is given
// nothing again.
func TestDurableLongAtAnItem(t *testing.T) {
	t.Parallel()
	server := natstest.Server(t)
	c := natstest.Dial(t, server)
	must.Do(t, c.Ensure(t.Context(), natsio.Limits{EventsBytes: 1 << 28, ItemsBytes: 1 << 28}))
	postItems(t, c, "a1", "a2", "a3")
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	others := make(chan []string)
	begin := make(chan struct{})
	go func() {
		<-begin
		var got []string
		for item, err := range natstest.Dial(t, server).Items().FollowDurable(ctx, "pair", allItems, natsio.Position{All: true}, nil) {
			if err == nil {
				got = append(got, string(item.Data))
			}
		}
		others <- got
	}()
	var got []string
	for item, err := range c.Items().FollowDurable(ctx, "pair", allItems, natsio.Position{All: true}, nil) {
		must.Do(t, err)
		if got = append(got, string(item.Data)); len(got) == 1 {
			close(begin)
			time.Sleep(natsio.AckWait + 2*time.Second) // what is tested
		}
		if string(item.Data) == "a3" {
			postItems(t, c, "a4")
		}
		if string(item.Data) == "a4" {
			stop()
		}
	}
	if want := []string{"a1", "a2", "a3", "a4"}; !slices.Equal(got, want) {
		t.Errorf("given %v, want %v", got, want)
	}
	if got := <-others; len(got) > 0 {
		t.Errorf("the other one of the name was given %v meanwhile", got)
	}
}
