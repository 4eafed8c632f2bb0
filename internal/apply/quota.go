package apply

import (
	"cmp"
	"fmt"
)

// Limits is how much a session may have, and a user; 0 = any number. All who apply a session's events need the same ones.
type Limits struct {
	Threads   int64 // that it has, ended ones too, and removed ones not
	Producers int64 // that were ever new to one of its threads, but for the ephemeral ones, of which a head keeps few
	Sessions  int64 // of a user: those that it began, and that are there. Who says no user has no such limit
}

// DefaultLimits stop a flood, and nothing else.
var DefaultLimits = Limits{Threads: 10_000, Producers: 100_000}

// WithDefaults is the limits with a default for each that is 0; negative: any number.
func (l Limits) WithDefaults() Limits {
	return Limits{
		cmp.Or(l.Threads, DefaultLimits.Threads), cmp.Or(l.Producers, DefaultLimits.Producers),
		cmp.Or(l.Sessions, DefaultLimits.Sessions),
	}
}

const sessionsQuota = "sessions"

// BeyondError is the refusal of an event that would bring its session, or its user, more than it may have. The session's
// record counts (sessions.Info), so that an event that comes again is judged as it was.
type BeyondError struct {
	Quota string // "threads", "producers" or "sessions"
	Limit int64
	User  string // who has the sessions
}

func (e *BeyondError) Error() string {
	if e.Quota == sessionsQuota {
		return fmt.Sprintf("beyond the quota of the user %s, who has %d sessions, the most that a user may have", e.User, e.Limit)
	}
	return fmt.Sprintf("beyond the quota of its session, which has %d %s, the most that it may have", e.Limit, e.Quota)
}

// overSessions reports whether the user of an event has as many sessions as it may.
func (d *draft) overSessions() bool {
	limit := d.st.Rules.Limits.Sessions
	return limit > 0 && d.e.User != "" && d.st.UserSessions >= limit
}

// count counts what an event brings its session, or refuses that.
func (d *draft) count() error {
	if !d.Noted {
		return nil
	}
	info := &d.st.Session.Info
	if d.Info != nil {
		info = d.Info
	}
	now := *info
	if d.newcomer {
		now.Producers++
	}
	switch {
	case d.Leaves != nil && d.Leaves.To == "":
		now.Threads = max(0, now.Threads-1)
	case d.st.Head.Start.IsZero() && !d.Head.Start.IsZero():
		now.Threads++
	}
	if !d.st.Session.Stored && info.Threads == 0 && now.Threads > 0 {
		if now.User = d.e.User; d.overSessions() {
			return &BeyondError{sessionsQuota, d.st.Rules.Limits.Sessions, now.User}
		}
		d.Begins = true
	}
	if now == *info {
		return nil
	}
	for _, one := range []struct {
		name           string
		was, is, limit int64
	}{
		{"threads", info.Threads, now.Threads, d.st.Rules.Limits.Threads},
		{"producers", info.Producers, now.Producers, d.st.Rules.Limits.Producers},
	} {
		if one.is > one.was && one.limit > 0 && one.is > one.limit {
			return &BeyondError{Quota: one.name, Limit: one.limit}
		}
	}
	d.info = now
	d.Info = &d.info
	return nil
}
