package history

import (
	"context"
	"fmt"
	"math"
	"slices"

	"spool/internal/mapped"
	"spool/internal/record"
	"spool/pkg/events"
)

// What a history forgets: sessions that were deleted, while it followed or while nobody did.

// fewKnown is up to how many sessions are looked for one by one.
const fewKnown = 1000

// doubted are the sessions that are known and may be deleted: of few, all.
func (f *Follower) doubted(ctx context.Context) (known []string, err error) {
	if known, err = f.db.Sessions(ctx); err == nil && len(known) > f.few {
		return f.suspects(ctx, known)
	}
	return known, err
}

// suspects are those of very many sessions that were deleted, or have no record.
func (f *Follower) suspects(ctx context.Context, known []string) (out []string, err error) {
	there, err := f.bucket.Ages(ctx, events.SessionKey("*"), math.MinInt64)
	if err != nil {
		return nil, err
	}
	deleted, err := f.bucket.Ages(ctx, events.DeletedKey("*"), math.MinInt64)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(known, func(name string) bool {
		return there[events.SessionKey(name)].Seq != 0 && deleted[events.DeletedKey(name)].Seq == 0
	}), nil
}

// Forget removes what those of the sessions asked for that were deleted, and tells how many they are. What a session said is
// not to outlive it (SPEC A6), nor to come to another one of its name. Where the file cannot be written anew now without what erased ones
// said, the next call or Follow does it.
func (f *Follower) Forget(ctx context.Context, names []string) (gone int, err error) {
	if gone, err = f.forgetAll(ctx, names); err == nil {
		if err := f.db.rewrite(ctx); err != nil {
			f.log.Warn("the file still has what an erased session said", "error", err)
		}
	}
	return gone, err
}

// ForgetDeleted is Forget of whatever is known.
func (f *Follower) ForgetDeleted(ctx context.Context) error {
	doubted, err := f.doubted(ctx)
	if err == nil {
		_, err = f.Forget(ctx, doubted)
	}
	return err
}

func (f *Follower) forgetAll(ctx context.Context, names []string) (gone int, err error) {
	for some := range slices.Chunk(names, mostPosts) {
		n, err := f.forgetEarlier(ctx, some)
		if gone += n; err != nil {
			return gone, err
		}
		records, err := f.records(ctx, some, events.SessionKey)
		if err != nil {
			return gone, err
		}
		for i, r := range records {
			if r.Exists() {
				continue
			}
			if err := f.db.Forget(ctx, some[i]); err != nil {
				return gone, err
			}
			gone++
		}
	}
	return gone, nil
}

// forgetEarlier removes what sessions had before they were deleted, and tells of how many there was anything.
func (f *Follower) forgetEarlier(ctx context.Context, names []string) (gone int, err error) {
	records, err := f.records(ctx, names, events.DeletedKey)
	for _, r := range records {
		if !r.Exists() {
			continue
		}
		some, err := f.forget(ctx, r, false)
		if err != nil {
			return gone, err
		}
		if some {
			gone++
		}
	}
	return gone, err
}

// records reads a record of each of the sessions, in that order.
func (f *Follower) records(ctx context.Context, names []string, key func(session string) string) ([]record.Record, error) {
	keys := mapped.List(names, key)
	found, err := f.bucket.Records(ctx, keys...)
	if err != nil {
		return nil, fmt.Errorf("sessions of prompts: %w", err)
	}
	return found, nil
}
