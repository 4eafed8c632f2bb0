package service_test

import (
	"encoding/json"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"spool/internal/faulttest"
	"spool/internal/gc"
	"spool/internal/memjs"
	"spool/internal/natsadmin"
	"spool/internal/natsio"
	"spool/internal/natstest"
	"spool/internal/record"
	"spool/internal/retention"
	"spool/internal/scrub"
	"spool/internal/service"
	"spool/pkg/client"
	"spool/pkg/events"
)

// TestClockThatWasBehind stores a session and a body while the server's clock is two days behind what it said
// before. When it is right again, both are two days old by what the server says of them, and none is due; while it
// is wrong, an alarm stands. A day later they are due: their age counts from when the clock was right.
func TestClockThatWasBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := memjs.New(memjs.Config{MaxStore: 16 << 30})
		defer server.Close()
		conn := natstest.Dial(t, server)
		defer conn.Close()
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		must(conn.Ensure(t.Context(), natsio.Limits{EventsBytes: 1 << 28, ItemsBytes: 1 << 28}))
		sys := natsadmin.Of(conn)
		look := func() scrub.Marks {
			t.Helper()
			m, err := scrub.Look(t.Context(), sys, sys, slog.New(slog.DiscardHandler))
			must(err)
			return m
		}
		marks := look()
		const behind = 48 * time.Hour
		marks.High += int64(behind)
		b, err := json.Marshal(marks)
		must(err)
		_, err = conn.Records().Write(t.Context(), record.Put{Key: events.MarksKey, Value: b, Expect: record.Any})
		must(err)
		look()
		p := faulttest.Start(t, conn, nil)
		must(client.New(conn).Publisher(client.PublisherConfig{}).Publish(t.Context(), client.Entry{
			Thread: events.Thread{Session: "young", Name: events.MainThread}, Dialect: "raw", Body: []byte("x"),
		}))
		must(faulttest.Settle(t.Context(), conn))
		must(p.Stop())
		body := [][]byte{[]byte("a body that nobody claims yet")}
		_, err = conn.Objects().Upload(t.Context(), events.InboxBucket, "young", body)
		must(err)
		if alarms, err := scrub.Alarms(t.Context(), sys); err != nil || len(alarms) != 1 || alarms[0].Kind != scrub.AlarmClock {
			t.Errorf("Alarms = %v, %v, want one of the clock", alarms, err)
		}
		cfg := gc.Safe()
		keep := service.Retention{Conn: conn, Policies: []retention.Policy{{Name: "a day", MaxAge: 24 * time.Hour}}}
		due := func() (bodies, sessions int) {
			t.Helper()
			c, err := service.NewCollector(conn, cfg, nil)
			must(err)
			plan, err := c.Plan(t.Context())
			must(err)
			rep, err := keep.Report(t.Context())
			must(err)
			return len(plan.Reclaim), len(rep.Due)
		}
		time.Sleep(behind)
		if bodies, sessions := due(); bodies+sessions != 0 {
			t.Errorf("right again, and not noticed yet: %d bodies and %d sessions are due, want none", bodies, sessions)
		}
		look()
		if bodies, sessions := due(); bodies+sessions != 0 {
			t.Errorf("right again: %d bodies and %d sessions are due, want none", bodies, sessions)
		}
		if alarms, err := scrub.Alarms(t.Context(), sys); err != nil || len(alarms) != 0 {
			t.Errorf("Alarms = %v, %v, want none", alarms, err)
		}
		time.Sleep(25 * time.Hour)
		if bodies, sessions := due(); bodies != 1 || sessions != 1 {
			t.Errorf("a day later: %d bodies and %d sessions are due, want both", bodies, sessions)
		}
	})
}
