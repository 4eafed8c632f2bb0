package sessions

import (
	"strconv"

	"spool/internal/jsonscan"
)

// Usage is what the providers counted and charged for a session.
type Usage struct {
	Input, Output, CacheRead, CacheWrite, PremiumRequests int64
	Cost                                                  float64 // as the provider's price list has it, in US dollars
}

// Usage sums up all assistant messages of the session, on whatever branch, and the subagents that they waited for: the
// result of tool "task" has their sum in its details.
func (t *Tree) Usage() Usage {
	var u Usage
	for i := range t.entries {
		e := &t.entries[i]
		if e.Type != TypeMessage {
			continue
		}
		var role, tool, usage, details []byte
		jsonscan.Fields(jsonscan.Get(e.Raw, "message"), []jsonscan.Field{
			{Key: "role", To: &role}, {Key: "toolName", To: &tool}, {Key: "usage", To: &usage},
			{Key: "details", To: &details},
		})
		switch {
		case is(role, "assistant"):
			u.add(usage)
		case is(role, "toolResult") && is(tool, "task"):
			u.add(jsonscan.Get(details, "usage"))
		}
	}
	return u
}

func (u *Usage) add(usage []byte) {
	_ = jsonscan.Object(usage, func(key, value []byte) bool {
		n, _ := jsonscan.Int(value)
		switch string(key) {
		case "input":
			u.Input += n
		case "output":
			u.Output += n
		case "cacheRead":
			u.CacheRead += n
		case "cacheWrite":
			u.CacheWrite += n
		case "premiumRequests":
			u.PremiumRequests += n
		case "cost":
			cost, _ := strconv.ParseFloat(string(jsonscan.Get(value, "total")), 64)
			u.Cost += cost
		}
		return true
	})
}

// Listed tells whether the session is one to offer to the user: its first assistant message has come. Before that it is
// kept, but not listed (SPEC S8).
func (t *Tree) Listed() bool {
	for i := range t.entries {
		if t.entries[i].isAssistant() {
			return true
		}
	}
	return false
}

func (e *Entry) isAssistant() bool {
	return e.Type == TypeMessage && is(jsonscan.Get(e.Raw, "message", "role"), "assistant")
}

// is compares a string token with what it should denote.
func is(raw []byte, text string) bool {
	got, ok := jsonscan.Text(raw)
	return ok && got == text
}
