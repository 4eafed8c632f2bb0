package client_test

import (
	"context"
	"slices"
	"strconv"
	"testing"
	"time"

	"spool/internal/must"
	"spool/pkg/client"
	"spool/pkg/events"
)

// TestItemsOfAThreadThatComesBackFromNow: also to a reader who came before it went, and was given nothing yet.
func TestItemsOfAThreadThatComesBackFromNow(t *testing.T) {
	r := newRig(t)
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	main, other := thread("s"), events.Thread{Session: "s", Name: "other"}
	write := func(th events.Thread, text string) {
		t.Helper()
		must.Do(t, r.Publisher(client.PublisherConfig{}).Publish(ctx, post(th, text)))
		must.Do(t, r.Settled(ctx, th))
	}
	write(main, "1")
	write(main, "2")
	for _, err := range r.Subscribe(ctx, client.Filter{Session: "s"}, client.Position{All: true}) { // they are out
		must.Do(t, err)
		break
	}
	var got []int64
	ready := func() {
		must.Do(t, r.Rename(ctx, main, other.Name))
		write(other, "3")
		must.Do(t, r.Rename(ctx, other, main.Name))
		write(main, "4")
	}
	for it, err := range r.SubscribeReady(ctx, client.Filter{Session: "s", Thread: main.Name}, client.Position{}, ready) {
		must.Do(t, err)
		if got = append(got, it.N); it.N == 4 {
			break
		}
	}
	if want := []int64{3, 4}; !slices.Equal(got, want) {
		t.Errorf("items %v, want %v", got, want)
	}
}

// TestItemsOfAThreadThatComesBack: who reads a thread by its name is given what it had under another one in between, once, from its
// nodes; of another thread that takes the name he gets what is under it.
func TestItemsOfAThreadThatComesBack(t *testing.T) {
	for name, from := range map[string]client.Position{"all": {All: true}, "a number": {N: 1}} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			ctx, stop := context.WithCancel(t.Context())
			main, other := thread("s"), events.Thread{Session: "s", Name: "other"}
			write := func(th events.Thread, n int) {
				t.Helper()
				must.Do(t, r.Publisher(client.PublisherConfig{}).Publish(ctx, post(th, strconv.Itoa(n))))
				must.Do(t, r.Settled(ctx, th))
			}
			got := make(chan int64, 20)
			ready, done := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(done)
				for it, err := range r.SubscribeReady(ctx, client.Filter{Session: "s", Thread: main.Name}, from, func() { close(ready) }) {
					if err != nil {
						return
					}
					got <- it.N
				}
			}()
			write(main, 1)
			write(main, 2)
			<-ready
			must.Do(t, r.Rename(ctx, main, other.Name))
			write(other, 3)
			write(other, 4)
			must.Do(t, r.Rename(ctx, other, main.Name))
			write(main, 5)
			var ns []int64
			for len(ns) < 5 {
				select {
				case n := <-got:
					ns = append(ns, n)
				case <-time.After(time.Minute):
					t.Fatalf("items %v came, no more in a minute", ns)
				}
			}
			if want := []int64{1, 2, 3, 4, 5}; !slices.Equal(ns, want) {
				t.Errorf("items %v, want %v", ns, want)
			}
			var again []int64 // of who comes later
			for it, err := range r.Subscribe(ctx, client.Filter{Session: "s", Thread: main.Name}, from) {
				must.Do(t, err)
				if again = append(again, it.N); it.N == 5 {
					break
				}
			}
			if !slices.Equal(again, ns) {
				t.Errorf("a later reader got items %v, want %v", again, ns)
			}
			stop()
			<-done
		})
	}
}
