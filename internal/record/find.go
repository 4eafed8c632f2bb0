package record

import (
	"context"
	"errors"
	"fmt"

	"spool/pkg/casstore"
	"spool/pkg/events"
)

// FoundPack is a pack that is there, with its record.
type FoundPack struct {
	ID     casstore.PackID
	Record Record
	Pack   Pack
}

// IsGone reports that no live pack holds what a pack held, by the error of FindPack.
func IsGone(err error) bool {
	return errors.Is(err, casstore.ErrGone) || errors.Is(err, casstore.ErrNotFound)
}

// FindPack finds the live pack that holds the nodes of a pack, following moved records. A moved record is the last word: a live record
// beside it was brought back by a server that was killed (docs/adr/0022). The ID is that of the last pack in the chain in any case.
// Errors: casstore.ErrGone, it was collected; casstore.ErrNotFound, it never was, or was collected long ago; casstore.ErrCorrupt, it
// moves in a circle; ErrValue; and those of read.
func FindPack(ctx context.Context, read func(ctx context.Context, keys ...string) ([]Record, error),
	id casstore.PackID) (FoundPack, error) {
	at := FoundPack{ID: id}
	for been := map[casstore.PackID]bool{}; !been[at.ID]; {
		packKey, movedKey := events.PackKey(at.ID.String()), events.MovedKey(at.ID.String())
		rs, err := read(ctx, packKey, movedKey)
		if err != nil {
			return at, fmt.Errorf("pack %s: %w", at.ID, err)
		}
		moved := rs[1]
		if !moved.Exists() {
			at.Record = rs[0]
			pack, gone := livePack(rs[0])
			if gone == nil {
				at.Pack = pack
				return at, nil
			}
			// A cluster's servers answer requests that are under way together in any order. A tombstone is written with the moved
			// record, if there is to be one: who has seen the first and asks then is told of the other.
			if rs, err = read(ctx, movedKey); err != nil {
				return at, fmt.Errorf("pack %s: %w", at.ID, err)
			}
			if moved = rs[0]; !moved.Exists() {
				return at, fmt.Errorf("pack %s: %w", at.ID, gone)
			}
		}
		m, err := DecodeMoved(moved.Value)
		if err != nil {
			return at, fmt.Errorf("pack %s: %w", at.ID, err)
		}
		been[at.ID] = true
		at.ID = m.To
	}
	return at, fmt.Errorf("pack %s: %w: it moved in a circle", id, casstore.ErrCorrupt)
}

func livePack(r Record) (Pack, error) {
	if !r.Exists() {
		return Pack{}, casstore.ErrNotFound
	}
	p, err := DecodePack(r.Value)
	if err == nil && p.Gone {
		err = casstore.ErrGone
	}
	return p, err
}
