package client_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"spool/internal/artifactstore"
	"spool/internal/must"
	"spool/internal/natsio"
	"spool/internal/natstest"
	"spool/pkg/artifacts"
	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/sessions"
	"spool/pkg/threads"
)

// TestWaitForWhatIsRemoved: who waits for the end of an output is told that its session was removed behind it, also when the
// thread has begun anew since.
func TestWaitForWhatIsRemoved(t *testing.T) {
	for name, next := range map[string]string{"gone": "other", "begun anew": "main"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := natstest.Conn(t)
			c := client.New(conn)
			ctx := limited(t)
			th := events.Thread{Session: "s", Name: "main"}
			o := must.Get(c.Thread(th).Output(ctx, client.OutputConfig{ID: "o1", Tool: "make"}))(t)
			must.Get(o.Write([]byte("gcc\n")))(t)
			must.Do(t, o.Close(events.OutputEnd{}))
			remove := events.Control{Op: events.OpDelete, Delete: &events.Delete{Force: true}}
			behind := events.Thread{Session: "s", Name: next}
			for _, e := range []*events.Event{
				{Producer: "operator", Seq: 1, Kind: events.KindControl, Thread: th, Body: remove.Encode()},
				{Producer: "next", Seq: 1, Kind: events.KindEntry, Dialect: "omp", Thread: behind, Body: []byte(`{"type":"custom"}`)},
			} {
				must.Do(t, conn.Events().PublishEvents(ctx, []*events.Event{e}))
			}
			stop := must.Get(persister(conn))(t)
			defer stop()
			await(t, c, behind, "next", 1)
			must.Is(t, o.Wait(ctx), client.ErrRemoved, "Wait")
		})
	}
}

// TestAskedAtOnce: who has published and asks for what came of it, or changes it, before a persister has come to it, is
// not told that there is no such thread.
func TestAskedAtOnce(t *testing.T) {
	conn := natstest.Conn(t)
	c, ctx := client.New(conn), t.Context()
	main := func(session string) events.Thread { return events.Thread{Session: session, Name: events.MainThread} }
	calls := map[string]func(events.Thread) error{
		"end": func(t events.Thread) error { return c.Thread(t).End(ctx, events.End{}) },
		"fork": func(t events.Thread) error {
			return c.Thread(main("of-"+t.Session)).Fork(ctx, events.Fork{Session: t.Session, Thread: t.Name, Whole: true})
		},
		"session": func(t events.Thread) error {
			return c.Session(t.Session).Fork(ctx, "of-"+t.Session, client.SessionFork{})
		},
		"name":    func(t events.Thread) error { return c.Session(t.Session).Name(ctx, "Name", false) },
		"rename":  func(t events.Thread) error { return c.Thread(t).Rename(ctx, "other") },
		"remove":  func(t events.Thread) error { return c.Thread(t).Remove(ctx) },
		"compact": func(t events.Thread) error { return c.Thread(t).Compact(ctx, "Summary", "") },
		"tree":    func(t events.Thread) error { _, err := c.Thread(t).Tree(ctx); return err },
		"context": func(t events.Thread) error { _, err := c.Thread(t).Context(ctx, sessions.Last, nil); return err },
		"log": func(t events.Thread) error {
			log, err := c.Thread(t).Log(ctx)
			return errors.Join(err, log.Close())
		},
		"export": func(t events.Thread) error {
			n, err := c.Thread(t).Export(ctx, io.Discard)
			if err == nil && n != 1 {
				err = errors.New("it is empty")
			}
			return err
		},
		"new": func(t events.Thread) error {
			if err := c.Session(t.Session).New(ctx, "/w", ""); !errors.Is(err, client.ErrThreadExists) {
				return errors.Join(errors.New("it was begun again"), err)
			}
			return nil
		},
	}
	open := make(chan struct{})
	stop := must.Get(persister(conn, func(natsio.Delivery) { <-open }))(t)
	defer stop()
	pub := c.Publisher(client.PublisherConfig{})
	for name := range calls {
		must.Get(pub.Publish(ctx, client.Entry{Thread: main(name), Dialect: "omp",
			Body: []byte(`{"type":"message","id":"a","message":{"role":"user","content":"x"}}`)}))(t)
	}
	type answer struct {
		name string
		err  error
	}
	answers := make(chan answer)
	for name, call := range calls {
		go func() { answers <- answer{name, call(main(name))} }()
	}
	select {
	case a := <-answers:
		t.Errorf("%s did not wait: %v", a.name, a.err)
		go func() { answers <- a }()
	case <-time.After(100 * time.Millisecond):
	}
	close(open)
	for range calls {
		if a := <-answers; a.err != nil {
			t.Errorf("%s: %v", a.name, a.err)
		}
	}
	if letters := must.Get(c.EverySession().DeadLetters(ctx))(t); len(letters) > 0 {
		t.Errorf("dead letters %+v, want none", letters)
	}
	begun := time.Now()
	if _, err := c.Thread(main("nobody")).AwaitHead(ctx); !errors.Is(err, threads.ErrNoThread) || time.Since(begun) > 2*time.Second {
		t.Errorf("of a thread that nobody published to: %v, after %v", err, time.Since(begun))
	}
}

