package record

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"spool/pkg/artifacts"
)

// SeeAgent makes the indices of agents go on above that of one which comes with its id from elsewhere (SPEC A9):
// <parent>.<index>-<requested>, whose parents count as well.
func (c *Counter) SeeAgent(id string) {
	for parent, n := range indices(id) {
		if n != "" {
			c.raiseAgent(parent, n)
		}
	}
}

// gave reports whether the indices that an id has were given, or are those of agents that came with theirs; names are not kept. The root
// is there from the beginning, and who has children is known by them.
func (c *Counter) gave(id string) bool {
	if id == "" || slices.ContainsFunc(c.Agents, func(a Agents) bool { return a.Parent == id && a.Last != "" }) {
		return true
	}
	for parent, n := range indices(id) {
		given := func(a Agents) bool { return a.Parent == parent && a.Last != "" && n.Compare(a.Last) <= 0 }
		if n == "" || !slices.ContainsFunc(c.Agents, given) {
			return false
		}
	}
	return true
}

// indices iterates over the agents that an id is made of, from the root on: the id of the one that started it, and its index, "" if it has
// none.
func indices(id string) iter.Seq2[string, artifacts.Seq] {
	return func(yield func(string, artifacts.Seq) bool) {
		for at := 0; at <= len(id); {
			parent, n := strings.TrimSuffix(id[:at], "."), artifacts.Seq("")
			digits := id[at : at+len(id[at:])-len(strings.TrimLeft(id[at:], "0123456789"))]
			if digits != "" && strings.HasPrefix(id[at+len(digits):], "-") {
				n = artifacts.Seq(strings.TrimLeft(digits[:len(digits)-1], "0") + digits[len(digits)-1:])
			}
			next := strings.IndexByte(id[at:], '.')
			if !yield(parent, n) || next < 0 {
				return
			}
			at += next + 1
		}
	}
}

// NamesAgent reports whether a name is an agent's id with an index, so that SeeAgent goes by it.
func NamesAgent(name string) bool {
	var c Counter
	c.SeeAgent(name)
	return len(c.Agents) > 0
}

// MaxParent is the longest id, in bytes, of an agent whose children have indices: a session's counter holds each of them. What comes
// with a longer one, or with an index of more digits than anybody counts to, has none that an id is given behind.
const (
	MaxParent = 512
	maxDigits = 32
)

// MaxParents is how many bytes the ids of all of them have, each with entryBytes beside it: whoever raises a counter writes all of it.
// A full counter learns of no other parent, and gives no id behind one that it may not know.
const (
	MaxParents = 128 << 10
	entryBytes = 16
)

var errAgents = fmt.Errorf("%w: agents of this session that start others have ids of %d bytes, which is the most: "+
	"use one that has children, the root, or another session", artifacts.ErrRecord, MaxParents)

func (c *Counter) raiseAgent(parent string, n artifacts.Seq) {
	if len(parent) > MaxParent || len(n) > maxDigits {
		return
	}
	if a := c.children(parent); a != nil && n.Compare(a.Last) > 0 {
		a.Last = n
	}
}

// children is how far the indices of a parent are, from none on if it had no child; nil if there is no room for them.
func (c *Counter) children(parent string) *Agents {
	used := len(parent) + entryBytes
	for i := range c.Agents {
		if c.Agents[i].Parent == parent {
			return &c.Agents[i]
		}
		used += len(c.Agents[i].Parent) + entryBytes
	}
	if used > MaxParents && parent != "" {
		return nil
	}
	c.Agents = append(c.Agents, Agents{Parent: parent})
	return &c.Agents[len(c.Agents)-1]
}
