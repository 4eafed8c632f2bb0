package httpapi

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"spool/internal/access"
	"spool/internal/jsonscan"
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
	if err := a.cfg.Client.CheckType(r.Context(), key.filter()); err != nil {
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
		if err := g.meanwhile(ctx, m.thread, mark{m.n, m.life}); err != nil {
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
		if g.had[name], err = parseMark(n); err != nil || events.CheckToken("thread", name) != nil || len(g.had) > mostThreads {
			return from, bad
		}
	}
	return client.Position{Seq: g.seq + 1}, nil
}

// fromNow notes what is stored now: the reader begins behind it.
func (g *gleaner) fromNow(ctx context.Context) (err error) {
	if _, err = g.store.replaced(ctx, g.api.cfg.Client); err != nil {
		return err
	}
	if _, g.seq, err = g.api.cfg.Client.ItemsSpan(ctx); err != nil || g.key.session == "" {
		return err
	}
	all, err := g.api.cfg.Client.Threads(ctx, g.key.session)
	g.had = map[string]mark{}
	for _, t := range all {
		g.had[t.Name] = mark{t.Head.N, t.Head.Life} // what came since the sequence was read comes once more, and is left out
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

// give gives an item that the reader does not have.
func (g *gleaner) give(t events.Thread, at mark, data []byte) error {
	if g.had != nil {
		if g.had[t.Name].covers(at) {
			return nil
		}
		g.had[t.Name] = at
	}
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
func (g *gleaner) meanwhile(ctx context.Context, t events.Thread, at mark) error {
	had := g.had[t.Name]
	if g.key.thread == "" || g.key.kind != "" || g.key.detail != "" || had.n == 0 || had.life >= at.life || at.n <= had.n+1 {
		return nil
	}
	cl := g.api.cfg.Client
	head, err := cl.Thread(ctx, t)
	if errors.Is(err, threads.ErrNoThread) || err == nil && head.Life != at.life {
		return nil
	}
	if err != nil {
		return err
	}
	if same, err := cl.CameBack(ctx, t, head, had.n, had.life); err != nil || !same {
		return err
	}
	for p, err := range cl.ItemsFrom(ctx, t, head, had.n+1) {
		if lost(err) || err == nil && p.N >= at.n { // who reads the thread is told what is lost
			return nil
		}
		if err != nil {
			return err
		}
		if err := g.give(t, mark{p.N, at.life}, encode(itemOf(p.Data))); err != nil {
			return err
		}
	}
	return nil
}

// stored gives all that is stored from a position on.
func (g *gleaner) stored(ctx context.Context, from client.Position) error {
	other, err := g.store.replaced(ctx, g.api.cfg.Client)
	if err != nil {
		return err
	}
	first, last, err := g.api.cfg.Client.ItemsSpan(ctx)
	if err != nil {
		return err
	}
	lost, reason, why := other || from.Seq > 0 && from.Seq < first, "trimmed",
		"items between the last one that was read and the first of these are no longer in SPOOL_ITEMS: read the threads"
	if other {
		g.seq, from.Seq, reason, why = 0, first, "replaced", restored+": read the threads"
		if g.had != nil {
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
	err = g.api.cfg.Client.ItemsUntilNow(ctx, g.key.filter(), from, func(it client.Item) error {
		t := events.Thread{Session: it.Session, Name: it.Thread}
		at := mark{it.N, it.Life}
		if it.Seq <= g.seq || twice[t].covers(at) {
			return nil
		}
		if len(twice) > mostTwice {
			clear(twice)
		}
		if err := g.meanwhile(ctx, t, at); err != nil {
			return err
		}
		g.seq, twice[t] = it.Seq, at
		return g.give(t, at, encode(itemOf(it.Raw)))
	})
	if err == nil {
		g.seq = max(g.seq, last)
	}
	return err
}

// forgotten gives from the threads of the session what the reader does not have. Until it is through, the cursor's sequence stays
// where it was: a reader that is cut off here goes on here.
func (g *gleaner) forgotten(ctx context.Context) error {
	all, err := g.api.cfg.Client.Threads(ctx, g.key.session)
	if err != nil {
		return err
	}
	for _, t := range all {
		if g.key.thread != "" && g.key.thread != t.Name {
			continue
		}
		for p, err := range g.api.cfg.Client.ItemsFrom(ctx, t.Thread, t.Head, g.next(t)) {
			if lost(err) {
				text := map[string]any{"reason": "lost", "thread": t.Name, "from": g.next(t), "to": t.Head.N, "message": err.Error()}
				g.had[t.Name] = mark{t.Head.N, t.Head.Life}
				err = g.out.send(eventReset, g.cursor(), encode(text))
			} else if err == nil && g.key.takes(p.Data) {
				err = g.give(t.Thread, mark{p.N, t.Head.Life}, encode(itemOf(p.Data)))
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