// TestAwaitSession: a session is there with the first thing that it has, and with what was published to it.
func TestAwaitSession(t *testing.T) {
	conn := natstest.Conn(t)
	c, ctx := client.New(conn), t.Context()
	must.Is(t, c.Session("nothing").Await(ctx), client.ErrSessionNotFound, "AwaitSession of what was never there")
	must.Is(t, c.Session("a.b").Await(ctx), events.ErrToken, "AwaitSession of what is no name")
	alone := client.NewArtifact{Record: artifacts.Record{Session: "files", Filename: "a"}}
	must.Get(artifactstore.Of(conn, 0).Put(ctx, alone, strings.NewReader("a")))(t) // as an import does
	must.Do(t, c.Session("files").Await(ctx))
	side := events.Event{Producer: "p", Seq: 1, Kind: events.KindEntry, Dialect: "raw",
		Thread: events.Thread{Session: "side", Name: "other"}, Body: []byte("x")}
	must.Do(t, conn.Events().PublishEvents(ctx, []*events.Event{&side}))
	stop := must.Get(persister(conn))(t)
	defer stop()
	must.Do(t, c.Session("side").Await(ctx))
	must.Is(t, c.Session("child").New(ctx, "/w", "nothing"), client.ErrSessionNotFound, "NewSession with a parent that is not there")
	must.Do(t, c.Session("child").New(ctx, "/w", "side"))
	must.Get(c.Session("side").Delete(ctx, client.Deletion{}))(t)
	must.Is(t, c.Session("side").Await(ctx), client.ErrSessionNotFound, "AwaitSession behind a deletion")
}

// TestExportHasWhatWasPublished: what reads a thread whole has what was acknowledged before, or says that it has not.
func TestExportHasWhatWasPublished(t *testing.T) {
	r := newRig(t)
	ctx, main := t.Context(), events.Thread{Session: "s", Name: events.MainThread}
	said := 0
	say := func(n int) { // in one message, of which a commit can take the first ones alone
		t.Helper()
		e := events.Event{Producer: "p", Seq: uint64(said + 1), Kind: events.KindEntry, Dialect: "omp", Thread: main}
		for i := range n {
			said++
			body := fmt.Appendf(nil, `{"type":"message","id":"e%d","message":{"role":"user","content":"%d"}}`, said, said)
			if i == 0 {
				e.Body = body
			} else {
				e.More = append(e.More, events.Entry{Seq: uint64(said), Body: body})
			}
		}
		must.Do(t, r.conn.Events().PublishEvents(ctx, []*events.Event{&e}))
	}
	for range 50 {
		say(100)
		must.Same(t, must.Get(r.Thread(main).Export(ctx, io.Discard))(t), said, "an export has %d of %d entries")
		say(1)
		if c := must.Get(r.Thread(main).Context(ctx, sessions.Last, nil))(t); len(c.Messages) != said {
			t.Errorf("a context has %d of %d messages", len(c.Messages), said)
		}
	}
	r.stop()
	say(1)
	if got, err := r.Thread(main).Export(ctx, io.Discard); got != said-1 || !errors.Is(err, client.ErrBehind) {
		t.Errorf("an export without a persister has %d entries, %v; want %d, and %v", got, err, said-1, client.ErrBehind)
	}
}

func say(producer string, seq uint64, t events.Thread) *events.Event {
	return &events.Event{Producer: producer, Seq: seq, Kind: events.KindEntry, Dialect: "omp", Thread: t,
		Body: fmt.Appendf(nil, `{"type":"message","id":"%s%d","message":{"role":"user","content":"x"}}`, producer, seq)}
}

