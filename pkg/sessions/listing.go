package sessions

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode"

	"spool/internal/family"
	"spool/internal/shortid"
)

// Status is where a session stands, by its last message (SPEC S10). The numbers are part of the stored format (docs/format.md,
// "Head"): never renumber.
type Status uint8

// The statuses.
const (
	StatusUnknown     Status = iota // no message yet
	StatusComplete                  // the agent has answered and waits for its user
	StatusInterrupted               // work was going on: a call without its result, a result without an answer, an answer cut off
	StatusAborted                   // the user stopped the agent
	StatusError                     // the agent failed
	StatusPending                   // a prompt without an answer
)

var statusNames = [...]string{"unknown", "complete", "interrupted", "aborted", "error", "pending"}

// String is the status in lower case; one of a later program is "unknown".
func (s Status) String() string {
	if int(s) >= len(statusNames) {
		return statusNames[StatusUnknown]
	}
	return statusNames[s]
}

// PromptRunes is how many characters of the first prompt a session's record keeps.
const PromptRunes = 200

// Row is one session of a listing: its record, and what the heads of its threads say (SPEC S10).
type Row struct {
	Info
	Messages int64 // of the main thread; of a fork, with those before its fork point
	Size     int64 // bytes of the raw entries of all threads, without the newlines between
	Modified int64 // Unix milliseconds, of the newest entry
	Status   Status
}

// Name is what a person knows the session by: its title, else the first line of its first prompt, without control
// characters; "Untitled" if there is neither.
func (r Row) Name() string {
	for _, s := range []string{r.Title, r.Summary, r.Prompt} {
		if line := firstLine(s); line != "" {
			return line
		}
	}
	return "Untitled"
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return -1
		}
		return r
	}, s))
}

// Query chooses the rows of a listing. The zero Query is all sessions that an agent has answered in.
type Query struct {
	Cwd        string // only sessions of this working directory; "" = all
	Unanswered bool   // also those without an answer yet (SPEC S8)
	Limit      int    // at most so many; 0 = all
}

// Has reports whether a query chooses a session, whatever its limit is.
func (q Query) Has(i Info) bool {
	return (q.Cwd == "" || sameDir(i.Cwd, q.Cwd)) && (q.Unanswered || i.Answered)
}

// Compare is the order of a listing: the newest first, and of those of one time the last by their ids, as ids grow with time. It takes
// nothing that is not in the heads of a session's threads.
func (r Row) Compare(o Row) int {
	return cmp.Or(cmp.Compare(o.Modified, r.Modified), strings.Compare(o.ID, r.ID))
}

// List gives the rows that a query chooses, newest first. The rows are reordered in place.
func List(rows []Row, q Query) []Row {
	kept := slices.DeleteFunc(rows, func(r Row) bool { return !q.Has(r.Info) })
	slices.SortFunc(kept, Row.Compare)
	if q.Limit > 0 && len(kept) > q.Limit {
		kept = kept[:q.Limit]
	}
	return kept
}

func sameDir(a, b string) bool { return a != "" && path.Clean(a) == path.Clean(b) }

// ErrNoSession says that no session's id begins like that.
var ErrNoSession = family.NotFound.New("no such session")

// AmbiguousError says that several sessions' ids begin like that.
type AmbiguousError struct {
	Prefix     string
	Candidates []Row // newest first
}

// Error names the candidates.
func (e *AmbiguousError) Error() string {
	lines := make([]string, len(e.Candidates))
	for i, r := range e.Candidates {
		lines[i] = r.ID + "  " + r.Name()
	}
	return shortid.Ambiguous("sessions", e.Prefix, lines)
}

// Resume finds the session whose id is the prefix, or else the only one whose id begins with it, letter case aside
// (SPEC S10). A prefix that is unique among the sessions of cwd is enough, whatever there is elsewhere; cwd may be "".
// Errors wrap ErrNoSession, or are an *AmbiguousError.
func Resume(rows []Row, cwd, prefix string) (Row, error) {
	var all, here []Row
	for _, r := range rows {
		if r.ID == prefix {
			return r, nil
		}
		if shortid.Begins(r.ID, prefix) {
			all = append(all, r)
			if cwd != "" && sameDir(r.Cwd, cwd) {
				here = append(here, r)
			}
		}
	}
	switch {
	case len(here) == 1:
		return here[0], nil
	case len(all) == 1:
		return all[0], nil
	case len(all) == 0:
		return Row{}, fmt.Errorf("%w: none has an id that begins with %q", ErrNoSession, prefix)
	}
	return Row{}, &AmbiguousError{Prefix: prefix, Candidates: List(all, Query{Unanswered: true})}
}

// DirName is the name of the folder in which the program keeps the sessions of a working directory (seed 002): the path
// without its leading slash, each of / \ : as a dash, between two dashes; below the home and the temporary directory
// "-<rest>" and "-tmp-<rest>". Paths are absolute.
func DirName(cwd, home, tmp string) string {
	cwd = path.Clean(cwd)
	if rest, ok := below(cwd, home); ok {
		return "-" + dashed(rest)
	}
	if rest, ok := below(cwd, tmp); ok {
		return strings.TrimSuffix("-tmp-"+dashed(rest), "-")
	}
	return "--" + dashed(strings.TrimPrefix(cwd, "/")) + "--"
}

func below(p, dir string) (rest string, ok bool) {
	if dir == "" {
		return "", false
	}
	if dir = path.Clean(dir); p == dir {
		return "", true
	}
	return strings.CutPrefix(p, strings.TrimSuffix(dir, "/")+"/")
}

func dashed(s string) string { return strings.NewReplacer("/", "-", `\`, "-", ":", "-").Replace(s) }
