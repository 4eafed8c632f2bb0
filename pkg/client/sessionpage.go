package client

import (
	"context"
	"encoding/base64"
	"fmt"
	"math"
	"slices"
	"time"

	"spool/internal/family"
	"spool/internal/mapped"
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

// SessionPage lists sessions in the order of sessions.List, and reads no more than it must to know which they are: the heads that were
// stored last, back to a time at which those of the page are newer than what was stored before. So where sessions are as new as their
// events were when they came, a page costs what it shows; entries that are older than their events, as of an import or a restore, make
// it read back to the time that the page reaches, in memory for the page alone. What a query passes over is read, too, up to its Most:
// such a page may have no session, and those behind it were stored before, but may have newer entries where entries are older than
// their events.
//
// A session that moves while its list is read page by page goes to the front: whoever goes on does not see it again. None is left out
// that stays where it is. How fresh it is: as Sessions.
func (c *Client) SessionPage(ctx context.Context, q SessionQuery) (page SessionPage, err error) {
	p := pager{c: c, q: q, passed: map[string]bool{}}
	if p.at, err = parsePlace(q.After); err != nil {
		return page, err
	}
	if q.Limit < 1 {
		return page, fmt.Errorf("list %d sessions: want 1 or more", q.Limit)
	}
	p.back, err = natsio.ReadBackward(ctx, c.records, 4*q.Limit, p.at.shown, func(key string) bool {
		_, ok := headOf(key)
		return ok
	})
	if err != nil {
		return page, err
	}
	for more := true; more && !p.done(); {
		if p.enough() {
			return p.part(), nil
		}
		var heads []record.Record
		if heads, more, err = p.back.Window(ctx); err == nil {
			err = p.take(ctx, heads)
		}
		if err != nil {
			return page, err
		}
	}
	moved, err := p.back.Moved(ctx)
	if err == nil {
		p.forget(moved)
		err = p.take(ctx, moved)
	}
	if err == nil && len(p.kept) == 0 && p.more() { // what was found has moved, and does not belong here any more
		return c.SessionPage(ctx, q)
	}
	return p.page(), err
}

// pager finds the sessions of a page. It keeps one more than the page shows, so that it knows whether there is one.
type pager struct {
	c    *Client
	q    SessionQuery
	at   place
	back *natsio.Backward

	kept   []listed        // the newest that it found behind the place
	passed map[string]bool // sessions that were looked at, and that the query or the place leaves out
	left   bool            // others were found that are not kept
	seen   []seenHead      // heads whose sessions may belong to the page, or to a later one
	many   bool            // there were too many of those
}

type listed struct {
	Session
	row sessions.Row
}

type seenHead struct {
	session string
	seq     uint64
	updated int64 // of the thread; of one that does not count by itself -1
}

// mostSeen bounds what a pager has in memory beside its page, in heads.
const mostSeen = 20_000

// full reports whether what is older than the last that is kept does not belong to the page.
func (p *pager) full() bool { return len(p.kept) > p.q.Limit }

// done reports whether nothing that is not read yet can belong to the page: an entry is no newer than its event, and that no newer than
// the head.
func (p *pager) done() bool {
	before := p.back.Before()
	return p.full() && !before.IsZero() && p.kept[len(p.kept)-1].row.Modified > before.UnixMilli()
}

// enough reports whether the query wants no more to be looked at, and all that was found is on the page.
func (p *pager) enough() bool {
	return p.q.Most > 0 && p.back.Looked() >= p.q.Most && !p.left && len(p.kept) <= p.q.Limit &&
		(p.at.shown.Last == 0 || p.back.Unread() < p.at.shown.Last) // what was stored since the page before was read
}

// part is a page of what was looked at. The next one is of what was stored before.
func (p *pager) part() (page SessionPage) {
	for _, l := range p.kept {
		page.Sessions = append(page.Sessions, l.Session)
	}
	page.Back = p.back.Before()
	next := p.at
	if last := page.Back.UnixMilli(); next.id == "" || last < next.modified {
		next.modified, next.created, next.id = last, math.MaxInt64, "-" // whatever its id
	}
	next.shown = natsio.Gap{After: p.back.Unread(), Last: p.back.Last()}
	page.Next = next.String()
	return page
}

// take finds the sessions that belong to the page among those of some heads, the newest first.
func (p *pager) take(ctx context.Context, heads []record.Record) error {
	var found []seenHead
	asked := map[string]bool{}
	for len(heads) > 0 {
		var ids []string
		for len(heads) > 0 && len(ids) <= p.q.Limit {
			h, ok := p.read(heads[0])
			if heads = heads[1:]; !ok {
				continue
			}
			found = append(found, h)
			switch {
			case asked[h.session] || p.keeps(h.session):
			case p.full() && h.updated >= 0 && h.updated < p.kept[len(p.kept)-1].row.Modified:
				p.left = true
			default:
				asked[h.session] = true
				ids = append(ids, h.session)
			}
		}
		if err := p.look(ctx, ids); err != nil {
			return err
		}
	}
	for _, h := range found {
		if !p.passed[h.session] {
			p.seen = append(p.seen, h)
		}
	}
	if p.many = p.many || len(p.seen) > mostSeen; p.many {
		p.seen = nil
	}
	if len(p.passed) > mostSeen {
		clear(p.passed)
	}
	return nil
}

// read says of which session a head is. ok is false where that one is known not to belong here.
func (p *pager) read(r record.Record) (h seenHead, ok bool) {
	t, ok := headOf(r.Key)
	if !ok || !shortid.Begins(t.Session, p.q.Prefix) || p.q.Only != nil && !p.q.Only(t.Session) || p.passed[t.Session] {
		return h, false
	}
	h = seenHead{session: t.Session, seq: r.Seq, updated: -1}
	if head, err := threads.DecodeHead(r.Value); err == nil && events.FormerOf(t) == "" {
		h.updated = head.Updated
	}
	return h, p.at.id == "" || h.updated <= p.at.modified
}

// headOf is the thread whose head has that key.
func headOf(key string) (t events.Thread, ok bool) {
	if t, ok = events.ParseHeadKey(key); !ok {
		t, _, ok = events.ParseHistoryKey(key)
	}
	return t, ok
}

func (p *pager) keeps(session string) bool {
	return slices.ContainsFunc(p.kept, func(l listed) bool { return l.ID == session })
}

// look reads sessions, and keeps those that belong to the page.
func (p *pager) look(ctx context.Context, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	infos, err := p.c.infosOf(ctx, ids)
	if err != nil {
		return err
	}
	for id, info := range infos {
		if !p.q.Has(info) {
			p.passed[id] = true
			delete(infos, id)
		}
	}
	if len(infos) == 0 {
		return nil
	}
	found, newest, err := p.c.sessionsOf(ctx, infos)
	if err != nil {
		return err
	}
	for _, s := range found {
		l := listed{s, s.Row()}
		if p.shown(newest[s.ID]) || !p.at.before(l.row) || p.q.Keep != nil && !p.q.Keep(s) {
			p.passed[s.ID] = true
			continue
		}
		i, _ := slices.BinarySearchFunc(p.kept, l, func(a, b listed) int { return a.row.Compare(b.row) })
		p.kept = slices.Insert(p.kept, i, l)
	}
	if most := p.q.Limit + 1; len(p.kept) > most {
		p.kept, p.left = slices.Delete(p.kept, most, len(p.kept)), true
	}
	return nil
}

// shown reports whether a session was looked at for a page before and has not moved since, by where its newest record is.
func (p *pager) shown(newest uint64) bool {
	return p.at.shown.After < newest && newest <= p.at.shown.Last
}

// forget lets sessions be looked at again that have moved.
func (p *pager) forget(moved []record.Record) {
	for _, m := range moved {
		session := events.SessionOf(m.Key)
		delete(p.passed, session)
		p.kept = slices.DeleteFunc(p.kept, func(l listed) bool { return l.ID == session })
	}
}

// more reports whether there may be sessions beside those that are kept, or on the next page.
func (p *pager) more() bool { return p.full() || p.left || p.back.Unread() > 0 }

// page is what was found, and where the next one begins.
func (p *pager) page() (page SessionPage) {
	more := p.more()
	p.kept = p.kept[:min(len(p.kept), p.q.Limit)]
	next := p.at
	for _, l := range p.kept {
		page.Sessions = append(page.Sessions, l.Session)
		next.modified, next.created, next.id = l.row.Modified, l.row.Created, l.row.ID
	}
	if !more || next.id == "" {
		return page
	}
	if next.shown = (natsio.Gap{}); !p.many {
		next.shown = natsio.Gap{After: p.back.Unread(), Last: p.back.Last()}
		for _, h := range p.seen {
			if h.seq <= p.back.Last() && !p.keeps(h.session) {
				next.shown.After = max(next.shown.After, h.seq)
			}
		}
	}
	page.Next = next.String()
	return page
}

// sessionsOf reads the threads of sessions of which it has the records. newest is the sequence of the last record of the threads of each.
func (c *Client) sessionsOf(ctx context.Context, infos map[string]sessions.Info) (all []Session, newest map[string]uint64, err error) {
	var heads, history []string
	for id := range infos {
		heads, history = append(heads, events.HeadKeys(id)), append(history, events.HistoryKeys(id))
	}
	var found []record.Record
	err = c.records.BetweenDeletions(ctx, func() error {
		active, err := natsio.MatchingRecords(ctx, c.records, heads) // first: what ends meanwhile is in both
		if err != nil {
			return err
		}
		ended, err := natsio.MatchingRecords(ctx, c.records, history)
		found = slices.Concat(ended, active)
		return err
	})
	newest = make(map[string]uint64, len(infos))
	for _, r := range found {
		id := events.SessionOf(r.Key)
		newest[id] = max(newest[id], r.Seq)
	}
	return sessionsWith(threadsOf(found), infos), newest, err
}

// mostBeginning is of how many sessions whose ids begin alike more is read than the ids.
const mostBeginning = 10_000

// SessionsBeginning finds the session of an id; where there is none, those whose ids begin so, letter case aside, with their threads: of
// all others it reads the names alone. Of more than ten thousand, it gives the ids.
func (i Internal) SessionsBeginning(ctx context.Context, prefix string) (found []Session, err error) {
	if err := events.CheckToken("session", prefix); err != nil {
		return nil, nil //nolint:nilerr // no id begins so
	}
	if found, err = i.c.sessionsNamed(ctx, []string{prefix}); err != nil || len(found) > 0 {
		return found, err
	}
	names, err := i.names(ctx, prefix)
	if err != nil {
		return nil, err
	}
	if len(names) > mostBeginning {
		for _, id := range names {
			found = append(found, Session{Info: sessions.Info{ID: id}})
		}
		return found, nil
	}
	for some := range slices.Chunk(names, 500) {
		part, err := i.c.sessionsNamed(ctx, some)
		if err != nil {
			return nil, err
		}
		found = append(found, part...)
	}
	return found, nil
}

// sessionsNamed reads sessions by their ids. One without threads is left out.
func (c *Client) sessionsNamed(ctx context.Context, ids []string) ([]Session, error) {
	infos, err := c.infosOf(ctx, ids)
	if err != nil {
		return nil, err
	}
	found, _, err := c.sessionsOf(ctx, infos)
	return found, err
}

// SessionNames are the ids of all sessions, in order; those of removed ones may be among them for a while. ok is false, and there are
// none, where the store has more records than most.
func (i Internal) SessionNames(ctx context.Context, most uint64) (names []string, ok bool, err error) {
	if n, err := natsio.CountRecords(ctx, i.c.records); err != nil || n > most {
		return nil, false, err
	}
	names, err = i.names(ctx, "")
	return names, err == nil, err
}

// names are the ids of sessions that begin so, in order.
func (i Internal) names(ctx context.Context, prefix string) (names []string, err error) {
	for _, filter := range []string{events.HeadKeys(""), events.HistoryKeys("")} {
		err := natsio.EachKey(ctx, i.c.records, filter, func(key string) {
			if id := events.SessionOf(key); shortid.Begins(id, prefix) {
				names = append(names, id)
			}
		})
		if err != nil {
			return nil, err
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// infosOf reads the records of sessions. One without a record, or whose record cannot be read, has its id alone.
func (c *Client) infosOf(ctx context.Context, ids []string) (map[string]sessions.Info, error) {
	keys := mapped.List(ids, events.SessionKey)
	rs, err := c.records.Records(ctx, keys...)
	infos := make(map[string]sessions.Info, len(rs))
	for i, r := range rs {
		info, err := sessions.DecodeInfo(r.Value)
		if !r.Exists() || err != nil {
			info = sessions.Info{}
		}
		info.ID = ids[i]
		infos[info.ID] = info
	}
	return infos, err
}

// place is where a page ended, by the order of the listing, and which records have only sessions that were shown until then.
type place struct {
	modified, created int64
	id                string
	shown             natsio.Gap
}

const placeForm = "%d %d %d %d %s"

func (p place) String() string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, placeForm, p.modified, p.created, p.shown.After, p.shown.Last, p.id))
}

func parsePlace(text string) (p place, err error) {
	if text == "" {
		return p, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		_, err = fmt.Sscanf(string(b), placeForm, &p.modified, &p.created, &p.shown.After, &p.shown.Last, &p.id)
	}
	if err != nil {
		return p, fmt.Errorf(`%w: after %.50q: want the "next" of the page before`, ErrPlace, text)
	}
	return p, nil
}

// before reports whether a row comes behind the place.
func (p place) before(r sessions.Row) bool {
	last := sessions.Row{Info: sessions.Info{ID: p.id, Created: p.created}, Modified: p.modified}
	return p.id == "" || last.Compare(r) < 0
}
