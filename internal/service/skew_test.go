package service_test

import (
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"spool/internal/faulttest"
	"spool/internal/gc"
	"spool/internal/memjs"
	"spool/internal/must"
	"spool/internal/natsadmin"
	"spool/internal/natsio"
	"spool/internal/natstest"
	"spool/internal/record"
	"spool/internal/retention"
	"spool/internal/scrub"
	"spool/internal/service"
	"spool/internal/sim"
	"spool/pkg/client"
	"spool/pkg/events"
)

// TestClockThatWasAhead stores a session and a body while the server's clock is thirty days ahead. When it is right again, an alarm
// stands that names the command by which an operator says so, also when nothing is stored since. Behind that command the alarm is gone, in
// both copies of the marks, nothing is due at once, and all is due when it is old enough by the right clock.
func TestClockThatWasAhead(t *testing.T) {
	must.Do(t, sim.Warm()) // bubbles share what compresses
	const ahead, day = 30 * 24 * time.Hour, 24 * time.Hour
	for _, lost := range []string{"", "the record's copy of the marks"} {
		t.Run(lost, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newClocks(t)
				c.look()
				c.server.SetClock(ahead)
				c.look()
				c.store("young")
				c.look()
				c.server.SetClock(0)
				time.Sleep(time.Minute)
				c.look()
				if alarms, err := scrub.Alarms(t.Context(), c.sys); err != nil || len(alarms) != 1 ||
					alarms[0].Kind != scrub.AlarmClock || !strings.Contains(alarms[0].Do, "fsck --trust-clock") {
					t.Errorf("Alarms = %v, %v, want one of the clock that names the command", alarms, err)
				}
				time.Sleep(2 * day)
				if bodies, sessions := c.due(); bodies+sessions != 0 {
					t.Errorf("not trusted: %d bodies and %d sessions are due, want none", bodies, sessions)
				}
				_, err := service.TrustClock(t.Context(), c.conn)
				c.must(err)
				if lost != "" {
					_, err := c.conn.Records().Write(t.Context(), record.Put{Key: events.MarksKey, Value: []byte("{}"),
						Expect: record.Any})
					c.must(err)
				}
				if all, err := scrub.Alarms(t.Context(), c.sys); err != nil || len(all) != 0 {
					t.Errorf("Alarms = %v, %v, want none", all, err)
				}
				if bodies, sessions := c.due(); bodies+sessions != 0 {
					t.Errorf("trusted just now: %d bodies and %d sessions are due, want none", bodies, sessions)
				}
				time.Sleep(day + time.Hour)
				c.look()
				if bodies, sessions := c.due(); bodies != 1 || sessions != 1 {
					t.Errorf("a day later: %d bodies and %d sessions are due, want both", bodies, sessions)
				}
				if alarms, err := scrub.Alarms(t.Context(), c.sys); err != nil || len(alarms) != 0 {
					t.Errorf("a day later: Alarms = %v, %v, want none", alarms, err)
				}
			})
		})
	}
}

// clocks is a system whose server's clock can be wrong.
type clocks struct {
	*testing.T
	server *memjs.Server
	conn   *natsio.Conn
	sys    natsadmin.System
}

func newClocks(t *testing.T) *clocks {
	c := &clocks{T: t, server: memjs.New(memjs.Config{MaxStore: 16 << 30})}
	t.Cleanup(c.server.Close)
	c.conn = natstest.Dial(t, c.server)
	t.Cleanup(c.conn.Close)
	c.must(c.conn.Ensure(t.Context(), natsio.Limits{EventsBytes: 1 << 28, ItemsBytes: 1 << 28}))
	c.sys = natsadmin.Of(c.conn)
	return c
}

func (c *clocks) must(err error) {
	c.Helper()
	must.Do(c, err)
}

func (c *clocks) look() scrub.Marks {
	c.Helper()
	m, err := scrub.Look(c.Context(), c.sys, c.sys, slog.New(slog.DiscardHandler))
	c.must(err)
	return m
}

// store stores a session, and a body of that name that nobody claims.
func (c *clocks) store(name string) {
	c.Helper()
	p := faulttest.Start(c.T, c.conn, nil)
	c.must(must.Err(client.New(c.conn).Publisher(client.PublisherConfig{}).Publish(c.Context(), client.Entry{
		Thread: events.Thread{Session: name, Name: events.MainThread}, Dialect: "raw", Body: []byte("x"),
	})))
	c.must(faulttest.Settle(c.Context(), c.conn))
	c.must(p.Stop())
	_, err := c.conn.Objects().Upload(c.Context(), events.InboxBucket, name, [][]byte{[]byte("a body that nobody claims yet")})
	c.must(err)
}

// due tells how many bodies gc would take, and how many sessions a policy of a day.
func (c *clocks) due() (bodies, sessions int) {
	c.Helper()
	col, err := service.NewCollector(c.conn, gc.Safe(), nil)
	c.must(err)
	plan, err := col.Plan(c.Context())
	c.must(err)
	keep := service.Retention{Conn: c.conn, Policies: []retention.Policy{{Name: "a day", MaxAge: 24 * time.Hour}}}
	rep, err := keep.Report(c.Context())
	c.must(err)
	return len(plan.Reclaim), len(rep.Due)
}

// TestClockThatWasBehind stores a session and a body while the server's clock is two days behind what it said
// before. When it is right again, both are two days old by what the server says of them, and none is due; while it
// is wrong, an alarm stands. A day later they are due: their age counts from when the clock was right.
func TestClockThatWasBehind(t *testing.T) {
	must.Do(t, sim.Warm())
	synctest.Test(t, func(t *testing.T) {
		c := newClocks(t)
		marks := c.look()
		const behind = 48 * time.Hour
		marks.High += int64(behind)
		b, err := json.Marshal(marks)
		c.must(err)
		_, err = c.conn.Records().Write(t.Context(), record.Put{Key: events.MarksKey, Value: b, Expect: record.Any})
		c.must(err)
		c.look()
		c.store("young")
		alarms := func() []scrub.Alarm {
			t.Helper()
			all, err := scrub.Alarms(t.Context(), c.sys)
			c.must(err)
			return all
		}
		if all := alarms(); len(all) != 1 || all[0].Kind != scrub.AlarmClock {
			t.Errorf("Alarms = %v, want one of the clock", all)
		}
		time.Sleep(behind)
		if bodies, sessions := c.due(); bodies+sessions != 0 {
			t.Errorf("right again, and not noticed yet: %d bodies and %d sessions are due, want none", bodies, sessions)
		}
		c.look()
		if bodies, sessions := c.due(); bodies+sessions != 0 {
			t.Errorf("right again: %d bodies and %d sessions are due, want none", bodies, sessions)
		}
		if all := alarms(); len(all) != 0 {
			t.Errorf("Alarms = %v, want none", all)
		}
		time.Sleep(25 * time.Hour)
		if bodies, sessions := c.due(); bodies != 1 || sessions != 1 {
			t.Errorf("a day later: %d bodies and %d sessions are due, want both", bodies, sessions)
		}
	})
}
