package httpapi

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"spool/internal/access"
	"spool/internal/jsonscan"
	"spool/internal/record"
	"spool/internal/view"
	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// streamItems follows the items of a session, or of all that the token is for.
func (a *api) streamItems(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	key := itemFeed{q.Get("session"), q.Get("thread"), q.Get("type"), q.Get("detail")}
	if err := key.validate(); err != nil {
		return err
	}
	if err := a.cfg.Client.Internal().CheckType(r.Context(), key.filter()); err != nil {
		return err
	}
	g := &gleaner{api: a, key: key, grant: access.From(r.Context()), notUser: q.Get("not_user")}
	from, err := g.begin(r)
	if err != nil {
		return err
	}
	feed, err := a.hub.join(r.Context(), key)
	if err != nil {
		return err
	}
	defer feed.close()
	ctx := r.Context()
	if from == (client.Position{}) {
		err = g.fromNow(ctx)
	}
	if err != nil {
		return err
	}
	if g.out = startSSE(w); from != (client.Position{}) {
		err = g.stored(ctx, from)
	}
	return a.follow(ctx, g.out, feed, err, func() error { return g.stored(ctx, client.Position{Seq: g.seq + 1}) }, func(m *moment) error {
		if m.seq != 0 && m.seq <= g.seq {
			return nil
		}
		g.seq = max(g.seq, m.seq)
		if err := g.meanwhile(ctx, m.thread, mark{m.n, m.life}, m.data); err != nil {
			return err
		}
		return g.give(m.thread, mark{m.n, m.life}, m.data)
	})
}

// gleaner is one reader of the items of many threads. Its cursor is where SPOOL_ITEMS has the last item. Of one session it also
// tells the number of each thread's last item, as long as there are not too many: with them, what SPOOL_ITEMS forgets meanwhile
// is read from the threads.
//
//	812                 all threads; or a session that has been followed from a time on
//	812;main:41;sub:7   a session; as in follower, a number may be followed by the life, and all by the store
type gleaner struct {
	api     *api
	out     *sse
	key     itemFeed
	notUser string // whose items are left out; "": nobody's
	grant   access.Grant
	seq     uint64
	had     map[string]mark // the last items, by thread; nil: not known
	last    client.Had      // of a reader of one thread: its last item
	store   storeMark
}

// mostTwice is how many threads a reader of what is stored remembers, to leave out what was stored twice.
const mostTwice = 50_000

// mostThreads is of how many threads a cursor tells.
const mostThreads = 64

// begin reads where the reader stands.
func (g *gleaner) begin(r *http.Request) (from client.Position, err error) {
	id := r.Header.Get("Last-Event-ID")
	if id == "" {
		from, err = since(r)
		if from.All && g.key.session != "" {
			g.had = map[string]mark{}
		}
		return from, err
	}
	rest, store := cutStore(id)
	g.store = store
	seq, threads, known := strings.Cut(rest, ";")
	bad := fmt.Errorf("%w: Last-Event-ID %.100q is none of this stream", ErrRequest, id)
	if g.seq, err = strconv.ParseUint(seq, 10, 63); err != nil || known && g.key.session == "" {
		return from, bad
	}
	if known {
		g.had = map[string]mark{}
	}
	for part := range strings.SplitSeq(threads, ";") {
		if part == "" {
			continue
		}
		name, n, _ := strings.Cut(part, ":")
		at, err := parseMark(n)
		if err != nil || events.CheckToken("thread", name) != nil || len(g.had) > mostThreads {
			return from, bad
		}
		g.note(name, at, nil)
	}
	return client.Position{Seq: g.seq + 1}, nil
}

// fromNow notes what is stored now: the reader begins behind it.
func (g *gleaner) fromNow(ctx context.Context) (err error) {
	if _, err = g.store.replaced(ctx, g.api.cfg.Client); err != nil {
		return err
	}
	if _, g.seq, err = g.api.cfg.Client.Internal().ItemsSpan(ctx); err != nil || g.key.session == "" {
		return err
	}
	all, err := g.api.cfg.Client.Session(g.key.session).Threads(ctx)
	g.had = map[string]mark{}
	for _, t := range all {
		g.note(t.Name, mark{t.Head.N, t.Head.Life}, nil) // what came since the sequence was read comes once more, and is left out
	}
	return err
}

func (g *gleaner) cursor() string {
	id := strconv.AppendUint(nil, g.seq, 10)
	if g.had == nil || len(g.had) > mostThreads {
		return string(g.store.appendTo(id))
	}
	names := slices.Sorted(maps.Keys(g.had))
	for _, name := range names {
		id = append(append(append(id, ';'), name...), ':')
		id = g.had[name].appendTo(id)
	}
	if len(names) == 0 {
		id = append(id, ';')
	}
	return string(g.store.appendTo(id))
}

// note notes an item as had; of one without data SPOOL_ITEMS knows where it is.
func (g *gleaner) note(thread string, at mark, data []byte) {
	if g.had != nil {
		g.had[thread] = at
	}
	if thread == g.key.thread {
		g.last = hadOf(at, data)
	}
}

