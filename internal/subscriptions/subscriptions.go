// Package subscriptions is those of the Durable Streams protocol (sections 6 and 7 of it): durable cursors over streams, which wake
// workers by a webhook or by an entry of a stream. A record holds all of one; whoever changes it expects it as it was read, so that
// any number of processes can serve them: of two that begin a wake one does, and it tells of it. One that dies in between leaves a
// lease that ends, and then there is the next wake.
package subscriptions

import (
	"bytes"
	"cmp"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"spool/internal/dstreams"
	"spool/internal/natsio"
	"spool/internal/record"
	"spool/internal/webhook"
	"spool/pkg/client"
	"spool/pkg/events"
)

// Config of the subscriptions; all but Log is required.
type Config struct {
	Client  *client.Client
	Records natsio.Records
	Streams *dstreams.Handler
	Prefix  string             // of the paths of streams, as in /v1/stream/
	Key     ed25519.PrivateKey // signs webhooks; nil: there are none
	Private bool               // webhooks may be of this machine or network
	Log     *slog.Logger
}

// Service serves subscriptions, and wakes their workers while Run runs. Safe for concurrent use.
type Service struct {
	Config
	http *http.Client
	kid  string

	mu    sync.Mutex
	known map[string]*subscription // by id, as their records were seen last
	dirty map[string]bool          // names of streams that moved
	again map[string]time.Time     // by id: when it is looked at again
	swept map[string]bool          // by id: all streams were listed since the watch of them stands
	poke  chan struct{}
	under chan struct{} // deliveries that are under way
}

// New makes a service.
func New(cfg Config) *Service {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	s := &Service{
		Config: cfg, http: webhook.Client(cfg.Private, "--private-webhooks"), known: map[string]*subscription{}, dirty: map[string]bool{},
		again: map[string]time.Time{}, swept: map[string]bool{}, poke: make(chan struct{}, 1), under: make(chan struct{}, mostDeliveries),
	}
	if cfg.Key != nil {
		s.kid = "ds_" + digest(string(cfg.Key.Public().(ed25519.PublicKey)))[:16]
	}
	return s
}

const (
	mostDeliveries = 64 // at a time
	mostTries      = 50 // of a change that others are faster at
	mostWait       = time.Minute
	gather         = 20 * time.Millisecond // for moves of streams, before they are looked at
)

// load reads a subscription; 404: there is none.
func (s *Service) load(ctx context.Context, id string) (*subscription, error) {
	rs, err := s.Records.Records(ctx, events.SubscriptionKey(id))
	if err != nil {
		return nil, err
	}
	if !rs[0].Exists() {
		return nil, no(http.StatusNotFound, "SUBSCRIPTION_NOT_FOUND", "there is no subscription %.200q", id)
	}
	return decode(rs[0], s.Records.MaxRecord())
}

// change loads a subscription, has f change it, and writes it; again, where somebody else was faster. f reports whether there is
// anything to write.
func (s *Service) change(ctx context.Context, id string, f func(*subscription) (bool, error)) (*subscription, error) {
	for range mostTries {
		sub, err := s.load(ctx, id)
		if err != nil {
			return nil, err
		}
		write, err := f(sub)
		if err != nil || !write {
			return sub, err
		}
		err = s.write(ctx, sub)
		if err == nil {
			return sub, nil
		}
		if !errors.Is(err, record.ErrConflict) {
			return nil, err
		}
	}
	return nil, fmt.Errorf("%w: too many others change subscription %.200q", record.ErrBusy, id)
}

func (s *Service) write(ctx context.Context, sub *subscription) error {
	value := sub.encode()
	if len(value) > s.Records.MaxRecord() {
		return bad("subscription %.200q has too many streams: %d", sub.ID, len(sub.Links))
	}
	seq, err := s.Records.Write(ctx, record.Put{Key: events.SubscriptionKey(sub.ID), Value: value, Expect: sub.rev})
	if err == nil {
		sub.rev = seq
	}
	return err
}

