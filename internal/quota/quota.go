// Package quota bounds how fast entries are stored over HTTP: by a session, by a user, with a token. Each of them may
// store so many entries and bytes a second, and may be ahead by what one second gives. A token may store to so many
// sessions in an hour.
//
// What is taken is paid for as time goes by. Whoever has paid may take anything, also more than a second gives: it pays
// for that before it takes again. So a large entry is not refused for ever, and who is refused knows when to come
// again.
package quota

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"spool/internal/text"
)

// Rate is what may be stored in a second; 0 = any number.
type Rate struct{ Entries, Bytes int64 }

// ParseRate reads entries, bytes or both, as in "200/s,4MiB/s"; "" is no bound.
func ParseRate(s string) (r Rate, err error) {
	for part := range strings.SplitSeq(s, ",") {
		if s == "" {
			break
		}
		n, bare, err := text.ParseBytes(strings.TrimSuffix(strings.TrimSpace(part), "/s"))
		if err != nil || n == 0 {
			return Rate{}, fmt.Errorf("%q is no rate: use entries a second, bytes a second or both, as in 200/s,4MiB/s", s)
		}
		if bare {
			r.Entries = n
		} else {
			r.Bytes = n
		}
	}
	return r, nil
}

// Rates are the quotas: of each session, each user, each token.
type Rates struct {
	Session, User, Token Rate
	Sessions             int // that a token stores to in an hour; 0 = any number
}

// kind of a quota: what it is of.
type kind int

const (
	session kind = iota
	user
	token
	kinds
)

// unit of a quota: what it counts.
type unit int

const (
	entries unit = iota
	bytes
	units
)

// names of quotas, as metrics and refusals have them.
var names = [kinds][units]string{
	{"session_entries", "session_bytes"}, {"user_entries", "user_bytes"}, {"token_entries", "token_bytes"},
}

// tokenSessions is the quota of the sessions of a token.
const tokenSessions = "token_sessions"

// Use is what is to be stored, and by whom. A name that is empty has no quota. A user is one of a token: it is what the
// token's holder says.
type Use struct {
	Session, User, Token string
	Entries, Bytes       int64
}

// Refused is the refusal of what is beyond a quota.
type Refused struct {
	Quota string        // as metrics have it
	Limit int64         // a second, or an hour
	After time.Duration // when to try again

	of string // whose quota it is
}

func (r *Refused) Error() string {
	_, what, _ := strings.Cut(r.Quota, "_")
	per := "a second"
	if r.Quota == tokenSessions {
		per = "an hour"
	}
	return fmt.Sprintf("more than the quota of %s, %d %s %s: try again in %d s", r.of, r.Limit, what, per, r.Seconds())
}

// Seconds is After in whole seconds, at least 1.
func (r *Refused) Seconds() int { return max(1, int(math.Ceil(r.After.Seconds()))) }

// Limiter keeps the quotas of one process. nil: there are none. Safe for concurrent use.
type Limiter struct {
	rates   [kinds][units]int64
	refused [kinds][units]atomic.Int64

	sessions        int // of a token in an hour
	refusedSessions atomic.Int64

	mu    sync.Mutex
	owed  map[owner]*account // of those that have something to pay
	sweep int                // how many there are when those that have paid are looked for
	hours map[string]*hour   // by token
}

// hour is the sessions that a token has stored to in an hour.
type hour struct {
	ends  time.Time
	names map[string]bool
}

// owner is who has a quota.
type owner struct {
	kind kind
	name string // of a user: the token's, a zero byte and its own
}

// account is when an owner will have paid for what it took.
type account [units]time.Time

// New makes the quotas; nil if there are none.
func New(r Rates) *Limiter {
	if r == (Rates{}) {
		return nil
	}
	l := &Limiter{owed: map[owner]*account{}, sweep: fewOwners, sessions: r.Sessions, hours: map[string]*hour{}}
	for k, rate := range map[kind]Rate{session: r.Session, user: r.User, token: r.Token} {
		l.rates[k] = [units]int64{rate.Entries, rate.Bytes}
	}
	return l
}

// ahead is how much one may take before it pays: what so much time gives. longest is what anybody has to pay for at
// most.
const (
	ahead     = time.Second
	longest   = 24 * time.Hour
	fewOwners = 1024
)

