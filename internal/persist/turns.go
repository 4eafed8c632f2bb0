package persist

import (
	"maps"
	"math"
	"slices"
	"time"

	"spool/pkg/events"
)

// origin is where an event comes from: its session, and the user that published it, "" where nobody knows. An
// agent's account and whoever serves HTTP say in the event's scope that they let its publisher in; what an event
// without one says is not believed. Where everybody is let in, a user is who the event says: then it has fewer turns
// than its sessions, never more.
type origin struct{ session, user string }

func originOf(e *events.Event) origin {
	o := origin{session: e.Thread.Session}
	if e.Scope != "" {
		o.user = e.User
	}
	return o
}

// payer is who pays: the user, whatever the session, or else the session.
func (o origin) payer() origin {
	if o.user != "" {
		o.session = ""
	}
	return o
}

// user is who pays, with the sessions that wait.
type user struct {
	who   origin
	waits bool          // it is in the queue's ring
	lines []*line       // those in which events wait for which it pays next, in the order of their turns
	left  int           // of its lines, those whose turn is not over in this round
	grant time.Duration // what the round gives to each of them
	account
}

// account is what a user, or one of its sessions, may take.
type account struct {
	credit time.Duration // work that is due to it; below zero: what it got in advance
	until  time.Time     // when what it owes is written off
}

// charge takes what events took beyond the estimate. What they took less pays debts and nothing else: a turn that is
// under way would never end. Others have as much time as that before it has its next turn: as work of theirs in
// stage 1, or by the clock, whichever comes first. Stage 1 may stand still for one session, and is a small part of
// what an event takes: where stages behind it are slow, others need many times as long for the same work.
func (a *account) charge(more time.Duration, others int) {
	if more <= 0 {
		a.credit = max(a.credit, min(0, a.credit-more))
		return
	}
	a.credit -= more
	if now := time.Now(); a.until.Before(now) {
		a.until = now
	}
	a.until = a.until.Add(more * time.Duration(max(1, others)))
}

func (a *account) writeOff(now time.Time) {
	if !a.until.IsZero() && !now.Before(a.until) {
		a.credit, a.until = max(0, a.credit), time.Time{}
	}
}

// writeOff writes off what is owed for too long.
func (q *queue) writeOff(now time.Time) {
	for _, u := range q.ring {
		u.writeOff(now)
		for _, l := range u.lines {
			l.writeOff(now)
		}
	}
}

// place has a line wait for the turns of who pays for its next event.
func (q *queue) place(l *line) {
	var u *user
	if !l.empty() {
		u = q.user(l.next().from.payer())
	}
	if l.of == u {
		return
	}
	if l.of != nil {
		l.of.leave(l)
	}
	if l.of, l.turn = u, false; u == nil {
		l.events, l.head = nil, 0
		if l.credit >= 0 {
			delete(q.lines, l.session)
		}
		return
	}
	if u.lines = append(u.lines, l); !u.waits {
		u.waits, q.ring = true, append(q.ring, u)
	}
}

func (q *queue) user(who origin) *user {
	u := q.users[who]
	if u == nil {
		u = &user{who: who}
		q.users[who] = u
	}
	return u
}

// leave takes a line out.
func (u *user) leave(l *line) {
	i := slices.Index(u.lines, l)
	if i == 0 {
		u.lines[0], u.lines = nil, u.lines[1:]
	} else {
		u.lines = slices.Delete(u.lines, i, i+1)
	}
	if i < u.left {
		u.left--
	}
}

// next ends the turn of the first line.
func (u *user) next() {
	l := u.lines[0]
	l.turn = false
	u.lines[0], u.lines = nil, append(u.lines[1:], l)
	u.left--
}

// serve takes what is due to a user of its sessions, turn by turn, until pick has no room for one.
func (q *queue) serve(u *user, pick func(*line) bool) {
	for {
		if u.left <= 0 {
			u.left, u.grant = len(u.lines), q.grantOf(u)
		}
		if u.grant == 0 || len(u.lines) == 0 { // nothing can be taken now
			u.left = 0
			return
		}
		l := u.lines[0]
		if q.held(l) {
			u.next()
			continue
		}
		if !l.turn {
			l.turn = true
			l.credit += u.grant
		}
		switch work := l.next().work(); {
		case l.credit < work:
			u.next()
		case u.credit < work:
			return
		case !pick(l):
			return
		}
	}
}

// front is the line of a user from which something can be taken next; nil: there is none.
func (q *queue) front(u *user) *line {
	i := slices.IndexFunc(u.lines, func(l *line) bool { return !q.held(l) })
	if i < 0 {
		return nil
	}
	return u.lines[i]
}

// grant is what a round gives to each user, so that at least one event can be taken; 0: there is none.
func (q *queue) grant() time.Duration {
	least := time.Duration(math.MaxInt64)
	for _, u := range q.ring {
		if l := q.front(u); l != nil {
			least = min(least, l.next().work()-u.credit)
		}
	}
	return atLeastATurn(least)
}

// grantOf is what a round of a user gives to each of its sessions.
func (q *queue) grantOf(u *user) time.Duration {
	least := time.Duration(math.MaxInt64)
	for _, l := range u.lines {
		if !q.held(l) {
			least = min(least, l.next().work()-l.credit)
		}
	}
	return atLeastATurn(least)
}

func atLeastATurn(least time.Duration) time.Duration {
	if least == math.MaxInt64 {
		return 0
	}
	return max(turn, least)
}

// waiting gives the lines in which events wait.
func (q *queue) waiting(yield func(*line) bool) {
	for _, u := range q.ring {
		for _, l := range u.lines {
			if !yield(l) {
				return
			}
		}
	}
}

// tidy takes the users out of the ring of whom nothing waits. They keep what they owe, and nothing else.
func (q *queue) tidy() {
	q.ring = slices.DeleteFunc(q.ring, func(u *user) bool {
		if len(u.lines) > 0 {
			return false
		}
		u.waits, u.lines = false, nil
		if u.credit >= 0 {
			delete(q.users, u.who)
		}
		return true
	})
}

// mostIdle is how many sessions, and users, are remembered of which nothing waits.
const mostIdle = 1000

// charge says what events took beyond the estimate.
func (q *queue) charge(from origin, more time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.lines) > q.n+mostIdle {
		maps.DeleteFunc(q.lines, func(_ string, l *line) bool { return l.empty() })
	}
	if len(q.users) > q.n+mostIdle {
		maps.DeleteFunc(q.users, func(_ origin, u *user) bool { return !u.waits })
	}
	u := q.user(from.payer())
	u.charge(more, len(q.ring)-1)
	q.line(from.session).charge(more, len(u.lines)-1)
}
