package dialect

import (
	"spool/pkg/dialect/claude"
	"spool/pkg/dialect/codex"
	"spool/pkg/dialect/copilot"
	"spool/pkg/dialect/gemini"
	"spool/pkg/dialect/item"
	"spool/pkg/dialect/omp"
	"spool/pkg/dialect/opencode"
)

// Lead is the dialect of a thread that had one and gets an entry of another. The first dialect of an agent that comes is
// the thread's; notes of the dialect item make way for it, and bytes that are no JSON for both.
func Lead(thread, entry string) string {
	if Beside(thread, entry) {
		return thread
	}
	return entry
}

// Beside tells whether entries of a dialect stand beside those of their thread's: they are no part of what its agent said,
// of its tree and of its context.
func Beside(thread, entry string) bool {
	had, comes := rank(thread), rank(entry)
	return comes < had || comes == agents && entry != thread && had == agents
}

// Ranks of dialects: whose entries make others notes beside them.
const (
	none = iota
	anyBytes
	notes  // of users and tools, and of agents that speak to Spool itself
	agents // what an agent says to itself
)

func rank(name string) int {
	switch {
	case name == "":
		return none
	case !IsJSON(name):
		return anyBytes
	case name == item.Dialect{}.Name():
		return notes
	}
	return agents
}

// HasFile tells whether the entries of a dialect are lines of a file that a harness keeps: what Spool was told beside them
// is none of its lines.
func HasFile(name string) bool {
	switch name {
	case claude.Dialect{}.Name(), codex.Dialect{}.Name(), gemini.Dialect{}.Name(), gemini.Qwen{}.Name(), omp.Dialect{}.Name(),
		opencode.Dialect{}.Name(), copilot.Dialect{}.Name():
		return true
	}
	return false
}

// IsNote tells whether entries of a dialect are notes in the file of a thread's dialect: the file has none of them.
func IsNote(thread, entry string) bool { return HasFile(thread) && rank(entry) == notes }

// IsAside tells whether entries of a type are no lines of a transcript: an SDK brings them, and Claude Code has a file beside it for them.
func IsAside(dialect, typ string) bool { return dialect == "claude" && typ == "agent_metadata" }
