package transcript

import (
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"spool/pkg/events"
)

// Beside finds the session of Claude Code that a file belongs to which is no transcript: outputs of tools, what its subagents are of, and
// files as they were, for undo. place is the same in whatever folder the session's file lies: tool-results/…, subagents/….meta.json or
// file-history/…. IsBeside tells whether a file is one.
//
//	projects/<folder>/<session>/tool-results/toolu_1.txt
//	projects/<folder>/<session>/subagents/agent-1.meta.json
//	file-history/<session>/0123456789abcdef@v2
func Beside(name string) (session, place string, ok bool) {
	name = "/" + filepath.ToSlash(name)
	if at := strings.LastIndex(name, "/file-history/"); at >= 0 {
		session, place, ok = strings.Cut(name[at+len("/file-history/"):], "/")
		place = "file-history/" + place
	} else if at := strings.LastIndex(name, "/projects/"); at >= 0 {
		_, rest, _ := strings.Cut(name[at+len("/projects/"):], "/")
		session, place, ok = strings.Cut(rest, "/")
		ok = ok && (strings.HasPrefix(place, "tool-results/") ||
			strings.HasPrefix(place, "subagents/") && strings.HasSuffix(place, ".meta.json"))
	}
	ok = ok && events.CheckToken("session", session) == nil && path.Base(place) != "file-history" && path.Clean(place) == place &&
		filepath.IsLocal(place) && !IsTranscript(path.Base(place)) && len(place) <= maxPlace && !setAside.MatchString(place)
	return session, place, ok
}

// maxPlace bounds a place, in bytes.
const maxPlace = 1024

// setAside is what a restore calls a file that it has not all of yet, and one that it replaced.
var setAside = regexp.MustCompile(`\.[A-Z2-7]{8}\.(part|kept)$`)

// IsBeside is the last result of Beside.
func IsBeside(name string) bool {
	_, _, ok := Beside(name)
	return ok
}

// IsWanted tells whether a file of a directory is imported, by its name.
func IsWanted(name string) bool { return IsTranscript(filepath.Base(name)) || IsBeside(name) }
