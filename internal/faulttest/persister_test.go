package faulttest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/faulttest"
	"spool/internal/must"
	"spool/internal/natsio"
	"spool/internal/natstest"
	"spool/internal/persist"
	"spool/internal/record"
	"spool/pkg/client"
	"spool/pkg/events"
)

// long has the matrices take every message of a class; else they take the first, and one in the middle.
var long = os.Getenv("SPOOL_FAULTS") == "long"

// process is a connection that can be made to fail and die.
func process(t *testing.T, server natstest.Running, f faulttest.Fault) (*faulttest.Wire, *natsio.Conn) {
	t.Helper()
	w := faulttest.NewWire(server, f)
	cfg := natsio.Config{InProcess: w}
	if f.Mode == faulttest.Lose || f.Mode == faulttest.Drop {
		cfg.Timeout = time.Second // what it waits for an answer
	}
	conn, err := natsio.Dial(t.Context(), cfg)
	for ctx := within(t); err != nil && ctx.Err() == nil; { // a busy machine may take longer than that to connect
		conn, err = natsio.Dial(t.Context(), cfg)
	}
	must.Do(t, err)
	t.Cleanup(conn.Close)
	return w, conn
}

// places are the messages of a class that meet a fault, of n that were seen: all, or only the first or only the one in the middle.
func places(n int, middle bool) (ks []int) {
	switch {
	case n == 0:
	case long:
		for k := 1; k == 1 || k <= n*3/4; k++ { // another run may have fewer of them
			ks = append(ks, k)
		}
	case middle && n >= 4:
		ks = []int{1 + n/2}
	default:
		ks = []int{1}
	}
	return ks
}

// rows are the faults of a matrix: every class of message that was seen, in every mode that it can have.
func rows(w *faulttest.Wire) map[string][]faulttest.Fault {
	all := map[string][]faulttest.Fault{}
	classes, sent, answered := w.Sent()
	for _, class := range classes {
		add := func(mode faulttest.Mode, ks []int) {
			for _, k := range ks {
				all[class] = append(all[class], faulttest.Fault{Mode: mode, Class: class, K: k})
			}
		}
		add(faulttest.Refuse, places(answered[class], false))
		add(faulttest.Lose, places(answered[class], true))
		if strings.HasPrefix(class, "record ") || long { // what decides existence
			add(faulttest.Drop, places(answered[class], false))
		}
		add(faulttest.DieBefore, places(sent[class], true))
		if answered[class] > 0 || long || class == "ack" { // else what comes right before the next one is in its row
			add(faulttest.DieAfter, places(sent[class], false))
		}
	}
	return all
}

// steps are the durable steps that the files of a package declare.
func steps(t *testing.T, glob string) (names []string) {
	t.Helper()
	files := must.Get(filepath.Glob(glob))(t)
	for _, f := range files {
		text := must.Get(os.ReadFile(f))(t)
		for _, m := range regexp.MustCompile(`(?m)^\tStep\w+ +Step += "(.+?)"`).FindAllSubmatch(text, -1) {
			names = append(names, string(m[1]))
		}
	}
	return names
}

// takeOver lets the partitions of a process that died go to the next one at once, and not after the eight seconds that a
// server waits.
func takeOver(t *testing.T, conn *natsio.Conn) {
	t.Helper()
	s := must.Get(conn.JetStream().Stream(t.Context(), events.EventsStream))(t)
	for p := range events.Partitions {
		// Asked this, the server forgets what it was asked for by those who are gone, and pins none of them.
		must.Get(s.Consumer(t.Context(), events.PartitionConsumer(p)))(t)
		if err := s.UnpinConsumer(t.Context(), events.PartitionConsumer(p), events.PersisterGroup); err != nil &&
			!errors.Is(err, jetstream.ErrConsumerNotFound) {
			t.Fatal(err)
		}
	}
}

