package threads

import (
	"context"
	"slices"

	"spool/pkg/casstore"
)

// RoleCompact is the role of a state that only says that all before it is summarized, where no entry of the agent's does.
const RoleCompact = "__compact__"

// Context is what a model is sent of a thread (SPEC C6): the summary if there is one, then the kept steps, then the others.
// All that came before is still in the thread.
type Context struct {
	Compacted bool
	Summary   Content
	From      Step   // the state with the summary
	Kept      []Step // states before it that stay in context beside the summary, oldest first
	Steps     []Step // oldest first; all states, or those from the one with the summary on
}

// Context walks back from a state until one that summarizes all before it. A state that does nothing but summarize is not
// among the steps, neither are forks, and tails of files. What a step with a summary says itself is: the summary is of what
// came before it. Contents are not read. A zero place has no steps.
func (r Reader) Context(ctx context.Context, at casstore.Located) (c Context, err error) {
	kept := ""
	for s, err := range r.Walk(ctx, at) {
		if err != nil {
			return c, err
		}
		switch {
		case !c.Compacted:
			c.Steps = appendSpoken(c.Steps, s)
			if s.Compact.IsZero() {
				continue
			}
			c.Compacted, c.From, kept = true, s, s.Entry.Kept
			if c.Summary, err = s.readContent(ctx, s.Compact); err != nil {
				return c, err
			}
		case kept != "":
			c.Kept = appendSpoken(c.Kept, s)
			if s.is(kept) {
				kept = ""
			}
		}
		if kept == "" {
			break
		}
	}
	if kept != "" { // it is not on the way: nothing is kept (SPEC S7)
		c.Kept = nil
	}
	slices.Reverse(c.Kept)
	slices.Reverse(c.Steps)
	return c, nil
}

// is reports whether a name, an id at the source or a ref, is the step's.
func (s Step) is(name string) bool { return s.Entry.ID == name || s.At.Ref.String() == name }

// appendSpoken leaves out what is no step of an agent's.
func appendSpoken(steps []Step, s Step) []Step {
	summarizes := !s.Compact.IsZero() && s.Entry.Raw == nil // the content is the entry of the compaction
	if summarizes || s.Role == RoleCompact || s.Role == RoleFork || s.Role == RoleTail {
		return steps
	}
	return append(steps, s)
}
