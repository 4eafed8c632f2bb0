package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"spool/internal/mapped"
	"spool/internal/record"
	"spool/pkg/artifacts"
	"spool/pkg/casstore"
	"spool/pkg/events"
)

// stepRefs finds what a step refers to: nodes with their packs, blobs. All must be there: a missing one is an error
// now, not a dangling edge later. Whether it is must not depend on the batch: before the answer is no, all that came
// before is committed.
func (d *draft) stepRefs(ctx context.Context, texts []string) ([]casstore.Located, error) {
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
	found, err := FindRefs(ctx, d.w, d.w.Reader().Packs, nearby{d}, refs)
	if err == nil || !errors.Is(err, ErrMissingRef) {
		return found, err
	}
	if err := d.w.SettleBefore(ctx, ""); err != nil {
		return nil, err
	}
	return FindRefs(ctx, d.w, d.w.Reader().Packs, nearby{d}, refs)
}

// FindRefs checks that refs lead to something stored, and gives the pack of each node: the one that is named, else the
// one that find knows. Errors wrap ErrMissingRef for what is not there.
func FindRefs(ctx context.Context, rs Store, packs casstore.PackGetter, find Locator, refs []casstore.Located) (
	[]casstore.Located, error,
) {
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
	held, err := record.LiveBlobs(ctx, rs, there)
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

// holds checks that a node is in the pack that is named, wherever that has moved to, and not buried there: then all
// that it leads to is stored. It gives the pack.
func holds(ctx context.Context, rs Store, packs casstore.PackGetter, at casstore.Located) (casstore.PackID, error) {
	if at.Pack.IsZero() {
		return at.Pack, casstore.ErrNotFound
	}
	live, err := rs.FindPack(ctx, at.Pack)
	if err != nil {
		return at.Pack, err
	}
	return live.ID, HoldsNode(ctx, packs, live, at.Ref)
}

// HoldsNode checks that a node is in a pack and not buried there.
func HoldsNode(ctx context.Context, packs casstore.PackGetter, l record.FoundPack, ref casstore.Ref) error {
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

// nearby looks for a node where the heads of the session's threads are, then where the world knows to look.
type nearby struct{ d *draft }

// nearPacks is how many packs are read to find a node.
const nearPacks = 64

func (n nearby) Locate(ctx context.Context, ref casstore.Ref) (casstore.Located, error) {
	w, tried := n.d.w, map[casstore.PackID]bool{}
	for _, id := range w.Near(n.d.st.Key.Session) {
		if id.IsZero() || tried[id] || len(tried) == nearPacks {
			continue
		}
		tried[id] = true
		at := casstore.Located{Ref: ref, Pack: id}
		if _, err := holds(ctx, w, w.Reader().Packs, at); err == nil {
			return at, nil
		} else if Passing(err) {
			return at, err
		}
	}
	at, err := w.Locate(ctx, ref)
	if errors.Is(err, casstore.ErrNotFound) {
		err = fmt.Errorf("%w: %w", err, errNoLocator)
	}
	return at, err
}

// mostNamed is how many blobs an entry holds on to by their names in its text: those that it names first. Each
// costs a read or two, while other sessions wait. Further ones are names and nothing else: gc keeps them for others
// alone.
const mostNamed = 1024

// heldBlobs lists the blobs that an entry names by itself, wherever and however, beside its refs: its content refers to
// them, so that gc keeps them. One that is not stored stays a ref in the text and nothing else. Whether it is stored
// must not depend on the batch: before the answer is no, all that came before is committed.
func (d *draft) heldBlobs(ctx context.Context, refs []casstore.Located) ([]casstore.Ref, error) {
	if d.e.Kind != events.KindEntry {
		return nil, nil
	}
	var named []casstore.Ref
	for mention := range artifacts.Mentions(d.e.Text) {
		if ref, err := casstore.ParseRef(mention); err == nil {
			named = append(named, ref)
		}
	}
	named = slices.DeleteFunc(distinct(named), func(r casstore.Ref) bool {
		return slices.ContainsFunc(d.e.Blobs, func(b Blob) bool { return b.Ref == r }) ||
			slices.ContainsFunc(refs, func(l casstore.Located) bool { return l.Ref == r })
	})
	named = named[:min(len(named), mostNamed)]
	stored, err := d.storedBlobs(ctx, named)
	if err != nil || len(stored) == len(named) {
		return stored, err
	}
	if err := d.w.SettleBefore(ctx, ""); err != nil {
		return nil, err
	}
	missing := slices.DeleteFunc(slices.Clone(named), func(r casstore.Ref) bool { return slices.Contains(stored, r) })
	late, err := d.storedBlobs(ctx, missing)
	return slices.DeleteFunc(named, func(r casstore.Ref) bool {
		return !slices.Contains(stored, r) && !slices.Contains(late, r)
	}), err
}

// storedBlobs lists those of some blobs that have a live record, in order.
func (d *draft) storedBlobs(ctx context.Context, refs []casstore.Ref) (live []casstore.Ref, err error) {
	keys := mapped.List(refs, func(r casstore.Ref) string { return events.BlobKey(r.Hex()) })
	rs, err := d.w.Records(ctx, keys...)
	if err != nil {
		return nil, err
	}
	there, err := record.LiveBlobs(ctx, d.w, rs)
	if err != nil {
		return nil, err
	}
	for i, ref := range refs {
		if there[i] {
			live = append(live, ref)
		}
	}
	return live, nil
}
