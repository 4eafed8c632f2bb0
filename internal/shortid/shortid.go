// Package shortid has the rule by which the beginning of an id stands for all of it. A listing shows as much of an id as
// no other one begins with, and a command takes that.
package shortid

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Least is how many characters of an id a listing shows at least, and a command that changes something wants.
const Least = 8

// mostNamed is how many candidates a message names.
const mostNamed = 10

// ErrNone says that no id begins so.
var ErrNone = errors.New("none begins so")

// AmbiguousError says that several ids begin so.
type AmbiguousError struct {
	What   string // they are ids of: "artifacts"
	Prefix string
	IDs    []string
}

// Error names the candidates.
func (e *AmbiguousError) Error() string { return Ambiguous(e.What, e.Prefix, e.IDs) }

// Ambiguous says that several things begin so; each has a line that begins with its id.
func Ambiguous(what, prefix string, lines []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d %s begin with %q; give more of the id:", len(lines), what, prefix)
	for _, line := range lines[:min(len(lines), mostNamed)] {
		b.WriteString("\n  " + line)
	}
	if more := len(lines) - mostNamed; more > 0 {
		fmt.Fprintf(&b, "\n  and %d more", more)
	}
	return b.String()
}

// Begins reports that an id begins with a prefix, letter case aside.
func Begins(id, prefix string) bool {
	return len(id) >= len(prefix) && strings.EqualFold(id[:len(prefix)], prefix)
}

// Find gives the id that is name, or else the only one that begins with it. ErrNone, or an *AmbiguousError that says
// what they are ids of.
func Find(what string, ids []string, name string) (string, error) {
	if slices.Contains(ids, name) {
		return name, nil
	}
	found := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return !Begins(id, name) })
	slices.Sort(found)
	found = slices.Compact(found)
	switch len(found) {
	case 0:
		return "", ErrNone
	case 1:
		return found[0], nil
	}
	return "", &AmbiguousError{What: what, Prefix: name, IDs: found}
}

// Shorten gives for each id that a program made up the shortest beginning that Find takes for it, of Least characters
// or more.
func Shorten(ids []string) map[string]string {
	ids = slices.Clone(ids)
	slices.SortFunc(ids, order)
	ids = slices.Compact(ids)
	short := make(map[string]string, len(ids))
	for i, id := range ids {
		if Made(id) {
			short[id] = among(ids, i)
		}
	}
	return short
}

// Seen shortens ids that come one after the other. The zero value has seen none.
type Seen struct{ ids []string } // those that programs made up, in order

// Short is an id as it is shown: of one that a program made up the shortest beginning that none has which came before.
func (s *Seen) Short(id string) string {
	if !Made(id) {
		return id
	}
	i, there := slices.BinarySearchFunc(s.ids, id, order)
	if !there {
		s.ids = slices.Insert(s.ids, i, id)
	}
	return among(s.ids, i)
}

func order(a, b string) int {
	return cmp.Or(strings.Compare(strings.ToLower(a), strings.ToLower(b)), strings.Compare(a, b))
}

// among is the shortest beginning of an id that its neighbours do not have.
func among(ids []string, i int) string {
	id, n := ids[i], Least
	if i > 0 {
		n = max(n, common(id, ids[i-1])+1)
	}
	if i+1 < len(ids) {
		n = max(n, common(id, ids[i+1])+1)
	}
	return id[:min(n, len(id))]
}

// common is how many bytes of two ids are the same at their beginning, letter case aside.
func common(a, b string) int {
	a, b = strings.ToLower(a), strings.ToLower(b)
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// made is a UUID, a ULID, the id of an artifact, or the eight digits of an entry of oh-my-pi.
var made = regexp.MustCompile(`(?i)^([0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-hjkmnp-tv-z]{26}|[0-9a-f]{8}|` +
	`art_[0-9]{8}_[0-9]{6}_[0-9a-hjkmnp-tv-z]{16})$`)

// Made reports an id that a program made up. What a person named build-4 is perhaps not there, and build-42 is: the
// beginning of such a name is the name of something else.
func Made(id string) bool { return made.MatchString(id) }
