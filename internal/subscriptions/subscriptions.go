// Package subscriptions is those of the Durable Streams protocol (sections 6 and 7 of it): durable cursors over streams, which wake
// workers by a webhook or by an entry of a stream. A record holds all of one; whoever changes it expects it as it was read, so that
// any number of processes can serve them: of two that begin a wake one does, and it tells of it. One that dies in between leaves a
// lease that ends, and then there is the next wake.
package subscriptions

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
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

	under chan struct{} // deliveries that are under way
}

// New makes a service.
func New(cfg Config) *Service {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	s := &Service{
		Config: cfg, http: webhook.Client(cfg.Private, "--private-webhooks"), under: make(chan struct{}, mostDeliveries),
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
		if err == nil && write {
			err = s.write(ctx, sub)
		}
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

// fill links the streams that are there, where a subscription has seen none of this store: it is new, and then it begins where they end,
// or the store was restored.
func (s *Service) fill(ctx context.Context, sub *subscription) (changed bool, err error) {
	store, err := s.Client.Store(ctx)
	if err != nil || sub.Store == store {
		return false, err
	}
	if sub.Store != "" { // the restore may have written heads behind the record
		if err := s.write(ctx, sub); err != nil {
			return false, err
		}
	}
	var moves []client.Move
	if sub.Config.Pattern != "" {
		if moves, err = s.Client.EverySession().HeadsSince(ctx, 0); err != nil {
			return false, err
		}
	}
	for _, m := range moves {
		name := dstreams.NameOf(m.Thread.Thread)
		if !sub.lacks(name, ways(name)) {
			continue
		}
		at := unknown
		if sub.Store == "" {
			if at, err = s.tail(ctx, sub, name); err != nil {
				return false, err
			}
		}
		if !s.link(sub, name, at) {
			break
		}
	}
	sub.Store, sub.Seen = store, sub.rev // what is there since the record was read as it is now comes by the watch
	return true, nil
}

// link links a stream that the pattern matches; false: there is no room.
func (s *Service) link(sub *subscription, name string, at dstreams.Tail) bool {
	if sub.link(name, false, at.Offset, at.ID) {
		return true
	}
	s.Log.Warn("a subscription has no room for more streams", "subscription", sub.ID, "streams", len(sub.Links), "first", name)
	return false
}

// moved is what a subscription is looked at for.
type moved struct {
	all   bool              // any of its streams may have moved
	names map[string]uint64 // these did, up to these sequences of records
	seen  uint64            // all that moved up to it was told of, now or before
}

// mostUnseen is how many records may be written before a subscription notes that none was of interest to it: whoever begins to watch
// reads what is behind that note.
const mostUnseen = 100_000

// advance brings a subscription to where it should be now: streams that are new are linked, a lease that is over ends, and where there
// is work and nobody at it the next wake begins. It reports whether anything changed.
func (s *Service) advance(ctx context.Context, sub *subscription, m moved) (changed bool, err error) {
	now := time.Now()
	for name, at := range m.names {
		if at > sub.Seen && sub.lacks(name, ways(name)) { // else it was linked before, and given up
			changed = s.link(sub, name, unknown) || changed
		}
	}
	if m.seen > sub.Seen {
		changed = changed || m.seen > sub.Seen+mostUnseen
		sub.Seen = m.seen
	}
	if sub.Wake != nil {
		if !sub.over(now) {
			return changed, nil // what moved is looked at behind it
		}
		sub.Wake, changed, m.all = nil, true, true
	}
	var names, others []string
	for _, name := range sub.names() {
		if _, ok := m.names[name]; ok || m.all {
			names = append(names, name)
		} else {
			others = append(others, name)
		}
	}
	other, err := s.tails(ctx, sub, names)
	if err != nil {
		return false, err
	}
	changed = changed || other
	if !sub.pending() || now.UnixMilli() < sub.Next {
		return changed, nil
	}
	if _, err := s.tails(ctx, sub, others); err != nil { // what is told is told of all
		return false, err
	}
	sub.begin(time.Now())
	return true, nil
}

// step is advance of the record, and tells of a wake that it began.
func (s *Service) step(ctx context.Context, id string, m moved) (*subscription, error) {
	sub, err := s.change(ctx, id, func(sub *subscription) (bool, error) {
		m := m
		filled, err := s.fill(ctx, sub)
		if err != nil {
			return false, err
		}
		if filled { // m is of what was there before
			m = moved{all: true}
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
