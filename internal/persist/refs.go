package persist

import (
	"context"
	"errors"
	"fmt"

	"spool/internal/record"
	"spool/pkg/casstore"
	"spool/pkg/events"
)

// Locator finds the pack of a node that nothing else leads to: the last resort, bounded in how far it looks. Errors wrap
// casstore.ErrNotFound.
type Locator interface {
	Locate(ctx context.Context, ref casstore.Ref) (casstore.Located, error)
}

// stepRefs finds what a step refers to: nodes with their packs, blobs. All must be there: a missing one is an error now,
// not a dangling edge later. Whether it is must not depend on the batch: before the answer is no, all that came before is
// committed.
func (l *lane) stepRefs(ctx context.Context, c *commit, t *thread, texts []string) ([]casstore.Located, error) {
	if len(texts) == 0 {
		return nil, nil
	}
	refs := make([]casstore.Located, len(texts))
	for i, text := range texts {
		var err error
		if refs[i], err = casstore.ParseLocated(text); err != nil {
			return nil, fmt.Errorf("refs[%d]: %w", i, err)
		}
	}
	found, err := l.findRefs(ctx, t, refs)
	if err == nil || !errors.Is(err, ErrMissingRef) {
		return found, err
	}
	if err := l.barrier(ctx, c); err != nil {
		return nil, err
	}
	return l.findRefs(ctx, t, refs)
}

func (l *lane) findRefs(ctx context.Context, t *thread, refs []casstore.Located) (found []casstore.Located, err error) {
	err = l.p.retry(ctx, "refs", func() (err error) {
		found, err = FindRefs(ctx, l.p.Records, l.p.Bulk, l.p.Packs, l.near(t), refs)
		return err
	})
	return found, err
}

// ErrMissingRef: a step refers to what is not stored.
var ErrMissingRef = errors.New("is not stored: put it first, then publish the step again")

// records reads records by their keys.
type records interface {
	Records(ctx context.Context, keys ...string) ([]record.Record, error)
	FindPack(ctx context.Context, id casstore.PackID) (record.FoundPack, error)
}

// holder knows whether an object is there.
type holder interface {
	Holds(ctx context.Context, o record.Object) (bool, error)
}

// FindRefs checks that refs lead to something stored, and gives the pack of each node: the one that is named, else the one
// that find knows. Errors wrap ErrMissingRef for what is not there.
func FindRefs(ctx context.Context, rs records, objects holder, packs casstore.PackGetter, find Locator, refs []casstore.Located) ([]casstore.Located, error) {
	found := make([]casstore.Located, len(refs))
	var keys []string
	var blobs []int
	for i, at := range refs {
		if found[i] = at; at.Ref.Kind() == casstore.KindBlob {
			keys, blobs = append(keys, events.BlobKey(at.Ref.Hex())), append(blobs, i)
			continue
		}
		// Where it is now: the name by which it was known may be forgotten before the step is stored.
		var err error
		if found[i].Pack, err = holds(ctx, rs, packs, at); record.IsGone(err) { // no pack is named, or one that lost its copy
			if found[i], err = find.Locate(ctx, at.Ref); err == nil {
				found[i].Pack, err = holds(ctx, rs, packs, found[i])
			}
		}
		if record.IsGone(err) {
			err = fmt.Errorf("%w (%w)", ErrMissingRef, err)
		}
		if err != nil {
			return nil, fmt.Errorf("refs[%d]: %s %w", i, at, err)
		}
	}
	there, err := rs.Records(ctx, keys...)
	if err != nil {
		return nil, err
	}
	held, err := liveBlobs(ctx, objects, there)
	if err != nil {
		return nil, err
	}
	for i := range there {
		if !held[i] {
			return nil, fmt.Errorf("refs[%d]: %s %w", blobs[i], refs[blobs[i]], ErrMissingRef)
		}
	}
	return found, nil
}

// errNoLocator says what a step must bring along.
var errNoLocator = errors.New("name the pack that holds it, as node:sha256:<64 hex>@<32 hex>")

// holds checks that a node is in the pack that is named, wherever that has moved to, and not buried there: then all that it
// leads to is stored. It gives the pack.
func holds(ctx context.Context, rs records, packs casstore.PackGetter, at casstore.Located) (casstore.PackID, error) {
	if at.Pack.IsZero() {
		return at.Pack, casstore.ErrNotFound
	}
	live, err := rs.FindPack(ctx, at.Pack)
	if err != nil {
		return at.Pack, err
	}
	return live.ID, holdsNode(ctx, packs, live, at.Ref)
}

func holdsNode(ctx context.Context, packs casstore.PackGetter, l record.FoundPack, ref casstore.Ref) error {
	pack, err := packs.Pack(ctx, l.ID)
	if err != nil {
		return err
	}
	switch i, ok := pack.Find(ref); {
	case !ok:
		return fmt.Errorf("pack %s: %w", l.ID, casstore.ErrNotFound)
	case l.Pack.IsBuried(i):
		return fmt.Errorf("pack %s: %w: it is garbage", l.ID, casstore.ErrGone)
	}
	return nil
}

// near looks for a node where the heads of the session's threads in memory are, then where the outside knows to look.
func (l *lane) near(t *thread) Locator {
	var packs []casstore.PackID
	for _, other := range l.heads.threads {
		if other.key.Session != t.key.Session {
			continue
		}
		for _, at := range append(other.head.Located(), other.head.Tips...) {
			packs = append(packs, at.Pack)
		}
	}
	return nearby{l.p, packs}
}

type nearby struct {
	p     *Persister
	packs []casstore.PackID
}

// nearPacks is how many packs are read to find a node.
const nearPacks = 64

func (n nearby) Locate(ctx context.Context, ref casstore.Ref) (casstore.Located, error) {
	tried := map[casstore.PackID]bool{}
	for _, id := range n.packs {
		if id.IsZero() || tried[id] || len(tried) == nearPacks {
			continue
		}
		tried[id] = true
		at := casstore.Located{Ref: ref, Pack: id}
		if _, err := holds(ctx, n.p.Records, n.p.Packs, at); err == nil {
			return at, nil
		} else if record.Temporary(err) {
			return at, err
		}
	}
	if n.p.Nodes == nil {
		return casstore.Located{}, fmt.Errorf("%w: %w", casstore.ErrNotFound, errNoLocator)
	}
	at, err := n.p.Nodes.Locate(ctx, ref)
	if errors.Is(err, casstore.ErrNotFound) {
		err = fmt.Errorf("%w: %w", err, errNoLocator)
	}
	return at, err
}

// forgetPacks drops the packs in memory when a collector has begun another cycle. A pack that was repacked since tells where the
// nodes are that it refers to as it was long ago; collectors keep moved records only for what is stored, and what is stored behind
// this fence must name no other (DESIGN 7).
func (l *lane) forgetPacks(f record.Fence) {
	if f == l.fence {
		return
	}
	l.fence = f
	if cache, ok := l.p.Packs.(interface{ Clear() }); ok {
		cache.Clear()
	}
}
