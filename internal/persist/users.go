package persist

import (
	"context"
	"slices"
	"time"
)

// users counts the sessions that each user began: those that the store had when it was read, and those that this lane
// began, and deleted, since. What other persisters do counts when the store is read again. The zero value knows nothing.
type users struct {
	sessions map[string]int64
	due      time.Time // when the store is to be read again
}

// countsEvery is how long counts hold, countsShare how much of the time may go into them: one part of so many.
const (
	countsEvery = 10 * time.Second
	countsShare = 20
)

// countSessions reads the store before a batch that may begin a session, where users have a limit of them.
func (l *lane) countSessions(ctx context.Context, batch []*staged, epoch uint64) error {
	if l.p.cfg.Limits.Sessions <= 0 || l.p.Sessions == nil || time.Now().Before(l.users.due) {
		return nil
	}
	if !slices.ContainsFunc(batch, func(s *staged) bool {
		return s.known && !l.heads.sessions[s.event.Thread.Session].Stored
	}) {
		return nil
	}
	if err := l.settle(ctx, epoch); err != nil {
		return err
	}
	began := time.Now()
	n, err := asked(ctx, l.p, "count the sessions of users", func() (map[string]int64, error) {
		return l.p.Sessions.UserSessions(ctx)
	})
	if err != nil {
		return err
	}
	l.users = users{n, time.Now().Add(max(countsEvery, countsShare*time.Since(began)))}
	return nil
}

// add counts sessions of a user that begin, or are gone.
func (u *users) add(user string, n int64) {
	if u.sessions != nil {
		u.sessions[user] += n
	}
}
