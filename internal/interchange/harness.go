package interchange

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"

	"spool/internal/mapped"
	"spool/internal/transcript"
	"spool/pkg/sessions"
)

// Harness is a program whose transcripts are known, and where it keeps them: below a folder of the home directory, which variables
// of the environment move elsewhere.
type Harness struct {
	Name    string   // claude, codex, copilot, gemini, omp, pi or qwen
	Title   string   // what people call it
	Dialect string   // of its entries
	Env     []string // the first that is set counts; what stands behind its name is below what it says
	Home    string   // below the home directory
	Folders []string // of transcripts
	Beside  []string // of other files of their sessions
}

// Harnesses are all of them.
var Harnesses = []Harness{
	{"claude", "Claude Code", "claude", []string{"CLAUDE_CONFIG_DIR"}, ".claude", []string{"projects"}, []string{"file-history"}},
	{"codex", "Codex", "codex", []string{"CODEX_HOME"}, ".codex", []string{"sessions", "archived_sessions"}, nil},
	{"copilot", "GitHub Copilot CLI", "copilot", []string{"COPILOT_HOME"}, ".copilot", []string{"session-state"}, nil},
	{"gemini", "Gemini CLI", "gemini", []string{"GEMINI_CLI_HOME/.gemini"}, ".gemini", []string{"tmp"}, nil},
	{"qwen", "Qwen Code", "qwen", []string{"QWEN_RUNTIME_DIR", "QWEN_HOME"}, ".qwen", []string{"projects"}, nil},
	{"omp", "oh-my-pi", ompDialect, []string{"PI_CODING_AGENT_DIR"}, ".omp/agent", []string{"."}, nil},
	{"pi", "pi", ompDialect, []string{"PI_CODING_AGENT_DIR"}, ".pi/agent", []string{"sessions"}, nil},
}

// Titles are what people call them.
func Titles() []string {
	titles := mapped.List(Harnesses, func(h Harness) string { return h.Title })
	return titles
}

// HarnessOf finds the harness of a session; false where there is none that opens files of it.
func HarnessOf(info sessions.Info) (Harness, bool) {
	name := info.Agent()
	if i := slices.IndexFunc(Harnesses, func(h Harness) bool { return h.Name == name }); i >= 0 {
		return Harnesses[i], true
	}
	return Harness{}, false
}

// ByFolder tells whether the harness looks for a session in a folder that is called after the directory where it runs.
func (h Harness) ByFolder() bool { return h.Name == "claude" || h.Name == "gemini" || h.Name == "qwen" }

// Resume is the command with which the harness goes on with a session, whose file has that name.
func (h Harness) Resume(session, file string) []string {
	switch h.Name {
	case "claude":
		return []string{"claude", "--resume", session}
	case "codex":
		return []string{"codex", "resume", session}
	case "copilot", "gemini", "qwen":
		return []string{h.Name, "--resume", session}
	case "pi":
		return []string{"pi", "--session", file}
	}
	return []string{"omp", "--resume", session}
}

// fileOf is the file of a session's main thread in the harness's directory, as the program would call it, or did where that is known. A
// name that is stored and none of such a file is an error.
func (h Harness) fileOf(info sessions.Info, cwd string) (string, error) {
	kind, kept, ok := strings.Cut(info.File, ":")
	if ok && kind == h.Name && !h.isFileOf(kept, info.ID) {
		return "", fmt.Errorf("%s: the file that it was imported from is called %.200q: %w", info.ID, kept, errPlace)
	}
	at := time.UnixMilli(info.Created).UTC() // the programs take the local time of the machine that they ran on
	switch h.Name {
	case "codex":
		if ok {
			return path.Join(path.Dir(kept), stemOf(kept)+sessionExt), nil
		}
		return fmt.Sprintf("sessions/%s/rollout-%s-%s%s", at.Format("2006/01/02"), at.Format("2006-01-02T15-04-05"), info.ID, sessionExt), nil
	case "copilot": // it looks by the session's id alone
		return path.Join("session-state", info.ID, copilotFile), nil
	case "pi": // it looks in the folder of the directory where it runs
		return path.Join("sessions", fitted(sessions.DirName(info.Cwd, "", ""), ""), stemOf(kept)+sessionExt), nil
	}
	if ok && cwd == "" {
		return kept, nil
	}
	switch cwd := cmp.Or(cwd, info.Cwd); h.Name {
	case "gemini":
		name := fmt.Sprintf("session-%s-%.8s", at.Format("2006-01-02T15-04"), info.ID)
		if ok {
			name = stemOf(kept)
		}
		return path.Join("tmp", slug(path.Base(cwd)), "chats", name+sessionExt), nil
	case "qwen":
		return path.Join("projects", ProjectKey(cwd), "chats", info.ID+sessionExt), nil
	}
	return path.Join("projects", ProjectKey(cmp.Or(cwd, info.Cwd)), info.ID+sessionExt), nil
}

