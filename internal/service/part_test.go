package service_test

import (
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/faulttest"
	"spool/internal/fsck"
	"spool/internal/gc"
	"spool/internal/must"
	"spool/internal/natsadmin"
	"spool/internal/natsio"
	"spool/internal/natstest"
	"spool/internal/retention"
	"spool/internal/scrub"
	"spool/internal/service"
	"spool/pkg/client"
	"spool/pkg/events"
)

// TestAccountWithoutAStore: whoever is let in to another account than that of the store, by a wrong key or context, is
// told that nothing is there, whatever he would remove or repair, and leaves nothing there.
func TestAccountWithoutAStore(t *testing.T) {
	conn := natstest.Dial(t, natstest.Server(t))
	ctx, silent := t.Context(), slog.New(slog.DiscardHandler)
	for what, do := range map[string]func() error{
		"gc": func() error {
			c, err := service.NewCollector(conn, gc.Safe(), silent)
			if err == nil {
				_, _, err = service.Collect(ctx, conn, c, true)
			}
			return err
		},
		"retention": func() error {
			all := []retention.Policy{{Name: "all", KeepLast: 1}}
			_, err := service.Retention{Conn: conn, Policies: all, Log: silent}.Apply(ctx)
			return err
		},
		"an erasure": func() error {
			_, err := service.Erasure{Conn: conn, How: client.Deletion{By: "test"}, Log: silent}.Run(ctx, "s1")
			return err
		},
		"a deletion": func() error {
			_, err := client.New(conn).Session("s1").Delete(ctx, client.Deletion{By: "test"})
			return err
		},
		"fsck --repair": func() error { _, err := service.Fsck(ctx, conn, fsck.Config{}, true); return err },
		"marks": func() error {
			_, err := scrub.Look(ctx, natsadmin.Of(conn), natsadmin.Of(conn), silent)
			return err
		},
	} {
		if err := do(); err == nil {
			t.Errorf("%s: no error where no store is", what)
		}
	}
	for name := range conn.JetStream().StreamNames(ctx).Name() {
		t.Errorf("there is a stream %s afterwards", name)
	}
}

// TestStreamOfAnotherStore: where one stream is of another store, as after it was put back from a copy of another
// account, gc, retention and erasures delete nothing, and it is told which it is.
func TestStreamOfAnotherStore(t *testing.T) {
	derived := []string{events.ItemsStream, events.GCStream, events.DeadStream}
	for _, cfg := range natsio.Topology(natsio.Limits{EventsBytes: 1, ItemsBytes: 1}) {
		t.Run(cfg.Name, func(t *testing.T) {
			t.Parallel()
			p := newPurged(t)
			now := must.Get(p.conn.JetStream().Stream(t.Context(), cfg.Name))(t).CachedInfo().Config
			now.Metadata = maps.Clone(now.Metadata)
			if natsio.StoreOf(now) == "" {
				t.Fatal("the stream does not say which store it is of")
			}
			for key, value := range now.Metadata {
				if value == natsio.StoreOf(now) {
					now.Metadata[key] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
				}
			}
			must.Get(p.conn.JetStream().UpdateStream(t.Context(), now))(t)
			p.refused(cfg.Name) // before anybody has taken marks
			if open := p.look().Open(); len(open) != 1 || open[0].Stream != cfg.Name || open[0].How != scrub.Foreign {
				t.Errorf("open = %v, want %s, of another store", open, cfg.Name)
			}
			p.refused(cfg.Name)
			ready := scrub.NotReady(t.Context(), p.conn.Records())
			if (ready == nil) != slices.Contains(derived, cfg.Name) {
				t.Errorf("readyz: %v", ready)
			}
		})
	}
}

// TestPartPurged: what is purged of a part of a stream, too little for marks to tell, is back after a repair; what gc
// cannot follow it does not collect.
func TestPartPurged(t *testing.T) {
	for part, c := range map[string]struct {
		stream, subject string
		refused         bool
	}{
		"the events of a partition": {stream: events.EventsStream},
		"the head of a thread":      {stream: events.RecordsStream, subject: events.RecordSubject(events.HeadKeys("s1"))},
		"the records of packs":      {events.RecordsStream, events.RecordSubject(events.PackKey(">")), true},
	} {
		t.Run(part, func(t *testing.T) {
			t.Parallel()
			p := newPurged(t)
			s := must.Get(p.conn.JetStream().Stream(t.Context(), c.stream))(t)
			if c.stream == events.EventsStream {
				m := must.Get(s.GetLastMsgForSubject(t.Context(), events.StoredOfSession("s1")))(t)
				partition, _, _ := strings.Cut(m.Subject, ".s1.")
				c.subject = partition + ".>"
			}
			p.empty(c.stream, jetstream.WithPurgeSubject(c.subject))
			before := p.state(events.ObjectStream(events.NodesBucket)).Messages
			left, err := p.collect()
			if (err != nil) != c.refused || c.refused && left < before {
				t.Errorf("a cycle of gc = %v, and left %d of %d messages of packs; want it refused: %v", err, left, before, c.refused)
			}
			p.say("s1")
			must.Do(t, faulttest.Settle(t.Context(), p.conn))
			if said, clean := p.repair(); !clean {
				t.Errorf("fsck is not clean: %v", said)
			}
			p.replayed("s1")
			if missing := p.missing(); len(missing) > 0 {
				t.Errorf("missing: %v", missing)
			}
			must.Is(t, must.Err(p.collect()), nil, "gc after a clean fsck")
		})
	}
}

// replayed publishes the dead letters of a session again until nothing is missing: its thread was latched, and stays so
// for a while.
func (p *purged) replayed(session string) {
	p.Helper()
	cl := client.New(p.conn)
	must.Until(p, "nothing is missing", func() bool {
		if len(p.missing()) == 0 {
			return true
		}
		for _, letter := range must.Get(cl.Session(session).DeadLetters(p.Context()))(p) {
			must.Get(cl.Admin().ReplayDeadLetter(p.Context(), letter.At))(p)
		}
		must.Do(p, faulttest.Settle(p.Context(), p.conn))
		return false
	})
}
