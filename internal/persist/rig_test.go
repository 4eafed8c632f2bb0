package persist_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"spool/internal/must"
	"spool/internal/natsio"
	"spool/internal/natstest"
	"spool/internal/persist"
	"spool/internal/persist/persistnats"
	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// rig is a server with persisters that can be made to fail and die.
type rig struct {
	t    *testing.T
	conn *natsio.Conn
	*client.Client
	secrets persist.Secrets // of lives
}

func newRig(t *testing.T) *rig {
	conn := natstest.Conn(t)
	return &rig{t: t, conn: conn, Client: client.New(conn)}
}

// running is a persister with its consumers.
type running struct {
	*persist.Persister
	stop func() error
	died chan error
}

// start runs a persister whose world change alters.
func (r *rig) start(change func(*persist.Deps, *persist.Config)) *running {
	r.t.Helper()
	deps := persistnats.Deps(r.conn, 0, 8<<20)
	var cfg persist.Config
	if change != nil {
		change(&deps, &cfg)
	}
	p := persist.New(deps, cfg)
	ctx, cancel := context.WithCancel(context.Background())
	run := &running{Persister: p, died: make(chan error, 1)}
	var stops []func()
	for part := range events.Partitions {
		stop := must.Get(r.conn.Events().Consume(ctx, part, nil, func(d natsio.Delivery) {
			p.Deliver(ctx, persist.Message{
				Subject: d.Subject, Data: d.Data, Seq: d.Seq, Stored: d.Stored, Partition: part, Link: p.Link(), Open: d.Open,
				Term: d.Term, Ack: d.Ack,
			})
		}))(r.t)
		stops = append(stops, stop.Stop)
	}
	var end error
	ended := make(chan struct{})
	go func() {
		end = p.Run(ctx)
		cancel() // a dead persister takes nothing more
		run.died <- end
		close(ended)
	}()
	run.stop = sync.OnceValue(func() error {
		cancel()
		for _, stop := range stops {
			stop()
		}
		<-ended
		return end
	})
	r.t.Cleanup(func() { _ = run.stop() })
	return run
}

// message is an omp entry of about that many bytes.
func message(id string, role string, size int) []byte {
	text := strings.Repeat("All work and no play makes a dull log. ", size/35+1)[:size]
	content, _ := json.Marshal([]map[string]string{{"type": "text", "text": id + " " + text}})
	return fmt.Appendf(nil, `{"type":"message","id":%q,"timestamp":"2026-11-20T10:00:00.000Z","message":{"role":%q,"content":%s}}`, id, role, content)
}

// publish appends entries to a thread, in batches of a size that is not a batch of the persister.
func (r *rig) publish(p *client.Publisher, t events.Thread, from, to int) {
	r.t.Helper()
	var es []client.Entry
	for i := from; i < to; i++ {
		es = append(es, client.Entry{Thread: t, Dialect: "omp", Body: message(fmt.Sprintf("e%05d", i), "user", 100), Seq: uint64(i + 1)})
		if len(es) == 37 || i == to-1 {
			must.Get(p.Publish(r.t.Context(), es...))(r.t)
			es = nil
		}
	}
}

// await returns the head of a thread once it has taken that event, and applied or refused it.
func (r *rig) await(t events.Thread, producer string, seq uint64) threads.Head {
	r.t.Helper()
	ctx := brief(r.t)
	if err := r.Thread(t).Await(ctx, producer, 0, seq); !errors.Is(err, client.ErrRefused) {
		must.Do(r.t, err)
	}
	return r.head(t)
}

func (r *rig) head(t events.Thread) threads.Head {
	r.t.Helper()
	h := must.Get(r.Thread(t).Head(r.t.Context()))(r.t)
	return h
}

// check holds a thread against what was published: every entry once, in order; items 1, 2, 3, …; hashes and positions.
func (r *rig) check(t events.Thread, entries int) {
	r.t.Helper()
	ctx := r.t.Context()
	head := r.head(t)
	if err := threads.Verify(ctx, r.Reader(), head); err != nil {
		r.t.Errorf("Verify(%s) = %v", t, err)
	}
	lines := strings.Split(strings.TrimSuffix(r.export(t), "\n"), "\n")
	if len(lines) != entries {
		r.t.Errorf("%s has %d entries, want %d", t, len(lines), entries)
	}
	for i, line := range lines {
		if want := string(message(fmt.Sprintf("e%05d", i), "user", 100)); line != want {
			r.t.Fatalf("%s: line %d = %.80s, want %.80s", t, i, line, want)
		}
	}
	if n := r.items(t, head.N); n != head.N || n != int64(entries) {
		r.t.Errorf("%s: %d items, head says %d, want %d", t, n, head.N, entries)
	}
}

// items reads a thread's items from ITEMS and checks that their numbers have no gap; repeats are what client drops. It
// waits until number want is there.
func (r *rig) items(t events.Thread, want int64) (last int64) {
	r.t.Helper()
	ctx := brief(r.t)
	for it := range must.All(r.t,
		r.Subscribe(ctx, client.Filter{Session: t.Session, Thread: t.Name}, client.Position{All: true})) {
		if it.N != last+1 {
			r.t.Fatalf("%s: item %d after %d", t, it.N, last)
		}
		if last = it.N; last >= want {
			break
		}
	}
	return last
}

func thread(i int) events.Thread { return events.Thread{Session: fmt.Sprintf("s%d", i), Name: "main"} }

func stepEntry(t events.Thread, seq uint64, text string) client.Entry {
	return client.Entry{Thread: t, Dialect: "step", Body: []byte(`{"id":"` + text + `","role":"coder","content":"` + text + `"}`), Seq: seq}
}
