package mcp

import (
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// How much a result holds, in bytes of its JSON.
const (
	mostAnswer  = 32 << 10 // of the members of a list
	mostText    = 24 << 10 // of a text that is read by itself
	usualText   = 8 << 10  // so, unless the call says how much
	usualItem   = 1500     // of an item's text in a list, unless the call says how much
	mostSnippet = 600      // of a text that is shown in passing
	mostError   = 4 << 10
	mostThreads = 12 // threads of a session that a list names
)

// piece is the part of a text from a byte on that takes at most so many bytes as JSON. An offset within a character
// moves to its beginning. next is where the text goes on; 0: it ends there.
func piece(text string, offset int64, most int) (part string, next int64) {
	from := int(min(max(offset, 0), int64(len(text))))
	for from > 0 && from < len(text) && !utf8.RuneStart(text[from]) {
		from--
	}
	to, room := from, most
	for to < len(text) {
		r, n := utf8.DecodeRuneInString(text[to:])
		if room -= escaped(r, n); room < 0 && to > from {
			return text[from:to], int64(to)
		}
		to += n
	}
	return text[from:], 0
}

// escaped is how many bytes a character of n bytes takes in a string of JSON, as package json writes it.
func escaped(r rune, n int) int {
	switch {
	case r == '"', r == '\\', r == '\n', r == '\r', r == '\t', r == '\b', r == '\f':
		return 2
	case r < ' ', r == '<', r == '>', r == '&', r == '\u2028', r == '\u2029', r == utf8.RuneError && n == 1:
		return 6
	}
	return n
}

// snippet is the beginning of a text.
func snippet(text string, most int) string {
	part, next := piece(text, 0, most)
	if next > 0 {
		part += "…"
	}
	return part
}

// room is how much of mostAnswer the members of a list take.
type room int

// takes reports whether there is room for one more. There is for the first one in any case.
func (r *room) takes(one any) bool {
	b, err := json.Marshal(one) // what has no JSON fails with the whole result
	*r += room(len(b))
	return err != nil || *r <= mostAnswer || int(*r) == len(b)
}

// fit is the beginning of a list in another form: most of it at most, and what there is room for.
func fit[In, Out any](all []In, most int, form func(In) Out) []Out {
	out, used := []Out{}, room(0)
	for _, in := range all[:min(len(all), most)] {
		one := form(in)
		if !used.takes(one) {
			break
		}
		out = append(out, one)
	}
	return out
}

// within is a number that a call gives: the usual one for 0, and an error beyond 1 to most.
func within(name string, n, usual, most int) (int, error) {
	switch {
	case n == 0:
		return usual, nil
	case n < 0 || n > most:
		return 0, fmt.Errorf("%s %d: use 1 to %d, or leave it out for %d", name, n, most, usual)
	}
	return n, nil
}
