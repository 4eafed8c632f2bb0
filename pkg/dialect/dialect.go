// Package dialect turns the raw entries of every kind of agent into what a thread stores and what consumers see: the
// extract phase of seed 004, for every harness Spool knows (DESIGN 5).
//
//	raw entry + Memory ──Read──▶ Step (role, time, place, …) + Items, Memory
//
// Each dialect has its own package with its mapping table: omp, claude, codex, copilot, gemini with qwen (transcripts), opencode (a document),
// item and step (Spool's own contracts), raw (anything; also part, what stands between entries, and tagged, what has an id before it). Read is
// pure, so items are never stored: they are read again from the entry, with the memory that stood before it when Memory.Used
// said that it mattered.
package dialect

import (
	"slices"

	"spool/pkg/dialect/claude"
	"spool/pkg/dialect/codex"
	"spool/pkg/dialect/copilot"
	"spool/pkg/dialect/entry"
	"spool/pkg/dialect/gemini"
	"spool/pkg/dialect/item"
	"spool/pkg/dialect/omp"
	"spool/pkg/dialect/opencode"
	"spool/pkg/dialect/raw"
	"spool/pkg/dialect/step"
)

// The vocabulary of package entry.
type (
	Dialect = entry.Dialect
	Entry   = entry.Entry
	Memory  = entry.Memory
	Place   = entry.Place
	Session = entry.Session
	Step    = entry.Step
)

// The kinds of place.
const (
	Leaf      = entry.Leaf
	Parent    = entry.Parent
	Root      = entry.Root
	UserTurns = entry.UserTurns
	Before    = entry.Before
)

// The roles.
const (
	RoleUser      = entry.RoleUser
	RoleAssistant = entry.RoleAssistant
	RoleTool      = entry.RoleTool
	RoleSystem    = entry.RoleSystem
	RoleEnd       = entry.RoleEnd
	RoleCompact   = entry.RoleCompact
)

// DecodeMemory reads what Memory.Encode wrote; the error is entry.ErrMemory.
func DecodeMemory(b []byte) (Memory, error) { return entry.DecodeMemory(b) }

var all = []Dialect{claude.Dialect{}, codex.Dialect{}, copilot.Dialect{}, gemini.Dialect{}, gemini.Qwen{}, item.Dialect{}, omp.Dialect{},
	opencode.Dialect{}, raw.Dialect{}, step.Dialect{}, raw.Part{}, raw.Tagged{}}

// earlier are versions of mappings that no new entry is read by: what they made is made again (DESIGN 8).
var earlier = []Dialect{claude.Dialect{Earlier: 1}, claude.Dialect{Earlier: 2}, codex.Dialect{Earlier: 1}, codex.Dialect{Earlier: 2},
	omp.Dialect{Earlier: 1}, omp.Dialect{Earlier: 2}}

// Made finds the dialect, of this version or an earlier one, that made what is recorded as its name and version.
func Made(name string, version int) (Dialect, bool) {
	for _, d := range slices.Concat(earlier, all) {
		if d.Name() == name && d.Version() == version {
			return d, true
		}
	}
	return nil, false
}

// Lookup finds a dialect by its name.
func Lookup(name string) (Dialect, bool) {
	for _, d := range all {
		if d.Name() == name {
			return d, true
		}
	}
	return nil, false
}

// AgentsAreSessions tells whether the harness of a dialect keeps each subagent as a session of its own, whose parent is the other one.
func AgentsAreSessions(name string) bool { return name == "opencode" }

// IsJSON tells whether the entries of a dialect are JSON. Those of raw, part and tagged are any bytes.
func IsJSON(name string) bool {
	return name != raw.Dialect{}.Name() && name != raw.PartName && name != raw.TaggedName
}

// Names lists the dialects that agents and files have, sorted: all but part and tagged, which are of Spool's own making.
func Names() []string {
	var names []string
	for _, d := range all {
		if d.Name() != raw.PartName && d.Name() != raw.TaggedName {
			names = append(names, d.Name())
		}
	}
	slices.Sort(names)
	return names
}
