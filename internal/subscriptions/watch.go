package subscriptions

import (
	"context"
	"math"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"spool/internal/dstreams"
	"spool/internal/natsio"
	"spool/internal/record"
	"spool/internal/sleep"
	"spool/pkg/events"
	"spool/pkg/threads"
)

const (
	gather   = 20 * time.Millisecond // for moves of streams, before they are looked at
	mostLook = 16                    // subscriptions are looked at at a time
)

// Run wakes workers until ctx ends. It follows the heads of all threads while there is a subscription.
func (s *Service) Run(ctx context.Context) error {
	told := ""
	for ctx.Err() == nil {
		if err := s.watch(ctx); err != nil && ctx.Err() == nil && err.Error() != told {
			told = err.Error()
			s.Log.Warn("watch subscriptions: it is tried again each second", "error", err)
		}
		sleep.For(ctx, time.Second)
	}
	return nil
}

// watch watches until something fails.
func (s *Service) watch(ctx context.Context) error {
	store, err := s.Client.Store(ctx)
	if err != nil {
		return err
	}
	w := &watch{Service: s, store: store, known: map[string]*followed{}, at: math.MaxUint64, poke: make(chan struct{}, 1), again: func() {}}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return w.subscriptions(ctx) })
	g.Go(func() error { return w.streams(ctx) })
	g.Go(func() error { w.look(ctx); return nil })
	return g.Wait()
}

// watch follows subscriptions and streams. When it breaks another begins where the records say that all was seen.
type watch struct {
	*Service
	store string
	poke  chan struct{}

	mu    sync.Mutex
	known map[string]*followed // by id
	at    uint64               // sequence of records up to which the known were told what moved
	again func()               // ends the watch of streams, for another one from there
}

// followed is a subscription, and what it is to be looked at for.
type followed struct {
	sub    *subscription     // as its record was seen last
	names  map[string]uint64 // see moved
	look   time.Time         // when all of it is; zero: never
	rest   time.Time         // not before
	failed bool              // the last look
}

func (w *watch) subscriptions(ctx context.Context) error {
	for r, err := range w.Records.Watch(ctx, events.SubscriptionKeys, natsio.FromCurrent, nil) {
		if err != nil {
			return err
		}
		w.learn(r)
	}
	return nil
}

func (w *watch) learn(r record.Record) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !r.Exists() {
		for id := range w.known {
			if events.SubscriptionKey(id) == r.Key {
				delete(w.known, id)
			}
		}
		return
	}
	sub, err := decode(r, w.Records.MaxRecord())
	if err != nil {
		w.Log.Error("a subscription cannot be read", "error", err)
		return
	}
	now := time.Now()
	f := w.known[sub.ID]
	if f == nil || f.sub.Created != sub.Created || !f.sub.Config.same(sub.Config) { // of one that is made anew the removal may not be told
		f = &followed{sub: sub, names: map[string]uint64{}, look: now}
		w.known[sub.ID] = f
		seen := sub.Seen
		if sub.Store != w.store { // it will have seen what is there now
			seen = sub.rev
		}
		if seen < w.at { // what moved between the two was not noted
			w.at = seen
			w.again()
		}
	}
	for name := range sub.Links {
		if f.sub.Links[name] == nil { // what moved before it was linked was not noted
			f.names[name] = max(f.names[name], 0)
		}
	}
	if f.sub = sub; f.look.IsZero() || f.look.After(now) {
		f.look = sub.nextLook()
	}
	w.nudge()
}

// nextLook is when something is due without a stream that moves; the zero time: nothing is.
func (s *subscription) nextLook() (at time.Time) {
	switch w := s.Wake; {
	case w == nil && s.Next > time.Now().UnixMilli():
		at = time.UnixMilli(s.Next)
	case w != nil && w.Until != 0: // its lease
		at = time.UnixMilli(w.Until)
	case w != nil && w.Told == "": // by whoever began it, or, if that one died, by others
		at = time.UnixMilli(max(s.Next, time.Now().Add(time.Second).UnixMilli()))
	}
	return at
}

func (w *watch) nudge() {
	select {
	case w.poke <- struct{}{}:
	default:
	}
}

// streams notes which streams moved, while there is a subscription.
func (w *watch) streams(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := w.streamsFrom(ctx); err != nil {
			return err
		}
		sleep.For(ctx, 100*time.Millisecond)
	}
	return nil
}