// TestPersisterMatrix: each message that a persister sends to change something is refused, loses its answer, or is the last
// before or after which it dies. The rows are the messages that a run without faults sends, so a new step has its row.
func TestPersisterMatrix(t *testing.T) {
	server := natstest.Server(t)
	conn := natstest.Dial(t, server)
	must.Do(t, conn.Ensure(t.Context(), limits))
	quiet, faulty := process(t, server, faulttest.Fault{})
	var mu sync.Mutex
	taken := map[persist.Step]bool{}
	s := newScene(t, conn, "quiet")
	s.publish()
	p := faulttest.Start(t, faulty, func(d *persist.Deps, c *persist.Config) {
		small(d, c)
		d.At = func(s persist.Step) error {
			mu.Lock()
			defer mu.Unlock()
			taken[s] = true
			return nil
		}
	})
	s.check()
	classes := rows(quiet) // of what a persister sends while it runs: a row's fault comes before its end
	must.Do(t, p.Stop())
	all := steps(t, "../persist/*.go")
	for _, step := range all {
		if !taken[persist.Step(step)] {
			t.Errorf("the scene takes a persister not to its step %q: no row of this matrix can cover it", step)
		}
	}
	if len(all) < 11 {
		t.Errorf("steps = %v: there were 11", all)
	}

	for class, faults := range classes {
		t.Run(class, func(t *testing.T) {
			t.Parallel()
			server := natstest.Server(t)
			conn := natstest.Dial(t, server)
			must.Do(t, conn.Ensure(t.Context(), limits))
			for i, f := range faults {
				t.Run(fmt.Sprintf("%s %d", f.Mode, f.K), func(t *testing.T) { persisterRow(t, server, conn, fmt.Sprintf("r%d", i), f) })
			}
		})
	}
}