// tails finds where streams of a subscription end. It reports whether a link changed.
func (s *Service) tails(ctx context.Context, sub *subscription, names []string) (changed bool, err error) {
	found := make([]dstreams.Tail, len(names))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(16)
	for i, name := range names {
		g.Go(func() (err error) {
			found[i], err = s.tail(ctx, sub, name)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return false, err
	}
	for i, name := range names {
		if sub.Links[name] != nil && found[i] != unknown && sub.see(name, found[i]) {
			changed = true
		}
	}
	return changed, nil
}

// unknown is where a stream ends that cannot be read: nobody is told of it until it can be.
var unknown = dstreams.Tail{Offset: unread}

// tail finds where a stream ends. One whose records are damaged holds up no other.
func (s *Service) tail(ctx context.Context, sub *subscription, name string) (dstreams.Tail, error) {
	tail, err := s.Streams.Tail(ctx, name)
	if err != nil && !record.Temporary(err) && ctx.Err() == nil {
		s.Log.Warn("a stream of a subscription cannot be read", "subscription", sub.ID, "stream", name, "error", err)
		return unknown, nil
	}
	return tail, err
}

// backfill links all streams that the pattern matches, and that are there; acked: where they end, else nothing of them is.
func (s *Service) backfill(ctx context.Context, sub *subscription, acked bool) (changed bool, err error) {
	if sub.Config.Pattern == "" {
		return false, nil
	}
	moves, err := s.Client.HeadsSince(ctx, "", 0)
	if err != nil {
		return false, err
	}
	for _, m := range moves {
		name := dstreams.NameOf(m.Thread.Thread)
		if name == "" || !sub.wants(name) || sub.Links[name] != nil && sub.Links[name].Glob {
			continue
		}
		at := unknown
		if acked {
			if at, err = s.tail(ctx, sub, name); err != nil {
				return changed, err
			}
		}
		if !sub.link(name, false, at.Offset, at.ID) {
			s.Log.Warn("a subscription has no room for more streams", "subscription", sub.ID, "streams", len(sub.Links), "first", name)
			return changed, nil
		}
		changed = true
	}
	return changed, nil
}

// moved are streams of a subscription that moved.
type moved struct {
	all    bool // any that are linked may have
	unseen bool // there may be some that nobody saw coming
	names  []string
}

var anyMoved = moved{all: true}

// advance brings a subscription to where it should be now: streams that are new are linked, a lease that is over ends, and where there
// is work and nobody at it the next wake begins. It reports whether anything changed.
func (s *Service) advance(ctx context.Context, sub *subscription, m moved) (changed bool, err error) {
	now := time.Now()
	for _, name := range m.names {
		if l := sub.Links[name]; sub.wants(name) && (l == nil || !l.Glob) {
			changed = sub.link(name, false, unread, "") || changed
		}
	}
	if sub.Wake != nil {
		if !sub.over(now) {
			return changed, nil // what moved is looked at behind it
		}
		sub.Wake, changed, m = nil, true, anyMoved
	}
	names := m.names
	if m.all {
		names = sub.names()
	}
	other, err := s.tails(ctx, sub, names)
	if err != nil {
		return false, err
	}
	changed = changed || other
	if _, ok := sub.pending(); !ok || now.UnixMilli() < sub.Next {
		return changed, nil
	}
	if !m.all { // what is told is told of all
		if _, err := s.tails(ctx, sub, sub.names()); err != nil {
			return false, err
		}
	}
	sub.begin(time.Now())
	return true, nil
}

// step is advance of the record, and tells of a wake that it began.
func (s *Service) step(ctx context.Context, id string, m moved) (*subscription, error) {
	sub, err := s.change(ctx, id, func(sub *subscription) (bool, error) {
		filled := false
		if m.unseen {
			var err error
			if filled, err = s.backfill(ctx, sub, false); err != nil {
				return false, err
			}
			m.all = true
		}
		changed, err := s.advance(ctx, sub, m)
		if err == nil && m.all && sub.Wake != nil && sub.Wake.Holder == "" && sub.Wake.Told != "" {
			var in dstreams.Tail
			if in, err = s.tail(ctx, sub, sub.Config.WakeStream); err == nil && in.ID != sub.Wake.Told {
				sub.Wake.Told, changed = "", true // that one is gone
			}
		}
		return changed || filled, err
	})
	if err == nil {
		s.tell(ctx, sub)
	}
	return sub, err
}

// tell tells of a wake that this process began, or that nobody told of.
func (s *Service) tell(ctx context.Context, sub *subscription) {
	switch w := sub.Wake; {
	case w == nil || w.Told != "" || w.Holder != "", time.Now().UnixMilli() < sub.Next:
	case sub.Config.Type == byPull:
		s.tellStream(ctx, sub)
	case w.secret != "":
		go func() {
			ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), time.Duration(sub.Config.Lease)*time.Millisecond+mostWait)
			defer stop()
			if err := s.deliver(ctx, sub); err != nil && !isCode(err, "SUBSCRIPTION_NOT_FOUND") {
				s.Log.Warn("note what became of a wake", "subscription", sub.ID, "error", err)
			}
		}()
	}
}

