package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"spool/internal/jsonscan"
	"spool/internal/view"
	"spool/pkg/casstore"
	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// follower is one reader of a thread's event stream. Its cursor, the id of every event, says what it has: the number of the last
// item, and of each open output how many bytes. Whatever comes, from the feed or from what is stored, is held against it: what
// the reader has is left out, what is missing before it is read from where it is stored. So it does not matter where a
// connection is cut.
//
//	41                  the items to 41
//	41;o7:8192;o9:0     and 8,192 bytes of the output o7, nothing yet of o9
//	41@907              the items to 41 of the thread whose life is 907: others had its name before
//	41;~Q3X9K2P1        the items to 41, as the store has them of which that is the beginning of its name
type follower struct {
	api    *api
	out    *sse
	thread events.Thread
	spared string           // the user whose items and outputs are left out; "" = nobody
	had    mark             // items given
	at     map[string]int64 // bytes given of outputs; -1: to its end, or it is left out
	store  storeMark
}

func (a *api) streamThread(w http.ResponseWriter, r *http.Request, t events.Thread) error {
	head, err := a.cfg.Client.Thread(t).AwaitHead(r.Context())
	var renamed *client.Renamed
	if r.Header.Get("Last-Event-ID") != "" && errors.As(err, &renamed) { // a reader that was away is told as one that was here
		f := &follower{api: a, out: startSSE(w)}
		a.ended(r.Context(), f.out, f.gone(err))
		return nil
	}
	if err != nil {
		return err
	}
	f := &follower{api: a, thread: t, had: mark{head.N, head.Life}, at: map[string]int64{}}
	f.spared = r.URL.Query().Get("not_user")
	resumed, err := f.begin(r)
	if err != nil {
		return err
	}
	feed, err := a.hub.join(r.Context(), threadFeed{t})
	if err != nil {
		return err
	}
	defer feed.close()
	f.out = startSSE(w)
	return f.run(r.Context(), feed, resumed, isSet(r, "whole"))
}

// begin reads where the reader stands: Last-Event-ID, else ?from, else now.
func (f *follower) begin(r *http.Request) (resumed bool, err error) {
	if id := r.Header.Get("Last-Event-ID"); id != "" {
		return true, f.parse(id)
	}
	from, given, err := number(r, "from")
	if given {
		f.had.n = max(from, 1) - 1
	}
	return false, err
}

// mostOpen is how many outputs a cursor tells of.
const mostOpen = 64

func (f *follower) parse(id string) (err error) {
	bad := func() error { return fmt.Errorf("%w: Last-Event-ID %.100q is none of this stream", ErrRequest, id) }
	rest, store := cutStore(id)
	f.store = store
	parts := strings.Split(rest, ";")
	if f.had, err = parseMark(parts[0]); err != nil || len(parts) > mostOpen+1 {
		return bad()
	}
	for _, part := range parts[1:] {
		output, at, _ := strings.Cut(part, ":")
		n, err := strconv.ParseInt(at, 10, 64)
		if err != nil || n < 0 || events.CheckToken("output", output) != nil {
			return bad()
		}
		f.at[output] = n
	}
	return nil
}

// cursor is the id of an event after which the reader has what it has now.
func (f *follower) cursor() string {
	id := f.had.appendTo(make([]byte, 0, 48))
	open := make([]string, 0, len(f.at))
	for output, at := range f.at {
		if at >= 0 {
			open = append(open, output)
		}
	}
	slices.Sort(open)
	for _, output := range open[:min(len(open), mostOpen)] {
		id = append(append(append(id, ';'), output...), ':')
		id = strconv.AppendInt(id, f.at[output], 10)
	}
	return string(f.store.appendTo(id))
}

// run gives what is stored, then what comes, until the reader goes or the thread does.
func (f *follower) run(ctx context.Context, feed *reader, resumed, whole bool) error {
	err := f.stored(ctx, !resumed, whole)
	return f.api.follow(ctx, f.out, feed, err, func() error { return f.stored(ctx, false, whole) },
		func(m *moment) error { return f.give(ctx, m) })
}

// ended ends an event stream. The reader connects again and goes on from its cursor; what it should know of first, it is told.
func (a *api) ended(ctx context.Context, out *sse, err error) {
	if ctx.Err() == nil && !errors.Is(err, errOver) && !errors.Is(err, errFeedEnded) {
		a.cfg.Log.Warn("event stream failed", "error", err)
		_ = out.send(eventFailed, "", encode(failure{Error: err.Error()}))
	}
	_ = out.flush() // a reader that is gone
}

// errOver: the stream has ended as it should.
var errOver = errors.New("the stream is over")

