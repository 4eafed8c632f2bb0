package record

import (
	"strings"

	"spool/pkg/artifacts"
)

// SeeAgent makes the indices of agents go on above that of one which comes with its id from elsewhere (SPEC A9):
// <parent>.<index>-<requested>, whose parents count as well.
func (c *Counter) SeeAgent(id string) {
	for at := 0; at <= len(id); {
		parent := strings.TrimSuffix(id[:at], ".")
		digits := id[at : at+len(id[at:])-len(strings.TrimLeft(id[at:], "0123456789"))]
		if digits != "" && strings.HasPrefix(id[at+len(digits):], "-") {
			c.raiseAgent(parent, artifacts.Seq(strings.TrimLeft(digits[:len(digits)-1], "0")+digits[len(digits)-1:]))
		}
		next := strings.IndexByte(id[at:], '.')
		if next < 0 {
			return
		}
		at += next + 1
	}
}

// NamesAgent reports whether a name is an agent's id with an index, so that SeeAgent goes by it.
func NamesAgent(name string) bool {
	var c Counter
	c.SeeAgent(name)
	return len(c.Agents) > 0
}

// MaxParent is the longest id, in bytes, of an agent whose children have indices: a session's counter holds each of them. What comes
// with a longer one, or with a longer index, has none that an id is given behind.
const MaxParent = 512

func (c *Counter) raiseAgent(parent string, n artifacts.Seq) {
	if len(parent) > MaxParent || len(n) > MaxParent {
		return
	}
	for i := range c.Agents {
		if c.Agents[i].Parent == parent {
			if n.Compare(c.Agents[i].Last) > 0 {
				c.Agents[i].Last = n
			}
			return
		}
	}
	c.Agents = append(c.Agents, Agents{Parent: parent, Last: n})
}
