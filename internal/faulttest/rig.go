package faulttest

import (
	"context"
	"sync"
	"testing"
	"time"

	"spool/internal/natsio"
	"spool/internal/persist"
	"spool/internal/persist/persistnats"
	"spool/internal/retry"
	"spool/pkg/events"
)

// Patience is how long a step may take on a busy machine with a slow disk. It ends what hangs; a test concludes nothing else from it.
const Patience = 5 * time.Minute

// Persister is one that runs with its consumers, as internal/service starts it.
type Persister struct {
	*persist.Persister
	Died <-chan error // why it ended by itself

	stop    func() error
	abandon func()
}

// Stop ends it cleanly.
func (p *Persister) Stop() error { return p.stop() }

// Abandon leaves one whose connection is dead: it would wait for the server before it ends.
func (p *Persister) Abandon() { p.abandon() }

// Deps is a persister's world on a connection.
func Deps(conn *natsio.Conn) persist.Deps {
	deps := persistnats.Deps(conn, 0, 8<<20)
	deps.Link = conn.Events().Link
	return deps
}

// Start runs a persister whose world change alters, until it is stopped, dies or the test ends.
func Start(t testing.TB, conn *natsio.Conn, change func(*persist.Deps, *persist.Config)) *Persister {
	t.Helper()
	deps := Deps(conn)
	var cfg persist.Config
	if change != nil {
		change(&deps, &cfg)
	}
	p := persist.New(deps, cfg)
	ctx, cancel := context.WithCancel(context.Background())
	died := make(chan error, 1)
	run := &Persister{Persister: p, Died: died}
	starting, started := context.WithTimeout(ctx, Patience)
	defer started()
	var stops []func()
	ready := make(chan struct{}) // nothing begins, and nothing dies, before all partitions are asked for
	for part := range events.Partitions {
		deliver := func(d natsio.Delivery) {
			select {
			case <-ready:
			case <-ctx.Done():
				return
			}
			p.Deliver(ctx, persist.Message{Subject: d.Subject, Data: d.Data, Seq: d.Seq, Stored: d.Stored, Partition: part, Link: d.Link,
				Open: d.Open, Term: d.Term, Ack: d.Ack})
		}
		err := retry.Do(starting, nil, func() error {
			stop, err := conn.Events().Consume(ctx, part, nil, deliver)
			if err == nil {
				stops = append(stops, stop.Stop)
			}
			return err
		})
		if err != nil {
			cancel()
			t.Fatal(err)
		}
	}
	close(ready)
	var end error
	ended := make(chan struct{})
	go func() {
		end = p.Run(ctx)
		cancel() // a dead persister takes nothing more
		died <- end
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
	abandoned := false
	run.abandon = func() {
		abandoned = true
		go func() { _ = run.stop() }()
	}
	t.Cleanup(func() {
		if !abandoned {
			_ = run.stop()
		}
	})
	return run
}
