package client_test

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"spool/internal/must"
	"spool/internal/record"
	"spool/pkg/artifacts"
	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// The table in the package comment has every error that a program decides on.
func TestErrorTable(t *testing.T) {
	table := must.Get(os.ReadFile("doc.go"))(t)
	entries := must.Get(os.ReadDir("."))(t)
	var missing []string
	seen := 0
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		file := must.Get(parser.ParseFile(token.NewFileSet(), e.Name(), nil, 0))(t)
		for _, d := range file.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.VAR {
				continue
			}
			for _, s := range g.Specs {
				for _, name := range s.(*ast.ValueSpec).Names {
					if !strings.HasPrefix(name.Name, "Err") {
						continue
					}
					if seen++; !regexp.MustCompile(`\b` + name.Name + `\b`).Match(table) {
						missing = append(missing, name.Name)
					}
				}
			}
		}
	}
	if slices.Sort(missing); len(missing) > 0 || seen < 10 {
		t.Errorf("of %d errors the package comment does not explain %v", seen, missing)
	}
}

func TestErrors(t *testing.T) {
	r, th, ctx := newRig(t), thread("s"), limited(t)
	r.publish(t, posts(th, 1, 3)...)
	to := events.Thread{Session: "s", Name: "fork"}
	fork := events.Fork{Session: "s", Thread: "main", Index: 1}
	must.Do(t, r.Thread(to).Fork(ctx, fork))
	must.Do(t, r.Thread(to).End(ctx, events.End{}))
	_, noThread := r.Thread(thread("nowhere")).Head(ctx)
	for _, c := range []struct {
		what              string
		got, want, parent error
	}{
		{"Thread of none", noThread, client.ErrNoThread, client.ErrNotFound},
		{"Await of no session", r.Session("nowhere").Await(ctx), client.ErrSessionNotFound, client.ErrNotFound},
		{"Info of no session", must.Err(r.Session("nowhere").Info(ctx)), client.ErrSessionNotFound, client.ErrNotFound},
		{"EndRun of none", r.Session("s").EndRun(ctx, "r", artifacts.RunFailed, ""), client.ErrNoRun, client.ErrNotFound},
		{"Answer to none", must.Err(r.Thread(th).Answer(ctx, events.Answer{Prompt: "p", Answer: []byte("1")})),
			client.ErrNoPrompt, client.ErrNotFound},
		{"Export of none", must.Err(r.Thread(thread("nowhere")).Export(ctx, io.Discard)), client.ErrNoThread, client.ErrNotFound},
		{"Resolve where nothing is", must.Err(r.Session("s").Resolve(ctx, "artifact://7", artifacts.Lines{})),
			artifacts.ErrNowhere, client.ErrNotFound},
		{"Fork from an entry of none", r.Thread(thread("t")).Fork(ctx, events.Fork{Session: "s", Thread: "main", Item: 99}),
			threads.ErrNoPoint, client.ErrNotFound},
		{"Fork onto a thread", r.Thread(th).Fork(ctx, fork), client.ErrThreadExists, client.ErrConflict},
		{"End twice", r.Thread(to).End(ctx, events.End{}), client.ErrEnded, client.ErrConflict},
		{"Reset of an ended thread", r.Thread(to).Reset(ctx), client.ErrEnded, client.ErrConflict},
		{"StartRun in an ended thread", must.Err(r.Thread(to).StartRun(ctx, client.RunConfig{})), client.ErrEnded, client.ErrConflict},
		{"Publish to a bad name", must.Err(r.Publisher(client.PublisherConfig{}).Publish(ctx, post(thread("a b"), "x"))),
			client.ErrName, client.ErrInvalid},
		{"Async to a bad name", r.Async(client.AsyncConfig{}).Publish(ctx, post(thread("a.b"), "x")), client.ErrName, client.ErrInvalid},
		{"Publish where there is no answer", record.ErrUnknown, client.ErrUnknown, client.ErrUnavailable},
		{"what a user may not", record.ErrDenied, client.ErrServerRefused, client.ErrDenied},
	} {
		must.Is(t, c.got, c.want, "%s", c.what)
		must.Is(t, c.got, c.parent, "%s: its parent", c.what)
	}
}

