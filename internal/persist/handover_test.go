package persist_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"spool/internal/must"
	"spool/internal/natsio"
	"spool/internal/natstest"
	"spool/internal/persist"
	"spool/internal/persist/persistnats"
	"spool/internal/record"
	"spool/pkg/client"
	"spool/pkg/events"
)

// stuck is a store that takes notes of what is tried, and no commit until it is freed.
type stuck struct {
	store
	free chan struct{}
}

// store is a persister's records, under another name than its method's.
type store interface{ persist.Records }

func (s stuck) Commit(ctx context.Context, f record.Fence, puts []record.Put) (uint64, error) {
	if strings.HasPrefix(puts[0].Key, "tried.") {
		return s.store.Commit(ctx, f, puts)
	}
	select {
	case <-s.free:
		return s.store.Commit(ctx, f, puts)
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// handing is a persister of a test that is given one partition and gives it away.
func handing(t *testing.T, conn *natsio.Conn, free chan struct{}, cfg persist.Config) (*persist.Persister, *persistnats.Partition) {
	deps := persistnats.Deps(conn, 0, 8<<20)
	deps.Log = slog.New(slog.DiscardHandler)
	if free != nil {
		deps.Records = stuck{deps.Records, free}
	}
	p := persist.New(deps, cfg)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = p.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
	return p, must.Get(persistnats.Consume(ctx, conn.Events(), p, natstest.Partition(t, conn), nil))(t)
}

// What a persister gives away while its store takes no commit is applied by the next one, however often that happens: nobody died.
func TestHandoverIsNoDeath(t *testing.T) {
	conn, free := natstest.Conn(t), make(chan struct{})
	defer close(free)
	cl := client.New(conn)
	th := events.Thread{Session: "s", Name: events.MainThread}
	must.Get(cl.Publisher(client.PublisherConfig{Producer: "p"}).Publish(t.Context(), handed(th, 1, "innocent")))(t)
	for range 6 {
		_, of := handing(t, conn, free, persist.Config{TrialPause: 50 * time.Millisecond})
		time.Sleep(500 * time.Millisecond) // it tries, in vain
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		of.Leave(ctx)
		cancel()
	}
	_, of := handing(t, conn, nil, persist.Config{TrialPause: 50 * time.Millisecond})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	must.Do(t, cl.Thread(th).Await(ctx, "p", 0, 1))
	must.Same(t, len(must.Get(cl.EverySession().DeadLetters(ctx))(t)), 0, "%d dead letters, want %d")
	of.Leave(ctx)
}

// A persister that has no room for what it is given, since its store takes no commit, gives a partition away all the same.
func TestHandoverOfAFullQueue(t *testing.T) {
	conn, free := natstest.Conn(t), make(chan struct{})
	defer close(free)
	th := events.Thread{Session: "s", Name: events.MainThread}
	var all []client.Entry
	for i := range uint64(400) {
		all = append(all, handed(th, i+1, strings.Repeat("x", 4000)))
	}
	must.Get(client.New(conn).Publisher(client.PublisherConfig{Producer: "p"}).Publish(t.Context(), all...))(t)
	_, of := handing(t, conn, free, persist.Config{QueueBytes: 256 << 10})
	time.Sleep(time.Second) // until its queue is full; without that the test tries less
	left := make(chan struct{})
	go func() {
		defer close(left)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		of.Leave(ctx)
	}()
	must.Receive(t, left, "the partition is not given away")
}

func handed(th events.Thread, seq uint64, text string) client.Entry {
	return client.Entry{Thread: th, Dialect: "item", Body: fmt.Appendf(nil, `{"content":[{"type":"text","text":%q}]}`, text), Seq: seq}
}
