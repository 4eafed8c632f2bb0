package service_test

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"spool/internal/fsck"
	"spool/internal/must"
	"spool/internal/natsadmin"
	"spool/internal/natsio"
	"spool/internal/natstest"
	"spool/internal/service"
	"spool/pkg/client"
	"spool/pkg/events"
)

// TestPersistersShare has persisters come and go while agents write: each has its part of the work, and what changes hands is given
// to nobody twice.
func TestPersistersShare(t *testing.T) {
	const sessions = 64
	server := natstest.Server(t)
	conn := natstest.Dial(t, server)
	must.Do(t, conn.Ensure(t.Context(), natsio.Limits{EventsBytes: 1 << 30, ItemsBytes: 1 << 30}))
	cl := client.New(conn)
	writing, enough := context.WithCancel(t.Context())
	var wrote [sessions]uint64
	var agents errgroup.Group
	for i := range sessions {
		agents.Go(func() error {
			p := cl.Publisher(client.PublisherConfig{Producer: "p"})
			for writing.Err() == nil {
				e := client.Entry{Thread: sharer(i), Dialect: "item", Body: []byte(`{"content":[{"type":"text","text":"x"}]}`), Seq: wrote[i] + 1}
				if _, err := p.Publish(t.Context(), e); err != nil {
					return err
				}
				wrote[i]++
				time.Sleep(20 * time.Millisecond)
			}
			return nil
		})
	}

	start := func() (*service.Persister, func()) {
		p := service.NewPersister(natstest.Dial(t, server), service.PersisterConfig{}, slog.New(slog.DiscardHandler))
		return p, natstest.Run(t, p.Run)
	}
	var all []*service.Persister
	divided := func(when string, among ...*service.Persister) {
		t.Helper()
		before := make([]int64, len(among))
		for i, p := range among {
			before[i] = p.Stats().Commits
		}
		must.Eventually(t, when, func() error {
			for i, p := range among {
				least := events.Partitions / len(among)
				if n := p.Holds(); n < least || n > least+1 || p.Stats().Commits <= before[i]+2 {
					return fmt.Errorf("persister %d holds %d partitions and has made %d commits", i, n, p.Stats().Commits-before[i])
				}
			}
			return nil
		})
	}
	first, stopFirst := start()
	divided("one", first)
	second, stopSecond := start()
	divided("two", first, second)
	third, stopThird := start()
	divided("three", first, second, third)
	stopFirst()
	divided("one has ended", second, third)
	all = append(all, first, second, third)

	enough()
	must.Do(t, agents.Wait())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for i, n := range wrote {
		must.Do(t, cl.Thread(sharer(i)).Await(ctx, "p", 0, n))
		head := must.Get(cl.Thread(sharer(i)).Head(ctx))(t)
		must.Same(t, uint64(head.Entries), n, "%s has %d entries, want %d", sharer(i))
	}
	stopSecond()
	stopThird()
	for i, p := range all {
		if st := p.Stats(); st.Repeated > 0 || st.Dead > 0 {
			t.Errorf("persister %d was given %d events that were applied before, %d dead letters; want none", i+1, st.Repeated, st.Dead)
		}
	}
	acc, err := fsck.Account(t.Context(), natsadmin.Of(conn), cl.Internal().Source())
	if err != nil || len(acc.Findings) > 0 || acc.Repeated > 0 {
		t.Errorf("fsck finds %v, %v, and %d repeats; want nothing", acc.Findings, err, acc.Repeated)
	}
}

func sharer(i int) events.Thread {
	return events.Thread{Session: "s" + strconv.Itoa(i), Name: events.MainThread}
}

// TestConsumersGoneAtATakeover: the partitions of a persister that died are taken over although somebody has deleted their consumers.
func TestConsumersGoneAtATakeover(t *testing.T) {
	server := natstest.Server(t)
	conn := natstest.Dial(t, server)
	must.Do(t, conn.Ensure(t.Context(), natsio.Limits{EventsBytes: 1 << 30, ItemsBytes: 1 << 30}))
	log := slog.New(slog.DiscardHandler)
	dies := natstest.Dial(t, server)
	first := service.NewPersister(dies, service.PersisterConfig{}, log)
	go func() { _ = first.Run(t.Context()) }()
	second := service.NewPersister(natstest.Dial(t, server), service.PersisterConfig{}, log)
	defer natstest.Run(t, second.Run)()
	must.Until(t, "each holds half", func() bool { return first.Holds() == events.Partitions/2 && second.Holds() == events.Partitions/2 })
	dies.Close()
	for p := range events.Partitions {
		must.Do(t, conn.JetStream().DeleteConsumer(t.Context(), events.EventsStream, events.PartitionConsumer(p)))
	}
	must.Eventually(t, "every partition is asked for", func() error {
		b, err := conn.Events().Backlog(t.Context())
		if err == nil && len(b.Unserved) > 0 {
			err = fmt.Errorf("%v are not", b.Unserved)
		}
		return err
	})
}
