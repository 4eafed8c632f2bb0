package artifactstore

import (
	"context"
	"fmt"

	"spool/internal/record"
	"spool/internal/retry"
	"spool/pkg/artifacts"
	"spool/pkg/events"
)

// forkRows is how many artifacts of a fork go into one batch: three records each.
const forkRows = 200

// Fork gives the artifacts of a session to its fork: rows of its own with the same numbers over the same bytes (SPEC
// A7). The row that a new one is made from is touched with it, so that it cannot be removed in between. Repeating it
// adds nothing.
func (a *Artifacts) Fork(ctx context.Context, from, to string, at int64) (rows int, err error) {
	source, err := a.records.List(ctx, events.ArtifactKeys(from, ""))
	if err != nil || len(source) == 0 {
		return 0, err
	}
	f, err := a.inherit(ctx, from, to)
	if err != nil {
		return 0, err
	}
	for len(source) > 0 {
		n := min(len(source), forkRows)
		made, err := a.forkSome(ctx, f, source[:n], to, at)
		if err != nil {
			return rows, fmt.Errorf("fork the artifacts of session %s: %w", from, refused(err))
		}
		rows, source = rows+made, source[n:]
	}
	return rows, nil
}

// inherit makes the numbers of a fork go on above those of its source. f is for the records that have those.
func (a *Artifacts) inherit(ctx context.Context, from, to string) (f *fence, err error) {
	rs, err := a.records.Records(ctx, events.CounterKey(from))
	if err != nil {
		return nil, err
	}
	c, err := record.DecodeCounter(rs[0].Value)
	if err != nil {
		return nil, err
	}
	if f, err = a.begin(ctx); err != nil {
		return nil, err
	}
	return f, a.count(ctx, to, f, func(own *record.Counter) { own.Raise(c.Artifacts) })
}

// forkSome copies rows that are still there, but for those that the fork has.
func (a *Artifacts) forkSome(ctx context.Context, f *fence, source []record.Record, to string, at int64) (made int, err error) {
	err = retry.Do(ctx, nil, func() error {
		if err := a.renew(ctx, f); err != nil {
			return err
		}
		keys := make([]string, 0, 2*len(source))
		rows := make([]artifacts.Record, len(source))
		for i, s := range source {
			r, err := artifacts.DecodeRecord(s.Value)
			if err != nil {
				return fmt.Errorf("%s: %w", s.Key, err)
			}
			rows[i] = r.Fork(to, r.ForkID(to), at)
			keys = append(keys, s.Key, events.ArtifactKeys("", string(rows[i].ID)))
		}
		now, err := a.records.Records(ctx, keys...)
		if err != nil {
			return err
		}
		var puts []record.Put
		made = 0
		for i, r := range rows {
			src, holder, key := now[2*i], now[2*i+1], events.ArtifactKey(to, string(r.ID))
			switch {
			case !src.Exists(), holder.Key == key:
				continue
			case holder.Seq != 0:
				return taken(r)
			}
			made++
			puts = append(puts, record.Put{Key: src.Key, Value: src.Value, Expect: src.Seq},
				record.Put{Key: key, Value: r.Encode(), Alone: events.ArtifactKeys("", string(r.ID))})
			if shared(r) {
				puts = append(puts, record.Put{Key: sharedKey(r), Value: []byte{1}, Expect: record.Any})
			}
		}
		if len(puts) == 0 {
			return nil
		}
		_, err = a.records.Commit(ctx, f.Fence, append(puts, f.demand()...))
		return retry.Raced(err)
	})
	return made, err
}
