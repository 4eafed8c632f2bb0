// Command floodd measures what a flood over NATS costs others: 24 sessions publish an entry a second, with the time in
// it, while one agent publishes as much as it can. It prints how long the entries of the 24 took until a reader had
// their items.
//
//	floodd -dir AUTH/TENANT -url nats://HOST -flood one|many|big|branches [-session f1] [-blind] [-n 200000] [-for 1m]
//	floodd -url nats://HOST -flood text|parts|images|tiny|output|forks [-size BYTES] [-sessions N] [-http URL] [-pid SERVER]
//
// The floods of the second line go on as long as the others publish. Without a directory nobody has a key.
//
// The directory has the keys of the agents "flood" (of the session that is flooded) and "good" (of g1 to g24), and of the reader "look";
// for -flood many, of the agent "many", of m0 to m999.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"spool/internal/service"
	"spool/pkg/client"
	"spool/pkg/events"
)

const others = 24

func main() { os.Exit(service.Exit("floodd", run(os.Args[1:]), os.Stderr)) }

type flood struct {
	dir, url, kind, session string

	blind bool
	n     int
	for_  time.Duration
	every time.Duration

	http           string
	size, sessions int

	mu         sync.Mutex
	took, acks []time.Duration
	pid        int
	cpu        []time.Duration
	sent       int                      // by the others
	worst      map[string]time.Duration // of each of them, until an item
}

func run(args []string) error {
	f := flood{worst: map[string]time.Duration{}}
	fs := flag.NewFlagSet("floodd", flag.ContinueOnError)
	fs.StringVar(&f.dir, "dir", "", "`directory` of the tenant's keys")
	fs.StringVar(&f.url, "url", "", "`address` of the server")
	fs.StringVar(&f.kind, "flood", "", "one session, many, big bodies, or one session of branches; empty: none")
	fs.StringVar(&f.session, "session", "f1", "the one that is flooded; a flood of branches needs a new one each time")
	fs.BoolVar(&f.blind, "blind", false, "wait for no acks")
	fs.DurationVar(&f.every, "every", time.Second, "how often each of the others publishes")
	fs.IntVar(&f.pid, "pid", 0, "process of the server, whose processor time is counted from publish to item")
	fs.StringVar(&f.http, "http", "", "flood entries over HTTP, at that `address`")
	fs.IntVar(&f.size, "size", 16<<20, "bytes of an entry of text, parts or images")
	fs.IntVar(&f.sessions, "sessions", 1, "that are flooded with text, parts, images, tiny, output, or forks")
	fs.IntVar(&f.n, "n", 200_000, "entries of the flood")
	fs.DurationVar(&f.for_, "for", time.Minute, "how long the others publish")
	if err := fs.Parse(args); err != nil {
		return service.UsageError{Err: err}
	}
	ctx, cancel := service.Signals()
	defer cancel()
	return f.measure(ctx)
}

func (f *flood) connect(ctx context.Context, user string) (*client.Client, error) {
	if f.dir == "" {
		return client.Connect(ctx, client.Config{URL: f.url})
	}
	return client.Connect(ctx, client.Config{URL: f.url, NKey: filepath.Join(f.dir, user+".nk"), Inbox: "_INBOX." + user})
}

func (f *flood) measure(ctx context.Context) error {
	good, err := f.connect(ctx, "good")
	if err != nil {
		return err
	}
	defer good.Close()
	look, err := f.connect(ctx, "look")
	if err != nil {
		return err
	}
	defer look.Close()
	reading, stop := context.WithCancel(ctx)
	defer stop()
	var readers, ready sync.WaitGroup
	for i := range others {
		ready.Add(1)
		readers.Go(func() { f.read(reading, look, session(i), ready.Done) })
	}
	ready.Wait()
	g, ctx := errgroup.WithContext(ctx)
	until := time.Now().Add(f.for_)
	for i := range others {
		g.Go(func() error { return f.publish(ctx, good, session(i), until) })
	}
	g.Go(func() error { return f.run(ctx, until) })
	if err := g.Wait(); err != nil {
		return err
	}
	published := time.Now()
	for f.missing() > 0 && time.Since(published) < 5*time.Minute {
		time.Sleep(100 * time.Millisecond)
	}
	waited := time.Since(published).Round(time.Second)
	fmt.Printf("others: sent %d, missing %d; last %v after the end\n", f.sent, f.missing(), waited)
	stop()
	readers.Wait()
	report("ack", f.acks)
	report("item", f.took)
	report("server's processor time until the item", f.cpu)
	report("worst item of each session", slices.Collect(maps.Values(f.worst)))
	return nil
}

func session(i int) string { return "g" + strconv.Itoa(i+1) }

func report(what string, took []time.Duration) {
	if slices.Sort(took); len(took) > 0 {
		at := func(q float64) time.Duration { return took[int(q*float64(len(took)-1))].Round(time.Millisecond) }
		fmt.Printf("%s: p50 %v, p90 %v, p99 %v, max %v\n", what, at(.5), at(.9), at(.99), at(1))
	}
}