// streamsFrom notes them from w.at on, until it is set back, or nobody is subscribed.
func (w *watch) streamsFrom(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	w.mu.Lock()
	if len(w.known) == 0 {
		w.at = math.MaxUint64
		w.mu.Unlock()
		return nil
	}
	w.again = stop
	from := natsio.From(w.at + 1)
	w.mu.Unlock()
	for r, err := range natsio.WatchAny(ctx, w.Records, []string{events.HeadKeys(""), events.StreamKeys}, from, nil) {
		if err != nil {
			return err
		}
		if !w.note(ctx, r) {
			return nil
		}
	}
	return nil
}

// note tells subscriptions of a head that moved, or of a stream's own record, which may say that the stream is made: so far its link
// waited for that. false: the watch of streams ends here.
func (w *watch) note(ctx context.Context, r record.Record) bool {
	t, head := events.ParseHeadKey(r.Key)
	at := r.Seq
	if !head {
		t, _ = events.ParseStreamKey(r.Key)
		at = 0 // nothing is linked for it
	}
	name := dstreams.NameOf(t)
	ways := ways(name)
	w.mu.Lock()
	defer w.mu.Unlock()
	if ctx.Err() != nil || len(w.known) == 0 {
		return false
	}
	w.at = r.Seq
	for _, f := range w.known {
		switch sub := f.sub; {
		case name != "" && (sub.Links[name] != nil || at > sub.Seen && sub.lacks(name, ways)):
			f.names[name] = max(f.names[name], at)
		case name != "" && name == sub.Config.WakeStream && sub.Wake != nil && begins(r):
			f.look = time.Now()
		case r.Seq > sub.Seen+2*mostUnseen && f.look.IsZero():
			f.look = time.Now()
		default:
			continue
		}
		w.nudge()
	}
	return true
}

// begins reports whether a head is that of a thread that is gone, or that has begun.
func begins(r record.Record) bool {
	if !r.Exists() {
		return true
	}
	head, err := threads.DecodeHead(r.Value)
	return err == nil && head.Entries <= 1
}

// look looks at subscriptions whose streams moved, or whose time has come.
func (w *watch) look(ctx context.Context) {
	for ctx.Err() == nil {
		todo, next := w.due()
		var g errgroup.Group
		g.SetLimit(mostLook)
		for id, m := range todo {
			g.Go(func() error {
				sub, err := w.step(ctx, id, m)
				if ctx.Err() == nil && !isCode(err, "SUBSCRIPTION_NOT_FOUND") {
					w.looked(id, m, sub, err)
				}
				return nil
			})
		}
		_ = g.Wait() // each of them nil
		if len(todo) > 0 {
			continue // what it found may be due at once
		}
		timer := time.NewTimer(next)
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-w.poke:
			sleep.For(ctx, gather)
		}
		timer.Stop()
	}
}

// due takes what the subscriptions are to be looked at for now, and says when the next is.
func (w *watch) due() (todo map[string]moved, next time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	todo, next = map[string]moved{}, mostWait
	now := time.Now()
	for id, f := range w.known {
		at := f.look
		if f.ready() {
			at = now
		}
		if at = notBefore(at, f.rest); at.IsZero() {
			continue
		}
		if at.After(now) {
			next = min(next, at.Sub(now))
			continue
		}
		all := !f.look.IsZero() && !f.look.After(now)
		todo[id] = moved{all: all, names: f.names, seen: w.at}
		if f.names, f.rest = map[string]uint64{}, (time.Time{}); all {
			f.look = time.Time{}
		}
	}
	return todo, next
}

// notBefore is the later one of two times, if there is a first.
func notBefore(t, than time.Time) time.Time {
	if !t.IsZero() && t.Before(than) {
		return than
	}
	return t
}

// ready reports whether there are streams to look at: while a worker is at it those that are to be linked.
func (f *followed) ready() bool {
	for name, at := range f.names {
		if f.sub.Wake == nil || at > f.sub.Seen && f.sub.lacks(name, ways(name)) {
			return true
		}
	}
	return false
}

// looked takes what became of a look: what was not looked at is looked at again.
func (w *watch) looked(id string, m moved, sub *subscription, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f := w.known[id]
	if f == nil {
		return
	}
	if err != nil {
		if !f.failed {
			w.Log.Warn("look at a subscription: it is tried again each second", "subscription", id, "error", err)
		}
		if f.failed, f.rest = true, time.Now().Add(time.Second); m.all {
			f.look = f.rest
		}
		f.keep(m.names)
		return
	}
	f.failed = false
	if sub.Wake != nil {
		for name := range m.names {
			if sub.Links[name] == nil { // there is no room for it
				delete(m.names, name)
			}
		}
		f.keep(m.names)
	}
	if f.look.IsZero() {
		f.look = sub.nextLook()
	}
}

func (f *followed) keep(names map[string]uint64) {
	for name, at := range names {
		f.names[name] = max(f.names[name], at)
	}
}
