// Package entry is what every dialect gives: the vocabulary between a raw entry and what a thread stores and shows.
//
// A dialect's Read is the extract phase (DESIGN 5, seed 004): pure, deterministic, and blind to everything but the raw
// bytes and the Memory of the turn. Package dialect re-exports these names; it is the one to import.
package entry

import "spool/pkg/events"

// Dialect reads the raw entries of one kind of agent.
type Dialect interface {
	// Name is what envelopes call the dialect.
	Name() string
	// Version grows whenever the same raw entry and memory give other items than before. It is stored with the items'
	// range, so that items rebuilt later equal the items sent (DESIGN 8).
	Version() int
	// Read takes one raw entry that passed jsonscan.Valid (package raw: any bytes) and updates m to the state after it. A
	// nil m is an empty one. It never fails on entries of a foreign harness: a member of an unexpected shape counts as
	// absent. Only step and item, whose shape is Spool's own contract, return errors, and then m is as before. The result
	// may alias raw.
	Read(raw []byte, m *Memory) (Entry, error)
}

// Entry is one raw entry, read: what the thread stores and what consumers see, in order.
type Entry struct {
	Step
	Items []events.Item
}

// Step is what the extract phase takes from one raw entry.
type Step struct {
	ID   string // the entry's id in its source; "" if it has none
	Role string // who speaks: a Role constant, or a step's own role
	Type string // the source's type, for counters: "assistant", "system.turn_duration", "response_item.message"

	// Known is false for a type this version does not map: kept raw and counted, never fatal (SPEC X4).
	Known bool

	Meta    []byte   // raw JSON object of a step; nil in other dialects
	Time    int64    // Unix milliseconds; 0 if the entry has none
	Content []byte   // a step's content text; nil: the entry's own JSON is the content
	Compact string   // text of a compaction summary that stands for everything before this entry (SPEC C6)
	Kept    string   // with Compact: id of the first entry that is still in context beside the summary (SPEC C6)
	Cut     bool     // the answer ends at a limit of tokens (SPEC S10)
	Place   Place    // where the entry goes
	Refs    []string // "blob:sha256:…", "node:sha256:…": what a step's content refers to
	Session Session  // what the entry tells of the whole session
}

// Roles. A role of user is a person's prompt and nothing else: harnesses write much under that name that nobody said, and
// UserTurns counts prompts.
const (
	RoleUser      = "user"
	RoleAssistant = "assistant"
	RoleTool      = "tool"
	RoleSystem    = "system"
	RoleEnd       = "__end__"     // the last step of a thread (SPEC C4)
	RoleCompact   = "__compact__" // a step that is nothing but a summary of those before it (SPEC C6)
)

// PlaceKind says how Place is meant.
type PlaceKind uint8

// The kinds of place.
const (
	Leaf      PlaceKind = iota // after the thread's head
	Parent                     // after the entry ID, which may have other children (SPEC S3)
	Root                       // a new root of the tree (SPEC S3)
	UserTurns                  // after the entry before the N-th last user prompt (SPEC X7)
	Before                     // after the entry before the first one with ID, which a file may say again; no such: a new root
)

// Place is where in its thread an entry goes.
type Place struct {
	Kind PlaceKind
	ID   string // for Parent and Before
	N    int64  // for UserTurns, at least 1
}

// Session holds facts about a session that an entry may tell. "" is no news, and later news win.
type Session struct {
	ID    string // the harness's own id
	Title string
	// TitleSource is sessions.TitleUser or TitleAuto if the entry says who gave the title.
	TitleSource string `json:",omitempty"`

	Summary   string // short summary of a compaction: a name for want of a title
	Cwd       string
	Harness   string // name of the program: "claude", "codex", "omp"
	Version   string // its version
	Model     string
	Parent    string // session it was forked from or started by
	Base      string `json:",omitempty"` // session whose file its own goes on from, without having that
	GitBranch string
}
