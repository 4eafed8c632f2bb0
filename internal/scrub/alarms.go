package scrub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"spool/internal/record"
	"spool/pkg/events"
)

// The kinds of alarms.
const (
	AlarmLost   = "lost"   // a server says that it has lost messages of a stream
	AlarmRewind = "rewind" // a stream went back
	AlarmWorld  = "world"  // a stream is gone, of another store, or has lost what it held
	AlarmHeads  = "heads"  // a head does not resolve
	AlarmScrub  = "scrub"  // bytes are not what was stored
)

// AlarmGC: the last cycle of gc refused to delete anything, by what it saw itself. It stands until a cycle sees
// nothing.
const AlarmGC = "gc"

// AlarmKinds lists them.
var AlarmKinds = []string{AlarmLost, AlarmRewind, AlarmWorld, AlarmHeads, AlarmScrub, AlarmClock, AlarmGC}

// Alarm is something that was found and that nothing says is mended.
type Alarm struct {
	Kind   string `json:"kind"`
	Detail string `json:"detail"`
	Do     string `json:"do"`
	Found  int    `json:"found"` // how much of it
}

// Alarms reads what stands. While something does, a collector deletes nothing: what seems to be garbage may be what a lost
// record named.
func Alarms(ctx context.Context, s Store) (out []Alarm, err error) {
	marks, err := readMarks(ctx, s)
	if err != nil {
		return nil, err
	}
	states, err := s.StreamStates(ctx) // after the marks: streams go on
	if err != nil {
		return nil, err
	}
	for _, st := range states {
		if st.Lost > marks.Lost[st.Stream] {
			out = append(out, Alarm{AlarmLost, fmt.Sprintf("the server has lost %d messages of %s, %d bytes", st.Lost, st.Stream, st.LostBytes),
				"run spool fsck --repair; look at the server's log and its disk", st.Lost})
		}
	}
	out = append(out, clocks(states, marks.Clock, time.Now())...)
	now, err := marks.confirmed(ctx, s, states)
	if err != nil {
		return nil, err
	}
	for i := range now { // nobody has taken marks since
		now[i].Done = "look again in a minute, when a persister has dealt with it"
	}
	for _, r := range append(now, marks.Open()...) {
		kind := AlarmRewind
		if r.How != WentBack {
			kind = AlarmWorld
		}
		out = append(out, Alarm{kind, fmt.Sprintf("%s (found %s)", r, stamp(time.Unix(0, r.Found))),
			r.Done + "; a clean spool fsck clears this", 1})
	}
	heads, _, err := readHeads(ctx, s)
	if err != nil {
		return nil, err
	}
	if heads.Found > 0 {
		out = append(out, Alarm{AlarmHeads, fmt.Sprintf("%d states of the %d heads do not resolve: %s",
			heads.Found, heads.Heads, first(heads.Findings)), "run spool fsck --repair", heads.Found})
	}
	refused, err := braked(ctx, s)
	if err != nil {
		return nil, err
	}
	out = append(out, refused...)
	st, err := ReadState(ctx, s)
	if err != nil {
		return nil, err
	}
	if found := st.findings(); len(found) > 0 {
		n := st.Last.Found
		if st.Now != nil {
			n += st.Now.Found
		}
		out = append(out, Alarm{AlarmScrub, fmt.Sprintf("%d things are not as they were stored: %s", n, first(found)),
			"run spool fsck --repair", n})
	}
	return out, nil
}

// braked is what the report of the last cycle of gc says of its brakes, but for those that alarms are themselves.
func braked(ctx context.Context, s Store) (out []Alarm, err error) {
	rs, err := s.Records(ctx, events.GCReportKey)
	if err != nil || !rs[0].Exists() {
		return nil, err
	}
	var r struct {
		Brakes []struct{ Brake, Why string }
	}
	if json.Unmarshal(rs[0].Value, &r) != nil { // whoever reads reports says so
		return nil, nil
	}
	for _, b := range r.Brakes {
		if b.Brake != "damage" {
			out = append(out, Alarm{AlarmGC, "gc deletes nothing: " + b.Why,
				"look what has happened; to go on nevertheless: spool gc --apply --allow " + b.Brake, 1})
		}
	}
	return out, nil
}

// NotReady is why a store should be given nothing more until somebody has looked: a stream that nothing can replace is gone, of
// another store, or has lost what it held, and nobody has run a repair since. It reads one record, of what was found when marks
// were taken last.
func NotReady(ctx context.Context, r interface {
	Records(ctx context.Context, keys ...string) ([]record.Record, error)
}) error {
	rs, err := r.Records(ctx, events.MarksKey)
	if err != nil {
		return err
	}
	var errs []error
	for _, one := range DecodeMarks(rs[0].Value).Open() {
		derived := slices.Contains([]string{events.ItemsStream, events.GCStream, events.DeadStream}, one.Stream)
		if one.How != WentBack && !derived && !one.Repaired {
			errs = append(errs, fmt.Errorf("%s: %s", one, one.Done))
		}
	}
	return errors.Join(errs...)
}

func first(all []Finding) string {
	if len(all) == 0 {
		return ""
	}
	return all[0].Record + ": " + all[0].Detail
}

// ErrUnsearched: records were lost, and whoever looked did not look for what no record names any more.
var ErrUnsearched = errors.New("records were lost, and what they named was not searched for")

// Cleared is told when fsck has looked at everything and found nothing: what was found before is mended. searched: it looked
// for what no record names, too, because records had been lost; without, such a loss stands, and the error is
// ErrUnsearched.
func Cleared(ctx context.Context, s Store, searched bool) error {
	why, err := RecordsLost(ctx, s)
	if err != nil {
		return err
	}
	if why != "" && !searched {
		return fmt.Errorf("%w: %s", ErrUnsearched, why)
	}
	if err := forgetRewinds(ctx, s, searched); err != nil {
		return err
	}
	rs, err := s.Records(ctx, events.HeadsKey, events.ScrubKey)
	if err != nil {
		return err
	}
	heads, st := HeadsReport{}, State{}
	if json.Unmarshal(rs[0].Value, &heads) == nil && heads.Found > 0 {
		heads.Found, heads.Findings = 0, nil
		if _, err := heads.store(ctx, s, rs[0].Seq); err != nil {
			return err
		}
	}
	if json.Unmarshal(rs[1].Value, &st) == nil && len(st.findings()) > 0 {
		st.Last.Found, st.Last.Findings, st.rev = 0, []Finding{}, rs[1].Seq
		if st.Now != nil {
			st.Now.Found, st.Now.Findings = 0, []Finding{}
		}
		return st.store(ctx, s)
	}
	return nil
}
