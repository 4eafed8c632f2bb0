package client_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/must"
	"spool/internal/natsio"
	"spool/internal/natstest"
	"spool/pkg/client"
	"spool/pkg/events"
)

func limited(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), must.Patience)
	t.Cleanup(cancel)
	return ctx
}

func TestPositions(t *testing.T) {
	r, th := newRig(t), thread("s")
	r.publish(t, posts(th, 1, 20)...)
	one := client.Filter{Session: "s", Thread: "main"}
	var seqs []client.Item
	for item := range must.All(t, r.Subscribe(limited(t), one, client.Position{All: true})) {
		if seqs = append(seqs, item); len(seqs) == 20 {
			break
		}
	}
	for _, c := range []struct {
		name string
		from client.Position
		want []string
	}{
		{"all", client.Position{All: true}, numbers(1, 20)},
		{"sequence", client.Position{Seq: seqs[7].Seq}, numbers(8, 20)},
		{"number", client.Position{N: 13}, numbers(13, 20)},
		{"first number", client.Position{N: 1}, numbers(1, 20)},
		{"last", client.Position{Last: true}, numbers(20, 20)},
		{"since", client.Position{Since: time.Now().Add(-time.Hour)}, numbers(1, 20)},
	} {
		if got := texts(t, r.Subscribe(limited(t), one, c.from), len(c.want)); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	// New: the next one, which is published once the subscription stands. A number that is to come, too.
	for i, from := range []client.Position{{}, {N: 22}} {
		p := r.Publisher(client.PublisherConfig{})
		next := func() {
			if _, err := p.Publish(t.Context(), posts(th, 21+i, 21+i)...); err != nil {
				t.Error(err)
			}
		}
		if got := texts(t, r.SubscribeReady(limited(t), one, from, next), 1); !slices.Equal(got, numbers(21+i, 21+i)) {
			t.Errorf("%+v: %v, want %d", from, got, 21+i)
		}
	}
}

func TestFilters(t *testing.T) {
	r := newRig(t)
	tool := func(session, id string, isError bool) []client.Entry {
		th := thread(session)
		return []client.Entry{
			{Thread: th, Dialect: "item", Body: fmt.Appendf(nil,
				`{"content":[{"type":"text","text":"call %s"}],"metadata":{"type":"tool_call","tool":{"name":"bash","invocation_id":%q}}}`, id, id)},
			{Thread: th, Dialect: "item", Body: fmt.Appendf(nil,
				`{"content":[{"type":"text","text":"result %s"}],"metadata":{"type":"tool_result","tool":{"invocation_id":%q,"is_error":%v}}}`, id, id, isError)},
		}
	}
	r.publish(t, append(tool("a", "1", true), tool("a", "2", false)...)...)
	r.publish(t, append(tool("b", "3", true), post(thread("b"), "plain"))...)
	for _, c := range []struct {
		name   string
		filter client.Filter
		want   []string
	}{
		{"type", client.Filter{Type: "tool_result"}, []string{"result 1", "result 2", "result 3"}},
		{"type and detail", client.Filter{Type: "tool_result", Detail: "error"}, []string{"result 1", "result 3"}},
		{"detail of any type", client.Filter{Session: "a", Detail: "bash"}, []string{"call 1", "call 2"}},
		{"session", client.Filter{Session: "b"}, []string{"call 3", "result 3", "plain"}},
	} {
		got := texts(t, r.Subscribe(limited(t), c.filter, client.Position{All: true}), len(c.want))
		if slices.Sort(got); !slices.Equal(got, sortedCopy(c.want)) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func sortedCopy(s []string) []string { return slices.Sorted(slices.Values(s)) }

func TestSelfFilter(t *testing.T) {
	r, th := newRig(t), thread("s")
	mine := r.Publisher(client.PublisherConfig{User: "me"})
	must.Get(mine.Publish(t.Context(), posts(th, 1, 5)...))(t)
	await(t, r.Client, th, mine.Producer(), 5)
	r.publish(t, post(th, "theirs"))
	got := texts(t, r.Subscribe(limited(t), client.Filter{NotUser: "me"}, client.Position{All: true}), 1)
	if !slices.Equal(got, []string{"theirs"}) {
		t.Errorf("got %v, want only theirs", got)
	}
}

// What SPOOL_ITEMS has lost comes from the thread, marked, and what it has twice comes once.
func TestGapsAndRepeats(t *testing.T) {
	r, th := newRig(t), thread("s")
	one := client.Filter{Session: "s", Thread: "main"}
	r.publish(t, posts(th, 1, 300)...)
	texts(t, r.Subscribe(limited(t), one, client.Position{All: true}), 300)
	items := must.Get(r.conn.JetStream().Stream(t.Context(), events.ItemsStream))(t)
	again := must.Get(items.GetMsg(t.Context(), 250))(t)
	for seq := uint64(5); seq <= 240; seq++ { // a hole that needs more than one page
		must.Do(t, items.DeleteMsg(t.Context(), seq))
	}
	must.Get(r.conn.JetStream().Publish(t.Context(), again.Subject, again.Data))(t)
	r.publish(t, posts(th, 301, 301)...)
	for _, from := range []client.Position{{All: true}, {N: 1}, {N: 100}} {
		want := numbers(max(int(from.N), 1), 301)
		filled, got := 0, []string(nil)
		for item := range must.All(t, r.Subscribe(limited(t), one, from)) {
			if got = append(got, item.Text()); item.Filled {
				filled++
			}
			if len(got) == len(want) {
				break
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%+v: got %v", from, got)
		}
		must.Same(t, filled, 240-max(int(from.N), 5)+1, "%+v: %d items are marked as filled, want %d", from)
	}
	// Nothing of the thread is kept: all of it comes from the nodes.
	must.Do(t, items.Purge(t.Context(), jetstream.WithPurgeSubject("spool.v1.item.s.>")))
	if got := texts(t, r.Subscribe(limited(t), one, client.Position{N: 200}), 102); !slices.Equal(got, numbers(200, 301)) {
		t.Errorf("after a purge: %v, want 200 to 301", got)
	}
}

// A gap that cannot be filled is an error that says which items, and the subscription goes on.
func TestGapIsTold(t *testing.T) {
	r, th := newRig(t), thread("s")
	r.publish(t, posts(th, 1, 5)...)
	lie := func(n int64) {
		data := fmt.Appendf(nil, `{"id":"x","n":%d,"session":"gone","thread":"main","content":[{"type":"text","text":"%d"}]}`, n, n)
		must.Get(r.conn.JetStream().Publish(t.Context(), events.ItemSubject(thread("gone"), "text", ""), data))(t)
	}
	lie(1)
	lie(4)
	var gap *client.Gap
	var got []string
	for item, err := range r.Subscribe(limited(t), client.Filter{Session: "gone"}, client.Position{All: true}) {
		if err != nil {
			if !errors.Is(err, client.ErrGap) || !errors.Is(err, client.ErrNoThread) || !errors.As(err, &gap) {
				t.Fatalf("error %v, want a *Gap that wraps ErrGap and ErrNoThread", err)
			}
			continue
		}
		if got = append(got, item.Text()); len(got) == 2 {
			break
		}
	}
	if gap == nil || gap.From != 2 || gap.To != 3 || !slices.Equal(got, []string{"1", "4"}) {
		t.Errorf("gap %+v, items %v, want 2 to 3 missing between 1 and 4", gap, got)
	}
}

func TestDurable(t *testing.T) {
	r, th := newRig(t), thread("s")
	r.publish(t, posts(th, 1, 10)...)
	sub := func(f client.Filter) func(func(client.Item, error) bool) {
		return r.SubscribeDurable(limited(t), "indexer", f, client.Position{All: true})
	}
	all := client.Filter{Session: "s"}
	if got := texts(t, sub(all), 4); !slices.Equal(got, numbers(1, 4)) {
		t.Fatalf("first: %v, want 1 to 4", got)
	}
	// The fourth was given and the loop never came back: it was not done.
	if got := texts(t, sub(all), 5); !slices.Equal(got, numbers(4, 8)) {
		t.Fatalf("second: %v, want 4 to 8", got)
	}
	for _, err := range sub(client.Filter{Session: "other"}) {
		if !errors.Is(err, client.ErrDurable) {
			t.Fatalf("other items under the same name: %v, want ErrDurable", err)
		}
		break
	}
	must.Do(t, r.Forget(t.Context(), "indexer"))
	must.Is(t, r.Forget(t.Context(), "indexer"), client.ErrNotFound, "Forget twice")
	if got := texts(t, sub(all), 1); !slices.Equal(got, numbers(1, 1)) {
		t.Errorf("after Forget: %v, want 1", got)
	}
}

// Of two that use a name one gets the items, and the other one when it stops.
func TestDurableHandsOver(t *testing.T) {
	r, th := newRig(t), thread("s")
	r.publish(t, posts(th, 1, 6)...)
	var got [2][]string
	first, stopFirst := context.WithCancel(limited(t))
	seen, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for item, err := range r.SubscribeDurable(first, "pair", client.Filter{}, client.Position{All: true}) {
			if err != nil {
				t.Error(err)
				return
			}
			if got[0] = append(got[0], item.Text()); len(got[0]) == 6 {
				close(seen)
			}
		}
	}()
	<-seen
	second := make(chan struct{})
	go func() {
		defer close(second)
		got[1] = texts(t, r.SubscribeDurable(limited(t), "pair", client.Filter{}, client.Position{All: true}), 3)
	}()
	stopFirst()
	<-ended
	r.publish(t, posts(th, 7, 9)...)
	<-second
	if !slices.Equal(got[0], numbers(1, 6)) || len(got[1]) != 3 || got[1][2] > "9" || got[1][0] < "6" {
		t.Errorf("first got %v, second %v, want 1 to 6 and what follows", got[0], got[1])
	}
}

// What one that died was given and had not done comes to the one that waits, though nothing new comes.
func TestDurableOfADeadOne(t *testing.T) {
	t.Parallel()
	srv := natstest.Server(t)
	dead, alive := natstest.Dial(t, srv), natstest.Dial(t, srv)
	must.Do(t, dead.Ensure(t.Context(), natsio.Limits{EventsBytes: 1 << 30, ItemsBytes: 1 << 30}))
	stop := must.Get(persister(alive))(t)
	defer stop()
	r := &rig{client.New(alive), alive, stop}
	r.publish(t, posts(thread("s"), 1, 5)...)
	all := client.Position{All: true}
	given := make(chan struct{})
	go func() {
		for range client.New(dead).SubscribeDurable(t.Context(), "pair", client.Filter{}, all) {
			dead.Close() // and the first item is never done
			close(given)
			return
		}
	}()
	<-given
	if got := texts(t, r.SubscribeDurable(limited(t), "pair", client.Filter{}, all), 5); !slices.Equal(got, numbers(1, 5)) {
		t.Errorf("the one that waited got %v, want 1 to 5", got)
	}
}

func TestFilterErrors(t *testing.T) {
	r := newRig(t)
	for _, c := range []struct {
		filter client.Filter
		from   client.Position
		want   error
	}{
		{client.Filter{Session: "a.>"}, client.Position{}, client.ErrName},
		{client.Filter{Thread: "*"}, client.Position{}, client.ErrName},
		{client.Filter{Session: "a"}, client.Position{N: 3}, client.ErrFilter},
		{client.Filter{Session: "a", Thread: "b", Type: "text"}, client.Position{N: 3}, client.ErrFilter},
		{client.Filter{Session: "a", Thread: "b"}, client.Position{N: -3}, client.ErrFilter},
	} {
		for _, err := range r.Subscribe(limited(t), c.filter, c.from) {
			must.Is(t, err, c.want, "Subscribe(%+v, %+v)", c.filter, c.from)
			break
		}
	}
}
