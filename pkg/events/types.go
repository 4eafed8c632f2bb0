package events

import "slices"

import "strings"

// TypeMessage is what a plain user post is called where a type is asked for: its metadata has none.
const TypeMessage = "message"

// OwnTypes are the types of the items that Spool makes. Agents may give theirs any other.
var OwnTypes = []string{
	TypeMessage, TypeText, TypeToolCall, TypeToolResult, TypeThinking, TypeStatus, TypeTurnEnd,
	TypePendingPrompt, TypePendingPromptResolved,
}

// MeantType is the one of OwnTypes that a name looks like, but for letter case and a letter or two; "" if it is one
// itself, or like none. Names of less than six letters are like another one by chance.
func MeantType(name string) string {
	if slices.Contains(OwnTypes, name) {
		return ""
	}
	for _, own := range OwnTypes {
		long := min(len(name), len(own)) >= 6
		if strings.EqualFold(name, own) || long && edits(strings.ToLower(name), own) <= 1+len(own)/9 {
			return own
		}
	}
	return ""
}

// edits is how many bytes are to be put in, taken away or replaced to make one word of another.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		left, corner := i+1, i // of the row that is made, and above left
		for j := range len(b) {
			here := min(left, row[j+1]) + 1
			if a[i] == b[j] {
				here = min(here, corner)
			}
			here = min(here, corner+1)
			row[j], left, corner = left, here, row[j+1]
		}
		row[len(b)] = left
	}
	return row[len(b)]
}