// agentFile is the file of a session's subagent, beside that of its main thread; "" where the program has none of its own.
func (h Harness) agentFile(main, session, agent string) string {
	switch h.Name {
	case "claude":
		return path.Join(path.Dir(main), stemOf(main), "subagents", "agent-"+agent+sessionExt)
	case "gemini":
		return path.Join(path.Dir(main), session, agent+sessionExt)
	case "qwen":
		return path.Join(path.Dir(path.Dir(main)), "subagents", session, "agent-"+agent+sessionExt)
	}
	return ""
}

// besideName is the name of a file beside that of a session's main thread, by its place.
func (h Harness) besideName(main, session, place string) string {
	switch rest, undo := strings.CutPrefix(place, "file-history/"); {
	case h.Name == "qwen":
		return path.Join(path.Dir(path.Dir(main)), "subagents", session, path.Base(place))
	case undo:
		return path.Join("file-history", session, rest)
	}
	return path.Join(strings.TrimSuffix(main, sessionExt), place)
}

var errPlace = errors.New("no place of a session's file")

// isFileOf tells whether a file below the harness's directory is that of a session's main thread, whatever its folder.
func (h Harness) isFileOf(file, session string) bool {
	folder, rest, _ := strings.Cut(file, "/")
	stem := stemOf(file)
	if !filepath.IsLocal(file) || path.Clean(file) != file || strings.ContainsFunc(file, unicode.IsControl) ||
		!transcript.IsTranscript(path.Base(file)) {
		return false
	}
	switch h.Name {
	case "codex":
		_, behind, ok := strings.Cut(stem, "-"+session)
		another := strings.HasPrefix(behind, "_") // rollout of the thread
		return slices.Contains(h.Folders, folder) && ok && strings.HasPrefix(stem, "rollout-") && (behind == "" || another)
	case "copilot":
		return file == path.Join("session-state", session, copilotFile)
	case "pi":
		return folder == "sessions" && strings.HasSuffix(stem, "_"+session) && strings.Count(rest, "/") == 1
	case "gemini":
		return folder == "tmp" && strings.HasPrefix(stem, "session-") && strings.HasSuffix(stem, "-"+session[:min(len(session), 8)]) &&
			strings.Count(rest, "/") == 2 && path.Base(path.Dir(rest)) == "chats"
	case "qwen":
		return folder == "projects" && stem == session && strings.Count(rest, "/") == 2 && path.Base(path.Dir(rest)) == "chats"
	}
	return folder == "projects" && stem == session && strings.Count(rest, "/") == 1
}

// PlaceOf is the place of a session's file, by its name: the harness, a colon, and the name below the harness's directory. "": it lies
// in none.
func PlaceOf(dialect, session, name string) string {
	name = "/" + filepath.ToSlash(name)
	for _, h := range Harnesses {
		if h.Dialect != dialect || h.Name == ompDialect || h.Name == "pi" && !strings.Contains(name, "/"+h.Home+"/") {
			continue // that of oh-my-pi follows from the session
		}
		for _, folder := range h.Folders {
			for before := name; ; { // a folder in it may have the same name
				at := strings.LastIndex(before, "/"+folder+"/") + 1
				if at == 0 {
					break
				}
				if len(h.Name)+len(name)-at < sessions.MaxFile && h.isFileOf(name[at:], session) {
					return h.Name + ":" + name[at:]
				}
				before = name[:at+len(folder)]
			}
		}
	}
	return ""
}

// slug is the name of the folder in which Gemini CLI keeps the sessions of a directory of that name, the first one that it knows.
func slug(base string) string {
	words := strings.FieldsFunc(strings.ToLower(base), func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') })
	return cmp.Or(strings.Join(words, "-"), "project")
}

// copilotFile is what GitHub Copilot CLI calls a session's file, in a folder of its own.
const copilotFile = "events.jsonl"

// stemOf is a transcript's name without folder and ending.
func stemOf(file string) string {
	stem, _, _ := strings.Cut(path.Base(file), sessionExt)
	return stem
}

// maxKey bounds a project's key, in UTF-16 units, without the hash that then follows.
const maxKey = 200

// ProjectKey is the name of the folder in which Claude Code keeps the sessions of a working directory: every unit of UTF-16 that is no
// letter or digit of ASCII is a dash.
func ProjectKey(cwd string) string {
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
