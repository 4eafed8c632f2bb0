package fsck

import (
	"fmt"
	"slices"

	"spool/pkg/casstore"
	"spool/pkg/events"
)

// ancestor finds the newest state that is good of those at a thread's head, which another thread may have as well, and before it. The
// head names eleven; when all are gone with one pack, it is the newest state of the same start that no other thread stands on the way to.
func (f *fixer) ancestor(h *head) (at casstore.Located, why string) {
	c, first := f.c, 1
	if c.spare(h) {
		first = 0
	}
	for _, l := range h.Recent[first:] {
		if c.good(l.Ref) {
			return casstore.Located{Ref: l.Ref, Pack: c.packs[c.states[l.Ref].pack].id}, ""
		}
	}
	others := c.others(nil)
	for i := range f.recovered {
		c.addStates(&f.recovered[i], others)
	}
	var found []casstore.Ref
	for ref, s := range c.states {
		if s.start != h.Start.Ref || !c.good(ref) || others[ref] || s.index > h.Entries {
			continue
		}
		if len(found) > 0 && s.index > c.states[found[0]].index {
			found = found[:0]
		}
		if len(found) == 0 || s.index == c.states[found[0]].index {
			found = append(found, ref)
		}
	}
	if len(found) == 1 && c.contested(h) {
		return at, fmt.Sprintf("none of the %d states before the head that it names is good, and threads that begin alike have lost theirs, "+
			"too, so that it cannot be told whose the last good state is: restore the pack %s from a backup",
			len(h.Recent)-1, h.Recent[0].Pack)
	}
	if t, ok := f.claimed(h); len(found) == 1 && ok {
		return at, fmt.Sprintf("none of the %d states before the head that it names is good, and %s, which has lost its head, "+
			"may have had the last good one: once that has its head again, repair once more",
			len(h.Recent)-1, t)
	}
	if len(found) != 1 {
		return at, fmt.Sprintf("none of the %d states before the head that it names is good, and %d others could be where it was: "+
			"restore the pack %s from a backup",
			len(h.Recent)-1, len(found), h.Recent[0].Pack)
	}
	return casstore.Located{Ref: found[0], Pack: c.packs[c.states[found[0]].pack].id}, ""
}

// contested reports whether another thread with the same start has lost states: one that is there, and that no thread stands on,
// can be of either. To give it to the wrong one would show one session's entries in another.
func (c *checker) contested(h *head) bool {
	for i := range c.heads {
		o := &c.heads[i]
		if o == h || o.Start.Ref != h.Start.Ref {
			continue
		}
		for _, root := range o.Newest() {
			for at := root.Ref; !at.IsZero(); at = c.states[at].parent {
				if c.states[at] == nil {
					return true
				}
			}
		}
	}
	return false
}

// claimed finds a thread that has lost its head, has not got it back, and may have begun as another one: its states are there, and no head
// stands on them.
func (f *fixer) claimed(h *head) (events.Thread, bool) {
	c := f.c
	for _, t := range c.lostThreads {
		if slices.ContainsFunc(f.recovered, func(r head) bool { return r.id == t }) {
			continue
		}
		it := c.items[t]
		if it == nil { // nobody knows how it began
			return t, true
		}
		for ; it != nil; it = it.old {
			if s := c.states[it.node]; s == nil || s.start == h.Start.Ref {
				return t, true
			}
		}
	}
	return events.Thread{}, false
}
