package natsadmin

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nats.go/micro"

	"spool/internal/natsio"
	"spool/internal/record"
	"spool/pkg/events"
)

// Placement is where a stream is kept.
type Placement struct {
	Stream   string
	Replicas int
	Servers  int      // that it is on, by the leader's word; 0 = the server is in no cluster
	Lost     []string // replicas that are away or behind
	Leader   string   // in a cluster; "": it has none, and takes nothing
}

// Placements reads where the streams are kept.
func (a *Admin) Placements(ctx context.Context) ([]Placement, error) {
	var out []Placement
	for _, cfg := range natsio.Topology(natsio.Limits{EventsBytes: 1, ItemsBytes: 1}) {
		s, err := a.js.Stream(ctx, cfg.Name)
		if err != nil {
			return nil, fmt.Errorf("stream %s: %w", cfg.Name, natsio.WrapErr(err))
		}
		info := s.CachedInfo()
		p := Placement{Stream: cfg.Name, Replicas: info.Config.Replicas}
		if info.Cluster != nil && info.Cluster.Name != "" {
			p.Leader = info.Cluster.Leader
			p.Servers = len(info.Cluster.Replicas)
			if p.Leader != "" {
				p.Servers++
			}
			for _, r := range info.Cluster.Replicas {
				if r.Offline || !r.Current {
					p.Lost = append(p.Lost, r.Name)
				}
			}
		}
		out = append(out, p)
	}
	return out, nil
}

// Daemon is one that announced itself.
type Daemon struct {
	Name  string // spool-persister and the like
	Build string

	// Of a persister, since it began.
	Applied        int64 // events that it has dealt with
	Guessed        int64 // events it took for repeats, and SPOOL_EVENTS can tell no more whether they are
	Superseded     int64 // events it passed over, because what they are linked to was never stored
	ItemsRefused   int64 // items that the store refuses for good
	LettersRefused int64 // dead letters, the same

	OverQuota int64 // what was refused because of a quota since it began: events of sessions, or requests
}

// silence ends a roll call: daemons answer within a round trip.
const silence = 300 * time.Millisecond

// Daemons calls the roll of all that announced themselves, ordered by name. One whose user may not subscribe to $SRV.> is
// not among them.
func (a *Admin) Daemons(ctx context.Context) ([]Daemon, error) {
	const stats = "$SRV.STATS"
	ctx, done, err := a.streams.Denied(ctx, stats)
	if err != nil {
		return nil, err
	}
	defer done()
	inbox := a.nc.NewRespInbox()
	sub, err := a.nc.SubscribeSync(inbox)
	if err != nil {
		return nil, fmt.Errorf("ask who is there: %w", natsio.WrapErr(err))
	}
	defer func() { _ = sub.Unsubscribe() }()
	if err := a.nc.PublishRequest(stats, inbox, nil); err != nil {
		return nil, fmt.Errorf("ask who is there: %w", natsio.WrapErr(err))
	}
	var out []Daemon
	for {
		wait, cancel := context.WithTimeout(ctx, silence)
		m, err := sub.NextMsgWithContext(wait)
		cancel()
		if err != nil { // nobody else, or nobody at all
			slices.SortFunc(out, func(a, b Daemon) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Build, b.Build)) })
			return out, context.Cause(ctx)
		}
		var s micro.Stats
		if json.Unmarshal(m.Data, &s) == nil && strings.HasPrefix(s.Name, "spool-") {
			d := Daemon{Name: s.Name, Build: s.Metadata["build"]}
			d.learn(s)
			out = append(out, d)
		}
	}
}

// learn reads what a daemon says of itself; one that is no persister says nothing of it.
func (d *Daemon) learn(s micro.Stats) {
	for _, e := range s.Endpoints {
		var did struct {
			Applied        int64
			Guessed        int64
			Superseded     int64
			ItemsRefused   int64 `json:"items_refused"`
			LettersRefused int64 `json:"letters_refused"`
			OverThreads    int64 `json:"over_threads"`
			OverProducers  int64 `json:"over_producers"`
			OverSessions   int64 `json:"over_sessions"`
			OverRates      int64 `json:"over_rates"`
		}
		if json.Unmarshal(e.Data, &did) == nil {
			d.Applied += did.Applied
			d.Guessed += did.Guessed
			d.Superseded += did.Superseded
			d.ItemsRefused += did.ItemsRefused
			d.LettersRefused += did.LettersRefused
			d.OverQuota += did.OverThreads + did.OverProducers + did.OverSessions + did.OverRates
		}
	}
}

// MayPublish asks whether this user may publish events and records. It publishes messages that name a stream which is not
// there, so that the server refuses them and stores nothing. record.ErrDenied: it may not.
func (a *Admin) MayPublish(ctx context.Context) error {
	th := events.Thread{Session: "doctor", Name: events.MainThread}
	var errs []error
	for _, ask := range [][2]string{
		{"publish events", events.EventSubject(th, events.KindEntry)}, {"write records", events.RecordSubject("doctor")},
	} {
		m := nats.NewMsg(ask[1])
		m.Header.Set(jetstream.ExpectedStreamHeader, "none")
		_, err := a.streams.Send(ctx, []*nats.Msg{m})
		if errors.Is(err, record.ErrDenied) || !errors.Is(err, record.ErrRefused) {
			errs = append(errs, fmt.Errorf("%s: %w", ask[0], err))
		}
	}
	return errors.Join(errs...)
}