// tellStream appends a wake to the wake stream, and notes that it has it. Appended twice, it is claimed once.
func (s *Service) tellStream(ctx context.Context, sub *subscription) {
	name := ""
	for _, of := range sub.names() {
		if tail := sub.Wake.Tails[of]; name == "" && tail > sub.Links[of].Acked {
			name = of
		}
	}
	value, err := json.Marshal(map[string]any{
		"type": "wake", "subscription_id": sub.ID, "stream": name, "generation": sub.Generation, "ts": time.Now().UnixMilli(),
	})
	var in dstreams.Tail
	if err == nil {
		in, err = s.Streams.Tail(ctx, sub.Config.WakeStream)
	}
	if err == nil {
		err = s.Streams.Append(ctx, sub.Config.WakeStream, value)
	}
	_, changed := s.change(ctx, sub.ID, func(now *subscription) (bool, error) {
		if now.Wake == nil || now.Wake.ID != sub.Wake.ID {
			return false, nil
		}
		if err == nil {
			now.Wake.Told, now.Failed, now.Next = in.ID, 0, 0
		} else {
			now.later()
		}
		return true, nil
	})
	if err = cmp.Or(err, changed); err != nil && ctx.Err() == nil {
		s.Log.Warn("a wake is told again", "subscription", sub.ID, "stream", sub.Config.WakeStream, "error", err)
	}
}

// later puts off the next try: 1 s, then twice as long each time, up to a minute, and a fifth more or less.
func (s *subscription) later() {
	wait := min(time.Second<<min(s.Failed, 10), mostWait)
	s.Failed++
	s.Next = time.Now().Add(wait + time.Duration((rand.Float64()*2-1)*0.2*float64(wait))).UnixMilli()
}

// told is a stream as a worker is told of it.
type told struct {
	Path    string `json:"path"`
	Link    string `json:"link_type"`
	Acked   string `json:"acked_offset"`
	Tail    string `json:"tail_offset"`
	Pending bool   `json:"has_pending"`
}

func (s *subscription) told() []told {
	out := []told{}
	for _, name := range s.names() {
		l := s.Links[name]
		out = append(out, told{name, l.kind(), l.Acked, l.tail.Offset, l.pending()})
	}
	return out
}

func (l *link) kind() string {
	if l.Explicit {
		return "explicit"
	}
	return "glob"
}

