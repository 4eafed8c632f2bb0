// Package sessions is the entry model of omp session files (seed 002, SPEC S): a header, and entries that make a tree.
//
//	Load ──▶ File ──▶ Tree ──▶ Context   what the model is sent at a leaf
//	  │                │  ▲
//	  Migration        │  └── Append(Draft), Branch, ResetLeaf, BranchWithSummary
//	                   └──▶ WriteTo, Fork, Extract, Usage, Roots
//
// Entries are JSON that is never decoded and encoded again: a Tree keeps each as it came, and a migration edits its text.
// Everything is a value in memory; ids and times come from the caller, or from the place in the file (EntryID).
package sessions

import (
	"bytes"
	"cmp"
	"fmt"
	"strings"
	"time"

	"spool/internal/family"
	"spool/internal/jsonscan"
)

// Version is the current version of the file format (SPEC S1). A header without one is version 1.
const Version = 3

// The types of line in a session file (SPEC S2). Header and title slot are no entries: the first stands in the first
// line, or in the second after a title slot.
const (
	TypeHeader              = "session"
	TypeTitleSlot           = "title"
	TypeMessage             = "message"
	TypeThinkingLevelChange = "thinking_level_change"
	TypeModelChange         = "model_change"
	TypeCompaction          = "compaction"
	TypeBranchSummary       = "branch_summary"
	TypeCustom              = "custom"
	TypeCustomMessage       = "custom_message"
	TypeLabel               = "label"
	TypeTTSRInjection       = "ttsr_injection"
	TypeSessionInit         = "session_init"
	TypeModeChange          = "mode_change"
	TypeToolSelection       = "mcp_tool_selection"
	TypeModelUsage          = "model_usage"
	TypeServiceTierChange   = "service_tier_change"
	TypeTitleChange         = "title_change"
	TypeCredentialPin       = "credential_pin"
	TypeResetBoundary       = "reset_boundary"
)

// Header is the first record of a session file (SPEC S1).
type Header struct {
	Type          string // TypeHeader
	Version       int64  // 1 if the file has none
	ID            string
	Timestamp     string // RFC 3339, as the file spells it
	Cwd           string
	Title         string // of the header, or of the title slot before it
	TitleSource   string // who gave the title: TitleUser or TitleAuto; "" if unknown
	ParentSession string // opaque: the id or the file of the session that this one came from
}

// JSON is the header as the program writes that of a new session.
func (h Header) JSON() []byte {
	dst := fmt.Appendf(nil, `{"type":%s,"version":%d,"id":`, quoted(TypeHeader), h.Version)
	dst = append(dst, quoted(h.ID)...)
	for _, m := range []struct{ name, value string }{{"title", h.Title}, {"titleSource", h.TitleSource}} {
		if m.value != "" {
			dst = appendMember(dst, false, m.name, quoted(m.value))
		}
	}
	dst = appendMember(dst, false, "timestamp", quoted(h.Timestamp))
	dst = appendMember(dst, false, "cwd", quoted(h.Cwd))
	if h.ParentSession != "" {
		dst = appendMember(dst, false, "parentSession", quoted(h.ParentSession))
	}
	return append(dst, '}')
}

// Child is the header of a session that goes on from this one under a new id: a fork keeps the title, and its
// parentSession is the old id (SPEC S9).
func (h Header) Child(id string, at time.Time) Header {
	h.Type, h.Version = TypeHeader, Version
	h.ParentSession, h.ID, h.Timestamp = h.ID, id, FormatTime(at)
	return h
}

// FileName is the name of the session's file as the program spells it.
func (h Header) FileName() string {
	return strings.NewReplacer(":", "-", ".", "-").Replace(h.Timestamp) + "_" + h.ID + ".jsonl"
}

// ErrHeader is wrapped by everything that is no header.
var ErrHeader = family.Invalid.New("not a session header")

// ParseHeader reads a header from the first line of a file, or from the first two of one that begins with a title slot.
// What follows them is not looked at. Nothing is ever modified (SPEC S6).
func ParseHeader(text []byte) (Header, error) {
	line, rest := cutLine(bytes.TrimPrefix(text, []byte("\xef\xbb\xbf")))
	h, err := parseLine(line)
	if err != nil || h.Type != TypeTitleSlot {
		return h, err
	}
	slot := h.Title
	line, _ = cutLine(rest)
	if h, err = parseLine(line); err != nil {
		return h, fmt.Errorf("after the title slot: %w", err)
	}
	if h.Type != TypeHeader {
		return Header{}, fmt.Errorf("%w: two title slots", ErrHeader)
	}
	h.Title = cmp.Or(h.Title, slot)
	return h, nil
}

// cutLine takes the first line that is not blank.
func cutLine(text []byte) (line, rest []byte) {
	for len(text) > 0 && len(line) == 0 {
		line, text, _ = bytes.Cut(text, []byte("\n"))
		line = bytes.TrimSpace(line)
	}
	return line, text
}

func parseLine(line []byte) (Header, error) {
	if err := jsonscan.Valid(line); err != nil {
		return Header{}, fmt.Errorf("%w: %w", ErrHeader, err)
	}
	h := Header{Version: 1}
	id := false
	_ = jsonscan.Object(line, func(key, value []byte) bool {
		switch string(key) {
		case "type":
			h.Type, _ = jsonscan.Text(value)
		case "version":
			h.Version = versionOf(value)
		case "id":
			h.ID, id = jsonscan.Text(value)
		case "timestamp":
			h.Timestamp, _ = jsonscan.Text(value)
		case "cwd":
			h.Cwd, _ = jsonscan.Text(value)
		case "title":
			h.Title, _ = jsonscan.Text(value)
		case "titleSource":
			h.TitleSource, _ = jsonscan.Text(value)
		case "parentSession":
			h.ParentSession, _ = jsonscan.Text(value)
		}
		return true
	})
	switch {
	case h.Type == TypeTitleSlot:
		return h, nil
	case h.Type != TypeHeader:
		return Header{}, fmt.Errorf("%w: type %q, want %q", ErrHeader, h.Type, TypeHeader)
	case !id:
		return Header{}, fmt.Errorf("%w: id is missing or no string", ErrHeader)
	}
	return h, nil
}
