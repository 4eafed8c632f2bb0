package fsck

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"spool/internal/record"
	"spool/internal/text"
	"spool/pkg/casstore"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// checkHeads holds every head against the states.
func (c *checker) checkHeads(ctx context.Context) error {
	past := map[events.Thread]bool{}
	for _, h := range c.heads {
		past[h.id] = past[h.id] || h.past
	}
	for i := range c.heads {
		h := &c.heads[i]
		note := func(kind, detail string, tip casstore.Located) error {
			f := Finding{Kind: kind, Record: h.key, Detail: detail}
			if !tip.IsZero() {
				f.Tip = tip.Ref.String()
			}
			return c.find(ctx, h.seq, f)
		}
		if !h.past && past[h.id] {
			if err := note(Inconsistent, "the thread is in the history, too", casstore.Located{}); err != nil {
				return err
			}
		}
		wrong, err := c.head(ctx, h)
		if err != nil {
			return err
		}
		for _, w := range wrong {
			if err := note(w.Kind, w.Detail, w.tip); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkAway names what is wrong with packs that a thread needs: those that are away or torn, those that refer to newer ones. What
// refers to them otherwise is garbage: a server that was killed brought it back as well, or no cycle of gc has come to it. A torn
// pack counts as garbage only where nothing else is wrong: its threads may have found what it held in another one.
func (c *checker) checkAway(ctx context.Context) error {
	needed, sound := c.needed(), len(c.report.Findings) == 0 && c.cfg.Lost == ""
	for i, p := range c.packs {
		sound = sound && !(p.lost && needed[i])
	}
	for i, p := range c.packs {
		if len(p.torn) > 0 && sound {
			c.report.Returned++
		} else {
			c.report.Findings = append(c.report.Findings, p.torn...)
		}
		if needed[i] && !p.newer.IsZero() {
			if err := c.find(ctx, p.seq, Finding{Kind: Inconsistent, Record: p.key(),
				Detail: fmt.Sprintf("it refers to %s, whose pack is newer", p.newer)}); err != nil {
				return err
			}
		}
		if !p.away {
			continue
		}
		if !needed[i] {
			c.report.Returned++
			continue
		}
		if err := c.find(ctx, p.seq, Finding{Kind: Missing, Record: p.key(),
			Detail: fmt.Sprintf("nothing of its %d bytes is there", p.rec.Object.Size)}); err != nil {
			return err
		}
	}
	return nil
}

// needed are the packs that threads reach, by their index: a pack refers to older ones, which have a lower index. One that cannot be
// read may refer to any of them.
func (c *checker) needed() []bool {
	needed := make([]bool, len(c.packs))
	for _, h := range c.heads {
		for _, l := range append(h.record().Roots(), h.Start) {
			if i, ok := c.at[c.final(l.Pack)]; ok {
				needed[i] = true
			}
		}
	}
	torn := false
	for i := len(c.packs) - 1; i >= 0; i-- {
		needed[i] = needed[i] || torn
		torn = torn || needed[i] && c.packs[i].lost
		for _, to := range c.packs[i].uses {
			needed[to] = needed[to] || needed[i]
		}
	}
	return needed
}

// wrongHead is one thing that is wrong with a head; tip is the place that cannot be read, if that is it.
type wrongHead struct {
	record.Damage
	tip casstore.Located
}

// head holds one head against the states.
func (c *checker) head(ctx context.Context, h *head) (wrong []wrongHead, err error) {
	say := func(format string, args ...any) {
		wrong = append(wrong, wrongHead{record.Damage{Kind: Inconsistent, Detail: text.Sprintf(format, args...)}, casstore.Located{}})
	}
	if there, err := c.there(ctx, h.Start); err != nil {
		return nil, err
	} else if !there || c.bad[nodeIn{h.Start.Ref, c.packAt(h.Start.Pack)}] != nil {
		c.wants(h, h.Start)
		start := record.Damage{Kind: Missing, Detail: fmt.Sprintf("its start %s is not there or not good", h.Start)}
		wrong = append(wrong, wrongHead{start, casstore.Located{}})
	}
	wrong = append(wrong, h.rest...)
	roots := h.Newest()
	var newest *state
	for _, at := range roots {
		s := c.stateAt(at)
		switch {
		case s == nil:
			c.wants(h, at)
			away := record.Damage{Kind: Missing, Detail: fmt.Sprintf("the state %s is not there or cannot be read", at)}
			wrong = append(wrong, wrongHead{away, at})
			continue
		case s.wrong != nil:
			wrong = append(wrong, wrongHead{*s.wrong, casstore.Located{}})
		case s.start != h.Start.Ref:
			say("the state %s has another start", at)
		}
		if newest == nil || s.index > newest.index {
			newest = s
		}
	}
	if len(wrong) > 0 {
		for _, at := range h.Recent { // states behind one that is missing are named by the head alone
			if c.stateAt(at) == nil {
				c.wants(h, at)
			}
		}
		return wrong, nil
	}
	if newest == nil {
		newest = &state{first: 1}
	}
	if newest.index != h.Entries {
		say("it counts %d entries, its newest state has the index %d", h.Entries, newest.index)
	}
	if last, ok := newest.last(); ok && last != h.N {
		say("it counts %d items, its newest state ends with %d", h.N, last)
	}
	if err := c.recent(ctx, h, say); err != nil {
		return nil, err
	}
	c.numbers(h, say)
	completed := h.Status == threads.StatusCompleted
	switch {
	case completed != h.past:
		say("it is %s, and its record is %s", h.Status, h.key)
	case completed && len(h.Recent) > 0 && !c.ended(h.Recent[0].Ref):
		say("it is completed, and there is no end behind which results of outputs alone stand")
	}
	return wrong, nil
}

// wants notes that a head looks for a state in vain. The commit of that state, or a later one, wrote the head behind its pack.
func (c *checker) wants(h *head, at casstore.Located) {
	if _, known := c.absent[at.Ref]; known || at.IsZero() {
		return
	}
	c.absent[at.Ref] = at.Pack
	id := c.final(at.Pack)
	if least, used := c.users[id]; !used || h.seq < least {
		c.users[id] = h.seq
	}
}

// recent checks a head's skip list, and where it says that the states are.
func (c *checker) recent(ctx context.Context, h *head, say func(string, ...any)) error {
	want := []casstore.Ref{}
	if len(h.Recent) > 0 {
		for at := h.Recent[0].Ref; !at.IsZero() && len(want) < threads.MaxRecent; at = c.states[at].parent {
			want = append(want, at)
		}
	}
	if !slices.EqualFunc(h.Recent, want, func(l casstore.Located, r casstore.Ref) bool { return l.Ref == r }) {
		say("its recent states are not the head's parent and ancestors")
	}
	for _, l := range slices.Concat(h.Recent, h.Tips) {
		there, err := c.there(ctx, l)
		if err != nil {
			return err
		}
		if !there {
			say("%s is not in that pack", l)
		}
	}
	return nil
}

// numbers checks, in a thread with branches, that no number is given twice and none is left out between two entries.
func (c *checker) numbers(h *head, say func(string, ...any)) {
	if len(h.Tips) == 0 {
		return // each state was held against its parent
	}
	seen := map[casstore.Ref]bool{}
	var all []*state
	for _, root := range h.Newest() {
		for at := root.Ref; !at.IsZero() && !seen[at]; at = c.states[at].parent {
			seen[at] = true
			if s := c.states[at]; s.index > 0 {
				all = append(all, s)
			}
		}
	}
	slices.SortFunc(all, func(a, b *state) int { return cmp.Compare(a.index, b.index) })
	for i := 1; i < len(all); i++ {
		before, s := all[i-1], all[i]
		next := before.first + before.count
		switch {
		case s.index == before.index:
			say("two states have the index %d", s.index)
		case s.first == 0 || before.first == 0:
		case s.first < next, s.index == before.index+1 && s.first != next:
			say("the items of entry %d begin at %d, want %d", s.index, s.first, next)
		}
	}
}
