package scrub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"spool/internal/record"
	"spool/internal/sleep"
	"spool/pkg/casstore"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// Reader reads records.
type Reader interface {
	// Scan tells every record from a sequence on, in their order.
	Scan(ctx context.Context, from uint64, tell func(record.Stamped) error) (last uint64, err error)
	Records(ctx context.Context, keys ...string) ([]record.Record, error)
}

// Finding is something that is not as it was stored.
type Finding struct {
	Kind   string `json:"kind"` // fsck's
	Record string `json:"record"`
	Detail string `json:"detail"`
}

// The kinds of findings, as fsck has them.
const (
	Corrupt      = record.Corrupt
	Missing      = record.Missing
	Inconsistent = record.Inconsistent
	Unreadable   = record.Unreadable
)

// maxFindings bounds what a report keeps; Report.Found counts on.
const maxFindings = 100

// HeadsReport is the last look at the heads.
type HeadsReport struct {
	Began    int64     `json:"began"`  // Unix nanoseconds
	Ended    int64     `json:"ended"`  // 0: it goes on, or its process died
	Server   string    `json:"server"` // the one that was asked: another one, or the same that began anew, may hold something else
	Heads    int       `json:"heads"`
	Found    int       `json:"found"`
	Findings []Finding `json:"findings,omitempty"`
}

// HeadsAgain is how long a look at the heads serves all processes that start.
const HeadsAgain = time.Minute

const (
	headsAtOnce = 4                // packs that are looked at at once
	headsPause  = time.Millisecond // between two of them: some 100,000 heads take two minutes, beside the work
	headsPart   = 2000             // what is in memory at a time, in heads
)

// Heads checks that the newest state of every thread, and of each of its tips, is there under its hash: a commit that survived
// without its pack is found here, before anybody builds on it. It reads one node of each pack that a head names. What is found
// is stored, for whoever asks (Alarms), and logged. A look at the same server that began after a time serves: of several processes
// that start together one looks, and the report of that one is returned, as far as it is.
func Heads(ctx context.Context, s Store, r Reader, packs casstore.PackGetter, server string, after time.Time,
	log *slog.Logger) (HeadsReport, error) {
	last, rev, err := readHeads(ctx, s)
	if err != nil {
		return last, err
	}
	now := time.Now()
	if began := time.Unix(0, last.Began); began.After(after) && began.Before(now) && last.Found == 0 && last.Server == server {
		return last, nil
	}
	rep := HeadsReport{Began: now.UnixNano(), Server: server}
	began, err := rep.store(ctx, s, rev)
	if errors.Is(err, record.ErrConflict) {
		return rep, nil // another process was faster
	}
	if err == nil {
		err = rep.look(ctx, r, packs, began)
	}
	if err != nil {
		return rep, err
	}
	rep.Ended = time.Now().UnixNano()
	for _, f := range rep.Findings {
		log.Error("a head does not resolve: spool fsck --repair has its events applied again", "record", f.Record, "error", f.Detail)
	}
	_, err = rep.store(ctx, s, record.Any)
	return rep, err
}

func readHeads(ctx context.Context, s Store) (rep HeadsReport, rev uint64, err error) {
	rs, err := s.Records(ctx, events.HeadsKey)
	if err != nil {
		return rep, 0, err
	}
	if json.Unmarshal(rs[0].Value, &rep) != nil {
		rep = HeadsReport{}
	}
	return rep, rs[0].Seq, nil
}

func (rep HeadsReport) store(ctx context.Context, s Store, rev uint64) (seq uint64, err error) {
	b, err := json.Marshal(rep)
	if err == nil {
		seq, err = s.Write(ctx, record.Put{Key: events.HeadsKey, Value: b, Expect: rev})
	}
	return seq, err
}

// place is a state that a head is at.
type place struct {
	key string
	seq uint64
	at  casstore.Located
}

// errBehind ends a look at what was written before it.
var errBehind = errors.New("written since the look began")

// look goes through the heads that were written before it began, a part at a time: those that are stored together stand in the same packs.
func (rep *HeadsReport) look(ctx context.Context, r Reader, packs casstore.PackGetter, began uint64) error {
	var places []place
	heads := 0
	part := func() (err error) {
		err = rep.lookAt(ctx, r, packs, places)
		places, heads = places[:0], 0
		return err
	}
	_, err := r.Scan(ctx, 1, func(one record.Stamped) error {
		if one.Seq > began {
			return errBehind
		}
		_, is := events.ParseHeadKey(one.Key)
		if !is {
			_, _, is = events.ParseHistoryKey(one.Key)
		}
		if !is || !one.Exists() {
			return nil
		}
		rep.Heads++
		h, err := threads.DecodeHead(one.Value)
		if err != nil {
			rep.find(Finding{Unreadable, one.Key, err.Error()})
			return nil
		}
		for _, at := range append(h.Roots(), h.Start) {
			if !at.IsZero() {
				places = append(places, place{one.Key, one.Seq, at})
			}
		}
		if heads++; heads < headsPart {
			return nil
		}
		return part()
	})
	if err != nil && !errors.Is(err, errBehind) {
		return err
	}
	return part()
}

// lookAt goes through places, pack by pack.
func (rep *HeadsReport) lookAt(ctx context.Context, r Reader, packs casstore.PackGetter, places []place) error {
	slices.SortStableFunc(places, func(a, b place) int { return strings.Compare(a.at.Pack.String(), b.at.Pack.String()) })
	found := make([][]Finding, len(places))
	outer := ctx
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(headsAtOnce)
	for from := 0; from < len(places); {
		to := from
		for to < len(places) && places[to].at.Pack == places[from].at.Pack {
			to++
		}
		some, out := places[from:to], found[from:to]
		g.Go(func() error { return resolve(ctx, r, packs, some, out) })
		from = to
		sleep.For(ctx, headsPause)
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for _, f := range slices.Concat(found...) {
		rep.find(f)
	}
	return outer.Err()
}

func (rep *HeadsReport) find(f Finding) {
	if rep.Found++; len(rep.Findings) < maxFindings {
		rep.Findings = append(rep.Findings, f)
	}
}

// resolve reads the states of one pack. A head that moved on meanwhile is not judged.
func resolve(ctx context.Context, r Reader, packs casstore.PackGetter, places []place, found [][]Finding) error {
	pack, err := packs.Pack(ctx, places[0].at.Pack)
	for i, p := range places {
		err := err
		if err == nil {
			_, err = pack.Node(p.at.Ref)
		}
		kind := record.KindOf(ctx, err)
		if err == nil {
			continue
		}
		if kind == "" {
			return fmt.Errorf("look at %s: %w", p.key, err)
		}
		rs, e := r.Records(ctx, p.key)
		if e != nil {
			return e
		}
		if rs[0].Seq == p.seq {
			found[i] = []Finding{{kind, p.key, fmt.Sprintf("%s cannot be read: %v", p.at, err)}}
		}
	}
	return nil
}
