package spooltest

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// Client is a client of docs/http.md, or of docs/protocol.md.
type Client interface {
	// Publish stores entries of the dialect item, in their order, and returns when they are durable.
	Publish(ctx context.Context, session, thread string, entries []string) error
	// Items are the first items of a thread, as JSON; it waits until there are so many.
	Items(ctx context.Context, session, thread string, count int) ([]json.RawMessage, error)
}

// HTTP is a Client by the routes of docs/http.md alone.
func HTTP(s Server) Client { return httpClient{s} }

type httpClient struct{ Server }

func (c httpClient) Publish(ctx context.Context, session, thread string, entries []string) error {
	return c.with(ctx, session, func(r *run) {
		for _, e := range entries {
			r.post(202, "{s}/threads/"+thread+"/entries?dialect=item", e)
		}
	})
}

func (c httpClient) Items(ctx context.Context, session, thread string, count int) (items []json.RawMessage, err error) {
	err = c.with(ctx, session, func(r *run) {
		s := r.follow("{s}/threads/"+thread+"/live?from=1", "")
		defer s.stop()
		for len(items) < count {
			var e struct{ Item json.RawMessage }
			r.do(json.Unmarshal([]byte(s.until("item").data), &e))
			items = append(items, e.Item)
		}
	})
	return items, err
}

func (c httpClient) with(ctx context.Context, session string, do func(*run)) (err error) {
	defer func() {
		switch why := recover().(type) {
		case nil:
		case failure:
			err = why.error
		default:
			panic(why)
		}
	}()
	do(&run{ctx: ctx, server: c.Server, session: session})
	return nil
}

// ClientCases are what a client of Spool does. They judge by what the server answers over HTTP, which RunHTTP holds to its own promises.
func ClientCases(c Client) []Case {
	publish := func(r *run, thread string, entries ...string) { r.do(c.Publish(r.ctx, r.session, thread, entries)) }
	items := func(r *run, thread string, count int) []json.RawMessage {
		got, err := c.Items(r.ctx, r.session, thread, count)
		r.do(err)
		r.is(len(got) == count, "%d items, want %d", len(got), count)
		return got
	}
	return []Case{
		{"client: what it publishes", "durable.", func(r *run) {
			publish(r, "main", item("one"))
			r.until("{t}/items?from=1", `"one"`)
		}},
		{"client: in its order", "A producer sends in the order of its sequences", func(r *run) {
			var entries, want []string
			for n := range 30 {
				entries, want = append(entries, item(fmt.Sprint("n", n))), append(want, fmt.Sprint("n", n))
			}
			publish(r, "main", entries...)
			r.until("{t}/items/30")
			got := texts(r, r.get("{t}/items"))
			r.is(got == strings.Join(want, " "), "the items are %q", got)
		}},
		{"client: equal entries", "an equal one behind it is another entry.", func(r *run) {
			publish(r, "main", item("twice"), item("twice"))
			publish(r, "main", item("twice"))
			r.until("{t}/items/3", `"twice"`)
		}},
		{"client: any text", "an item, as `…/items` has it", func(r *run) {
			text := "木🌲 \"quoted\" \\ \u2028 <tag> e\u0301 \t end"
			publish(r, "main", item(text))
			r.until("{t}/items/1")
			got := texts(r, r.get("{t}/items"))
			r.is(got == text, "the text is %q, want %q", got, text)
		}},
		{"client: a large entry", "from the thread's nodes", func(r *run) {
			text := strings.Repeat("0123456789", 30_000)
			publish(r, "main", item(text))
			r.until("{t}/items/1")
			r.get("{t}/items/1?full=1", text)
		}},
		{"client: what it reads", "follows one thread", func(r *run) {
			r.say("first", "木")
			publish(r, "main", item("third"))
			var read []any
			for _, raw := range items(r, "main", 3) {
				var v any
				r.do(json.Unmarshal(raw, &v))
				read = append(read, v)
			}
			r.until("{t}/items/3")
			var want []any
			for _, it := range as[struct{ Items []struct{ Item any } }](r, r.get("{t}/items")).Items {
				want = append(want, it.Item)
			}
			got, _ := json.Marshal(read)
			said, _ := json.Marshal(want)
			r.is(string(got) == string(said), "it reads %s, the thread has %s", got, said)
		}},
		{"client: of one thread", "follows one thread", func(r *run) {
			publish(r, "other", item("elsewhere"))
			publish(r, "main", item("here"))
			r.is(strings.Contains(string(items(r, "main", 1)[0]), `"here"`), "the first item is of another thread")
		}},
		{"client: what comes while it waits", "from now on, from item N (`?from=N`)", func(r *run) {
			r.say("first")
			got := make(chan []json.RawMessage, 1)
			failed := make(chan error, 1)
			go func() {
				all, err := c.Items(r.ctx, r.session, "main", 3)
				failed <- err
				got <- all
			}()
			publish(r, "main", item("second"), item("third"))
			r.do(<-failed)
			all := <-got
			r.is(len(all) == 3 && strings.Contains(string(all[2]), `"third"`), "it reads %s", all)
		}},
	}
}

// RunClient holds a client to every case, each a subtest. s serves what the client reads and writes.
func RunClient(t *testing.T, s Server, c Client) {
	runAll(t, s, ClientCases(c))
}
