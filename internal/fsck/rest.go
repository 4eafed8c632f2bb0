package fsck

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"spool/internal/record"
	"spool/internal/text"
	"spool/pkg/casstore"
	"spool/pkg/threads"
)

// recallHeads reads what heads keep in nodes. From here on a head has all its tips and producers.
func (c *checker) recallHeads(ctx context.Context) error {
	r := threads.Reader{Packs: c.packCache()}
	for i := range c.heads {
		h := &c.heads[i]
		if h.kept = &h.Head; h.Seen.IsZero() && h.Older.IsZero() { // as most: there are no nodes, and no copies need to be kept
			h.Tips = h.Tips[:len(h.Tips):len(h.Tips)]
			continue
		}
		kept := h.Head.Clone()
		h.kept = &kept
		whole, err := r.Recall(ctx, h.Head)
		if err != nil {
			h.lacks(c, h.Seen, fmt.Sprintf("the producers that it keeps in a node cannot be read: %v", err))
		}
		whole.Tips = whole.Tips[:len(whole.Tips):len(whole.Tips)]
		for l, err := range r.Older(ctx, h.Head) {
			if err != nil {
				h.lacks(c, cmp.Or(l, h.Older), fmt.Sprintf("the tips that it keeps in nodes cannot be read: %v", err))
				break
			}
			whole.Tips = append(whole.Tips, l)
		}
		if h.Head = whole; ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

// record is the head as its record has it.
func (h *head) record() *threads.Head {
	if h.kept == nil { // it has none yet
		return &threads.Head{}
	}
	return h.kept
}

// lacks notes that a head's node cannot be read.
func (h *head) lacks(c *checker, at casstore.Located, detail string) {
	h.rest = append(h.rest, wrongHead{record.Damage{Kind: Missing, Detail: detail}, at})
	c.wants(h, at)
}

// lostTips reports whether the head has tips that are not known.
func (h *head) lostTips() bool { return len(h.Tips) < h.record().Branches() }

// lostProducers reports whether the head has producers that are not known.
func (h *head) lostProducers() bool { return len(h.rest) > 0 && (len(h.rest) > 1 || !h.lostTips()) }

// lostTip reports whether a head has a tip that is not known, or is not there.
func (c *checker) lostTip(h *head) bool {
	return h.lostTips() || slices.ContainsFunc(h.Tips, func(l casstore.Located) bool { return c.stateAt(l) == nil })
}

// giveUpRest makes a head do without the nodes and the tips that cannot be read: those branches are the thread's no
// more. Its producers are those that SPOOL_EVENTS tells of, beside those that are known.
func (f *fixer) giveUpRest(ctx context.Context, h *head) error {
	done := Repair{Record: h.key, From: h.Head.Head().Ref.String()}
	now := h.Head.Clone()
	now.Seen, now.Older, now.OlderTips = casstore.Located{}, casstore.Located{}, 0
	if !f.c.lostTip(h) {
		now.Tips, now.Older, now.OlderTips = h.record().Tips, h.record().Older, h.record().OlderTips
	}
	now.Tips = slices.DeleteFunc(slices.Clone(now.Tips), func(l casstore.Located) bool { return f.c.states[l.Ref] == nil })
	if h.lostProducers() {
		stored, err := f.events(ctx, h.id)
		if err != nil {
			return err
		}
		for _, e := range stored {
			if e.Seq <= now.Applied && !now.Duplicate(e.Producer, e.Epoch, e.Event.Seq) {
				now.Saw(e.Producer, e.Epoch, e.Event.Seq, e.Seq)
			}
		}
	}
	now.Gaps = nil // what a producer left out is known no more
	fence, err := f.w.Fence(ctx, 0)
	if err != nil {
		return err
	}
	// A crash after this leaves a head that does without.
	if _, err := f.w.Commit(ctx, fence, []record.Put{{Key: h.key, Value: now.Encode(), Expect: h.seq}}); err != nil {
		return fmt.Errorf("repair %s: %w", h.key, err)
	}
	done.To = done.From
	if h.lostProducers() {
		done.Detail = "its producers are those that SPOOL_EVENTS tells of; what others publish again it takes for new"
	}
	if lost := h.record().Branches() - now.Branches(); lost > 0 {
		done.Detail = text.Sprintf("the thread has lost %d branches that were left", lost)
	}
	f.c.report.Repairs = append(f.c.report.Repairs, done)
	return nil
}
