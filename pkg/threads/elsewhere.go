package threads

import (
	"context"
	"errors"

	"spool/pkg/casstore"
)

// isAway reports that a locator led to no pack that holds the node.
func isAway(err error) bool {
	return errors.Is(err, casstore.ErrNotFound) || errors.Is(err, casstore.ErrGone)
}

// elsewhere finds a pack that holds a node which is not where its locator says. It asks, from the cheapest to the dearest:
//
//  1. the pack that the locator names, and the one that the locator comes from, as the store has them now: both may have
//     been repacked since they came into the cache, and the second says anew where the node is
//  2. the headers of all packs
//
// away is what the locator led to, and the error when the node is nowhere. What is found is in a pack of now, whose own
// locators hold: who walks on does not come back here.
func (r Reader) elsewhere(ctx context.Context, at casstore.Located, before opened, away error) (opened, error) {
	if r.Nodes == nil {
		return opened{}, away
	}
	for _, id := range []casstore.PackID{at.Pack, before.id} {
		pack, err := r.anew(ctx, id)
		if err != nil {
			return opened{}, err
		}
		if pack.holds(at.Ref) {
			return pack, nil
		}
		if pack.Pack == nil {
			continue
		}
		if to, ok := pack.Locate(at.Ref); ok && to != at.Pack {
			if pack, err = r.anew(ctx, to); err != nil {
				return opened{}, err
			}
			if pack.holds(at.Ref) {
				return pack, nil
			}
		}
	}
	found, err := r.Nodes.Locate(ctx, at.Ref)
	if isAway(err) {
		return opened{}, away
	}
	if err != nil {
		return opened{}, err
	}
	return r.open(ctx, found)
}

// anew reads a pack as the store has it now; none if it has not got it.
func (r Reader) anew(ctx context.Context, id casstore.PackID) (opened, error) {
	if id.IsZero() {
		return opened{}, nil
	}
	if cache, ok := r.Packs.(interface{ Forget(casstore.PackID) }); ok {
		cache.Forget(id)
	}
	pack, err := r.Packs.Pack(ctx, id)
	if isAway(err) {
		return opened{}, nil
	}
	return opened{pack, id}, err
}
