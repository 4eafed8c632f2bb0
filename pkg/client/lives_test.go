package client_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"spool/pkg/client"
	"spool/pkg/events"
)

// following reads a subscription beside a test. next waits for that many texts.
func following(t *testing.T, items func(func(client.Item, error) bool)) (next func(n int) []string) {
	t.Helper()
	got, gone := make(chan client.Item), make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	go func() {
		for it, err := range items {
			if err != nil {
				gone <- err
				return
			}
			select {
			case got <- it:
			case <-ctx.Done():
				return
			}
		}
	}()
	return func(n int) (all []string) {
		t.Helper()
		for range n {
			select {
			case it := <-got:
				all = append(all, fmt.Sprintf("%d:%s", it.N, it.Text()))
			case err := <-gone:
				t.Fatal(err)
			case <-limited(t).Done():
				t.Fatalf("got %v, want %d items", all, n)
			}
		}
		return all
	}
}

// numbered is texts behind their numbers, from 1.
func numbered(texts ...string) (all []string) {
	for i, text := range texts {
		all = append(all, fmt.Sprintf("%d:%s", i+1, text))
	}
	return all
}

// A name is used again, by a thread that says the same and by one that says something else. Whoever reads on gets each item of each
// of them, once.
func TestLivesOfAName(t *testing.T) {
	th := thread("s")
	ends := map[string]func(r *rig) error{
		"session deleted": func(r *rig) error {
			_, err := r.DeleteSession(t.Context(), "s", client.Deletion{Force: true})
			return err
		},
		"thread removed": func(r *rig) error { return r.Remove(t.Context(), th) },
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			ctx, cancel := context.WithCancel(limited(t))
			defer cancel()
			ready, wait := context.WithCancel(ctx)
			readers := map[string]func(int) []string{
				"all":     following(t, r.SubscribeReady(ctx, client.Filter{}, client.Position{All: true}, wait)),
				"durable": following(t, r.SubscribeDurable(ctx, "reader", client.Filter{Session: "s"}, client.Position{All: true})),
				"from 1":  following(t, r.Subscribe(ctx, client.Filter{Session: "s", Thread: "main"}, client.Position{N: 1})),
			}
			<-ready.Done()
			for life, texts := range [][]string{{"a", "b", "c", "d", "e"}, {"a", "b", "c"}, {"x", "y", "z", "u", "v", "w"}, {"a"}} {
				if life > 0 {
					if err := end(r); err != nil {
						t.Fatal(err)
					}
				}
				var es []client.Entry
				for _, text := range texts {
					es = append(es, post(th, text))
				}
				r.publish(t, es...)
				for reader, next := range readers {
					if got, want := next(len(texts)), numbered(texts...); !slices.Equal(got, want) {
						t.Errorf("life %d: %s got %v, want %v", life+1, reader, got, want)
					}
				}
				if got := r.fromNumber(t, th, 1, len(texts)); !slices.Equal(got, numbered(texts...)) {
					t.Errorf("life %d: who comes now gets %v, want %v", life+1, got, numbered(texts...))
				}
			}
			cancel()
		})
	}
}

// fromNumber subscribes to a thread from a number.
func (r *rig) fromNumber(t *testing.T, th events.Thread, from int64, n int) (all []string) {
	t.Helper()
	for it, err := range r.Subscribe(limited(t), client.Filter{Session: th.Session, Thread: th.Name}, client.Position{N: from}) {
		if err != nil {
			t.Fatal(err)
		}
		if all = append(all, fmt.Sprintf("%d:%s", it.N, it.Text())); len(all) == n {
			break
		}
	}
	return all
}

// A thread takes the name of one that was longer: its numbers go on, and a reader of the name is given them.
func TestLifeByRename(t *testing.T) {
	r := newRig(t)
	a, b := events.Thread{Session: "s", Name: "a"}, events.Thread{Session: "s", Name: "b"}
	ctx, cancel := context.WithCancel(limited(t))
	defer cancel()
	ready, wait := context.WithCancel(ctx)
	next := following(t, r.SubscribeReady(ctx, client.Filter{Session: "s", Thread: "b"}, client.Position{}, wait))
	<-ready.Done()
	r.publish(t, posts(b, 1, 5)...)
	if got := next(5); !slices.Equal(got, numbered(numbers(1, 5)...)) {
		t.Errorf("got %v, want 1 to 5", got)
	}
	if err := r.Remove(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	r.publish(t, posts(a, 101, 102)...)
	if err := r.Rename(t.Context(), a, "b"); err != nil {
		t.Fatal(err)
	}
	r.publish(t, posts(b, 103, 104)...)
	if got, want := next(2), []string{"3:103", "4:104"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got, want := r.fromNumber(t, b, 1, 4), numbered("101", "102", "103", "104"); !slices.Equal(got, want) {
		t.Errorf("who comes now gets %v, want %v", got, want)
	}
}
