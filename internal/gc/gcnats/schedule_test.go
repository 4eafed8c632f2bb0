package gcnats_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"spool/internal/gc/gcnats"
	"spool/internal/memjs"
	"spool/internal/must"
	"spool/internal/natsio"
	"spool/internal/natstest"
	"spool/pkg/events"
)

func TestParseSchedule(t *testing.T) {
	for said, want := range map[string]string{
		"24h": "@every 24h0m0s", "1s": "@every 1s", "0": "", "03:30": "0 30 3 * * *", "30 3 * * 0": "0 30 3 * * 0",
		" 0 30  3 * * MON-FRI ": "0 30 3 * * MON-FRI", "30 3 * * 7": "0 30 3 * * 0", "0 3 * * 5-7": "0 0 3 * * 0,5,6",
		"0 3 * * 7,MON": "0 0 3 * * 0,1", "0 3 * * 1-7": "0 0 3 * * 0,1,2,3,4,5,6", "0 3 * * 7/2": "0 0 3 * * 0",
	} {
		var s gcnats.Schedule
		if err := s.Set(said); err != nil || string(s) != want {
			t.Errorf("%q = %q, %v, want %q", said, string(s), err, want)
		}
		if again := s; said != "0" && (again.Set(s.String()) != nil || again != s) {
			t.Errorf("%q, which is %q, is read as %q", said, s.String(), string(again))
		}
	}
	for _, said := range []string{"", "1ms", "-1h", "often", "25:00", "* * *", "0 3 * * ;rm",
		"99 * * * *", "0 25 * * *", "a b c d e",
		"* * 0 * *", "* * * 13 *", "0 3 31 2 *", "0 3 31 4,6,9,11 *", "5-1 * * * *",
		"* * * * 8", "* * * * SUN-8", "*/0 * * * *", "1, * * * *", "1- * * * *", "*-3 * * * *", "* * * SUN *", "-1 * * * *"} {
		var s gcnats.Schedule
		if err := s.Set(said); err == nil {
			t.Errorf("%q = %q, want an error", said, string(s))
		}
	}
}

// TestAfter: a schedule says itself when its next time is.
func TestAfter(t *testing.T) {
	from := must.Get(time.Parse(time.RFC3339, "2026-11-23T04:00:00Z"))(t) // a Monday
	for said, want := range map[string]string{
		"36h": "2026-11-24T16:00:00Z", "03:30": "2026-11-24T03:30:00Z", "04:00": "2026-11-24T04:00:00Z",
		"30 3 * * 0": "2026-11-29T03:30:00Z", "30 3 * * 7": "2026-11-29T03:30:00Z", "0 3 1 * 1-7": "2026-11-24T03:00:00Z",
		"0 3 29 2 *": "2028-02-29T03:00:00Z", "*/7 0 4 * * *": "2026-11-23T04:00:07Z",
		"0 3 1 * MON": "2026-11-30T03:00:00Z", "0 3 */2 * 2": "2026-11-24T03:00:00Z", "0 3 31 1-3 *": "2027-01-31T03:00:00Z",
		"0 3 13 * ? ": "2026-12-13T03:00:00Z", "0 3 13 * */1": "2026-12-13T03:00:00Z", "0 5/9 * * *": "2026-11-23T05:00:00Z",
	} {
		var s gcnats.Schedule
		must.Do(t, s.Set(said))
		if got := s.After(from).Format(time.RFC3339); got != want {
			t.Errorf("After(%s) of %s = %s, want %s", from.Format(time.RFC3339), said, got, want)
		}
	}
	if got := gcnats.Schedule("0 0 3 31 2 *").After(from); !got.IsZero() {
		t.Errorf("the last of February is on %v, want never", got)
	}
}

// TestCronOfTheServer: a server takes what a cron and a time of day become.
func TestCronOfTheServer(t *testing.T) {
	c := natstest.Conn(t)
	for _, said := range []string{"03:30", "*/5 3 * * 1-5", "0-10/5,30 3 1 jan,FEB ?", "5/10 * * * Sat", "0 3 * * 5-7", "* * * * * *"} {
		var s gcnats.Schedule
		must.Do(t, s.Set(said))
		if made, err := gcnats.Of(c).Schedule(t.Context(), s); err != nil || !made {
			t.Errorf("Schedule(%s) = %v, %v, want it made", said, made, err)
		}
	}
	requests(t, c, 1)
}

// TestScheduleOfOneThatIsGone: a collector that runs for a while decides how often for that while, whether it ends in order or dies;
// then that of the one that goes on is there again.
func TestScheduleOfOneThatIsGone(t *testing.T) {
	for name, dies := range map[string]bool{"ends": false, "dies": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := memjs.New(memjs.Config{MaxStore: 16 << 30})
				defer server.Close()
				stays, goes := natstest.Dial(t, server), natstest.Dial(t, server)
				defer stays.Close()
				defer goes.Close()
				must.Do(t, stays.Ensure(t.Context(), natsio.Limits{EventsBytes: 1 << 28, ItemsBytes: 1 << 28}))
				keep := func(c *natsio.Conn, when gcnats.Schedule) (stop func()) {
					ctx, cancel := context.WithCancel(t.Context())
					begun, ended := make(chan bool), make(chan error, 1)
					go func() {
						ended <- gcnats.Of(c).Keep(ctx, when, func(bool) error { close(begun); return nil })
					}()
					<-begun
					return func() { cancel(); must.Do(t, <-ended) }
				}
				is := func(want gcnats.Schedule) {
					t.Helper()
					s := must.Get(stays.JetStream().Stream(t.Context(), events.GCStream))(t)
					m := must.Get(s.GetLastMsgForSubject(t.Context(), events.GCScheduleSubject))(t)
					if got := m.Header.Get("Nats-Schedule"); got != string(want) {
						t.Errorf("the schedule is %s, want %s", got, want)
					}
				}
				day, often := gcnats.Every(24*time.Hour), gcnats.Every(30*time.Minute)
				defer keep(stays, day)()
				stop := keep(goes, often)
				time.Sleep(10 * time.Minute)
				is(often)
				if dies {
					goes.Close()
				}
				stop()
				time.Sleep(5 * time.Minute)
				is(day)
			})
		})
	}
}
