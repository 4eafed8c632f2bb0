package transcript

import (
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"spool/pkg/events"
)

// Sidecar is a file beside a session's that is no transcript: an output of a tool, what a subagent is of, or a file as it was, for undo.
type Sidecar struct {
	Harness string // claude or qwen
	Session string
	Place   string // the same in whatever folder the session's file lies: tool-results/…, subagents/….meta.json or file-history/…
}

// Beside tells which sidecar a file is, by its name. Folders above may be called like those of a harness: the last place that fits counts.
//
//	projects/<folder>/<session>/tool-results/toolu_1.txt           of Claude Code
//	projects/<folder>/<session>/subagents/agent-1.meta.json
//	file-history/<session>/0123456789abcdef@v2
//	projects/<folder>/subagents/<session>/agent-scout-1.meta.json  of Qwen Code
func Beside(name string) (Sidecar, bool) {
	parts := strings.Split(filepath.ToSlash(name), "/")
	for at := len(parts) - 1; at >= 0; at-- {
		if s := sidecar(parts[at], parts[at+1:]); s.Place != "" && events.CheckToken("session", s.Session) == nil &&
			path.Clean(s.Place) == s.Place && filepath.IsLocal(s.Place) && !IsTranscript(path.Base(s.Place)) && len(s.Place) <= maxPlace &&
			!setAside.MatchString(s.Place) {
			return s, true
		}
	}
	return Sidecar{}, false
}

// sidecar is what a file is by the folder of a harness and what stands behind that; no place: none.
func sidecar(folder string, names []string) Sidecar {
	meta := len(names) > 0 && strings.HasSuffix(names[len(names)-1], metaExt)
	switch {
	case folder == history && len(names) == 2:
		return Sidecar{"claude", names[0], history + "/" + names[1]}
	case folder != "projects" || len(names) < 4:
	case names[2] == "tool-results", names[2] == subagents && meta:
		return Sidecar{"claude", names[1], strings.Join(names[2:], "/")}
	case names[1] == subagents && len(names) == 4 && meta:
		return Sidecar{"qwen", names[2], subagents + "/" + names[3]}
	}
	return Sidecar{}
}

const (
	history = "file-history"
	metaExt = ".meta.json"
)

// maxPlace bounds a place, in bytes.
const maxPlace = 1024

// setAside is what a restore calls a file that it has not all of yet, and one that it replaced.
var setAside = regexp.MustCompile(`\.[A-Z2-7]{8}\.(part|kept)$`)

// IsBeside is the last result of Beside.
func IsBeside(name string) bool {
	_, ok := Beside(name)
	return ok
}

// IsWanted tells whether a file of a directory is imported, by its name.
func IsWanted(name string) bool { return IsTranscript(filepath.Base(name)) || IsBeside(name) }
