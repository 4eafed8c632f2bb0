package sessions

import (
	"encoding/json"
	"fmt"

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
	Host    string `json:"host,omitempty"`    // machine of the agent
	Created int64  `json:"created,omitempty"` // Unix milliseconds, of its first entry

	// Answered: an agent has written to it. Before that it is kept and not listed (SPEC S8).
	Answered bool `json:"answered,omitempty"`

	// What is counted for quotas, from when the record was made: the threads that it has, ended ones too; the producers
	// that were ever new to one of them, but for the ephemeral ones.
	Threads   int64 `json:"threads,omitempty"`
	Producers int64 `json:"producers,omitempty"`
}

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
