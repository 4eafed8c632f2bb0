package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"spool/internal/must"
	"spool/pkg/client"
)

func connectOffline(t *testing.T, s *site, dir string, most int64) *client.Client {
	t.Helper()
	c := must.Get(client.Connect(t.Context(), client.Config{URL: s.url(), Offline: dir, OfflineBytes: most}))(t)
	return c
}

// A program begins without a server, goes on while one comes, goes and comes again, and every entry is there once, in order.
func TestOffline(t *testing.T) {
	s, dir, th := newSite(t), t.TempDir(), thread("s")
	c := connectOffline(t, s, dir, 0)
	defer c.Close()
	p := c.Publisher(client.PublisherConfig{})
	publish := func(from, to int) {
		t.Helper()
		must.Get(p.Publish(limited(t), posts(th, from, to)...))(t)
	}
	publish(1, 10)
	publish(11, 20)
	s.up()
	must.Do(t, c.Flush(limited(t)))
	publish(21, 30) // straight to the server
	if left, _ := filepath.Glob(filepath.Join(dir, "*", "*.log")); len(left) != 0 {
		t.Errorf("%v is left while the server is there", left)
	}
	s.down()
	publish(31, 35)
	body := string(post(th, "36").Body)
	streamed := client.Entry{Thread: th, Dialect: "item",
		Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(body)), nil }}
	must.Get(p.Publish(limited(t), streamed))(t)
	s.up()
	must.Do(t, c.Flush(limited(t)))
	publish(37, 40)
	one := client.Filter{Session: "s", Thread: "main"}
	if got := texts(t, c.Subscribe(limited(t), one, client.Position{N: 1}), 40); !slices.Equal(got, numbers(1, 40)) {
		t.Errorf("items %v, want 1 to 40 once and in order", got)
	}
	head, err := c.Thread(th).Head(t.Context())
	if err != nil || head.N != 40 {
		t.Errorf("the thread has %d items, %v, want 40", head.N, err)
	}
}

// What a program left on the disk is published by the next one, and what it had published already is not doubled.
func TestOfflineIsTakenOver(t *testing.T) {
	s, dir, th := newSite(t), t.TempDir(), thread("s")
	first := connectOffline(t, s, dir, 0)
	p := first.Publisher(client.PublisherConfig{Producer: "laptop"})
	must.Get(p.Publish(limited(t), posts(th, 1, 7)...))(t)
	first.Close()
	files, _ := filepath.Glob(filepath.Join(dir, "*", "*.log"))
	if len(files) != 1 {
		t.Fatalf("files %v, want one segment", files)
	}
	kept := must.Get(os.ReadFile(files[0]))(t)
	s.up()
	for round := range 2 { // the second time as if the first had crashed before it removed the segment
		c := connectOffline(t, s, dir, 0)
		await(t, c, th, "laptop", 7)
		c.Close()
		if round == 0 {
			must.Do(t, errors.Join(os.MkdirAll(filepath.Dir(files[0]), 0o700), os.WriteFile(files[0], kept, 0o600),
				os.WriteFile(filepath.Join(filepath.Dir(files[0]), "lock"), nil, 0o600)))
		}
	}
	c := connectOffline(t, s, dir, 0)
	defer c.Close()
	q := c.Publisher(client.PublisherConfig{})
	must.Get(q.Publish(limited(t), post(th, "8")))(t)
	await(t, c, th, q.Producer(), 1)
	if got := texts(t, c.Subscribe(limited(t), client.Filter{Session: "s", Thread: "main"}, client.Position{N: 1}),
		8); !slices.Equal(got, numbers(1, 8)) {
		t.Errorf("items %v, want 1 to 8", got)
	}
}

// A process that was there first goes on as the producer of one that came later and died: what the dead one kept comes before, also
// when both are gone and a third process drains what they left.
func TestOfflineSuccessorThatWasThereBefore(t *testing.T) {
	s, dir := newSite(t), t.TempDir()
	older := connectOffline(t, s, dir, 0)
	first := connectOffline(t, s, dir, 0)
	laptop(t, first, 0, 1, 3)
	first.Close()
	laptop(t, older, 0, 4, 5)
	older.Close()
	s.up()
	third := connectOffline(t, s, dir, 0)
	defer third.Close()
	laptop(t, third, 0, 6, 6)
	must.Do(t, third.Flush(limited(t)))
	await(t, third, thread("s"), "laptop", 6)
	h := must.Get(third.Thread(thread("s")).Head(limited(t)))(t)
	letters := must.Get(third.EverySession().DeadLetters(limited(t)))(t)
	if h.Entries != 6 {
		t.Errorf("%d of 6 acknowledged entries are in the thread, %d dead letters", h.Entries, len(letters))
	}
}

