package main

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"spool/internal/faulttest"
	"spool/internal/must"
	"spool/internal/natstest"
	"spool/internal/service"
	"spool/pkg/events"
)

// Events that are passed over because of what they are linked to are right where a server was away; many of them are a
// producer's mistake. doctor and fsck --events count the same.
func TestDoctorTellsABrokenProducer(t *testing.T) {
	s, conn := plain(t)
	p := service.NewPersister(conn, service.PersisterConfig{}, slog.New(slog.DiscardHandler))
	natstest.Run(t, p.Run)
	stats := func() any { return p.Stats() }
	log := slog.New(slog.DiscardHandler)
	defer service.Observed(conn, service.Metrics("persister"), "persister", "applies events", stats, log)()
	id := events.Thread{Session: "s", Name: events.MainThread}
	publish := func(seq, prev uint64) {
		e := events.Event{Kind: events.KindEntry, Dialect: "raw", Thread: id, Producer: "p", Seq: seq, Prev: prev,
			Body: fmt.Append(nil, seq)}
		must.Get(conn.JetStream().Publish(t.Context(), events.EventSubject(id, e.Kind), e.Encode()))(t)
	}
	links := func(ok bool, detail string) {
		t.Helper()
		must.Do(t, faulttest.Settle(t.Context(), conn))
		out, _ := spool(t, "doctor", "--json", "--nats", s.ClientURL())
		if want := fmt.Sprintf(`{"name":"links","ok":%v,"detail":"%s`, ok, detail); !strings.Contains(out, want) {
			t.Errorf("doctor says\n%swant %s", out, want)
		}
	}
	publish(1, 0)
	publish(10, 9)
	links(true, "1 of 2 events were passed over")
	for seq := uint64(20); seq < 20+10*manyPassedOver; seq += 10 {
		publish(seq, seq-1)
	}
	links(false, "101 of 102 events were passed over")
	out, code := spool(t, "fsck", "--events", "--json", "--nats", s.ClientURL())
	if code != service.ExitOK || !strings.Contains(out, `"superseded":101,`) {
		t.Errorf("fsck --events = %d: %s", code, out)
	}
	must.Do(t, must.Get(conn.JetStream().Stream(t.Context(), events.EventsStream))(t).Purge(t.Context()))
	publish(1, 0)
	must.Do(t, faulttest.Settle(t.Context(), conn))
	if out, _ := spool(t, "doctor", "--nats", s.ClientURL()); !strings.Contains(out, "1 repeat that SPOOL_EVENTS can not tell from") {
		t.Errorf("doctor does not tell of a repeat that cannot be told from another entry:\n%s", out)
	}
}