// TestPersisterReadsFail: every few reads of a persister are refused, or get no answer. It asks again; no event is refused over it.
func TestPersisterReadsFail(t *testing.T) {
	for _, f := range []faulttest.Fault{
		{Mode: faulttest.Refuse, Class: faulttest.Reads, K: 17, Every: true},
		{Mode: faulttest.Refuse, Class: faulttest.Reads, K: 31, Every: true},
		{Mode: faulttest.Lose, Class: faulttest.Reads, K: 25, Every: true},
	} {
		t.Run(fmt.Sprintf("%s %d", f.Mode, f.K), func(t *testing.T) {
			t.Parallel()
			server := natstest.Server(t)
			conn := natstest.Dial(t, server)
			must.Do(t, conn.Ensure(t.Context(), limits))
			wire, faulty := process(t, server, f)
			s := newScene(t, conn, "reads")
			s.publish()
			p := faulttest.Start(t, faulty, small)
			s.check()
			if !fired(wire) {
				t.Error("it read too little to meet the fault")
			}
			if err := p.Stop(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestStartAsksAgain: a persister starts, as a service has it start, where the answer to a question for a consumer is lost.
func TestStartAsksAgain(t *testing.T) {
	server := natstest.Server(t)
	must.Do(t, natstest.Dial(t, server).Ensure(t.Context(), limits))
	never, _ := process(t, server, faulttest.Fault{Mode: faulttest.Lose, Class: faulttest.Any, K: 1 << 30})
	_, _, answered := never.Sent()
	wire, faulty := process(t, server, faulttest.Fault{Mode: faulttest.Lose, Class: faulttest.Any, K: answered[faulttest.Any] + 3})
	p := faulttest.Start(t, faulty, nil)
	if !fired(wire) {
		t.Error("it asked too little to meet the fault")
	}
	must.Do(t, p.Stop())
}

// reached waits until a fault has happened, or all is done without it.
func reached(t *testing.T, w *faulttest.Wire, done func(context.Context) error) bool {
	t.Helper()
	ctx, cancel := context.WithCancel(within(t))
	defer cancel()
	end := make(chan error, 1)
	go func() { end <- done(ctx) }()
	select {
	case <-w.Fired():
		return true
	case err := <-end:
		if err != nil {
			t.Error(err)
		}
	}
	return fired(w)
}

var limits = natsio.Limits{EventsBytes: 1 << 30, ItemsBytes: 1 << 30}

func persisterRow(t *testing.T, server natstest.Running, conn *natsio.Conn, name string, f faulttest.Fault) {
	persisterTry(t, server, conn, name, f, 20)
}

// persisterTry is a row whose fault may not be reached: which events share a commit, and so which of its messages has the answer, is a
// matter of time, and a run may have fewer repeats than the one that was counted.
func persisterTry(t *testing.T, server natstest.Running, conn *natsio.Conn, name string, f faulttest.Fault, tries int) {
	wire, faulty := process(t, server, f)
	s := newScene(t, conn, name)
	s.publish()
	p := faulttest.Start(t, faulty, small)
	if !reached(t, wire, func(ctx context.Context) error { return faulttest.Settle(ctx, conn) }) {
		err := p.Stop()
		_, sent, answered := wire.Sent()
		if err == nil && tries == 0 && sent[f.Class] > 0 && answered[f.Class] == 0 &&
			(f.Mode == faulttest.Refuse || f.Mode == faulttest.Lose || f.Mode == faulttest.Drop) {
			t.Logf("%s: the answer was that of another message of its commit in every run: the row of that one covers it", f)
			return
		}
		if err != nil || tries == 0 {
			t.Errorf("it never came to %s; %v", f, err)
			return
		}
		f.K = 1
		persisterTry(t, server, conn, name+"-1", f, tries-1)
		return
	}
	if f.Mode != faulttest.DieBefore && f.Mode != faulttest.DieAfter { // it gets over that by itself
		s.check()
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
		return
	}
	p.Abandon()
	faulty.Close()
	takeOver(t, conn)
	next := faulttest.Start(t, conn, nil)
	s.check()
	if err := next.Stop(); err != nil {
		t.Error(err)
	}
}

// holed gives a body without its beginning, once, and says at its end that an answer was lost.
type holed struct {
	persist.Inbox
	at     int32 // which time that one is opened it is
	opened atomic.Int32
}

func (in *holed) OpenBody(ctx context.Context, ref events.BodyRef) (io.Reader, error) {
	r, err := in.Inbox.OpenBody(ctx, ref)
	if err != nil || in.opened.Add(1) != in.at {
		return r, err
	}
	if _, err := io.CopyN(io.Discard, r, 128<<10); err != nil {
		return nil, err
	}
	return io.MultiReader(r, iotest.ErrReader(record.ErrUnknown)), nil
}

// TestBodyWithAHole: an entry whose body is read in part, in any pass over it, is no entry that is not JSON: it is read again.
func TestBodyWithAHole(t *testing.T) {
	for at := int32(1); at <= 2; at++ {
		t.Run(fmt.Sprintf("opening %d", at), func(t *testing.T) {
			t.Parallel()
			server := natstest.Server(t)
			conn := natstest.Dial(t, server)
			must.Do(t, conn.Ensure(t.Context(), limits))
			to := events.Thread{Session: "large", Name: events.MainThread}
			body := fmt.Appendf(nil, `{"content":[{"type":"text","text":%q}]}`, strings.Repeat("large ", 1<<18))
			c := client.New(conn)
			pub := c.Publisher(client.PublisherConfig{Producer: "large"})
			must.Get(pub.Publish(t.Context(), client.Entry{Thread: to, Dialect: "item", Body: body, Seq: 1}))(t)
			var in *holed
			p := faulttest.Start(t, conn, func(d *persist.Deps, c *persist.Config) {
				small(d, c)
				in = &holed{Inbox: d.Inbox, at: at}
				d.Inbox = in
			})
			checkExport(&world{t: t, Client: c}, to, append(body, '\n'), 1, "large")
			if in.opened.Load() <= at {
				t.Errorf("the body was opened %d times", in.opened.Load())
			}
			must.Do(t, p.Stop())
		})
	}
}
