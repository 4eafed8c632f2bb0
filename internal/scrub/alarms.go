package scrub

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"spool/pkg/events"
)

// The kinds of alarms.
const (
	AlarmLost   = "lost"   // a server says that it has lost messages of a stream
	AlarmRewind = "rewind" // a stream went back
	AlarmHeads  = "heads"  // a head does not resolve
	AlarmScrub  = "scrub"  // bytes are not what was stored
)

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
	states, err := s.StreamStates(ctx)
	if err != nil {
		return nil, err
	}
	marks, err := ReadMarks(ctx, s)
	if err != nil {
		return nil, err
	}
	for _, st := range states {
		if st.Lost > marks.Lost[st.Stream] {
			out = append(out, Alarm{AlarmLost, fmt.Sprintf("the server has lost %d messages of %s, %d bytes", st.Lost, st.Stream, st.LostBytes),
				"run spool fsck --repair; look at the server's log and its disk", st.Lost})
		}
	}
	for _, r := range marks.Open() {
		out = append(out, Alarm{AlarmRewind, fmt.Sprintf("%s (found %s)", r, time.Unix(0, r.Found).UTC().Format(time.RFC3339)), r.Done + "; a clean spool fsck clears this", 1})
	}
	heads, _, err := readHeads(ctx, s)
	if err != nil {
		return nil, err
	}
	if heads.Found > 0 {
		out = append(out, Alarm{AlarmHeads, fmt.Sprintf("%d of %d heads do not resolve: %s", heads.Found, heads.Heads, first(heads.Findings)), "run spool fsck --repair", heads.Found})
	}
	st, err := ReadState(ctx, s)
	if err != nil {
		return nil, err
	}
	if found := st.findings(); len(found) > 0 {
		n := st.Last.Found
		if st.Now != nil {
			n += st.Now.Found
		}
		out = append(out, Alarm{AlarmScrub, fmt.Sprintf("%d things are not as they were stored: %s", n, first(found)), "run spool fsck --repair", n})
	}
	return out, nil
}

func first(all []Finding) string {
	if len(all) == 0 {
		return ""
	}
	return all[0].Record + ": " + all[0].Detail
}

// Cleared is told when fsck has looked at everything and found nothing: what was found before is mended.
func Cleared(ctx context.Context, s Store) error {
	if err := Clear(ctx, s); err != nil {
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
