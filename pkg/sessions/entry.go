package sessions

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strconv"
	"time"

	"spool/internal/jsonscan"
)

// Entry is one record of a session after its header. Its members beyond these stay in the JSON: nothing is decoded that
// nobody asked for (SPEC T11).
type Entry struct {
	Type   string // "" if it has none
	ID     string // "" if it has none: such an entry can be the last one, but never a parent
	Parent string // parentId; "" for a root
	Line   int    // of the file, from 1; 0 for an entry that was appended
	Raw    []byte // as it was found: never changed

	fix  fix
	kept string // firstKeptEntryId that replaces an index
}

// fix tells how the current form of an entry differs from Raw.
type fix uint8

const (
	fixPlace fix = 1 << iota // id and parentId are those of the struct
	fixKept                  // firstKeptEntryIndex became kept, or nothing
	fixRole                  // message.role becomes custom
)

// JSON is the entry in the current version of the format: Raw itself, or a copy of it in which a migration changed some
// members (SPEC S5).
func (e *Entry) JSON() []byte {
	if e.fix == 0 {
		return e.Raw
	}
	var changes []change
	if e.fix&fixPlace != 0 {
		changes = append(changes, change{"id", quoted(e.ID)}, change{"parentId", quotedOrNull(e.Parent)})
	}
	if e.fix&fixKept != 0 {
		changes = append(changes, change{"firstKeptEntryIndex", nil})
		if e.kept != "" {
			changes = append(changes, change{"firstKeptEntryId", quoted(e.kept)})
		}
	}
	if e.fix&fixRole != 0 {
		message := jsonscan.Get(e.Raw, "message")
		changes = append(changes, change{"message", edit(message, change{"role", []byte(`"custom"`)})})
	}
	return edit(e.Raw, changes...)
}

// ParseEntry reads an entry of a current file. raw is a JSON object that jsonscan.Valid accepted; it is kept, not copied.
func ParseEntry(raw []byte) Entry {
	e := Entry{Raw: raw}
	_ = jsonscan.Object(raw, func(key, value []byte) bool {
		switch string(key) {
		case "type":
			e.Type, _ = jsonscan.Text(value)
		case "id":
			e.ID, _ = jsonscan.Text(value)
		case "parentId":
			e.Parent, _ = jsonscan.Text(value)
		}
		return true
	})
	return e
}

// EntryID is the id of the entry at a position of a session that has none of its own: eight hex digits, always the same
// for the same place, so that loading a file twice, or a longer version of it, gives the same ids (SPEC S5). Two positions
// of a session never share one: it is a permutation of the position, a Feistel network whose key is the session's. Attempts
// above 0 are for a place whose first id is that of another entry which brought it along.
func EntryID(session string, position, attempt int) string {
	key := sha256.Sum256([]byte(session + "\x00" + strconv.Itoa(attempt)))
	left, right := uint16(position>>16), uint16(position)
	for round := range 4 {
		k := binary.BigEndian.Uint32(key[4*round:])
		mixed := (uint32(right)*0x9e3779b1 ^ k) * 0x85ebca6b
		left, right = right, left^uint16(mixed>>16)
	}
	return fmt.Sprintf("%04x%04x", left, right)
}

func freshID(session string, position int, taken func(id string) bool) string {
	for attempt := 0; ; attempt++ {
		if id := EntryID(session, position, attempt); !taken(id) {
			return id
		}
	}
}

// timeFormat is how the program writes times: UTC, milliseconds.
const timeFormat = "2006-01-02T15:04:05.000Z"

// FormatTime is t as a timestamp of an entry or header.
func FormatTime(t time.Time) string { return t.UTC().Format(timeFormat) }

// timeLayouts are the spellings of a timestamp that are read; without a zone it is UTC.
var timeLayouts = []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999", "2006-01-02T15:04Z07:00", "2006-01-02T15:04",
	"2006-01-02", "2006-01", "2006"}

// millis is the Unix time in milliseconds that an entry's timestamp denotes; null for none.
func millis(raw []byte) []byte {
	if n, ok := jsonscan.Int(raw); ok {
		return strconv.AppendInt(nil, n, 10)
	}
	text, _ := jsonscan.Text(raw)
	for _, layout := range timeLayouts {
		if t, err := time.Parse(layout, text); err == nil {
			return strconv.AppendInt(nil, t.UnixMilli(), 10)
		}
	}
	return []byte("null")
}
