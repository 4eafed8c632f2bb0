package events

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
)

// The operations on the tree of a thread's entries (SPEC S3, S4, S13). Those that append make entries of the dialect omp,
// with the id AppendedID and the event's time.
const (
	OpBranch  Op = "branch"         // the leaf moves to an entry; nothing else changes
	OpReset   Op = "reset"          // there is no leaf: the next entry is a new root
	OpLabel   Op = "label"          // appends a label entry
	OpSummary Op = "branch_summary" // the leaf moves, and a branch_summary entry is appended there
	OpAppend  Op = "append"         // appends any other entry after the leaf
)

// Branch names an entry of the thread, by one of both.
type Branch struct {
	Entry string `json:"entry,omitempty"` // id in its source
	Node  string `json:"node,omitempty"`  // node:sha256:… of its state, for entries without an id
}

// Reset has no operands.
type Reset struct{}

// Label names an entry of the thread.
type Label struct {
	Target string `json:"target"`
	Label  string `json:"label,omitempty"` // empty: the entry has no name any more
}

// Summary goes back to an entry and says what was learned on the path that is left.
type Summary struct {
	Entry         string          `json:"entry,omitempty"` // empty: the root
	Summary       string          `json:"summary"`
	Details       json.RawMessage `json:"details,omitempty"`
	FromExtension *bool           `json:"fromExtension,omitempty"`
}

// Append is an entry without its place.
type Append struct {
	// Entry is an object: the type, and what belongs to it. Id, parentId and timestamp are given to it.
	Entry json.RawMessage `json:"entry"`
	// Leaf is the entry that the writer takes for the leaf, "" for none; nil: whatever the leaf is. When another entry is
	// the leaf by now, that one stays it: the new entry is put where it was meant to be, and its state says in its meta,
	// under MetaTaken, which entry is the leaf (SPEC S13).
	Leaf *string `json:"leaf,omitempty"`
}

// MetaTaken is the key, in the meta of an entry's state, of the entry that was the leaf when this one was to be.
const MetaTaken = "leaf_taken_by"

// AppendedID is the id of the entry that an operation appends: the same however often it is applied, and known to its
// producer before. 16 hexadecimal digits.
func AppendedID(t Thread, producer string, epoch, seq uint64) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%s\x00%s\x00%d\x00%d", t.Session, t.Name, producer, epoch, seq))
	return hex.EncodeToString(sum[:8])
}
