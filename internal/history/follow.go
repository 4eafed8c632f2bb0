package history

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"spool/internal/natsio"
	"spool/internal/record"
	"spool/internal/sleep"
	"spool/pkg/client"
	"spool/pkg/dialect"
	"spool/pkg/events"
	"spool/pkg/sessions"
)

// Follower feeds a history from a NATS system.
type Follower struct {
	db     *DB
	bucket natsio.Records
	items  natsio.Items
	client *client.Client
	log    *slog.Logger
	all    bool          // all items, not prompts alone
	erased chan struct{} // somebody was, since the file was looked at
	few    int           // fewKnown
	rests  bool          // between two transactions, so that what is indexed in words leaves the machine to those who work

	agents map[life]bool     // threads not called main that were looked at: is it a subagent's
	former map[life][]Former // threads of a name that was used before: what keeps those that had it
}

// life is one of the threads that have had a name.
type life struct {
	events.Thread
	number int64
}

// mostLives is how many threads are remembered.
const mostLives = 10_000

// NewFollower makes a follower. log may be nil.
func NewFollower(db *DB, conn *natsio.Conn, log *slog.Logger) *Follower {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Follower{db: db, bucket: conn.Records(), items: conn.Items(), client: client.New(conn), log: log, erased: make(chan struct{}, 1), few: fewKnown}
}

// NewItemsFollower makes a follower that feeds an index of all items: what Find and Stats ask. log may be nil.
func NewItemsFollower(db *DB, conn *natsio.Conn, log *slog.Logger) *Follower {
	f := NewFollower(db, conn, log)
	f.all = true
	return f
}

// posts are the subjects of what is read: of plain user posts, which have no metadata.type and no detail, or of all items.
func (f *Follower) posts() []string {
	if f.all {
		return []string{events.ItemFilter("", "", "")}
	}
	return events.ItemFilters("", "", events.TypeMessage)[:1]
}

// parse reads a post out of an item's JSON; ok is false for what is not kept.
func (f *Follower) parse(item []byte) (p Post, ok bool) {
	if f.all {
		return parseItem(item)
	}
	return parse(item)
}

// Waits for an item. Behind the first the stream is looked at again, because the item may be gone; behind the second too,
// so that the position keeps up with a stream in which nobody asks for anything.
const (
	patience = 10 * time.Second
	refresh  = time.Minute
)

// rest is how many times as long as a transaction took a follower that rests does nothing: the words of an item take several times
// the processor time of all else that becomes of an entry.
const rest = 9

// errAgain says that what was to be read is not there any more: look at the stream again.
var errAgain = errors.New("the stream has moved on")

// Follow catches up and goes on, until ctx ends or something fails. Calling it again continues. Sessions that are deleted
// meanwhile are forgotten.
func (f *Follower) Follow(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	watched := make(chan struct{})
	g.Go(func() error { return f.forgetDeleted(ctx, sync.OnceFunc(func() { close(watched) })) })
	g.Go(func() error { return f.rewriteErased(ctx) })
	g.Go(func() error { return f.followRenames(ctx) })
	g.Go(func() error {
		select {
		case <-watched:
			return f.follow(ctx)
		case <-ctx.Done():
			return nil
		}
	})
	return g.Wait()
}

// follow reads on, once those are forgotten that were deleted meanwhile.
func (f *Follower) follow(ctx context.Context) error {
	doubted, err := f.doubted(ctx)
	if err == nil {
		_, err = f.forgetAll(ctx, doubted)
	}
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		at, err := f.catchUp(ctx)
		if err == nil {
			_, err = f.read(ctx, at, 0, false)
		}
		switch {
		case err == nil, again(err), ctx.Err() != nil:
		case record.Temporary(err): // what is known need not be looked for again
			f.log.Warn("prompt history is behind, trying again", "wait", pause, "error", err)
			select {
			case <-ctx.Done():
			case <-time.After(pause):
			}
		default:
			return err
		}
	}
	return nil
}

// pause is how long a follower waits after an error that passes.
const pause = 2 * time.Second

