package sessions

import (
	"math"
	"strconv"

	"spool/internal/jsonscan"
)

// Migration brings the entries of an older session to the current version, one after the other in the order of the file
// (SPEC S5). What it makes of an entry depends on those before it alone, so it can follow a file that grows.
//
//	1 → 2   id: kept if the entry has one that no entry before it has, else EntryID of its position
//	        parentId: the entry before
//	        firstKeptEntryIndex: firstKeptEntryId of the entry there (the header is 0); dropped where there is none yet
//	2 → 3   message.role hookMessage: custom
//
// The zero Migration is not ready; use NewMigration.
type Migration struct {
	session string
	version int64
	last    string
	ids     []string // of version 1 by index; the header's is ""
	taken   map[string]bool
}

// NewMigration is the migration of a session with this header.
func NewMigration(h Header) *Migration {
	return &Migration{session: h.ID, version: h.Version, ids: []string{""}, taken: map[string]bool{}}
}

// needed tells whether the session is older than Version.
func (m *Migration) needed() bool { return m.version < Version }

// Entry is the next object behind the header in its current form; ok is false for one that is no entry, another header or a
// title slot, which has a place in version 1 all the same. raw is a JSON object that jsonscan.Valid accepted; it is kept. own
// is the id that an entry of version 1 was given before, "" for none.
func (m *Migration) Entry(raw []byte, own string) (e Entry, ok bool) {
	e = ParseEntry(raw)
	if e.Type == TypeHeader || e.Type == TypeTitleSlot {
		m.ids = append(m.ids, "")
		return e, false
	}
	if m.version < 2 {
		if own != "" {
			e.ID = own
		}
		m.place(&e)
	}
	if m.version < 3 && e.Type == TypeMessage {
		if role, _ := jsonscan.Text(jsonscan.Get(raw, "message", "role")); role == "hookMessage" {
			e.fix |= fixRole
		}
	}
	return e, true
}

func (m *Migration) place(e *Entry) {
	if e.ID == "" || m.taken[e.ID] {
		e.ID = freshID(m.session, len(m.ids), func(id string) bool { return m.taken[id] })
	}
	m.taken[e.ID] = true
	e.Parent, m.last = m.last, e.ID
	e.fix |= fixPlace
	m.ids = append(m.ids, e.ID)
	if e.Type != TypeCompaction {
		return
	}
	index := jsonscan.Get(e.Raw, "firstKeptEntryIndex")
	if jsonscan.KindOf(index) != jsonscan.KindNumber {
		return
	}
	e.fix |= fixKept
	if n, ok := jsonscan.Int(index); ok && 0 < n && n < int64(len(m.ids)) {
		e.kept = m.ids[n]
	}
}

// versionOf is a header's version as the program compares it: a number, or a text that spells one; 1 if there is none. A
// text that spells none counts as current: on its account nothing is changed.
func versionOf(raw []byte) int64 {
	text := string(raw)
	switch jsonscan.KindOf(raw) {
	case jsonscan.KindString:
		text, _ = jsonscan.Text(raw)
	case jsonscan.KindNumber:
	default:
		return 1
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(v) {
		return Version
	}
	return int64(max(1, min(v, math.MaxInt32)))
}
