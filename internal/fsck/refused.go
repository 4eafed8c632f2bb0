package fsck

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"spool/internal/record"
	"spool/pkg/events"
)

// checkRefused finds the records of what was refused in a partition that somebody removed: no persister does.
func (c *checker) checkRefused(ctx context.Context) error {
	keys := make([]string, events.Partitions)
	for i := range keys {
		keys[i] = events.RefusedKey(i)
	}
	rs, err := c.s.Records(ctx, keys...)
	if err != nil {
		return err
	}
	for _, r := range rs {
		if !r.Removed() {
			continue
		}
		c.refused = append(c.refused, r)
		const what = "it was removed: what was refused under a name without a thread can be applied when it comes again"
		if err := c.find(ctx, r.Seq, Finding{Kind: Missing, Record: r.Key, Detail: what}); err != nil {
			return err
		}
	}
	return nil
}

// mostNowhere is how many events are put back into a record of what was refused.
const mostNowhere = 1024

// fixRefused makes the records again of what was refused, from the dead letters: any event that is stored by now may have one,
// and those of names without a thread are refused again when they come again.
func (f *fixer) fixRefused(ctx context.Context) error {
	if len(f.c.refused) == 0 {
		return nil
	}
	var nowhere []refusal
	for of := range f.c.ledger.refusals {
		if !slices.ContainsFunc(f.c.heads, func(h head) bool { return h.id == of.thread }) {
			nowhere = append(nowhere, of)
		}
	}
	at := func(of refusal) uint64 { return f.c.ledger.refusals[of][0].at }
	slices.SortFunc(nowhere, func(a, b refusal) int { return cmp.Compare(at(a), at(b)) })
	nowhere = nowhere[max(0, len(nowhere)-mostNowhere):]
	const skew = 10 * time.Minute // by which clocks may differ
	now := record.Refused{Top: math.MaxInt64, Latest: time.Now().Add(skew).UnixNano()}
	for _, of := range nowhere {
		rs, err := f.c.s.Records(ctx, events.DeletedKey(of.thread.Session))
		if err != nil {
			return err
		}
		d, err := record.DecodeDeleted(rs[0].Value)
		if err != nil {
			d = record.Deleted{}
		}
		e := events.Event{Thread: of.thread, Producer: of.producer, Epoch: of.epoch, Seq: of.seq}
		now.Nowhere = append(now.Nowhere, record.IdentityOf(&e, d.Seq))
	}
	for _, r := range f.c.refused {
		fence, err := f.w.Fence(ctx, 0)
		if err != nil {
			return err
		}
		// A crash after this leaves a lost record less.
		if _, err := f.w.Commit(ctx, fence, []record.Put{{Key: r.Key, Value: now.Encode(math.MaxInt), Expect: r.Seq}}); err != nil {
			return fmt.Errorf("repair %s: %w", r.Key, err)
		}
		f.c.report.Repairs = append(f.c.report.Repairs, Repair{Record: r.Key, To: r.Key,
			Detail: fmt.Sprintf("it was made again from the dead letters, of which %d are of names without a thread", len(nowhere))})
	}
	return nil
}
