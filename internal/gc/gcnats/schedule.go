package gcnats

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/natsio"
	"spool/internal/sleep"
	"spool/pkg/events"
)

// Schedule is when the server asks for cycles, in its words (ADR-51): "@every 24h0m0s", or a cron of six fields in UTC.
// Empty: never.
type Schedule string

// Every asks so often.
func Every(d time.Duration) Schedule { return Schedule(every + d.String()) }

const every = "@every "

// cronFields are the fields of a cron: second, minute, hour, day, month, day of the week.
var cronFields = [6]cronField{{0, 59, "", 0}, {0, 59, "", 0}, {0, 23, "", 0}, {1, 31, "", 0},
	{1, 12, "JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC", 0},
	{0, 6, "SUN MON TUE WED THU FRI SAT", 7}}

type cronField struct {
	least, most int
	names       string
	also        int // another number of the least, which the server does not know
}

// value reads a number or a name.
func (f cronField) value(s string) (n int, ok bool) {
	if len(s) == 3 {
		if i := slices.Index(strings.Fields(f.names), strings.ToUpper(s)); i >= 0 {
			return f.least + i, true
		}
	}
	n, err := strconv.Atoi(s)
	return n, err == nil && f.least <= n && n <= max(f.most, f.also)
}

// cron is the times that a cron names: a bit for each value of a field.
type cron struct {
	bits [6]uint64
	any  [6]bool // the field is *
}

// parseCron refuses what the server would: there is nobody at hand when it does. What the server does not know it says
// otherwise, in fields.
func parseCron(fields []string) (c cron, err error) {
	for i, field := range fields {
		f := cronFields[i]
		for part := range strings.SplitSeq(field, ",") {
			span, step, stepped := strings.Cut(part, "/")
			from, to, ranged := strings.Cut(span, "-")
			by, err := strconv.Atoi(step)
			ok := !stepped || err == nil && by > 0
			by = max(by, 1)
			least, most := f.least, f.most
			if !ranged && (from == "*" || from == "?") {
				c.any[i] = c.any[i] || by == 1
			} else {
				var named bool
				least, named = f.value(from)
				if ok = ok && named; ranged {
					most, named = f.value(to)
					ok = ok && named && least <= most
				} else if !stepped {
					most = least
				}
				most = max(least, most)
			}
			if !ok {
				return c, fmt.Errorf("%q: use %d to %d %s", part, f.least, max(f.most, f.also), f.names)
			}
			for n := least; n <= most; n += by {
				c.bits[i] |= 1 << n
			}
		}
		if f.also > 0 && c.bits[i]>>f.also > 0 {
			c.bits[i] = (c.bits[i] | 1<<f.least) &^ (1 << f.also)
			fields[i] = c.list(i)
		}
	}
	return c, nil
}

// list says a field by its numbers.
func (c cron) list(field int) string {
	if c.any[field] {
		return "*"
	}
	var all []string
	for n := range 64 {
		if c.bits[field]>>n&1 == 1 {
			all = append(all, strconv.Itoa(n))
		}
	}
	return strings.Join(all, ",")
}

// UnmarshalText reads a duration of at least a second, or 0 for never; a time of day in UTC, 03:30; or a cron of five
// fields, or of six with seconds first.
func (s *Schedule) UnmarshalText(text []byte) error {
	said := strings.TrimSpace(string(text))
	if d, err := time.ParseDuration(said); err == nil && (d == 0 || d >= time.Second) {
		if *s = ""; d > 0 {
			*s = Every(d)
		}
		return nil
	}
	if t, err := time.Parse("15:04", said); err == nil {
		*s = Schedule(fmt.Sprintf("0 %d %d * * *", t.Minute(), t.Hour()))
		return nil
	}
	fields := strings.Fields(said)
	if len(fields) == 5 {
		fields = append([]string{"0"}, fields...)
	}
	if len(fields) != 6 {
		return fmt.Errorf("%q: use a time between cycles of at least 1s (24h), a time of day in UTC (03:30), or a cron (30 3 * * 0)", said)
	}
	c, err := parseCron(fields)
	if err != nil {
		return fmt.Errorf("%q: %w", said, err)
	}
	if c.after(time.Unix(0, 0)).IsZero() {
		return fmt.Errorf("%q: there is no such day in any year", said)
	}
	*s = Schedule(strings.Join(fields, " "))
	return nil
}

// After is when the server asks for the next cycle after a time: the zero time if never, or if nobody here can tell.
func (s Schedule) After(t time.Time) time.Time {
	if said, ok := strings.CutPrefix(string(s), every); ok {
		if d, err := time.ParseDuration(said); err == nil {
			return t.Add(d)
		}
		return time.Time{}
	}
	fields := strings.Fields(string(s))
	if len(fields) != len(cronFields) {
		return time.Time{}
	}
	c, err := parseCron(fields)
	if err != nil {
		return time.Time{}
	}
	return c.after(t)
}

// after is the first time that a cron names behind another one, in UTC; zero if there is none in nine years, which have
// each day that there is.
func (c cron) after(t time.Time) time.Time {
	has := func(field, n int) bool { return c.bits[field]>>n&1 == 1 }
	t = t.UTC().Truncate(time.Second).Add(time.Second)
	for end := t.AddDate(9, 0, 0); t.Before(end); {
		day, weekday := has(3, t.Day()), has(5, int(t.Weekday()))
		both, either := day && weekday, day || weekday
		switch {
		case !has(4, int(t.Month())) || !either || !both && (c.any[3] || c.any[5]):
			t = time.Date(t.Year(), t.Month(), t.Day()+1, 0, 0, 0, 0, time.UTC)
		case !has(2, t.Hour()):
			t = t.Truncate(time.Hour).Add(time.Hour)
		case !has(1, t.Minute()):
			t = t.Truncate(time.Minute).Add(time.Minute)
		case !has(0, t.Second()):
			t = t.Add(time.Second)
		default:
			return t
		}
	}
	return time.Time{}
}