// deliver tells a webhook of a wake that this process began, and takes its answer.
func (s *Service) deliver(ctx context.Context, sub *subscription) error {
	done, err := s.post(ctx, sub)
	if err != nil {
		s.Log.Warn("a webhook did not take a wake, and is woken again", "subscription", sub.ID, "generation", sub.Generation, "error", err)
	}
	now, changed := s.change(ctx, sub.ID, func(now *subscription) (bool, error) {
		if now.Wake == nil || now.Wake.ID != sub.Wake.ID { // it called back, or its lease was over
			return false, nil
		}
		if err != nil {
			now.later()
			now.Wake = nil
			return true, nil
		}
		wrote := now.Failed != 0
		now.Failed, now.Next = 0, 0
		if !done {
			return wrote, nil
		}
		for name, tail := range now.Wake.Tails {
			if l := now.Links[name]; l != nil && !l.Anew && l.Acked < tail {
				l.Acked = tail
			}
		}
		now.Wake = nil
		_, err := s.advance(ctx, now, anyMoved)
		return true, err
	})
	if changed == nil {
		s.tell(ctx, now)
	}
	return changed
}

func (s *Service) post(ctx context.Context, sub *subscription) (done bool, err error) {
	ctx, stop := context.WithDeadline(ctx, time.UnixMilli(sub.Wake.Until-sub.Config.Lease/10)) // before the next wake
	defer stop()
	select {
	case s.under <- struct{}{}:
		defer func() { <-s.under }()
	case <-ctx.Done():
		return false, fmt.Errorf("%d others were under way all the time", mostDeliveries)
	}
	body, err := json.Marshal(map[string]any{
		"subscription_id": sub.ID, "wake_id": sub.Wake.ID, "generation": sub.Generation, "streams": sub.told(),
		"callback_url": s.at(sub, "/callback"), "callback_token": sub.Wake.secret,
	})
	if err != nil {
		return false, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, sub.Config.URL, bytes.NewReader(body))
	if err != nil {
		return false, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "spool")
	t := time.Now().Unix()
	sig := ed25519.Sign(s.Key, fmt.Appendf(nil, "%d.%s", t, body))
	req.Header.Set("Webhook-Signature", fmt.Sprintf("t=%d,kid=%s,ed25519=%s", t, s.kid, base64.RawURLEncoding.EncodeToString(sig)))
	res, err := s.http.Do(req)
	if err != nil {
		return false, err
	}
	defer res.Body.Close()
	said, err := io.ReadAll(io.LimitReader(res.Body, 1<<16))
	if res.StatusCode/100 != 2 {
		return false, fmt.Errorf("%s: %.200q", res.Status, said)
	}
	if err != nil { // it took the wake, and did not say that it is done
		return false, nil
	}
	var says struct {
		Done bool `json:"done"`
	}
	_ = json.Unmarshal(said, &says) // what says nothing is not done
	return says.Done, nil
}

// Run wakes workers until ctx ends. It follows the heads of all threads while there is a subscription.
func (s *Service) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { s.watch(ctx); return nil })
	g.Go(func() error { s.watchStreams(ctx); return nil })
	g.Go(func() error { s.look(ctx); return nil })
	return g.Wait()
}

// watch keeps known.
func (s *Service) watch(ctx context.Context) {
	for ctx.Err() == nil {
		for r, err := range s.Records.Watch(ctx, events.SubscriptionKeys, true, nil) {
			if err != nil {
				s.Log.Warn("watch subscriptions", "error", err)
				break
			}
			s.learn(r)
		}
		wait(ctx, time.Second)
	}
}

