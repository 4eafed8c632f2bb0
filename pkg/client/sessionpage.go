package client

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"spool/internal/family"
	"spool/internal/natsio"
	"spool/internal/record"
	"spool/internal/shortid"
	"spool/pkg/events"
	"spool/pkg/sessions"
	"spool/pkg/threads"
)

// SessionQuery chooses a page of sessions.
type SessionQuery struct {
	sessions.Query // Limit: at least 1

	Prefix string               // of the id, letter case aside
	Only   func(id string) bool // nil: all; of the others nothing is read but their heads
	Among  []string             // nil: all; else of these alone: what a page costs goes by their number
	Since  time.Time            // those whose newest entry is older end the list; zero: none does
	After  string               // Next of the page before; "": the first page
	Keep   func(Session) bool   // nil: all
	Most   int                  // records to look at, where those have fewer sessions than the page; 0: all
}

// SessionPage is some sessions, the newest first. Next leads to the following ones, "" where there are none.
type SessionPage struct {
	Sessions []Session
	Next     string
	Back     time.Time // where the query's Most ended the page: all that was stored since is on it, or on those before
}

// ErrPlace: a SessionQuery's After is no SessionPage's Next.
var ErrPlace = family.Invalid.New("no place in a list of sessions")

// SessionPage lists sessions in the order of sessions.List, by blocks: of some 20,000 heads that were stored last, the sessions whose
// entries are newest come first, and behind all of them those of the 20,000 heads that were stored before. So where sessions are as new
// as their events were when they came, the order is that of all, and a page costs what it shows: it ends where nothing that was stored
// before can be newer. Entries that are older than their events, as of an import or a restore, make it read its block. What a query
// passes over is read, too, up to its Most, which ends the block.
//
// A session that moves while its list is read page by page goes to the front: whoever goes on does not see it again. None is left out
// that stays where it is, and none comes twice. Where more than 20,000 heads are stored anew meanwhile whose entries are older than those
// that were shown, some of their sessions come no more until the list begins anew. How fresh it is: as Sessions.
func (c *Client) SessionPage(ctx context.Context, q SessionQuery) (page SessionPage, err error) {
	at, err := parsePlace(q.After)
	if err != nil {
		return page, err
	}
	if q.Limit < 1 {
		return page, fmt.Errorf("list %d sessions: want 1 or more", q.Limit)
	}
	if q.Among != nil {
		return c.pageAmong(ctx, q, at)
	}
	back, err := natsio.ReadBackward(ctx, c.records, 4*q.Limit, at.shown, at.floor, func(key string) bool {
		_, head := headOf(key)
		_, session := events.ParseSessionKey(key)
		return head || session
	})
	if err != nil {
		return page, err
	}
	if last := back.Last(); at.shown.Last == 0 || at.shown.Last > last { // the first page, or one of a bucket that was restored since
		at.floor, at.shown = 0, natsio.Gap{After: last, Last: last}
	}
	p := pager{c: c, q: q, at: &at, back: back, found: map[string]*candidate{}, infos: map[string]sessions.Info{}}
	if err = p.fill(ctx); err == nil {
		err = p.catchUp(ctx, &at)
	}
	if err == nil && len(p.kept) == 0 && p.more() && !p.cut { // what was found has moved, and does not belong here any more
		return c.SessionPage(ctx, q)
	}
	return p.page(), err
}

// pageAmong is a page of sessions that are named.
func (c *Client) pageAmong(ctx context.Context, q SessionQuery, at place) (page SessionPage, err error) {
	ids := slices.DeleteFunc(slices.Clone(q.Among), func(id string) bool { return q.Only != nil && !q.Only(id) })
	if page.Sessions, err = c.Internal().SessionsNamed(ctx, ids); err != nil {
		return page, err
	}
	page.Sessions = slices.DeleteFunc(page.Sessions, func(s Session) bool {
		return !q.Has(s.Info) || !shortid.Begins(s.ID, q.Prefix) || !at.before(s.Row()) || q.Keep != nil && !q.Keep(s)
	})
	return page.With(SessionPage{}, q.Limit), nil
}