// stored gives all that is stored and the reader does not have. first: the reader is told what is open, and gets of it what is
// at hand, or with whole all of it.
func (f *follower) stored(ctx context.Context, first, whole bool) error {
	cl := f.api.cfg.Client
	other, err := f.store.replaced(ctx, cl)
	if err != nil {
		return err
	}
	head, err := cl.Thread(f.thread).Head(ctx)
	if err != nil {
		return f.gone(err)
	}
	switch {
	case other:
		f.had, f.at = mark{life: head.Life}, map[string]int64{}
		if err := f.reset("replaced", restored); err != nil {
			return err
		}
	case f.had.life != head.Life || f.had.n > head.N:
		same, err := cl.Internal().Continues(ctx, f.thread, head, client.Had{N: f.had.n, Life: f.had.life})
		if err != nil && !lost(err) {
			return err
		}
		if same {
			f.had.life = head.Life
			break
		}
		f.had, f.at = mark{life: head.Life}, map[string]int64{}
		if err := f.reset("replaced", "what was read is of another thread, as far as can be told: the items of this one follow"); err != nil {
			return err
		}
	}
	open, err := cl.Thread(f.thread).Outputs(ctx)
	if err != nil {
		return err
	}
	for _, o := range open {
		if _, known := f.at[o.ID]; known {
			continue
		}
		f.at[o.ID] = f.begins(o.User)
		if f.at[o.ID] == 0 && first && !whole && o.Tail > 0 {
			if f.at[o.ID], err = f.atRune(ctx, o.ID, o.Tail); err != nil {
				return err
			}
		}
	}
	if err := f.out.send(eventOpen, f.cursor(), encode(f.openJSON(head, open))); err != nil {
		return err
	}
	if err := f.items(ctx, head, head.N); err != nil {
		return err
	}
	for _, output := range f.following() {
		if err := f.output(ctx, output, -1); err != nil {
			return err
		}
	}
	return nil
}

func (f *follower) following() []string {
	var list []string
	for output, at := range f.at {
		if at >= 0 {
			list = append(list, output)
		}
	}
	slices.Sort(list)
	return list
}

// give gives a moment of the feed, and before it what is missing.
func (f *follower) give(ctx context.Context, m *moment) error {
	switch m.kind {
	case eventItem:
		return f.item(ctx, m)
	case eventLive:
		return f.live(ctx, m)
	case eventReset:
		if err := f.out.send(eventReset, "", m.data); err != nil {
			return err
		}
		return errOver
	}
	return f.out.send(m.kind, f.cursor(), m.data)
}

func (f *follower) item(ctx context.Context, m *moment) error {
	if f.had.covers(mark{m.n, m.life}) {
		return nil
	}
	if m.life != f.had.life { // the thread says which one has the name now
		return f.stored(ctx, false, false)
	}
	if m.n > f.had.n+1 {
		head, err := f.api.cfg.Client.Thread(f.thread).Head(ctx)
		if err != nil {
			return f.gone(err)
		}
		if head.Life != f.had.life {
			return f.stored(ctx, false, false)
		}
		if err := f.items(ctx, head, m.n-1); err != nil {
			return err
		}
	}
	f.had.n = m.n
	return f.sendItem(m.data)
}

// sendItem sends an item, unless the reader does without those of its user.
func (f *follower) sendItem(data []byte) error {
	if user, _ := jsonscan.Text(jsonscan.Get(data, "item", "user_id")); f.spared != "" && user == f.spared {
		return nil
	}
	return f.out.send(eventItem, f.cursor(), data)
}

// items gives the stored items up to a number.
func (f *follower) items(ctx context.Context, head threads.Head, to int64) error {
	for p, err := range f.api.cfg.Client.Thread(f.thread).ItemsFrom(ctx, head, f.had.n+1) {
		if lost(err) {
			return f.skip(to, err)
		}
		if err != nil {
			return err
		}
		if p.N > to {
			break
		}
		f.had.n = p.N
		if err := f.sendItem(encode(view.OfItem(p.Data))); err != nil {
			return err
		}
	}
	return nil
}

// lost reports whether what was to be read is not there any more, today or tomorrow.
func lost(err error) bool {
	return errors.Is(err, casstore.ErrGone) || errors.Is(err, casstore.ErrNotFound) || errors.Is(err, casstore.ErrCorrupt)
}

// skip tells the reader that the items up to a number can not be had.
func (f *follower) skip(to int64, why error) error {
	from := f.had.n + 1
	f.had.n = to
	return f.out.send(eventReset, f.cursor(), encode(map[string]any{"reason": "lost", "from": from, "to": to, "message": why.Error()}))
}

// gone tells the reader that there is nothing more to come under this name.
func (f *follower) gone(err error) error {
	if !errors.Is(err, threads.ErrNoThread) {
		return err
	}
	if err := f.out.send(eventReset, "", resetJSON(err)); err != nil {
		return err
	}
	return errOver
}

func (f *follower) reset(reason, message string) error {
	return f.out.send(eventReset, f.cursor(), encode(map[string]string{"reason": reason, "message": message}))
}

// follow gives the moments of a feed until the reader goes. behind reads what is stored when the reader was too slow.
func (a *api) follow(ctx context.Context, out *sse, feed *reader, err error, behind func() error, give func(*moment) error) error {
	beat := time.NewTimer(heartbeat)
	defer beat.Stop()
	for err == nil {
		ms, news, late := feed.next()
		if late {
			err = behind()
			continue
		}
		for _, m := range ms {
			if err = give(m); err != nil {
				break
			}
		}
		if len(ms) > 0 && err == nil {
			continue
		}
		if err == nil {
			err = out.flush()
		}
		if err != nil {
			break
		}
		beat.Reset(heartbeat)
		select {
		case <-news:
		case <-beat.C:
			err = out.beat()
		case <-feed.ended:
			err = feed.err
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	a.ended(ctx, out, err)
	return nil
}
