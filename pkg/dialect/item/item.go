// Package item reads thread items that an agent made itself, {"content":[…],"metadata":{…}} (seed 003, SPEC I1). The entry
// is its own item; an optional "id" names it and an optional "created_at" (RFC 3339 or Unix milliseconds) dates it.
//
//	no metadata.type                  role user
//	text, thinking, tool_call         role assistant
//	tool_result                       role tool
//	others, unknown ones included     role system
//
// The shape is Spool's contract, so a wrong one is an error that says what to send (SPEC B2).
package item

import (
	"spool/internal/jsonscan"
	"spool/pkg/dialect/entry"
	"spool/pkg/dialect/internal/parts"
	"spool/pkg/events"
)

// Dialect is the dialect "item".
type Dialect struct{}

// Name is "item".
func (Dialect) Name() string { return "item" }

// Version is the version of the mapping.
func (Dialect) Version() int { return 1 }

var known = map[string]string{
	"":                               entry.RoleUser,
	events.TypeText:                  entry.RoleAssistant,
	events.TypeThinking:              entry.RoleAssistant,
	events.TypeToolCall:              entry.RoleAssistant,
	events.TypeToolResult:            entry.RoleTool,
	events.TypeStatus:                entry.RoleSystem,
	events.TypeTurnEnd:               entry.RoleSystem,
	events.TypePendingPrompt:         entry.RoleSystem,
	events.TypePendingPromptResolved: entry.RoleSystem,
}

// Read takes one item. The error is events.ErrItem.
func (Dialect) Read(raw []byte, m *entry.Memory) (entry.Entry, error) {
	if m != nil {
		m.Begin()
	}
	it, err := events.ParseItem(raw)
	if err != nil {
		return entry.Entry{}, err
	}
	role, isKnown := known[it.Type]
	if !isKnown {
		role = entry.RoleSystem
	}
	e := entry.Entry{Items: []events.Item{it}}
	e.Role, e.Known, e.Type = role, isKnown, it.Type
	if it.Type == "" {
		e.Type = "message"
	}
	e.ID = parts.ID(jsonscan.Get(raw, "id"))
	e.Time = parts.Time(jsonscan.Get(raw, "created_at"))
	return e, nil
}
