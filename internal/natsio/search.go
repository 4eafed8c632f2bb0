package natsio

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"spool/pkg/casstore"
)

// Search finds nodes by the headers of all packs. It is a casstore.NodeLocator for readers whose locators lead nowhere.
// Searches wait for each other, and a node that is nowhere is not looked for again for a while: a thread that has lost a
// node must not cost its readers all headers each time. Safe for concurrent use.
type Search struct {
	s       *Store
	turn    chan struct{}
	nowhere map[casstore.Ref]time.Time // when it was looked for; whoever has the turn owns it
}

const (
	searchAgain  = 30 * time.Second // until a node that was nowhere is looked for again
	searchMisses = 4096             // that many are remembered
)

// Search returns a search of the store.
func (s *Store) Search() *Search {
	return &Search{s: s, turn: make(chan struct{}, 1), nowhere: map[casstore.Ref]time.Time{}}
}

// Locate implements casstore.NodeLocator.
func (f *Search) Locate(ctx context.Context, ref casstore.Ref) (casstore.Located, error) {
	select {
	case f.turn <- struct{}{}:
		defer func() { <-f.turn }()
	case <-ctx.Done():
		return casstore.Located{}, ctx.Err()
	}
	if at, ok := f.nowhere[ref]; ok && time.Since(at) < searchAgain {
		return casstore.Located{}, fmt.Errorf("%s: %w in any pack a moment ago", ref, casstore.ErrNotFound)
	}
	at, err := f.s.locate(ctx, ref, math.MaxInt)
	if errors.Is(err, casstore.ErrNotFound) {
		if len(f.nowhere) >= searchMisses {
			clear(f.nowhere)
		}
		f.nowhere[ref] = time.Now()
	}
	return at, err
}