func (f *flood) missing() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.sent - len(f.took)
}

// publish sends an entry a second, and the next when the one before it is acked.
func (f *flood) publish(ctx context.Context, c *client.Client, session string, until time.Time) error {
	pub := c.Publisher(client.PublisherConfig{})
	for tick := time.NewTicker(f.every); time.Now().Before(until); <-tick.C {
		began := time.Now()
		_, err := pub.Publish(ctx, entry(session, fmt.Sprintf("%d %d", began.UnixNano(), cpuOf(f.pid))))
		if err != nil {
			return fmt.Errorf("%s after %v: %w", session, time.Since(began), err)
		}
		f.mu.Lock()
		f.sent++
		f.acks = append(f.acks, time.Since(began))
		f.mu.Unlock()
	}
	return nil
}

func entry(session, text string) client.Entry {
	return client.Entry{Thread: events.Thread{Session: session, Name: events.MainThread}, Dialect: "item",
		Body: []byte(`{"content":[{"type":"text","text":"` + text + `"}]}`)}
}

// branch is an entry that branches from the first one; those that come before that are roots.
func (f *flood) branch(i int) client.Entry {
	parent := `"b0"`
	if i == 0 {
		parent = "null"
	}
	return client.Entry{Thread: events.Thread{Session: f.session, Name: events.MainThread}, Dialect: "omp",
		Body: fmt.Appendf(nil, `{"type":"message","id":"b%d","parentId":%s,"message":{"role":"user","content":"x"}}`, i, parent)}
}

func (f *flood) read(ctx context.Context, c *client.Client, session string, ready func()) {
	for item, err := range c.SubscribeReady(ctx, client.Filter{Session: session}, client.Position{}, ready) {
		if err != nil {
			if !errors.Is(err, context.Canceled) {
				fmt.Fprintln(os.Stderr, session, err)
			}
			return
		}
		var sent, cpu int64
		if n, _ := fmt.Sscanf(item.Text(), "%d %d", &sent, &cpu); n == 2 {
			f.mu.Lock()
			delay := time.Since(time.Unix(0, sent))
			f.took = append(f.took, delay)
			f.cpu = append(f.cpu, cpuOf(f.pid)-time.Duration(cpu))
			f.worst[session] = max(f.worst[session], delay)
			f.mu.Unlock()
		}
	}
}

// run publishes n entries: to one session or a thousand, small ones, of 900 KB, or each a branch from the first one.
func (f *flood) run(ctx context.Context, until time.Time) error {
	switch f.kind {
	case "":
		return nil
	case "text", "parts", "images", "tiny", "output", "forks":
		return f.goOn(ctx, until)
	}
	user, text, began := "flood", "flood", time.Now()
	session := func(int) string { return f.session }
	switch f.kind {
	case "many":
		user, session = "many", func(i int) string { return "m" + strconv.Itoa(i%1000) }
	case "big":
		text = strings.Repeat("0123456789", 90_000)
	}
	do := f.acked
	if f.blind {
		do = f.unasked
	}
	at := func(i int) client.Entry { return entry(session(i), text) }
	if f.kind == "branches" {
		at = f.branch
	}
	err := do(ctx, user, at)
	fmt.Printf("flood: %d entries in %v, %v\n", f.n, time.Since(began).Round(time.Millisecond), err)
	return nil
}

// acked publishes over eight connections, and waits for the acks.
func (f *flood) acked(ctx context.Context, user string, at func(int) client.Entry) error {
	const connections = 8
	g, ctx := errgroup.WithContext(ctx)
	for k := range connections {
		g.Go(func() error {
			c, err := f.connect(ctx, user)
			if err != nil {
				return err
			}
			defer c.Close()
			pub := c.Publisher(client.PublisherConfig{})
			var batch []client.Entry
			for i := k; i < f.n; i += connections {
				batch = append(batch, at(i))
				if i+connections < f.n && len(batch) < 500 && len(batch)*len(batch[0].Body) < 4<<20 {
					continue
				}
				if _, err := pub.Publish(ctx, batch...); err != nil {
					return err
				}
				batch = nil
			}
			return nil
		})
	}
	return g.Wait()
}

// unasked publishes each entry as a message that asks for no ack.
func (f *flood) unasked(_ context.Context, user string, at func(int) client.Entry) error {
	key, err := nats.NkeyOptionFromSeed(filepath.Join(f.dir, user+".nk"))
	if err != nil {
		return err
	}
	nc, err := nats.Connect(f.url, key)
	if err != nil {
		return err
	}
	defer nc.Close()
	for i := range f.n {
		e := at(i)
		event := events.Event{Producer: "flood-" + strconv.Itoa(os.Getpid()), Epoch: 1, Seq: uint64(i + 1),
			Kind: events.KindEntry, Dialect: e.Dialect, Thread: e.Thread, Body: e.Body}
		if err := nc.Publish(events.EventSubject(e.Thread, event.Kind), event.Encode()); err != nil {
			return err
		}
	}
	return nc.FlushTimeout(5 * time.Minute)
}
