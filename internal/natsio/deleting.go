package natsio

import (
	"context"
	"slices"

	"spool/internal/record"
	"spool/pkg/events"
)

// visible leaves out records of sessions that are being removed: of those that are too large for one batch a reader
// sees nothing from the first batch on.
func (recs Records) visible(ctx context.Context, rs []record.Record) ([]record.Record, error) {
	if !slices.ContainsFunc(rs, func(r record.Record) bool { return events.SessionOf(r.Key) != "" }) {
		return rs, nil
	}
	keys, err := recs.Keys(ctx, events.DeletingKeys)
	if err != nil || len(keys) == 0 {
		return rs, err
	}
	marks, err := recs.Records(ctx, keys...)
	if err != nil {
		return nil, err
	}
	going := map[string]bool{}
	for _, m := range marks {
		if session, ok := events.ParseDeletingKey(m.Key); ok && m.Exists() && !m.IsForeign() {
			going[session] = true
		}
	}
	return slices.DeleteFunc(rs, func(r record.Record) bool { return going[events.SessionOf(r.Key)] }), nil
}

// BetweenDeletions calls read, and calls it again when a session was being deleted meanwhile: what several messages
// told may be of before and of after. Where deletions do not pause, the last of a few calls counts.
func BetweenDeletions(ctx context.Context, recs Records, read func() error) error {
	newest := func() (uint64, error) {
		rs, err := recs.Records(ctx, events.DeletedKey("*"))
		if err != nil {
			return 0, err
		}
		return rs[0].Seq, nil
	}
	const tries = 5
	before, err := newest()
	for n := 1; err == nil; n++ {
		if err = read(); err != nil {
			return err
		}
		after, e := newest()
		if e != nil || after == before || n == tries {
			return e
		}
		before = after
	}
	return err
}
