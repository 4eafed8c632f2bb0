package record

import (
	"fmt"
	"slices"

	"github.com/vmihailenco/msgpack/v5"

	"spool/internal/mapped"
	"spool/pkg/artifacts"
)

// Counter is the value of a session's counter record: the numbers that its artifacts and agents have used. They are only
// ever raised (SPEC A1, A9). Whoever takes a number writes the record expecting its revision, before the number is used; one
// that is taken and then not used stays a gap.
type Counter struct {
	Artifacts artifacts.Seq // the last one taken; "" = none yet
	Agents    []Agents
	Promised  []artifacts.Seq // those that were taken for artifacts that come later, and have not come; the last maxPromised
}

// maxPromised bounds what a counter remembers of numbers that nobody may ever use.
const maxPromised = 64

// Agents is how far the indices are that one agent gives to those it starts.
type Agents struct {
	Parent string        // its id; "" for the root
	Last   artifacts.Seq // the last one taken
}

// Take gives out the next number of an artifact.
func (c *Counter) Take() artifacts.Seq {
	n := artifacts.Resume(c.Artifacts)
	seq := n.Take()
	c.Artifacts = n.Last()
	return seq
}

// Promise gives out the next number for an artifact that comes later: nothing else gets it.
func (c *Counter) Promise() artifacts.Seq {
	seq := c.Take()
	c.Promised = append(c.Promised[max(0, len(c.Promised)-maxPromised+1):], seq)
	return seq
}

// Keep takes a number from those that are promised: its artifact is there.
func (c *Counter) Keep(n artifacts.Seq) {
	c.Promised = slices.DeleteFunc(c.Promised, func(p artifacts.Seq) bool { return p == n })
}

// Took reports whether a number was given out.
func (c *Counter) Took(n artifacts.Seq) bool { return n.Compare(c.Artifacts) <= 0 }

// TakeAgent gives out the id of the next agent that a parent starts: <parent>.<index>-<requested>. artifacts.ErrNoAgent: the parent's own
// index was given to nobody. A full counter refuses a parent that it does not hold.
func (c *Counter) TakeAgent(parent, requested string) (string, error) {
	if !c.gave(parent) {
		return "", fmt.Errorf("%w: %s: the parent is one whose id was taken in this session, or that works in it under such an id, as 0-Plan",
			artifacts.ErrNoAgent, parent)
	}
	a := c.children(parent)
	if a == nil {
		return "", errAgents
	}
	n := artifacts.Resume(a.Last)
	a.Last = n.Take()
	id := string(a.Last) + "-" + requested
	if parent != "" {
		id = parent + "." + id
	}
	return id, nil
}

// Raise makes the numbers of artifacts go on above those of another session, from which artifacts come with their numbers.
func (c *Counter) Raise(above artifacts.Seq) {
	if above.Compare(c.Artifacts) > 0 {
		c.Artifacts = above
	}
}

// Clone is a counter that shares no memory with this one.
func (c Counter) Clone() Counter {
	c.Agents, c.Promised = slices.Clone(c.Agents), slices.Clone(c.Promised)
	return c
}

// Inherit makes numbers and agents go on above those of another session, and reports whether that changes anything.
func (c *Counter) Inherit(from Counter) (changed bool) {
	before := c.Clone()
	c.Raise(from.Artifacts)
	for _, a := range from.Agents {
		c.raiseAgent(a.Parent, a.Last)
	}
	return c.Artifacts != before.Artifacts || !slices.Equal(c.Agents, before.Agents)
}

// Encode is the value's bytes.
func (c Counter) Encode() []byte {
	agents := mapped.List(c.Agents, func(a Agents) any { return []any{a.Parent, string(a.Last)} })
	members := []any{version, string(c.Artifacts), agents}
	if len(c.Promised) > 0 {
		promised := mapped.List(c.Promised, func(n artifacts.Seq) any { return string(n) })
		members = append(members, promised)
	}
	return encode(members...)
}

// DecodeCounter reads the value of a counter record; nil is the counter of a session that has none.
func DecodeCounter(b []byte) (c Counter, err error) {
	if len(b) == 0 {
		return c, nil
	}
	r := open("counter", b, 3)
	c.Artifacts = artifacts.Seq(r.string())
	for range read(r, r.dec.DecodeArrayLen) {
		if n := read(r, r.dec.DecodeArrayLen); r.err == nil && n != 2 {
			r.fail(fmt.Errorf("an agent of %d members, want 2", n))
		}
		c.Agents = append(c.Agents, Agents{Parent: r.string(), Last: artifacts.Seq(r.string())})
	}
	if r.members > 3 {
		for range read(r, r.dec.DecodeArrayLen) {
			c.Promised = append(c.Promised, artifacts.Seq(r.string()))
		}
	}
	return c, r.err
}

// Locator is what an artifact's record says about where its bytes are.
func (o Object) Locator() []byte {
	b, err := msgpack.Marshal(o.fields())
	if err != nil {
		panic(err) // integers, strings and bytes always marshal
	}
	return b
}

// DecodeLocator is the inverse of Object.Locator.
func DecodeLocator(b []byte) (Object, error) {
	r := bare("locator", b)
	o := r.object()
	return o, r.err
}
