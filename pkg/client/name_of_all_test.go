package client_test

import (
	"context"
	"fmt"
	"iter"
	"testing"

	"spool/internal/must"
	"spool/pkg/client"
	"spool/pkg/events"
)

// TestOneNameInAllSessions: who follows a name without a session is given the items of each session's thread, from the first one that it
// wants, whatever the others' numbers are.
func TestOneNameInAllSessions(t *testing.T) {
	r := newRig(t)
	publish := func(session string, items int) {
		p := r.Publisher(client.PublisherConfig{})
		for range items {
			e := client.Entry{Thread: events.Thread{Session: session, Name: "main"}, Dialect: "item",
				Body: []byte(`{"content":[{"type":"text","text":"x"}]}`)}
			must.Get(p.Publish(t.Context(), e))(t)
		}
	}
	main := client.Filter{Thread: "main"}
	for name, follow := range map[string]func(ctx context.Context, ready func()) iter.Seq2[client.Item, error]{
		"live": func(ctx context.Context, ready func()) iter.Seq2[client.Item, error] {
			return r.SubscribeReady(ctx, main, client.Position{}, ready)
		},
		"all": func(ctx context.Context, ready func()) iter.Seq2[client.Item, error] {
			return r.SubscribeReady(ctx, main, client.Position{All: true}, ready)
		},
		"durable": func(ctx context.Context, ready func()) iter.Seq2[client.Item, error] {
			go ready()
			return r.SubscribeDurable(ctx, "d", main, client.Position{All: true})
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := limited(t)
			a, b := name+"-a", name+"-b"
			stands := make(chan struct{})
			go func() {
				<-stands
				publish(a, 5)
				publish(b, 3)
				publish(a, 1)
				publish(b, 1)
			}()
			got := map[string]int64{}
			for it, err := range follow(ctx, func() { close(stands) }) {
				if err != nil {
					t.Fatalf("%v after %v", err, got)
				}
				if it.Session != a && it.Session != b {
					continue
				}
				if it.N != got[it.Session]+1 {
					t.Fatalf("item %d of %s after %d", it.N, it.Session, got[it.Session])
				}
				if got[it.Session] = it.N; got[a] == 6 && got[b] == 4 {
					break
				}
			}
			must.Same(t, fmt.Sprint(got), fmt.Sprint(map[string]int64{a: 6, b: 4}), "items %s, want %s")
		})
	}
}
