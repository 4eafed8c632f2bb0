package main

import (
	"context"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"spool/internal/natsadmin"
	"spool/internal/natsio"
	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/sessions"
)

// lookout looks at a fleet again and again, and remembers what rates need, and the sessions that it read. A look reads those of them that
// changed since the look before, and some that it does not know yet: so it costs what happens, not what there is.
type lookout struct {
	conn   *natsio.Conn
	client *client.Client
	most   int // sessions that are kept: the newest, and as many others that need somebody; 0: all
	step   int // how many of either a look reads that it did not know
	last   *fleet

	mark   client.Mark // everything that is kept is as new
	front  map[string]client.Session
	others map[string]client.Session // that need somebody, or run; one that is not there is the zero one
	behind string                    // leads to the newest that are not kept; "": there are none
	cut    bool                      // some that come before those are not kept either
}

// A look for a screen reads a screen full of sessions at a time, until it has many: a store may have a million.
const (
	screenful   = 50
	mostWatched = 1000
)

// newest reads those sessions again that changed, and more of the newest.
func (l *lookout) newest(ctx context.Context) error {
	if l.most == 0 {
		list, err := l.client.Sessions(ctx, "")
		l.front, l.others = nil, nil
		l.keep(list)
		return err
	}
	changed, mark, known, err := l.client.Internal().SessionsChanged(ctx, l.mark)
	if err != nil {
		return err
	}
	step := l.step
	if known = known && len(changed) <= l.most; known {
		now, err := l.client.Internal().SessionsNamed(ctx, changed)
		if err != nil {
			return err
		}
		for _, id := range changed {
			delete(l.front, id)
			delete(l.others, id)
		}
		l.keep(now)
		known = !l.cut || len(l.front)*10 >= l.most*9
	}
	if !known { // begin anew, with as many as are shown
		step = max(step, len(l.front))
		l.mark, l.front, l.others, l.behind, l.cut = client.Mark{}, nil, nil, "", false
	}
	if left := l.most - len(l.front); left > 0 && (!known || l.behind != "" && !l.cut) {
		page, err := l.client.SessionPage(ctx, client.SessionQuery{
			Query: sessions.Query{Unanswered: true, Limit: min(step, left)}, After: l.behind,
		})
		if err != nil {
			return err
		}
		l.behind = page.Next
		l.keep(page.Sessions)
	}
	l.mark = mark
	return nil
}

// keep puts sessions among the newest.
func (l *lookout) keep(list []client.Session) {
	if l.front == nil {
		l.front, l.others = map[string]client.Session{}, map[string]client.Session{}
	}
	for _, s := range list {
		l.front[s.ID] = s
		delete(l.others, s.ID)
	}
	if l.most == 0 || len(l.front) <= l.most {
		return
	}
	rows := make([]sessions.Row, 0, len(l.front))
	for _, s := range l.front {
		rows = append(rows, s.Row())
	}
	slices.SortFunc(rows, sessions.Row.Compare)
	for _, r := range rows[l.most:] {
		delete(l.front, r.ID)
		l.cut = true
	}
}

// needy reads sessions that are not among the newest and need somebody, or run: those that ask first.
func (l *lookout) needy(ctx context.Context, f *fleet) error {
	wanted, unread := map[string]bool{}, []string{}
	want := func(id string) {
		_, front := l.front[id]
		if front || wanted[id] || len(wanted) >= l.most {
			return
		}
		wanted[id] = true
		if _, known := l.others[id]; !known && len(unread) < l.step {
			unread = append(unread, id)
		}
	}
	for _, p := range f.prompts {
		want(p.Thread.Session)
	}
	for _, r := range f.runs {
		if r.Active() {
			want(r.Thread.Session)
		}
	}
	maps.DeleteFunc(l.others, func(id string, _ client.Session) bool { return !wanted[id] })
	found, err := l.client.Internal().SessionsNamed(ctx, unread)
	if err != nil {
		return err
	}
	for _, id := range unread {
		l.others[id] = client.Session{}
	}
	for _, s := range found {
		l.others[s.ID] = s
	}
	return nil
}

// list is what is known of the fleet.
func (l *lookout) list() []client.Session {
	list := slices.AppendSeq(slices.Collect(maps.Values(l.front)), maps.Values(l.others))
	return slices.DeleteFunc(list, func(s client.Session) bool { return s.ID == "" })
}

// look asks everything at once. It reads records, never threads.
func (l *lookout) look(ctx context.Context) (fleet, error) {
	f := fleet{at: time.Now(), ends: map[string]int64{}}
	outer := ctx
	all, ctx := errgroup.WithContext(ctx)
	all.Go(func() error { return l.newest(ctx) })
	all.Go(func() (err error) { f.prompts, err = l.client.EverySession().Prompts(ctx); return err })
	all.Go(func() (err error) { f.runs, err = l.client.EverySession().Runs(ctx); return err })
	all.Go(func() (err error) { f.backlog, err = l.conn.Events().Backlog(ctx); return err })
	all.Go(func() (err error) {
		f.seqs, err = l.conn.Streams().LastSeqs(ctx, events.EventsStream, events.ItemsStream)
		return err
	})
	all.Go(func() error {
		usage, err := natsadmin.New(l.conn).Usage(ctx)
		for _, u := range usage {
			switch {
			case u.Stream == events.EventsStream && u.Limit > 0:
				f.full = float64(u.Bytes) / float64(u.Limit)
			case u.Stream == events.DeadStream:
				f.dead = u.Messages
			}
		}
		return err
	})
	if err := all.Wait(); err != nil {
		return f, err
	}
	if err := l.needy(outer, &f); err != nil {
		return f, err
	}
	f.more = l.behind != "" || l.cut
	f.arrange(l.list(), l.last)
	l.last = &f
	return f, nil
}