// CatchUp returns when all prompts are in that were stored when it was called.
func (f *Follower) CatchUp(ctx context.Context) error {
	for {
		_, err := f.catchUp(ctx)
		if err == nil {
			left, e := f.bucket.List(ctx, events.LeftKeys)
			err = f.renameAll(ctx, left, e)
		}
		if !again(err) {
			return errors.Join(err, ctx.Err())
		}
	}
}

// newestWindow is how many items are read at first for the newest prompts.
var newestWindow uint64 = 256

// CatchUpNewest returns when the newest so many prompts of a filter are in, which costs what they do: where the history is far behind, it
// reads the end of the stream alone, and what their threads said last before that, which they may repeat. No prompt is newer than its item:
// none that was stored before belongs to them, where they, and the one before them, are not older than the first item that was read.
func (f *Follower) CatchUpNewest(ctx context.Context, of Filter, n int) error {
	at, now, err := f.position(ctx)
	for window := newestWindow; err == nil && now.Match > max(at.Seq, now.First)+8*window; window *= 8 {
		var first int64
		if first, err = f.read(ctx, Position{Stream: now.Stream, Seq: now.Match - window}, now.Match, true); err != nil {
			break
		}
		for said := map[events.Thread]bool{}; ; {
			found, err := f.db.since(ctx, of, first, n+1)
			if err != nil {
				return err
			}
			if len(found) <= n {
				break
			}
			before, far := len(said), false
			var some gathered
			for _, p := range found {
				if said[p.Thread] {
					continue
				}
				said[p.Thread] = true
				ok, err := f.gatherBefore(ctx, p.Thread, now.Match-window+1, at.Seq+1, &some)
				if err != nil {
					return err
				}
				far = far || !ok
			}
			if far {
				break
			}
			if len(said) == before {
				return nil
			}
			if err := f.store(ctx, &some, Position{Stream: now.Stream}, 0); err != nil {
				return err
			}
		}
	}
	if err != nil && !again(err) {
		return err
	}
	return f.CatchUp(ctx)
}

// mostWordless is how many posts without words, as of pictures alone, are looked at one by one: each takes some twenty requests.
const mostWordless = 8

// gatherBefore gathers what a thread said last in words before a sequence of the stream, if that is not before another one. It is not ok
// where that is behind too many that have no words.
func (f *Follower) gatherBefore(ctx context.Context, t events.Thread, before, from uint64, some *gathered) (ok bool, err error) {
	for range mostWordless {
		last, err := f.items.LastBefore(ctx, events.ItemFilters(t.Session, t.Name, events.TypeMessage)[0], before, natsio.Position{Seq: from})
		if err != nil || last.Seq == 0 {
			return true, err
		}
		had := len(some.posts)
		if err := f.gather(ctx, last, some); err != nil {
			return false, err
		}
		if len(some.posts) > had && trim(some.posts[had].Text) != "" {
			return true, nil
		}
		before = last.Seq
	}
	return false, nil
}

// Rebuild empties the history and makes it again from the stream and from every thread.
func (f *Follower) Rebuild(ctx context.Context) error {
	if err := f.db.Reset(ctx, ""); err != nil {
		return err
	}
	if err := f.CatchUp(ctx); err != nil {
		return err
	}
	at, err := f.db.Position(ctx)
	if err == nil {
		err = f.fill(ctx, at)
	}
	return err
}

func again(err error) bool { return errors.Is(err, errAgain) || errors.Is(err, ErrMoved) }

// catchUp reads all that is stored now, and returns the position behind it. A history of another stream starts over; what
// the stream has forgotten since the position comes from the threads.
func (f *Follower) catchUp(ctx context.Context) (Position, error) {
	at, now, err := f.position(ctx)
	if err != nil {
		return at, err
	}
	if now.First > at.Seq+1 {
		f.log.Info("reading prompts from the threads", "seq", at.Seq, "first", now.First)
		if err := f.fill(ctx, at); err != nil {
			return at, err
		}
		if at, err = f.advance(ctx, at, now.First-1); err != nil {
			return at, err
		}
	}
	if now.Match > at.Seq {
		if _, err := f.read(ctx, at, now.Match, false); err != nil {
			return at, err
		}
		at.Seq = now.Match
	}
	return f.advance(ctx, at, now.Last)
}

