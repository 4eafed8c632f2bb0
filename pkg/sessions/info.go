package sessions

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"spool/internal/jsonscan"
)

// Info is the value of a session's record: what its entries said about it, and who made it. JSON, so that any client reads
// it; fields that a later version adds are ignored.
type Info struct {
	Version int    `json:"v"`
	ID      string `json:"id"`
	Harness string `json:"harness,omitempty"` // claude, codex, omp, …
	Cwd     string `json:"cwd,omitempty"`
	Title   string `json:"title,omitempty"`
	Summary string `json:"summary,omitempty"` // short summary of the last compaction: a name for want of a title
	Prompt  string `json:"prompt,omitempty"`  // beginning of the first user prompt, at most PromptRunes characters
	Model   string `json:"model,omitempty"`
	Branch  string `json:"git_branch,omitempty"`
	Program string `json:"program,omitempty"` // version of the harness
	Parent  string `json:"parent,omitempty"`  // session this one was forked or continued from
	Base    string `json:"base,omitempty"`    // session whose file its own goes on from, without having that: it needs it
	Origins string `json:"origins,omitempty"` // sessions that its threads have entries of, the newest first, a space between: From
	Host    string `json:"host,omitempty"`    // machine of the agent
	File    string `json:"file,omitempty"`    // of its main thread there, as far as an import said it: <kind>:<path>
	Created int64  `json:"created,omitempty"` // Unix milliseconds, of its first entry

	// TitleSource is TitleUser if the user gave the title. Named and Moved: an operation gave the title, the directory,
	// and the header of the session's file may not say so.
	TitleSource string `json:"title_source,omitempty"`
	Named       bool   `json:"named,omitempty"`
	Moved       bool   `json:"moved,omitempty"`

	// Answered: an agent has written to it, or asked something. Before that it is kept and not listed (SPEC S8).
	Answered bool `json:"answered,omitempty"`

	// What is counted for quotas, from when the record was made: the threads that it has, ended ones too; the producers
	// that were ever new to one of them, but for the ephemeral ones.
	Threads   int64 `json:"threads,omitempty"`
	Producers int64 `json:"producers,omitempty"`

	// User began it, as whoever let him in knows, or else as he said: it counts as his.
	User string `json:"user,omitempty"`
}

// MaxFile bounds the names of a session's file and of its machine, in bytes: every listing has them.
const MaxFile = 1024

// InfoVersion is the version this program writes.
const InfoVersion = 1

// Encode is the record's value.
func (i Info) Encode() []byte {
	i.Version = InfoVersion
	b, err := json.Marshal(i)
	if err != nil {
		panic(err) // strings and integers always marshal
	}
	return b
}

// FileACP is the File of a session that an editor has with an agent of the Agent Client Protocol: no file, of no program.
const FileACP = "acp:"

// Agent is what people call the program that the session is of: its harness, but for pi and acp, whose entries are those of oh-my-pi.
func (i *Info) Agent() string {
	if kind, _, _ := strings.Cut(i.File, ":"); i.Harness == "omp" && (kind == "pi" || kind == "acp") {
		return kind
	}
	return i.Harness
}

// DecodeInfo reads a record's value.
func DecodeInfo(b []byte) (Info, error) {
	var i Info
	if err := jsonscan.Decode(b, &i); err != nil {
		return i, fmt.Errorf("session record: %w", err)
	}
	if i.Version != InfoVersion {
		return i, fmt.Errorf("session record of version %d; this program reads version %d", i.Version, InfoVersion)
	}
	return i, nil
}

// The sources of a title. A header or an entry that does not say who gave its title has none.
const (
	TitleUser = "user"
	TitleAuto = "auto"
)

// maxFact bounds a title or a directory, in bytes: the record of a session has both.
const maxFact = 4096

// TakesTitle reports whether a title from that source replaces the one that is there: one that the user gave is
// replaced by the user alone.
func (i *Info) TakesTitle(source string) bool {
	return i.Title == "" || i.TitleSource != TitleUser || source == TitleUser
}

// Name gives the session a title, without control characters and with single spaces, unless TakesTitle says no.
func (i *Info) Name(title, source string) error {
	title = strings.Join(strings.FieldsFunc(title, func(r rune) bool { return r == ' ' || unicode.IsControl(r) }), " ")
	if title = strings.TrimSpace(title); title == "" || len(title) > maxFact {
		return fmt.Errorf("a title has from 1 to %d bytes beside spaces and control characters; this one has %d",
			maxFact, len(title))
	}
	if i.TakesTitle(source) {
		i.Title, i.TitleSource, i.Named = title, source, true
	}
	return nil
}

// Move gives the session a working directory.
func (i *Info) Move(cwd string) error {
	if cwd == "" || len(cwd) > maxFact || strings.ContainsFunc(cwd, unicode.IsControl) {
		return fmt.Errorf("a directory has from 1 to %d bytes and no control characters; this one is %.80q", maxFact, cwd)
	}
	i.Cwd, i.Moved = cwd, true
	return nil
}

// maxOrigins bounds the sessions that one has entries of, in bytes.
const maxOrigins = 4096

// Heir is the record that a session begins with which goes on from another one: what that one's says, but for what is its own.
func (i *Info) Heir(id string, created int64) Info {
	heir := *i
	heir.ID, heir.Parent, heir.Base, heir.Origins, heir.Created, heir.User, heir.File = id, "", "", "", created, "", ""
	heir.Threads, heir.Producers = 0, 0
	return heir
}

// ForkOf notes that a thread was forked from one of another session: this one has entries of that, and of those that that
// has entries of. Those that it has the longest are forgotten where they are too many.
func (i *Info) ForkOf(source string, of Info) {
	list := source
	for _, id := range slices.Concat(strings.Fields(of.Origins), strings.Fields(i.Origins)) {
		if id != i.ID && len(list)+1+len(id) <= maxOrigins && !slices.Contains(strings.Fields(list), id) {
			list += " " + id
		}
	}
	i.Origins = list
}

// Over is the header of a session's file with what operations made of it.
func (i Info) Over(h Header) Header {
	if i.Named {
		h.Title, h.TitleSource = i.Title, i.TitleSource
	}
	if i.Moved {
		h.Cwd = i.Cwd
	}
	return h
}
