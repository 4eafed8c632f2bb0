package service_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"spool/internal/artifactstore"
	"spool/internal/gc"
	"spool/internal/must"
	"spool/internal/natsio"
	"spool/internal/natstest"
	"spool/internal/service"
	"spool/internal/sim"
	"spool/pkg/client"
	"spool/pkg/events"
)

// A later version starts on a store while processes of this one run, over connections that hold. Ten seconds later
// nothing of this one writes a record or removes a byte: the persister has ended and says why, and a collector and
// who registers an artifact are refused. Entries are still taken: the later version's persisters apply them.
func TestStoreIsRaisedWhileUsed(t *testing.T) {
	must.Do(t, sim.Warm())
	synctest.Test(t, storeIsRaised)
}

func storeIsRaised(t *testing.T) {
	c := newClocks(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- service.NewPersister(c.conn, service.PersisterConfig{}, nil).Run(ctx) }()
	httpSide := natstest.Dial(t, c.server)
	publisher := client.New(httpSide).Publisher(client.PublisherConfig{Producer: "p"})
	n := 0
	publish := func(seconds int) {
		t.Helper()
		for range seconds {
			n++
			c.must(must.Err(publisher.Publish(ctx, client.Entry{
				Thread: events.Thread{Session: "s", Name: events.MainThread}, Dialect: "raw", Body: fmt.Appendf(nil, "%d", n),
			})))
			time.Sleep(time.Second)
		}
	}
	publish(10)
	body, err := httpSide.Objects().Upload(ctx, events.InboxBucket, "body", [][]byte{[]byte("a body")})
	c.must(err)
	col, err := service.NewCollector(c.conn, gc.Safe(), nil)
	c.must(err)
	work := map[string]func() error{
		"register an artifact": func() error {
			_, err := artifactstore.Of(httpSide, 0).TakeNumber(ctx, "s")
			return err
		},
		"collect": func() error { _, err := col.Plan(ctx); return err },
	}
	for what, do := range work {
		if err := do(); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}

	records := must.Get(c.conn.JetStream().Stream(ctx, events.RecordsStream))(t)
	cfg := records.CachedInfo().Config
	cfg.Metadata["spool-format"] = "3"
	must.Get(c.conn.JetStream().UpdateStream(ctx, cfg))(t)
	publish(10)
	last := must.Get(records.Info(ctx))(t).State.LastSeq
	select {
	case err := <-ended:
		if !errors.Is(err, natsio.ErrTopology) || !strings.Contains(err.Error(), "has format 3") {
			t.Errorf("the persister ended with %v, want ErrTopology and the format", err)
		}
	default:
		t.Error("the persister goes on")
	}
	work["remove a body"] = func() error { return httpSide.Objects().Reclaim(ctx, body) }
	for what, do := range work {
		must.Is(t, do(), natsio.ErrTopology, "%s", what)
	}
	publish(10)
	if now := must.Get(records.Info(ctx))(t).State.LastSeq; now != last {
		t.Errorf("%d records are written ten seconds after the format was raised", now-last)
	}
	must.Is(t, must.Err(httpSide.Objects().Stat(ctx, events.InboxBucket, "body")), nil, "the body")
}
