package client_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
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
		must.Get(r.Publisher(client.PublisherConfig{}).Publish(ctx, post(th, text)))(t)
		must.Do(t, r.Thread(th).Settled(ctx))
	}
	write(main, "1")
	write(main, "2")
	for _, err := range r.Subscribe(ctx, client.Filter{Session: "s"}, client.Position{All: true}) { // they are out
		must.Do(t, err)
		break
	}
	var got []int64
	ready := func() {
		must.Do(t, r.Thread(main).Rename(ctx, other.Name))
		write(other, "3")
		must.Do(t, r.Thread(other).Rename(ctx, main.Name))
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

// TestItemThatIsStoredLate: an item is stored behind the commit of its entry. Who subscribes in between is given it, alone and with the
// next one.
func TestItemThatIsStoredLate(t *testing.T) {
	r := newRig(t)
	ctx, stop := context.WithTimeout(t.Context(), must.Patience)
	defer stop()
	main := thread("s")
	for _, text := range []string{"1", "2", "3"} {
		must.Get(r.Publisher(client.PublisherConfig{}).Publish(ctx, post(main, text)))(t)
	}
	var all []events.Posted
	for it, err := range r.Subscribe(ctx, client.Filter{Session: "s", Thread: main.Name}, client.Position{All: true}) {
		must.Do(t, err)
		all = append(all, events.Posted{Subject: events.ItemSubject(main, it.Type(), ""), N: it.N, Data: it.Raw})
		if it.N == 3 {
			break
		}
	}
	must.Get(r.conn.Items().DropItems(ctx, main, 1))(t)
	var got []int64
	ready := func() { must.Do(t, r.conn.Items().PublishItems(ctx, all[1:])) }
	for it, err := range r.SubscribeReady(ctx, client.Filter{Session: "s", Thread: main.Name}, client.Position{}, ready) {
		must.Do(t, err)
		if got = append(got, it.N); it.N == 3 {
			break
		}
	}
	must.SameAll(t, got, []int64{2, 3}, "items %v, want %v")
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
				must.Get(r.Publisher(client.PublisherConfig{}).Publish(ctx, post(th, strconv.Itoa(n))))(t)
				must.Do(t, r.Thread(th).Settled(ctx))
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
			must.Do(t, r.Thread(main).Rename(ctx, other.Name))
			write(other, 3)
			write(other, 4)
			must.Do(t, r.Thread(other).Rename(ctx, main.Name))
			write(main, 5)
			var ns []int64
			for len(ns) < 5 {
				ns = append(ns, must.Receive(t, got, "items %v came, no more", ns))
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

// TestItemsOfANameThatWasLeftTwice: who reads a name is given what each thread that had it had meanwhile under another one, wherever those
// threads are now: from the start, and with a durable that was away.
func TestItemsOfANameThatWasLeftTwice(t *testing.T) {
	for history, want := range map[string]string{ // entries by the name of their thread, and renames; what a reader of a is given
		"a0 a1 a>b b3 b4 b>a a6 a>c c8":     "0 1 3 4 6", // and went
		"a0 a>b b2 b>a a4 a>c c6 c>a a8":    "0 2 4 6 8",
		"a0 a>b b>a a3":                     "0 3",
		"a0 a>b b2 b>a a4 a>b b6 b>a a8 a9": "0 2 4 6 8 9",
	} {
		steps := strings.Fields(history)
		for away := range len(steps) { // after so many steps the durable reads what there is
			prefix := 0
			for _, step := range steps[:away] {
				if text, ok := strings.CutPrefix(step, "a"); ok && text[0] != '>' {
					prefix = 1 + slices.Index(strings.Fields(want), text)
				}
			}
			if away > 0 && (prefix == 0 || prefix == len(strings.Fields(want)) || !strings.Contains(steps[away-1], ">")) {
				continue
			}
			t.Run(fmt.Sprintf("%s, %d", history, away), func(t *testing.T) {
				t.Parallel()
				r := newRig(t)
				ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
				defer stop()
				var got []string
				read := func(until int) {
					t.Helper()
					f, all := client.Filter{Session: "s", Thread: "a"}, client.Position{All: true}
					items := r.Subscribe(ctx, f, all)
					if away > 0 {
						items = r.SubscribeDurable(ctx, "reader", f, all)
					}
					for it, err := range items {
						must.Do(t, err)
						if got = append(got, it.Text()); len(got) == until {
							break
						}
					}
				}
				for i, step := range steps {
					if i == away && away > 0 {
						ctx, enough := context.WithCancel(ctx)
						defer enough()
						var done []string
						for it, err := range r.SubscribeDurable(ctx, "reader", client.Filter{Session: "s", Thread: "a"}, client.Position{All: true}) {
							must.Do(t, err)
							if done = append(done, it.Text()); len(done) == prefix {
								time.AfterFunc(100*time.Millisecond, enough) // it asks for the next one: this one is done
							}
						}
						got = done
					}
					th := events.Thread{Session: "s", Name: step[:1]}
					if step[1] == '>' {
						must.Do(t, r.Thread(th).Rename(ctx, step[2:]))
						continue
					}
					must.Get(r.Publisher(client.PublisherConfig{}).Publish(ctx, post(th, step[1:])))(t)
					must.Do(t, r.Thread(th).Settled(ctx))
				}
				read(len(strings.Fields(want)))
				must.Same(t, strings.Join(got, " "), want, "items %s, want %s")
			})
		}
	}
}