// Take takes all of it or nothing. wait is for how long whoever has taken it must wait before it stores it, which is 0
// or up to patience. An error is a *Refused.
func (l *Limiter) Take(now time.Time, patience time.Duration, all ...Use) (wait time.Duration, err error) {
	if l == nil {
		return 0, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	cost := l.costs(all)
	var worst owner
	var of unit
	for who := range cost {
		if a := l.owed[who]; a != nil {
			for n := range a {
				if may := now.Add(ahead + wait); a[n].After(may) {
					wait, worst, of = a[n].Sub(now)-ahead, who, unit(n)
				}
			}
		}
	}
	if wait > patience {
		l.refused[worst.kind][of].Add(1)
		return 0, &Refused{names[worst.kind][of], l.rates[worst.kind][of], wait, worst.String()}
	}
	if err := l.visit(now, all); err != nil {
		l.refusedSessions.Add(1)
		return 0, err
	}
	for who, n := range cost {
		l.pay(who, n, now)
	}
	return wait, nil
}

// costs are what each owner has to pay.
func (l *Limiter) costs(all []Use) map[owner][units]int64 {
	cost := map[owner][units]int64{}
	for _, u := range all {
		l.add(cost, owner{session, u.Session}, u)
		l.add(cost, owner{token, u.Token}, u)
		if u.User != "" {
			l.add(cost, owner{user, u.Token + "\x00" + u.User}, u)
		}
	}
	return cost
}

// Give gives back what was taken for what is not stored after all.
func (l *Limiter) Give(all ...Use) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for who, n := range l.costs(all) {
		if a := l.owed[who]; a != nil {
			for n, takes := range l.takes(who, n) {
				a[n] = a[n].Add(-takes)
			}
		}
	}
}

// takes is how long what an owner stores takes at its rates.
func (l *Limiter) takes(who owner, cost [units]int64) (all [units]time.Duration) {
	for n, limit := range l.rates[who.kind] {
		if limit > 0 {
			all[n] = time.Duration(min(float64(cost[n])/float64(limit)*float64(time.Second), float64(longest)))
		}
	}
	return all
}

// visit notes the sessions that tokens store to, or refuses those beyond a token's quota.
func (l *Limiter) visit(now time.Time, all []Use) error {
	if l.sessions == 0 {
		return nil
	}
	var noted []Use
	for _, u := range all {
		if u.Session == "" || u.Entries == 0 {
			continue
		}
		h := l.hours[u.Token]
		if h == nil || !now.Before(h.ends) {
			h = &hour{now.Add(time.Hour), map[string]bool{}}
			l.hours[u.Token] = h
		}
		if h.names[u.Session] {
			continue
		}
		if len(h.names) >= l.sessions {
			for _, n := range noted {
				delete(l.hours[n.Token].names, n.Session)
			}
			return &Refused{tokenSessions, int64(l.sessions), h.ends.Sub(now), owner{token, u.Token}.String()}
		}
		h.names[u.Session], noted = true, append(noted, u)
	}
	return nil
}

// add adds what a use costs one of its owners.
func (l *Limiter) add(cost map[owner][units]int64, who owner, u Use) {
	if who.name != "" && l.rates[who.kind] != [units]int64{} {
		n := cost[who]
		n[entries], n[bytes] = n[entries]+u.Entries, n[bytes]+u.Bytes
		cost[who] = n
	}
}

func (l *Limiter) pay(who owner, cost [units]int64, now time.Time) {
	a := l.owed[who]
	if a == nil {
		if cost == [units]int64{} {
			return
		}
		l.forgetPaid(now)
		a = &account{}
		l.owed[who] = a
	}
	for n, takes := range l.takes(who, cost) {
		if takes == 0 {
			continue
		}
		if a[n].Before(now) {
			a[n] = now
		}
		a[n] = a[n].Add(min(takes, max(0, longest-a[n].Sub(now))))
	}
}

// forgetPaid drops who has paid, when there are twice as many as the last time.
func (l *Limiter) forgetPaid(now time.Time) {
	if len(l.owed) < l.sweep {
		return
	}
	for who, a := range l.owed {
		if !a[entries].After(now) && !a[bytes].After(now) {
			delete(l.owed, who)
		}
	}
	l.sweep = max(fewOwners, 2*len(l.owed))
}

// String names an owner to the one that is refused.
func (o owner) String() string {
	switch o.kind {
	case session:
		return "the session " + o.name
	case user:
		_, name, _ := strings.Cut(o.name, "\x00")
		return "the user " + name
	}
	return "the token " + o.name
}

// Refused is how many requests were refused so far; of nil, none.
func (l *Limiter) Refused() (n int64) {
	if l == nil {
		return 0
	}
	for _, some := range l.Refusals() {
		n += some
	}
	return n
}

// Refusals counts what was refused, by quota.
func (l *Limiter) Refusals() map[string]int64 {
	out := map[string]int64{tokenSessions: l.refusedSessions.Load()}
	for k := range names {
		for n, name := range names[k] {
			out[name] = l.refused[k][n].Load()
		}
	}
	return out
}

// Batch is how much of a stream is best stored at a time, so that nobody is ahead for long; 0 = any number.
func (l *Limiter) Batch() (most Rate) {
	if l == nil {
		return most
	}
	for _, rate := range l.rates {
		most.Entries, most.Bytes = least(most.Entries, rate[entries]), least(most.Bytes, rate[bytes])
	}
	return most
}

// least is the smaller one of those that are not 0.
func least(a, b int64) int64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// Wait is Take, and the waiting. The error may be the context's.
func (l *Limiter) Wait(ctx context.Context, patience time.Duration, all ...Use) error {
	wait, err := l.Take(time.Now(), patience, all...)
	if err != nil || wait == 0 {
		return err
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		l.Give(all...)
		return context.Cause(ctx)
	}
}