func TestOfflineFull(t *testing.T) {
	s := newSite(t)
	c := connectOffline(t, s, t.TempDir(), 4000)
	defer c.Close()
	p := c.Publisher(client.PublisherConfig{})
	var err error
	n := 0
	for ; err == nil && n < 100; n++ {
		_, err = p.Publish(limited(t), post(thread("s"), strings.Repeat("x", 300)))
	}
	if !errors.Is(err, client.ErrOfflineFull) || n < 5 {
		t.Fatalf("publish %d = %v, want ErrOfflineFull after some", n, err)
	}
	s.up()
	must.Do(t, c.Flush(limited(t)))
	must.Get(p.Publish(limited(t), post(thread("s"), "there is room")))(t)
	await(t, c, thread("s"), p.Producer(), uint64(n)+1) // the refused one keeps its number: it could be published again
}

func TestAsync(t *testing.T) {
	r, th := newRig(t), thread("s")
	stored := 0
	a := r.Async(client.AsyncConfig{Window: 20_000, Stored: func(n int) { stored += n }})
	for _, e := range posts(th, 1, 1000) {
		must.Do(t, a.Publish(limited(t), e))
	}
	if err := a.Flush(limited(t)); err != nil || stored != 1000 {
		t.Fatalf("Flush = %v with %d stored, want 1000", err, stored)
	}
	if got := texts(t, r.Subscribe(limited(t), client.Filter{}, client.Position{All: true}), 1000); !slices.Equal(got, numbers(1, 1000)) {
		t.Errorf("items are not 1 to 1000 in order: %v", got)
	}
	must.Do(t, a.Close(limited(t)))
	must.Is(t, a.Publish(limited(t), post(th, "late")), client.ErrClosed, "Publish after Close")
}

// The window is in bytes: a publisher that is ahead of the server waits, for as long as its context lives.
func TestAsyncWindow(t *testing.T) {
	s, th := newSite(t), thread("s")
	s.up()
	c := must.Get(client.Connect(t.Context(), client.Config{URL: s.url()}))(t)
	defer c.Close()
	a := c.Async(client.AsyncConfig{Window: 10_000})
	s.down()
	big := post(th, strings.Repeat("x", 3000))
	for i := range 3 {
		if err := a.Publish(limited(t), big); err != nil {
			t.Fatalf("entry %d = %v, want room for three", i, err)
		}
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	must.Is(t, a.Publish(gone, big), context.Canceled, "the fourth")
	must.Is(t, a.Flush(gone), context.Canceled, "Flush")
	s.up()
	must.Do(t, a.Close(limited(t)))
	if got := texts(t, c.Subscribe(limited(t), client.Filter{Session: "s"}, client.Position{All: true}), 3); len(got) != 3 {
		t.Errorf("%d items, want 3", len(got))
	}
}

// What can never be stored ends the publisher: what was before it is stored, nothing behind it.
func TestAsyncRefused(t *testing.T) {
	r, th := newRig(t), thread("s")
	a := r.Async(client.AsyncConfig{})
	bad := client.Entry{Thread: th, Dialect: "step", Body: fmt.Appendf(nil, `{"role":"a","content":"b","refs":["blob:sha256:%064d"]}`, 7)}
	for _, e := range []client.Entry{post(th, "1"), post(th, "2"), bad, post(th, "3")} {
		if err := a.Publish(limited(t), e); err != nil && !errors.Is(err, client.ErrMissingRef) {
			t.Fatal(err)
		}
	}
	if err := a.Flush(limited(t)); !errors.Is(err, client.ErrMissingRef) {
		t.Fatalf("Flush = %v, want ErrMissingRef", err)
	}
	must.Is(t, a.Publish(limited(t), post(th, "4")), client.ErrMissingRef, "Publish afterwards")
	must.Is(t, a.Close(limited(t)), client.ErrMissingRef, "Close")
	r.publish(t, post(th, "5"))
	if got := texts(t, r.Subscribe(limited(t), client.Filter{}, client.Position{All: true}), 3); !slices.Equal(got, []string{"1", "2", "5"}) {
		t.Errorf("items %v, want 1, 2 and what another publisher sent", got)
	}
}

// Many goroutines over one client: nothing is lost, and each publisher's own order holds.
func TestConcurrentUse(t *testing.T) {
	r := newRig(t)
	const writers, each = 8, 60
	done := make(chan error, 2*writers)
	for w := range writers {
		th := thread(fmt.Sprintf("w%d", w))
		go func() {
			p := r.Publisher(client.PublisherConfig{})
			for _, e := range posts(th, 1, each) {
				if _, err := p.Publish(t.Context(), e); err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
		go func() {
			want := 1
			for item, err := range r.Subscribe(limited(t), client.Filter{Session: th.Session}, client.Position{All: true}) {
				if err == nil && item.Text() != fmt.Sprint(want) {
					err = fmt.Errorf("%s: item %s, want %d", th, item.Text(), want)
				}
				if want++; err != nil || want > each {
					done <- err
					return
				}
			}
			done <- errors.New("the subscription ended")
		}()
	}
	for range 2 * writers {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}
