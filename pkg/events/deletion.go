package events

import "strings"

// OpDelete removes a session as a whole (SPEC A6). Any thread of the session may carry it.
const OpDelete Op = "delete"

// Delete says how a session is removed.
type Delete struct {
	// Force removes it although a run or an output in it is live.
	Force bool `json:"force,omitempty"`
	// Erase leaves what the streams hold of it, and the bytes of its artifacts, to whoever published the operation, who writes
	// over them.
	Erase bool `json:"erase,omitempty"`
	// UnchangedSince removes it only if no record of the session was written behind this sequence of the record bucket: it is what whoever
	// decided by what the session was had seen. 0: whatever was written.
	UnchangedSince uint64 `json:"unchangedSince,omitempty"`
	// By is who removes it, for the record.
	By string `json:"by,omitempty"`
}

// DeletedKey says that a session was deleted, and what is left to do. It stays: what was published before is not to come back.
func DeletedKey(session string) string { return "deleted." + session }

// ParseDeletedKey is the inverse of DeletedKey.
func ParseDeletedKey(key string) (session string, ok bool) { return strings.CutPrefix(key, "deleted.") }

// DeletingKey is there while the records of a large session are being removed: readers take the session for gone.
func DeletingKey(session string) string { return "deleting." + session }

// DeletingKeys matches all of them.
const DeletingKeys = "deleting.*"

// ParseDeletingKey is the inverse of DeletingKey.
func ParseDeletingKey(key string) (session string, ok bool) {
	return strings.CutPrefix(key, "deleting.")
}

// RetentionKey holds the newest report of retention, JSON.
const RetentionKey = "retention.report"

// ofSession is where the keys of records that belong to a session have its name: class → token.
var ofSession = map[string]int{
	"thread": 1, "history": 2, "left": 1, "session": 1, "counter": 1, "artifact": 1, "shared": 2, "output": 1, "outputbase": 1,
	"prompt": 1, "answered": 1, "run": 1, "stream": 1, "claude": 1,
}

// SessionOf is the session that a record belongs to; "" for one that belongs to none.
func SessionOf(key string) string {
	parts := strings.Split(key, ".")
	if at := ofSession[parts[0]]; at > 0 && at < len(parts) {
		return parts[at]
	}
	return ""
}

// OfSession matches every record that belongs to a session.
func OfSession(session string) []string {
	return []string{
		HeadKeys(session), HistoryKeys(session), LeftKey(Thread{session, "*"}), SessionKey(session), CounterKey(session),
		ArtifactKeys(session, ""), SharedKey("*", session, "*"), OutputKeys(session),
		OutputBaseKey(session, "*"), PromptKeys(session),
		"answered." + session + ".*.*", RunKeys(session), StreamKey(Thread{session, "*"}), ClaudeKeys(session),
	}
}

// StoredOfSession matches the events of a session as EVENTS stores them, ItemsOfSession its items; its dead letters are
// DeadFilter's.
func StoredOfSession(session string) string { return StoredFilter(Thread{session, "*"}) }

// ItemsOfSession matches the items of a session.
func ItemsOfSession(session string) string { return ItemFilter(session, "", "") }
