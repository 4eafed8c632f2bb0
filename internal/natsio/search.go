package natsio

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"spool/pkg/casstore"
	"spool/pkg/events"
)

// Search finds nodes by the headers of all packs. It is a casstore.NodeLocator for readers whose locators lead nowhere.
// Searches wait for each other, and a node that is nowhere is looked for again in newer packs only, for a while: a thread that
// has lost a node must not cost its readers all headers each time. Safe for concurrent use.
type Search struct {
	s       *Store
	turn    chan struct{}
	nowhere map[casstore.Ref]miss // whoever has the turn owns it
}

// miss is that a node was in no pack.
type miss struct {
	at     time.Time // when all headers were read
	newest uint64    // sequence of the newest record of a pack before the last look
}

const (
	searchAgain  = 30 * time.Second // until a node that was nowhere is looked for everywhere again
	searchMisses = 4096             // that many are remembered
)

// Search returns a search of the store.
func (s *Store) Search() *Search {
	return &Search{s: s, turn: make(chan struct{}, 1), nowhere: map[casstore.Ref]miss{}}
}

// Locate implements casstore.NodeLocator.
func (f *Search) Locate(ctx context.Context, ref casstore.Ref) (casstore.Located, error) {
	select {
	case f.turn <- struct{}{}:
		defer func() { <-f.turn }()
	case <-ctx.Done():
		return casstore.Located{}, ctx.Err()
	}
	newest, err := f.s.records.Records(ctx, events.PackKey("*"))
	if err != nil {
		return casstore.Located{}, err
	}
	was := f.nowhere[ref]
	if time.Since(was.at) >= searchAgain {
		was = miss{at: time.Now()}
	}
	if was.newest != 0 && was.newest == newest[0].Seq {
		return casstore.Located{}, fmt.Errorf("%s: %w in any pack a moment ago", ref, casstore.ErrNotFound)
	}
	at, err := f.s.locate(ctx, ref, math.MaxInt, was.newest)
	if errors.Is(err, casstore.ErrNotFound) {
		if len(f.nowhere) >= searchMisses {
			clear(f.nowhere)
		}
		f.nowhere[ref] = miss{was.at, newest[0].Seq}
	}
	return at, err
}