// With is a page of the sessions of two pages that begin at the same place, as many as there may be. It ends where the first of them ends.
func (p SessionPage) With(o SessionPage, most int) SessionPage {
	end, _ := parsePlace(p.Next)
	more := o.Next != ""
	for _, s := range o.Sessions {
		switch {
		case p.Next != "" && end.before(s.Row()):
			more = false // this one comes behind it
		case !slices.ContainsFunc(p.Sessions, func(has Session) bool { return has.ID == s.ID }):
			p.Sessions = append(p.Sessions, s)
		}
	}
	slices.SortFunc(p.Sessions, func(a, b Session) int { return a.Row().Compare(b.Row()) })
	if len(p.Sessions) > most || more {
		p.Sessions, p.Back = p.Sessions[:min(most, len(p.Sessions))], time.Time{}
		last := p.Sessions[len(p.Sessions)-1].Row()
		p.Next = place{modified: last.Modified, id: last.ID}.String()
	}
	return p
}

// pager finds the sessions of a page, one block after the other. It keeps one more than the page shows, so that it knows whether there is
// one.
type pager struct {
	c    *Client
	q    SessionQuery
	at   *place // where the rest of the block begins
	back *natsio.Backward

	found map[string]*candidate    // sessions of the block, by what was read of their heads
	infos map[string]sessions.Info // what was read of sessions' records with them: some
	heads int                      // of the block
	since int                      // heads that were kept of what was stored since the first page
	kept  []listed
	cut   bool // the query's Most ended the page, or its Since
	old   bool // its Since did

	catching bool // up with what moved while the page was read
}

// candidate is a session that may belong to the page.
type candidate struct {
	id          string
	now, former int64           // the newest entry that its heads tell of, and of its former generations
	heads       []record.Record // those that were read, the newest first
	taken       bool            // it is kept, or does not belong here
}

// newest is where the newest of its heads is.
func (c *candidate) newest() uint64 { return c.heads[0].Seq }

// row is what the order of a listing goes by.
func (c *candidate) row() sessions.Row {
	return sessions.Row{Info: sessions.Info{ID: c.id}, Modified: cmp.Or(c.now, c.former)}
}

// listed is a session of the page, and the block that it is of.
type listed struct {
	Session
	by *candidate
	at *place
}

// compare is the order of pages: the blocks that were stored last first.
func (l listed) compare(o listed) int {
	return cmp.Or(cmp.Compare(o.at.shown.After, l.at.shown.After), l.by.row().Compare(o.by.row()))
}

// blockHeads is of how many heads the sessions are put in order: so much a page may have to read, and to hold in memory.
var blockHeads = 20_000

// mostAtOnce is how many sessions are read at once.
const mostAtOnce = 500

func (p *pager) full() bool { return len(p.kept) > p.q.Limit }

// wants reports whether a session would be on the page.
func (p *pager) wants(c *candidate) bool {
	return !p.full() || listed{by: c, at: p.at}.compare(p.kept[len(p.kept)-1]) < 0
}