// Whoever waits for a fork whose source went meanwhile is told so.
func TestAwaitOfARefusedFork(t *testing.T) {
	r, ctx := newRig(t), limited(t)
	r.publish(t, posts(thread("s"), 1, 3)...)
	p, to := r.Publisher(client.PublisherConfig{}), events.Thread{Session: "s", Name: "fork"}
	must.Do(t, p.Control(ctx, to, 1, events.Control{Op: events.OpFork, Fork: &events.Fork{Session: "s", Thread: "gone"}}))
	if err := r.Thread(to).Await(ctx, p.Producer(), 0, 1); !errors.Is(err, client.ErrRefused) || !strings.Contains(err.Error(), "gone") {
		t.Errorf("Await = %v, want ErrRefused, and why", err)
	}
}

// Whoever waits for an event is told that it is a dead letter, also where its thread has noted it and gone on, however it was published
// and however large it is; of the events around it nothing is told.
func TestAwaitOfARefusedEntry(t *testing.T) {
	r, ctx, th := newRig(t), limited(t), thread("s")
	bad := func(size int) client.Entry {
		return client.Entry{Thread: th, Dialect: "step", Body: fmt.Appendf(nil, `{"role":"a","content":%q,"refs":["node:sha256:%064d"]}`,
			strings.Repeat("x", size), 1)}
	}
	good := client.Entry{Thread: th, Dialect: "step", Body: []byte(`{"role":"a","content":"b"}`)}
	var evs []*events.Event
	for i, e := range []client.Entry{good, bad(1), good, bad(1 << 20), good} {
		evs = append(evs, &events.Event{Kind: events.KindEntry, Thread: th, Dialect: e.Dialect, Producer: "p", Seq: uint64(i + 1), Body: e.Body})
	}
	must.Do(t, r.conn.Events().PublishEvents(ctx, evs))
	for seq := range uint64(len(evs)) {
		err := r.Thread(th).Await(ctx, "p", 0, seq+1)
		if refused := seq%2 == 1; errors.Is(err, client.ErrRefused) != refused || !refused && err != nil {
			t.Errorf("Await(%d) = %v, refused: %v", seq+1, err, refused)
		}
	}
}

// What a thread refused before costs who waits for it a read of each message, however many entries a message has.
func TestAwaitBehindManyRefusedEntries(t *testing.T) {
	r, ctx, th := newRig(t), limited(t), thread("s")
	const bad = 1000
	var evs []*events.Event
	for seq := range uint64(bad) {
		evs = append(evs, &events.Event{Kind: events.KindEntry, Thread: th, Dialect: "item", Producer: "p", Seq: seq + 1, Body: []byte("1")})
	}
	must.Do(t, r.conn.Events().PublishEvents(ctx, evs))
	ack := must.Get(r.Publisher(client.PublisherConfig{}).Publish(ctx, post(th, "x")))(t)
	must.Do(t, ack.Applied(ctx))
	reads := must.Get(r.conn.JetStream().Conn().SubscribeSync("$JS.API.STREAM.MSG.GET.SPOOL_EVENTS"))(t)
	must.Do(t, ack.Applied(ctx))
	must.Do(t, r.conn.JetStream().Conn().Flush())
	if n, _, err := reads.Pending(); err != nil || n > bad/10 {
		t.Errorf("EVENTS was read %d times, %v: want once a message", n, err)
	}
}

// TestConnectFamilies: a program knows from Connect's error whether the same may be tried again.
func TestConnectFamilies(t *testing.T) {
	none := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	must.Do(t, none.Close())
	for _, c := range []struct {
		cfg  client.Config
		want error
	}{
		{client.Config{URL: "nats://" + none.Addr().String()}, client.ErrUnavailable},
		{client.Config{URL: "nats://127.0.0.1:port"}, client.ErrInvalid},
		{client.Config{URL: "nats://127.0.0.1", Context: "fleet"}, client.ErrInvalid},
		{client.Config{URL: "nats://127.0.0.1", NKey: t.TempDir() + "/none.nk"}, client.ErrInvalid},
	} {
		if _, err := client.Connect(t.Context(), c.cfg); !errors.Is(err, c.want) {
			t.Errorf("Connect(%+v) = %v, want an error of the family %q", c.cfg, err, c.want)
		}
	}
}