func (s *Service) learn(r record.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !r.Exists() {
		for id := range s.known {
			if events.SubscriptionKey(id) == r.Key {
				delete(s.known, id)
				delete(s.again, id)
				delete(s.swept, id)
			}
		}
		return
	}
	sub, err := decode(r, s.Records.MaxRecord())
	if err != nil {
		s.Log.Error("a subscription cannot be read", "error", err)
		return
	}
	if _, had := s.known[sub.ID]; !had || sub.Wake == nil {
		s.again[sub.ID] = time.Time{}
	} else if at := sub.nextLook(); !at.IsZero() {
		s.again[sub.ID] = at
	}
	s.known[sub.ID] = sub
	s.nudge()
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

func (s *Service) nudge() {
	select {
	case s.poke <- struct{}{}:
	default:
	}
}

// watchStreams notes which streams moved, while there is a subscription.
func (s *Service) watchStreams(ctx context.Context) {
	for ctx.Err() == nil {
		s.mu.Lock()
		none := len(s.known) == 0
		s.mu.Unlock()
		if none {
			wait(ctx, 100*time.Millisecond)
			continue
		}
		begun := func() { // what moved before it stands
			s.mu.Lock()
			clear(s.swept)
			for id := range s.known {
				s.again[id] = time.Time{}
			}
			s.mu.Unlock()
			s.nudge()
		}
		for m, err := range s.Client.Moves(ctx, client.HeadFilter{}, begun) {
			if err != nil {
				s.Log.Warn("watch streams for subscriptions", "error", err)
				break
			}
			s.mu.Lock()
			none := len(s.known) == 0
			if name := dstreams.NameOf(m.Thread.Thread); name != "" && s.wanted(name) {
				s.dirty[name] = true
				s.nudge()
			} else if m.Gone != nil || m.Head.Entries <= 1 {
				s.begins(name)
			}
			s.mu.Unlock()
			if none {
				break
			}
		}
		wait(ctx, 100*time.Millisecond)
	}
}

// begins has those looked at again whose wake stream is gone, or another one. The caller has mu.
func (s *Service) begins(name string) {
	for id, sub := range s.known {
		if name == sub.Config.WakeStream && sub.Wake != nil {
			s.again[id] = time.Time{}
			s.nudge()
		}
	}
}

// wanted reports whether any subscription is to a stream. The caller has mu.
func (s *Service) wanted(name string) bool {
	for _, sub := range s.known {
		if sub.Links[name] != nil || sub.wants(name) {
			return true
		}
	}
	return false
}

// look looks at subscriptions whose streams moved, or whose time has come.
func (s *Service) look(ctx context.Context) {
	for ctx.Err() == nil {
		todo, next := s.due()
		for id, m := range todo {
			sub, err := s.step(ctx, id, m)
			at := time.Time{}
			if err != nil && ctx.Err() == nil && !isCode(err, "SUBSCRIPTION_NOT_FOUND") {
				s.Log.Warn("look at a subscription", "subscription", id, "error", err)
				s.mu.Lock()
				delete(s.swept, id)
				s.mu.Unlock()
				at = time.Now().Add(time.Second)
			} else if sub != nil {
				at = sub.nextLook()
			}
			if !at.IsZero() {
				s.mu.Lock()
				if due, ok := s.again[id]; !ok || at.Before(due) { // of what was written since it may be due before
					s.again[id] = at
				}
				s.mu.Unlock()
				next = min(next, time.Until(at))
			}
		}
		timer := time.NewTimer(next)
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-s.poke:
			wait(ctx, gather)
		}
		timer.Stop()
	}
}

// due gives the subscriptions to look at, and when the next is.
func (s *Service) due() (todo map[string]moved, next time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	todo, next = map[string]moved{}, mostWait
	now := time.Now()
	for id, at := range s.again {
		if at.After(now) {
			next = min(next, at.Sub(now))
			continue
		}
		delete(s.again, id)
		todo[id] = anyMoved
	}
	for id, sub := range s.known {
		if s.again[id].After(now) && !s.swept[id] {
			continue // it failed, and then all is looked at
		}
		m := todo[id]
		for name := range s.dirty {
			if l := sub.Links[name]; sub.wants(name) && (l == nil || !l.Glob) || l != nil && sub.Wake == nil {
				m.names = append(m.names, name)
			}
		}
		if m.all || len(m.names) > 0 || !s.swept[id] {
			m.unseen, s.swept[id] = !s.swept[id], true
			todo[id] = m
		}
	}
	clear(s.dirty)
	return todo, next
}

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