// position is how far the history has read the stream, and what that has now.
func (f *Follower) position(ctx context.Context) (at Position, now natsio.Extent, err error) {
	if now, err = f.items.Extent(ctx, f.posts()); err != nil {
		return at, now, err
	}
	at, err = f.db.Position(ctx)
	if err == nil && (at.Stream != now.Stream || at.Seq > now.Last) {
		err = f.db.Begin(ctx, at, now.Stream)
		at = Position{Stream: now.Stream}
	}
	return at, now, err
}

// advance moves the position over what holds no prompt.
func (f *Follower) advance(ctx context.Context, at Position, to uint64) (Position, error) {
	if to <= at.Seq {
		return at, nil
	}
	err := f.db.Apply(ctx, Batch{From: at, To: to})
	at.Seq = to
	return at, err
}

// read stores the posts behind a position, up to a sequence, or until nothing comes for a while when that is 0, and tells the id that
// the newest post of the first one has. With ahead the history's position stays: who reads on from there meets them again.
func (f *Follower) read(ctx context.Context, at Position, until uint64, ahead bool) (first int64, err error) {
	wait := refresh
	if until != 0 {
		wait = patience
	}
	waiting, cancel := context.WithCancel(ctx)
	var reading sync.WaitGroup
	defer reading.Wait()
	defer cancel()
	idle := time.AfterFunc(wait, cancel)
	defer idle.Stop()
	came := make(chan followed, 64)
	reading.Go(func() {
		defer close(came)
		for stored, err := range f.items.Follow(waiting, f.posts(), natsio.Position{Seq: at.Seq + 1}, nil) {
			select {
			case came <- followed{stored, err}:
			case <-waiting.Done():
				return
			}
		}
	})
	var some gathered
	for next := range came {
		stored, err := next.StoredItem, next.err
		if err != nil {
			return first, err
		}
		if first == 0 {
			first = idOf(stored.Stored.UnixMilli(), stored.Seq)
		}
		idle.Reset(wait)
		if err := f.gather(ctx, stored, &some); err != nil {
			return first, err
		}
		done := until != 0 && stored.Seq >= until
		full := some.full()
		if !full && (stored.Pending > 0 || len(came) > 0) && !done {
			continue
		}
		from, to := at, stored.Seq
		if ahead {
			from, to = Position{Stream: at.Stream}, 0
		}
		if err := f.store(ctx, &some, from, to); err != nil || done {
			return first, err
		}
		at.Seq = stored.Seq
		if !full { // it keeps up: what comes next is not to have a transaction for each item
			sleep.For(ctx, gatherTime)
		}
		if stored.Pending > 0 { // behind: the stream may forget faster than this reads
			if now, err := f.items.Extent(ctx, nil); err != nil || now.First > at.Seq+1 {
				return first, errors.Join(err, errAgain)
			}
		}
	}
	return first, errAgain
}

// gather adds what an item says to what the next transaction will store.
func (f *Follower) gather(ctx context.Context, stored natsio.StoredItem, some *gathered) error {
	p, ok := f.parse(stored.Data)
	if !ok {
		return nil
	}
	p.Life = int64(stored.Life)
	if agent, err := f.isAgent(ctx, p); err != nil {
		return err
	} else if agent {
		p.Text = "" // no person asked for it
	}
	p.Time, p.Seq = events.Believed(p.Time, stored.Stored.UnixMilli()), stored.Seq
	some.add(p)
	return f.retired(ctx, p, some)
}

// gatherTime is how long a follower that keeps up lets items come before the next transaction: one for an item costs as much as all else
// that becomes of it.
const gatherTime = 50 * time.Millisecond

// followed is an item of a stream that is followed, or why none comes any more.
type followed struct {
	natsio.StoredItem
	err error
}

