package events

// The operations on a thread as a whole.
const (
	OpCompact Op = "compact" // a summary stands for everything so far (SPEC C6)
	OpRename  Op = "rename"  // the thread has another name in its session from now on
	OpReopen  Op = "reopen"  // a failed thread is active again (SPEC I7)
	OpRemove  Op = "remove"  // the thread leaves index and history, also one that has ended (SPEC C9)
)

// The operations on what a session is called and where its agent works (seeds 000, 002). Any thread of it may carry
// them, also one that has ended.
const (
	OpName Op = "name" // the session has another title
	OpMove Op = "move" // the session is of another working directory
)

// Compact says what a model is sent in place of everything so far.
type Compact struct {
	Summary string `json:"summary"`
	// FirstKept is the first entry that stays in context beside the summary, by its id in its source or by the node of its
	// state; empty: none does.
	FirstKept string `json:"firstKept,omitempty"`
}

// Rename names a thread anew.
type Rename struct {
	To    string `json:"to"`
	Force bool   `json:"force,omitempty"` // although a run or an output of the thread is live
}

// Name gives a session a title. One that the user gave is replaced by another one that the user gives, and by no other.
type Name struct {
	Title string `json:"title"`
	Auto  bool   `json:"auto,omitempty"` // a program made it up
}

// Move gives a session another working directory, as its machine spells it.
type Move struct {
	Cwd string `json:"cwd"`
}

// Reopen has no operands.
type Reopen struct{}

// Remove says how a thread is removed.
type Remove struct {
	Force bool `json:"force,omitempty"` // although a run or an output of the thread is live

	// UnchangedSince, if not 0, refuses the removal of a thread that has taken an event behind that sequence of
	// SPOOL_EVENTS.
	UnchangedSince uint64 `json:"unchangedSince,omitempty"`
}