// fill reads blocks until there are as many sessions as the page wants. What is newer than all that is not read yet is in its place at
// once: an entry is no newer than its event, and that no newer than the head.
func (p *pager) fill(ctx context.Context) error {
	for more := true; more && !p.full(); {
		heads, goesOn, err := p.back.Window(ctx, max(p.q.Most-p.back.Looked(), 0))
		if err != nil {
			return err
		}
		more = goesOn
		p.add(heads)
		unread := p.back.Unread()
		old := !p.back.Before().IsZero() && p.back.Before().Before(p.q.Since)
		enough := old || p.q.Most > 0 && p.back.Looked() >= p.q.Most && unread < p.at.shown.Last // what was stored since the page before was read
		whole := !more || unread <= p.at.floor
		if p.at.floor == 0 {
			whole = whole || enough || p.heads >= blockHeads
		}
		if !whole {
			if before := p.back.Before(); !before.IsZero() {
				err = p.settle(ctx, before.UnixMilli())
			}
		} else {
			p.at.floor = unread
			if err = p.settle(ctx, math.MinInt64); err == nil && more && !p.full() {
				p.cut, p.old = enough, old
				p.next()
			}
			more = more && !p.cut
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// mostSince is how many heads a page keeps of what was stored since the first one and is not newer than what was shown.
var mostSince = 20_000

// add notes which sessions some heads are of, and what sessions' records say.
func (p *pager) add(rs []record.Record) {
	for _, r := range rs {
		t, ok := headOf(r.Key)
		if !ok {
			t.Session, _ = events.ParseSessionKey(r.Key)
		}
		if r.Seq <= p.at.shown.Last && ok {
			p.heads++
		}
		if !shortid.Begins(t.Session, p.q.Prefix) || p.q.Only != nil && !p.q.Only(t.Session) {
			continue
		}
		if !ok {
			if _, newer := p.infos[t.Session]; !newer && len(p.infos) < 2*blockHeads {
				p.infos[t.Session] = infoOf(t.Session, r)
			}
			continue
		}
		of := candidate{id: t.Session}
		if head, err := threads.DecodeHead(r.Value); err == nil && events.FormerOf(t) == "" {
			of.now = head.Updated
		} else if err == nil {
			of.former = head.Updated
		}
		if r.Seq > p.at.shown.Last && !p.catching {
			if !p.at.before(of.row()) || p.since >= mostSince { // at the front, where its session is, too
				continue
			}
			p.since++
		}
		c := p.found[t.Session]
		if c == nil {
			c = &candidate{id: t.Session}
			p.found[c.id] = c
		}
		c.heads = append(c.heads, r)
		c.now, c.former = max(c.now, of.now), max(c.former, of.former)
	}
}

// headOf is the thread whose head has that key.
func headOf(key string) (t events.Thread, ok bool) {
	if t, ok = events.ParseHeadKey(key); !ok {
		t, _, ok = events.ParseHistoryKey(key)
	}
	return t, ok
}

// settle reads those sessions of the block that the page wants, of those that are newer than a time.
func (p *pager) settle(ctx context.Context, before int64) error {
	var list []*candidate
	for _, c := range p.found {
		switch row := c.row(); {
		case c.taken || row.Modified <= before:
		case row.Modified < p.q.Since.UnixMilli():
			c.taken = true
		case p.at.before(row), p.at.id == below && c.newest() <= p.at.shown.Last:
			list = append(list, c)
		default:
			c.taken = true // it was shown, or went to the front
		}
	}
	slices.SortFunc(list, func(a, b *candidate) int { return a.row().Compare(b.row()) })
	for further := 1; len(list) > 0 && p.wants(list[0]); { // where many are passed over, more at a time
		before, n := len(p.kept), min(max(p.q.Limit+1-len(p.kept), further), mostAtOnce, len(list))
		if err := p.look(ctx, list[:n]); err != nil {
			return err
		}
		if further = 1; len(p.kept) < before+n {
			further = 2 * n
		}
		list = list[n:]
	}
	return nil
}

// look reads sessions, and keeps those that belong to the page.
func (p *pager) look(ctx context.Context, some []*candidate) error {
	infos, err := p.infosOf(ctx, some)
	if err != nil {
		return err
	}
	var seen []record.Record
	for _, c := range some {
		if info, ok := infos[c.id]; ok && !p.q.Has(info) {
			delete(infos, c.id)
		} else if ok && !p.catching {
			seen = append(seen, c.heads...)
		}
	}
	if p.q.Keep != nil && !p.catching { // what it passes over may be many: names are asked for of what it keeps
		read, _, err := p.c.sessionsOf(ctx, infos, seen, true)
		if err != nil {
			return err
		}
		for _, s := range read {
			if !p.q.Keep(s) {
				delete(infos, s.ID)
			}
		}
	}
	all, seqs, err := p.c.sessionsOf(ctx, infos, seen, false)
	if err != nil {
		return err
	}
	of := make(map[string]Session, len(all))
	for _, s := range all {
		of[s.ID] = s
	}
	for _, c := range some {
		c.taken = true
		if s, ok := of[c.id]; ok && p.belongs(s, seqs[c.id]) {
			if c.newest() > p.at.shown.Last { // of its other heads nothing was read
				c.now = events.MillisOf(s.Updated())
			}
			p.keep(listed{s, c, p.at})
		}
	}
	return nil
}

// infosOf gives what the records of sessions say; it asks for those alone that were not read.
func (p *pager) infosOf(ctx context.Context, some []*candidate) (map[string]sessions.Info, error) {
	var unread []string
	for _, c := range some {
		if _, ok := p.infos[c.id]; !ok {
			unread = append(unread, c.id)
		}
	}
	infos, err := p.c.infosOf(ctx, unread)
	if err != nil {
		return nil, err
	}
	for _, c := range some {
		if info, ok := p.infos[c.id]; ok {
			infos[c.id] = info
		}
	}
	return infos, nil
}

// belongs reports whether a session is one of the page, by where its heads are.
func (p *pager) belongs(s Session, seqs []uint64) bool {
	for _, seq := range seqs {
		if p.at.shown.After < seq && seq <= p.at.shown.Last || seq > p.at.shown.Last && !p.at.before(s.Row()) {
			return false
		}
	}
	return !slices.ContainsFunc(p.kept, func(l listed) bool { return l.ID == s.ID }) && (p.q.Keep == nil || p.q.Keep(s))
}

// keep puts a session in its place on the page.
func (p *pager) keep(l listed) {
	i, _ := slices.BinarySearchFunc(p.kept, l, listed.compare)
	p.kept = slices.Insert(p.kept, i, l)
	if most := p.q.Limit + 1; len(p.kept) > most {
		p.kept[most].by.taken = false
		p.kept = p.kept[:most]
	}
}

// below is a place's id before the first session of a block.
const below = "-"

// next begins the block below. What is stored anew meanwhile was shown if its entries are newer than all that was not read yet.
func (p *pager) next() {
	at := place{modified: p.at.modified, id: below, shown: natsio.Gap{After: p.at.floor, Last: p.back.Last()}}
	if before := p.back.Before(); !before.IsZero() && (p.at.id == "" || before.UnixMilli() < at.modified) {
		at.modified = before.UnixMilli() + 1
	}
	p.at, p.heads = &at, 0
	clear(p.found)
	clear(p.infos)
}

// catchUp puts on the page, which begins there, what moved while it was read.
func (p *pager) catchUp(ctx context.Context, begin *place) error {
	moved, err := p.back.Moved(ctx)
	if err != nil || len(moved) == 0 {
		return err
	}
	at, found := p.at, p.found
	p.at, p.found, p.infos, p.catching = begin, map[string]*candidate{}, map[string]sessions.Info{}, true
	p.add(moved)
	p.kept = slices.DeleteFunc(p.kept, func(l listed) bool { return p.found[l.ID] != nil })
	if err = p.again(ctx); err == nil {
		err = p.settle(ctx, math.MinInt64)
	}
	p.at, p.found = at, found
	return err
}

// again reads those of the page once more whose records moved without a head: what was read of their threads may be of before and of after.
func (p *pager) again(ctx context.Context) error {
	var ids []string
	for _, l := range p.kept {
		if _, ok := p.infos[l.ID]; ok {
			ids = append(ids, l.ID)
		}
	}
	now, err := p.c.sessionsNamed(ctx, ids)
	for _, s := range now {
		i := slices.IndexFunc(p.kept, func(l listed) bool { return l.ID == s.ID })
		p.kept[i].Session = s
	}
	return err
}

// more reports whether there may be sessions beside those that are kept, or on the next page.
func (p *pager) more() bool {
	if p.full() || p.back.Unread() > 0 {
		return true
	}
	for _, c := range p.found {
		if !c.taken {
			return true
		}
	}
	return false
}

// page is what was found, and where the next one begins.
func (p *pager) page() (page SessionPage) {
	more, full := p.more(), p.full()
	if full {
		p.kept[p.q.Limit].by.taken = false
		p.kept = p.kept[:p.q.Limit]
	}
	for _, l := range p.kept {
		page.Sessions = append(page.Sessions, l.Session)
	}
	switch {
	case p.old && !full: // the list ends
	case more && p.cut && !full:
		page.Back, page.Next = p.back.Before(), p.at.String()
	case more && len(p.kept) > 0:
		last := p.kept[len(p.kept)-1]
		next := *last.at
		next.modified, next.id = last.by.row().Modified, last.ID
		if last.at == p.at {
			next.shown = p.shown()
		}
		if last.at == p.at && 0 < next.floor && next.floor == next.shown.After { // the block has no other
			p.next()
			next = *p.at
		}
		page.Next = next.String()
	}
	return page
}

// shown is which records have only sessions that were shown or went to the front, of those that were read.
func (p *pager) shown() natsio.Gap {
	gap := natsio.Gap{After: p.back.Unread(), Last: p.back.Last()}
	if gap.After >= p.at.shown.Last { // nothing was read but what was stored since the page before
		return p.at.shown
	}
	for _, c := range p.found {
		if c.taken {
			continue
		}
		for _, r := range c.heads {
			if r.Seq > p.at.shown.Last {
				gap.Last = p.at.shown.Last
			} else {
				gap.After = max(gap.After, r.Seq)
			}
		}
	}
	return gap
}