// Set implements flag.Value.
func (s *Schedule) Set(text string) error { return s.UnmarshalText([]byte(text)) }

func (s *Schedule) String() string { return strings.TrimPrefix(string(*s), every) }

// A schedule outlives who made it: cycles go on when another collector takes over. So that it is not for ever that of a collector
// which ran for an hour, who has made it says every keeperBeat that it is there. When it has not for keeperGone, or has taken its
// word back at its end, another one makes the schedule its own.
const (
	keeperBeat = time.Minute
	keeperGone = 3 * keeperBeat
)

// Keep makes the server ask for cycles by a schedule, for as long as ctx lasts and until a collector that begins later says
// otherwise. begun is called once, when the schedule is there, with whether it was not before.
func (w *World) Keep(ctx context.Context, when Schedule, begun func(made bool) error) error {
	id := rand.Text()
	made, err := w.keep(ctx, id, when, true)
	if err == nil {
		err = begun(made)
	}
	if err != nil {
		return err
	}
	defer w.leave(id)
	for range sleep.Every(ctx, keeperBeat) {
		if _, err := w.keep(ctx, id, when, false); err != nil && ctx.Err() == nil {
			w.log.Warn("keep gc's schedule", "error", err)
		}
	}
	return nil
}

// keep makes the schedule, if it is this collector's to make.
func (w *World) keep(ctx context.Context, id string, when Schedule, takes bool) (made bool, err error) {
	s, err := w.streams.LeaderStream(ctx, events.GCStream)
	if err != nil {
		return false, fmt.Errorf("schedule gc: %w", natsio.WrapErr(err))
	}
	m, err := s.GetLastMsgForSubject(ctx, events.GCKeeperSubject)
	if err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) {
		return false, fmt.Errorf("schedule gc: %w", natsio.WrapErr(err))
	}
	if err == nil && !takes && string(m.Data) != id {
		age := s.CachedInfo().TimeStamp.Sub(m.Time)
		if age >= 0 && age < keeperGone {
			return false, nil
		}
	}
	if made, err = w.Schedule(ctx, when); err != nil {
		return false, err
	}
	_, err = w.streams.Send(ctx, []*nats.Msg{{
		Subject: events.GCKeeperSubject, Data: []byte(id), Header: nats.Header{"Nats-Rollup": {"sub"}},
	}})
	return made, err
}

// leave takes back that this collector is there.
func (w *World) leave(id string) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	s, err := natsio.MessagesOf(ctx, w.streams, events.GCStream)
	if err != nil {
		return // the others know it in keeperGone
	}
	m, err := s.GetLastMsgForSubject(ctx, events.GCKeeperSubject)
	if err == nil && string(m.Data) == id {
		err = s.Purge(ctx, jetstream.WithPurgeSubject(events.GCKeeperSubject), jetstream.WithPurgeSequence(m.Sequence+1))
	}
	if err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) {
		w.log.Info("gc's schedule stays until others see that its maker is gone", "error", err)
	}
}

// Schedule makes the server ask for a cycle by a schedule, whoever is there to run it. One that is there already and says the same
// goes on; made says that it was not. The first request comes when its time has come once.
func (w *World) Schedule(ctx context.Context, when Schedule) (made bool, err error) {
	s, err := natsio.MessagesOf(ctx, w.streams, events.GCStream)
	if err != nil {
		return false, fmt.Errorf("schedule gc: %w", natsio.WrapErr(err))
	}
	old, err := s.GetLastMsgForSubject(ctx, events.GCScheduleSubject)
	switch {
	case err == nil && old.Header.Get(hdrSchedule) == string(when):
		return false, nil
	case err != nil && !errors.Is(err, jetstream.ErrMsgNotFound):
		return false, fmt.Errorf("schedule gc: %w", natsio.WrapErr(err))
	}
	return true, w.schedule(ctx, string(when))
}

func (w *World) schedule(ctx context.Context, when string) error {
	_, err := w.streams.Send(ctx, []*nats.Msg{{Subject: events.GCScheduleSubject, Header: nats.Header{
		hdrSchedule: {when}, hdrScheduleTarget: {events.GCRunSubject},
	}}})
	if err != nil {
		return fmt.Errorf("schedule gc, %s: %w", when, err)
	}
	return nil
}

// Scheduled is the schedule that there is, and since when: the empty one if there is none.
func (w *World) Scheduled(ctx context.Context) (when Schedule, since time.Time, err error) {
	s, err := natsio.MessagesOf(ctx, w.streams, events.GCStream)
	if err != nil {
		return "", since, fmt.Errorf("read gc's schedule: %w", natsio.WrapErr(err))
	}
	m, err := s.GetLastMsgForSubject(ctx, events.GCScheduleSubject)
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return "", since, nil
	case err != nil:
		return "", since, fmt.Errorf("read gc's schedule: %w", natsio.WrapErr(err))
	}
	return Schedule(m.Header.Get(hdrSchedule)), m.Time, nil
}

// Reschedule makes the schedule that there is anew, if there is one.
func (w *World) Reschedule(ctx context.Context) error {
	when, _, err := w.Scheduled(ctx)
	if err != nil || when == "" {
		return err
	}
	return w.schedule(ctx, string(when))
}