// hadOf is an item as a client knows it.
func hadOf(at mark, data []byte) client.Had {
	node, _ := jsonscan.Text(jsonscan.Get(data, "item", "node"))
	return client.Had{N: at.n, Life: at.life, Node: node}
}

// give gives an item that the reader does not have.
func (g *gleaner) give(t events.Thread, at mark, data []byte) error {
	if g.had[t.Name].covers(at) {
		return nil
	}
	g.note(t.Name, at, data)
	if !g.grant.Session(t.Session) {
		return nil
	}
	if user, _ := jsonscan.Text(jsonscan.Get(jsonscan.Get(data, "item"), "user_id")); user != "" && user == g.notUser {
		return nil
	}
	return g.out.send(eventItem, g.cursor(), data)
}

// meanwhile gives a reader of one thread that comes back to its name what it had under another one, before the first item that it has under
// its own again.
func (g *gleaner) meanwhile(ctx context.Context, t events.Thread, at mark, data []byte) error {
	if g.key.thread == "" || g.key.kind != "" || g.key.detail != "" {
		return nil
	}
	cl, next := g.api.cfg.Client, g.last.N+1
	head, err := cl.Internal().CameBack(ctx, t, hadOf(at, data), g.last)
	if head.Start.IsZero() && err == nil {
		return nil
	}
	if err == nil {
		for p, bad := range cl.Thread(t).ItemsFrom(ctx, head, next) {
			if err = bad; err != nil || p.N >= at.n || p.N != next {
				break
			}
			if err := g.give(t, mark{p.N, at.life}, encode(view.OfItem(p.Data))); err != nil {
				return err
			}
			next++
		}
	}
	if next >= at.n || record.Temporary(err) || ctx.Err() != nil {
		return err
	}
	return g.lost(t.Name, next, mark{at.n - 1, at.life}, err)
}

// lost tells of items that the reader does not get.
func (g *gleaner) lost(thread string, from int64, to mark, why error) error {
	g.note(thread, to, nil)
	text := map[string]any{"reason": "lost", "thread": thread, "from": from, "to": to.n, "message": cmp.Or(why, threads.ErrNoPoint).Error()}
	return g.out.send(eventReset, g.cursor(), encode(text))
}

// stored gives all that is stored from a position on.
func (g *gleaner) stored(ctx context.Context, from client.Position) error {
	other, err := g.store.replaced(ctx, g.api.cfg.Client)
	if err != nil {
		return err
	}
	first, last, err := g.api.cfg.Client.Internal().ItemsSpan(ctx)
	if err != nil {
		return err
	}
	lost, reason, why := other || from.Seq > 0 && from.Seq < first, "trimmed",
		"items between the last one that was read and the first of these are no longer in SPOOL_ITEMS: read the threads"
	if other {
		g.seq, from.Seq, reason, why = 0, first, "replaced", restored+": read the threads"
		if g.last = (client.Had{}); g.had != nil {
			g.had = map[string]mark{}
		}
	}
	if lost && (other || g.had == nil) {
		g.seq = max(first, 1) - 1
		if err := g.out.send(eventReset, g.cursor(), encode(map[string]any{"reason": reason, "message": why, "first": first})); err != nil {
			return err
		}
	}
	if lost && g.had != nil {
		if err := g.forgotten(ctx); err != nil {
			return err
		}
		g.seq, from.Seq = last, last+1
	}
	twice := map[events.Thread]mark{} // what was stored twice after a crash; of many threads, of those that spoke last
	err = g.api.cfg.Client.Internal().ItemsUntilNow(ctx, g.key.filter(), from, func(it client.Item) error {
		t, at := events.Thread{Session: it.Session, Name: it.Thread}, mark{it.N, it.Life}
		if it.Seq <= g.seq || twice[t].covers(at) {
			return nil
		}
		if len(twice) > mostTwice {
			clear(twice)
		}
		data := encode(view.OfItem(it.Raw))
		if err := g.meanwhile(ctx, t, at, data); err != nil {
			return err
		}
		g.seq, twice[t] = it.Seq, at
		return g.give(t, at, data)
	})
	if err == nil {
		g.seq = max(g.seq, last)
	}
	return err
}

// forgotten gives from the threads of the session what the reader does not have. Until it is through, the cursor's sequence stays
// where it was: a reader that is cut off here goes on here.
func (g *gleaner) forgotten(ctx context.Context) error {
	all, err := g.api.cfg.Client.Session(g.key.session).Threads(ctx)
	if err != nil {
		return err
	}
	for _, t := range all {
		if g.key.thread != "" && g.key.thread != t.Name {
			continue
		}
		for p, err := range g.api.cfg.Client.Thread(t.Thread).ItemsFrom(ctx, t.Head, g.next(t)) {
			if lost(err) {
				err = g.lost(t.Name, g.next(t), mark{t.Head.N, t.Head.Life}, err)
			} else if err == nil && g.key.takes(p.Data) {
				err = g.give(t.Thread, mark{p.N, t.Head.Life}, encode(view.OfItem(p.Data)))
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// next is the number of the first item of a thread that the reader does not have.
func (g *gleaner) next(t client.Thread) int64 {
	if had := g.had[t.Name]; had.life == t.Head.Life {
		return had.n + 1
	}
	return 1
}
