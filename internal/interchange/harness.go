package interchange

import (
	"cmp"
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"
)

// Harness is a program whose transcripts are known, and where it keeps them: below a folder of the home directory, which a variable
// of the environment moves elsewhere.
type Harness struct {
	Name    string // claude, codex, omp or pi
	Title   string // what people call it
	Env     string
	Home    string   // below the home directory
	Folders []string // of transcripts and what lies beside them
}

// Harnesses are all of them.
var Harnesses = []Harness{
	{"claude", "Claude Code", "CLAUDE_CONFIG_DIR", ".claude", []string{"projects"}},
	{"codex", "Codex", "CODEX_HOME", ".codex", []string{"sessions", "archived_sessions"}},
	{"omp", "oh-my-pi", "PI_CODING_AGENT_DIR", ".omp/agent", []string{"."}},
}

// HarnessOf finds a harness by its name.
func HarnessOf(name string) (Harness, bool) {
	for _, h := range Harnesses {
		if h.Name == name {
			return h, true
		}
	}
	return Harness{}, false
}

// Resume is the command with which the harness goes on with a session.
func (h Harness) Resume(session string) []string {
	switch h.Name {
	case "claude":
		return []string{"claude", "--resume", session}
	case "codex":
		return []string{"codex", "resume", session}
	}
	return []string{"omp", "--resume", session}
}

// fileOf is the file of a session's main thread in the harness's directory, as the program would call it.
func (h Harness) fileOf(session, cwd string, created time.Time) string {
	if h.Name == "codex" {
		at := created.UTC() // the program takes the local time of the machine that it ran on
		return fmt.Sprintf("sessions/%s/rollout-%s-%s%s", at.Format("2006/01/02"), at.Format("2006-01-02T15-04-05"), session, sessionExt)
	}
	return path.Join("projects", projectKey(cwd), session+sessionExt)
}

// isFileOf tells whether a file is that of a session's main thread, whatever its folder.
func (h Harness) isFileOf(file, session string) bool {
	stem := stemOf(file)
	if h.Name == "codex" {
		_, behind, ok := strings.Cut(stem, "-"+session)
		return ok && strings.HasPrefix(stem, "rollout-") && (behind == "" || behind[0] == '_') // _: another rollout of the thread
	}
	return stem == session && strings.Count(file, "/") == 2
}

// stemOf is a transcript's name without folder and ending.
func stemOf(file string) string {
	stem, _, _ := strings.Cut(path.Base(file), sessionExt)
	return stem
}

// maxKey bounds a project's key, in UTF-16 units, without the hash that then follows.
const maxKey = 200

// projectKey is the name of the folder in which Claude Code keeps the sessions of a working directory: every unit of UTF-16 that is no
// letter or digit of ASCII is a dash.
func projectKey(cwd string) string {
	units := utf16.Encode([]rune(cwd))
	key, hash := make([]byte, 0, len(units)), int32(0)
	for _, u := range units {
		hash = hash*31 + int32(u)
		c := byte('-')
		if u < 0x80 && (u >= '0' && u <= '9' || u|0x20 >= 'a' && u|0x20 <= 'z') {
			c = byte(u)
		}
		key = append(key, c)
	}
	if len(key) > maxKey {
		return string(key[:maxKey]) + "-" + strconv.FormatInt(max(int64(hash), -int64(hash)), 36)
	}
	return cmp.Or(string(key), "-")
}