// isAgent tells whether a post is a subagent's task, which a history leaves out: its thread is one that the harness has
// named, or a file of Claude Code's subagents. Of a thread that is gone nobody knows.
func (f *Follower) isAgent(ctx context.Context, p Post) (bool, error) {
	if f.all || p.Thread.Name == events.MainThread {
		return false, nil
	}
	key := life{p.Thread, p.Life}
	if agent, known := f.agents[key]; known {
		return agent, nil
	}
	head, err := f.client.Thread(p.Thread).Head(ctx)
	var agent bool
	if err == nil {
		agent, err = f.isAgents(ctx, client.Thread{Thread: p.Thread, Head: head})
	}
	if err != nil && (ctx.Err() != nil || record.Temporary(err)) {
		return false, fmt.Errorf("whose prompts %s has: %w", p.Thread, err)
	}
	if f.agents == nil || len(f.agents) >= mostLives {
		f.agents = map[life]bool{}
	}
	f.agents[key] = agent
	return agent, nil
}

// retired gathers the former threads of a post's name.
func (f *Follower) retired(ctx context.Context, p Post, some *gathered) error {
	if p.Life == 0 {
		return nil
	}
	key := life{p.Thread, p.Life}
	former, known := f.former[key]
	if !known {
		all, err := f.client.Session(p.Thread.Session).Threads(ctx)
		if err != nil && (ctx.Err() != nil || record.Temporary(err)) {
			return fmt.Errorf("what %s was before: %w", p.Thread, err)
		}
		former = formerOf(all, p.Thread, p.Life)
		if f.former == nil || len(f.former) >= mostLives {
			f.former = map[life][]Former{}
		}
		f.former[key] = former
	}
	for _, one := range former {
		if !slices.Contains(some.former, one) {
			some.former = append(some.former, one)
		}
	}
	return nil
}

// formerOf are the threads among all that keep what a thread's name held before a life began.
func formerOf(all []client.Thread, t events.Thread, began int64) (former []Former) {
	for _, x := range all {
		at := int64(x.Head.Began)
		if events.HasFormer(t, x.Thread) && 0 < at && at < began {
			former = append(former, Former{Thread: x.Thread, Began: at, N: x.Head.N})
		}
	}
	return former
}

// isAgents tells whether a thread is a subagent's.
func (f *Follower) isAgents(ctx context.Context, t client.Thread) (bool, error) {
	if f.all || t.Name == events.MainThread {
		return false, nil
	}
	if t.Head.Dialect == "claude" && strings.HasPrefix(t.Name, "agent-") {
		return true, nil
	}
	start, err := f.client.Reader().Start(ctx, t.Head.Start)
	_, unnamed := dialect.Lookup(start.Name)
	return err == nil && start.Depth > 0 && start.Name != "" && !unnamed, err
}

// store applies what was gathered, with what is known of its sessions.
func (f *Follower) store(ctx context.Context, some *gathered, from Position, to uint64) error {
	begun := time.Now()
	if f.rests {
		defer func() {
			sleep.For(ctx, rest*time.Since(begun))
		}()
	}
	about, err := f.sessions(ctx, some)
	if err == nil {
		err = f.db.Apply(ctx, Batch{From: from, To: to, Posts: some.sorted(), Sessions: about, Former: some.former, Filled: some.filled})
	}
	if err == nil { // one that was deleted since it was read: who deletes it later finds it
		_, err = f.forgetEarlier(ctx, some.names())
	}
	if err == nil { // and a thread that was renamed since
		left, e := f.bucket.Records(ctx, some.left()...)
		err = f.renameAll(ctx, left, e)
	}
	*some = gathered{}
	return err
}

// sessions reads what is known of the sessions of posts. A record of a later version tells nothing.
func (f *Follower) sessions(ctx context.Context, some *gathered) (about []Session, err error) {
	records, err := f.records(ctx, some.names(), events.SessionKey)
	for _, r := range records {
		if !r.Exists() {
			continue
		}
		info, err := sessions.DecodeInfo(r.Value)
		if err != nil {
			f.log.Warn("session of a prompt", "error", fmt.Errorf("%s: %w", r.Key, err))
			continue
		}
		about = append(about, Session{Name: info.ID, Cwd: info.Cwd, Host: info.Host, Harness: info.Agent(), Model: info.Model})
	}
	return about, err
}
