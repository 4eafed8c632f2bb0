package parts

import "spool/pkg/events"

// Set is a set of type names that are known to a dialect.
type Set map[string]string

// Names makes a Set.
func Names(names ...string) Set {
	s := make(Set, len(names))
	for _, n := range names {
		s[n] = n
	}
	return s
}

// Of gives the name that a token spells, without allocating if it is in the set. A name that is not in it is made a
// counter's label: a token of at most 64 bytes, "invalid" if it is no string at all.
func (s Set) Of(token []byte) (name string, known bool) {
	if name, known = s[string(Body(token))]; known {
		return name, true
	}
	if Empty(token) {
		return "invalid", false
	}
	text := Text(token)
	return events.Token(text[:min(len(text), 64)]), false
}

// Tokens is a count of tokens, kept within bounds in which sums do not overflow.
func Tokens(raw []byte) int64 { return min(max(Int(raw), 0), 1<<40) }