// TestExportBehindARepeat: what reads a thread whole waits for what was acknowledged before, also where the newest message repeats
// one that is applied.
func TestExportBehindARepeat(t *testing.T) {
	conn := natstest.Conn(t)
	c, ctx, main := client.New(conn), t.Context(), thread("s")
	var mu sync.Mutex
	stop := must.Get(persister(conn, func(natsio.Delivery) { mu.Lock(); defer mu.Unlock() }))(t)
	defer stop()
	publish := func(e *events.Event) { must.Do(t, conn.Events().PublishEvents(ctx, []*events.Event{e})) }
	publish(say("p", 1, main))
	await(t, c, main, "p", 1)
	mu.Lock()
	publish(say("q", 1, main))
	publish(say("p", 1, main))
	time.AfterFunc(500*time.Millisecond, mu.Unlock)
	if got, err := c.Thread(main).Export(ctx, io.Discard); got != 2 {
		t.Errorf("an export has %d of 2 entries, %v", got, err)
	}
}

// TestExportWhereNobodyKnows: that nobody can say how far persisters are is no word that they are done.
func TestExportWhereNobodyKnows(t *testing.T) {
	conn := natstest.Conn(t)
	c, ctx := client.New(conn), t.Context()
	publishApplied(ctx, t, conn, thread("s"))
	must.Do(t, conn.Events().PublishEvents(ctx, []*events.Event{say("p", 1, thread("s"))}))
	newest := must.Get(conn.Events().NewestEvent(ctx, thread("s")))(t)
	must.Do(t, conn.JetStream().DeleteConsumer(ctx, events.EventsStream, events.PartitionConsumer(newest.Partition)))
	if n, err := c.Thread(thread("s")).Export(ctx, io.Discard); n != 1 || !errors.Is(err, client.ErrBehind) {
		t.Errorf("Export = %d entries, %v, want 1 and ErrBehind", n, err)
	}
}

// TestExportOfWhatWaitsOffline: what reads a thread whole has what its own client was told is kept, or says that it has not.
func TestExportOfWhatWaitsOffline(t *testing.T) {
	s, dir := newSite(t), t.TempDir()
	s.up()
	before := connectOffline(t, newSite(t), dir, 0) // its server never comes, and it lives: what it has goes first
	defer before.Close()
	laptop(t, before, 0, 1, 1)
	c := connectOffline(t, s, dir, 0)
	defer c.Close()
	laptop(t, c, 0, 2, 2)
	other := c.Publisher(client.PublisherConfig{})
	must.Do(t, s.conn.Events().PublishEvents(t.Context(), []*events.Event{say("p", 1, thread("s"))}))
	await(t, c, thread("s"), "p", 1)
	must.Get(other.Publish(limited(t), post(thread("t"), "1")))(t)
	for what, ask := range map[string]func() error{
		"Export":      func() error { _, err := c.Thread(thread("s")).Export(limited(t), io.Discard); return err },
		"AwaitThread": func() error { _, err := c.Thread(thread("t")).AwaitHead(limited(t)); return err },
	} {
		must.Is(t, ask(), client.ErrBehind, "%s beside what waits on the disk", what)
	}
}

// TestAwaitAcrossRenames: what a thread took under a former name of it is applied, whoever asks by that name; what came behind the rename
// is refused there, and who waits for it is told where the thread is now.
func TestAwaitAcrossRenames(t *testing.T) {
	r, th := newRig(t), thread("s")
	ctx := limited(t)
	p := r.Publisher(client.PublisherConfig{Producer: "p"})
	ack := must.Get(p.Publish(ctx, post(th, "1"), post(th, "2")))(t)
	must.Do(t, ack.Applied(ctx))
	for _, to := range []string{"elsewhere", "further"} {
		must.Do(t, r.Thread(th).Rename(ctx, to))
		must.Do(t, ack.Applied(ctx))
		must.Do(t, r.Thread(thread("s")).Await(ctx, "p", 0, 2))
		th.Name = to
	}
	err := r.Thread(thread("s")).Await(ctx, "p", 0, 3)
	if was := (*client.Renamed)(nil); !errors.As(err, &was) {
		t.Errorf("Await of what it has not = %v, want where the thread is now", err)
	}
}
