package interchange_test

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"spool/internal/artifactstore"
	"spool/internal/interchange"
	"spool/internal/must"
	"spool/internal/natsio"
	"spool/pkg/client"
	"spool/pkg/events"
)

const (
	claudeID = "5f0c9a52-7d0e-4f0b-9a3e-2f6f1c0d7e11"
	codexID  = "01a6f001-0000-7000-8000-000000000001"
	forkID   = "01a6f001-0000-7000-8000-000000000002"
)

// claudeLine is a user's line of a session of Claude Code.
func claudeLine(n int, more string) string {
	return fmt.Sprintf(`{"parentUuid":null,"isSidechain":false,"cwd":"/home/dev/my app","sessionId":%q,"version":"2.1.240",%s"uuid":"00000000-0000-4000-8000-%012d","timestamp":"2026-11-20T12:00:%02d.000Z","type":"user","message":{"role":"user","content":"line %d"}}`,
		claudeID, more, n, n, n) + "\n"
}

// A session of Gemini CLI and one of Qwen Code.
const (
	geminiID   = "79f7e841-e0ff-46bd-b4e3-f345adc14d53"
	geminiFile = "session-2026-11-29T11-01-79f7e841.jsonl"
	geminiText = `{"sessionId":"` + geminiID + `","projectHash":"4caa","startTime":"2026-11-29T11:01:27.457Z","kind":"main"}
{"$set":{"messages":[{"id":"1","type":"user","content":[{"text":"<session_context>\nHello.\n- **Workspace Directories:**\n  - /srv/mill\n"}]}]}}
{"id":"2","timestamp":"2026-11-29T11:01:27.470Z","type":"user","content":[{"text":"mill the rye"}]}
`
	qwenText = `{"uuid":"1","parentUuid":null,"sessionId":"` + geminiID + `","timestamp":"2026-11-29T11:01:31.066Z","type":"user","cwd":"/srv/mill","message":{"role":"user","parts":[{"text":"mill the rye"}]}}
`
)

// codexLine is a line of a rollout.
func codexLine(n int, typ, payload string) string {
	return fmt.Sprintf(`{"timestamp":"2026-11-20T12:00:%02d.000Z","ordinal":%d,"type":%q,"payload":%s}`, n, n, typ, payload) + "\n"
}

func codexMeta(id, more string) string {
	return codexLine(0, "session_meta", fmt.Sprintf(`{"id":%q,%s"timestamp":"2026-11-20T12:00:00.000Z","cwd":"/home/dev/app","originator":"codex_exec","cli_version":"0.169.0"}`, id, more))
}

func codexSaid(n int) string {
	return codexLine(n, "response_item", fmt.Sprintf(`{"type":"message","role":"user","content":[{"type":"input_text","text":"line %d"}]}`, n))
}

// rig is a Spool and the directory of a harness on another machine.
type rig struct {
	*testing.T
	interchange.Materializer
	conn *natsio.Conn
}

func newRig(t *testing.T) *rig {
	r := &rig{T: t, conn: system(t)}
	r.Materializer = interchange.Materializer{Client: client.New(r.conn), Artifacts: artifactstore.Of(r.conn, 0), Home: "/home/u", Tmp: "/tmp"}
	r.elsewhere()
	return r
}

// elsewhere makes the directory that of another machine.
func (r *rig) elsewhere() {
	r.Path = r.TempDir()
	r.Dir = must.Get(os.OpenRoot(r.Path))(r.T)
	r.Cleanup(func() { _ = r.Dir.Close() })
}

func (r *rig) write(session string) (interchange.Materialized, error) {
	r.Helper()
	var ok bool
	if r.Harness, ok = interchange.HarnessOf(must.Get(r.Client.Session(session).Info(r.Context()))(r.T)); !ok {
		r.Fatalf("%s has no harness", session)
	}
	return r.Materializer.Session(r.Context(), session)
}

// holds compares the directory with files by their names.
func (r *rig) holds(want map[string]string) {
	r.Helper()
	if diff := cmp.Diff(want, files(r.T, os.DirFS(r.Path))); diff != "" {
		r.Errorf("the directory (-want +got):\n%s", diff)
	}
}

// What was recorded on one machine is there, byte for byte, where its harness looks for it on another one, and importing that adds nothing.
func TestMaterialize(t *testing.T) {
	agent := "projects/-home-dev-my-app/" + claudeID + "/subagents/agent-a1b2c3d4.jsonl"
	for name, tree := range map[string]map[string]string{
		"claude": {
			"projects/-home-dev-my-app/" + claudeID + ".jsonl": claudeLine(1, "") + claudeLine(2, "") + `{"torn`,
			agent: strings.Replace(claudeLine(3, `"agentId":"a1b2c3d4",`), `"isSidechain":false`, `"isSidechain":true`, 1),
		},
		"codex": {
			"sessions/2026/11/20/rollout-2026-11-20T12-00-00-" + codexID +
				".jsonl": codexMeta(codexID, "") + codexSaid(1) + strings.TrimSuffix(codexSaid(2), "\n"),
		},
		"omp": {
			"sessions/--w--/2026-01-01T00-00-00-000Z_s.jsonl": header("s", 3) + "\n" + message("a", "null", "one") + "\n",
		},
		"claude, from a folder of another directory": {"projects/-home-dev/" + claudeID + ".jsonl": claudeLine(1, "")},
		"codex, as the program called it": {
			"archived_sessions/rollout-2026-11-20T21-30-00-" + codexID + "_" + forkID + ".jsonl": codexMeta(codexID, "") + codexSaid(1),
		},
		"gemini": {"tmp/mill/chats/" + geminiFile: geminiText},
		"gemini, in a folder that is called as that of all": {"tmp/tmp/chats/" + geminiFile: strings.Replace(geminiText, "/srv/mill", "/tmp", 1)},
		"copilot": {"session-state/" + geminiID + "/events.jsonl": `{"type":"session.start","data":{"sessionId":"` +
			geminiID + `","context":{"cwd":"/srv/mill"}},"id":"e1","timestamp":"2026-01-05T10:00:00.010Z","parentId":null}` + "\n"},
		"qwen": {
			"projects/-srv-mill/chats/" + geminiID + ".jsonl":                      qwenText,
			"projects/-srv-mill/subagents/" + geminiID + "/agent-scout-1a2b.jsonl": strings.Replace(qwenText, `"cwd"`, `"agentId":"scout-1a2b","isSidechain":true,"cwd"`, 1),
		},
		"gemini, with a subagent": {
			"tmp/mill/chats/" + geminiFile:                   geminiText,
			"tmp/mill/chats/" + geminiID + "/0123abcd.jsonl": `{"sessionId":"0123abcd","projectHash":"4caa","kind":"subagent","directories":["/srv/mill"]}` + "\n",
		},
		"pi": {"sessions/--w--/2026-01-01T00-00-01-000Z_s.jsonl": header("s", 3) + "\n" + message("a", "null", "one") + "\n"},
	} {
		t.Run(name, func(t *testing.T) {
			r, here := newRig(t), t.TempDir()
			for file, text := range tree {
				write(t, filepath.Join(here, "."+strings.Split(name, ",")[0], "agent", file), []byte(text))
			}
			id := load(t, r.conn, here).Files[0].Session
			if all := must.Get(r.Client.Session(id).Threads(t.Context()))(t); len(all) != len(tree) {
				t.Fatalf("%d threads, want one of each of %d files: %+v", len(all), len(tree), all)
			}
			done, err := r.write(id)
			if err != nil || done.Outcome() != interchange.Created || len(done.Files) != len(tree) {
				t.Fatalf("Session: %v, %+v, want %d files created", err, done, len(tree))
			}
			r.holds(tree)
			head := must.Get(r.Client.Thread(events.Thread{Session: id, Name: events.MainThread}).Head(t.Context()))(t)
			written := must.Get(os.Stat(filepath.Join(r.Path, done.File)))(t).ModTime()
			if newest := time.UnixMilli(head.Updated); r.Harness.Name != "omp" && !written.Equal(newest) { // an export's says if titles in it are newer
				t.Errorf("the file was written at %v, want %v, when its newest entry was", written, newest)
			}
			before := stored(t, r.conn)
			if res := load(t, r.conn, r.Path); res.Published > 0 {
				t.Errorf("importing what was written adds %d lines", res.Published)
			}
			if diff := cmp.Diff(before, stored(t, r.conn)); diff != "" {
				t.Errorf("after the import (-before +now):\n%s", diff)
			}
			if done, err := r.write(id); err != nil || done.Outcome() != interchange.Same {
				t.Errorf("a second time: %v, %+v, want it ready", err, done)
			}
		})
	}
}

// GitHub Copilot CLI keeps a session's name beside its file: without that it calls the session after the next prompt.
func TestMaterializeNamesOfCopilot(t *testing.T) {
	r, here := newRig(t), t.TempDir()
	file := "session-state/" + geminiID + "/events.jsonl"
	text := `{"type":"session.start","data":{"sessionId":"` + geminiID + `","context":{"cwd":"/srv/mill"}},"id":"e1","timestamp":"2026-01-05T10:00:00.010Z","parentId":null}
{"type":"user.message","data":{"content":"grind: \"rye\""},"id":"e2","timestamp":"2026-01-05T10:00:01.000Z","parentId":"e1"}
`
	write(t, filepath.Join(here, ".copilot", file), []byte(text))
	load(t, r.conn, here)
	must.Get(r.write(geminiID))(t)
	const said = `id: "` + geminiID + `"
cwd: "/srv/mill"
name: "grind: \"rye\""
user_named: false
created_at: "2026-01-05T10:00:00.010Z"
updated_at: "2026-01-05T10:00:01.000Z"
`
	beside := "session-state/" + geminiID + "/workspace.yaml"
	r.holds(map[string]string{file: text, beside: said})
	write(t, filepath.Join(r.Path, beside), []byte("name: Mine\n"))
	must.Get(r.write(geminiID))(t)
	r.holds(map[string]string{file: text, beside: "name: Mine\n"})

	r.elsewhere()
	must.Do(t, r.Client.Session(geminiID).Name(t.Context(), "The mill 🌾\ufffe", false))
	r.Cwd = "/elsewhere\x7f"
	must.Get(r.write(geminiID))(t)
	named := strings.NewReplacer("/srv/mill", `/elsewhere\x7f`, `grind: \"rye\"`, `The mill 🌾\ufffe`, "false", "true").Replace(said)
	r.holds(map[string]string{file: text, beside: named})
}

// Gemini CLI has the folder of a directory's sessions by what it says in it, or by its name.
func TestMaterializeInTheFolderOfGemini(t *testing.T) {
	r, here := newRig(t), t.TempDir()
	write(t, filepath.Join(here, "tmp/mill-1/chats", geminiFile), []byte(geminiText))
	load(t, r.conn, here)
	for what, c := range map[string]struct {
		there       map[string]string
		cwd, folder string
	}{
		"an empty home":                {nil, "", "mill"},
		"another directory":            {nil, "/srv/The  Mill", "the-mill"},
		"the name is another one's":    {map[string]string{"tmp/mill/.project_root": "/home/mill"}, "", "mill-1"},
		"the directory has a folder":   {map[string]string{"tmp/oats/.project_root": "/srv/mill\n"}, "", "oats"},
		"the session has a file there": {map[string]string{"tmp/x/chats/" + geminiFile: geminiText}, "", "x"},
	} {
		t.Run(what, func(t *testing.T) {
			r.T = t
			r.elsewhere()
			for name, text := range c.there {
				write(t, filepath.Join(r.Path, name), []byte(text))
			}
			r.Cwd = c.cwd
			done, err := r.write(geminiID)
			if want := "tmp/" + c.folder + "/chats/" + geminiFile; err != nil || done.File != want {
				t.Errorf("Session: %v, %q, want %q", err, done.File, want)
			}
		})
	}
}

// A file that is a beginning goes on; every other is kept, and named.
func TestMaterializeKeepsWhatIsThere(t *testing.T) {
	r, here := newRig(t), t.TempDir()
	text := claudeLine(1, "") + claudeLine(2, "")
	const name = "projects/-elsewhere/" + claudeID + ".jsonl" // a session has the file that it has
	write(t, filepath.Join(here, name), []byte(text))
	load(t, r.conn, here)
	for what, c := range map[string]struct {
		there   string
		ahead   bool
		outcome interchange.Outcome // "" for a refusal
	}{
		"a beginning":      {text[:len(text)/2], false, interchange.Forwarded},
		"all of it":        {text, false, interchange.Same},
		"more":             {text + claudeLine(3, ""), false, ""},
		"more, as it does": {text + claudeLine(3, ""), true, interchange.Ahead},
		"something else":   {claudeLine(1, "") + claudeLine(3, ""), true, ""},
	} {
		t.Run(what, func(t *testing.T) {
			r.T = t
			r.elsewhere()
			write(t, filepath.Join(r.Path, name), []byte(c.there))
			r.Ahead, r.Force = c.ahead, false
			done, err := r.write(claudeID)
			switch {
			case c.outcome == "":
				if !errors.Is(err, interchange.ErrThere) || !strings.Contains(err.Error(), filepath.Join(r.Path, name)) {
					t.Errorf("Session: %v, want a refusal that names the file", err)
				}
				r.holds(map[string]string{name: c.there})
				r.Force, r.Ahead = true, false
				if done, err = r.write(claudeID); err != nil || done.Outcome() != interchange.Replaced {
					t.Fatalf("forced: %v, %+v", err, done)
				}
				r.holds(map[string]string{name: text, done.Files[0].Kept: c.there})
			case err != nil || done.Outcome() != c.outcome:
				t.Errorf("Session: %v, %+v, want %s", err, done, c.outcome)
			case c.outcome == interchange.Ahead:
				r.holds(map[string]string{name: c.there})
			default:
				r.holds(map[string]string{name: text})
			}
		})
	}
}

// A copy of a session that parted from it is not replaced, and the refusal names the thread that has it, if one has all of it.
func TestMaterializeNamesWhatIsKept(t *testing.T) {
	r, here := newRig(t), t.TempDir()
	at := "projects/-home-dev-my-app/" + claudeID + ".jsonl"
	file := filepath.Join(here, ".claude", at)
	write(t, file, []byte(claudeLine(1, "")+claudeLine(2, "")))
	load(t, r.conn, here)
	write(t, file, []byte(claudeLine(1, "")+claudeLine(3, "")))
	later := time.Now().Add(time.Second)
	must.Do(t, os.Chtimes(file, later, later))
	former := load(t, r.conn, here).Files[0].Former
	for text, kept := range map[string]bool{
		claudeLine(1, "") + claudeLine(2, ""):                     true,
		claudeLine(1, "") + claudeLine(2, "") + claudeLine(4, ""): false,
		claudeLine(2, ""): false,
	} {
		write(t, filepath.Join(r.Path, at), []byte(text))
		_, err := r.write(claudeID)
		must.Is(t, err, interchange.ErrThere, "Session over another copy")
		if got := strings.Contains(err.Error(), "kept in "+claudeID+"/"+former); got != kept || former == "" {
			t.Errorf("Session over %q: %v; names the thread that has it: %v, want %v", text, err, got, kept)
		}
	}
}

// A rollout of Codex that goes on from another one without having it brings that, and what it needs; of one that is there
// the beginning is enough.
func TestMaterializeAncestors(t *testing.T) {
	parent := codexMeta(codexID, "") + codexSaid(1) + codexSaid(2)
	needs := len(codexMeta(codexID, "") + codexSaid(1))
	fork := codexMeta(forkID, fmt.Sprintf(`"forked_from_id":%q,"history_base":{"thread_id":%q,"end_ordinal_exclusive":2,"end_byte_offset":%d},`, codexID, codexID, needs)) + codexSaid(2)
	parentName := "sessions/2026/11/20/rollout-2026-11-20T12-00-00-" + codexID + ".jsonl"
	forkName := "sessions/2026/11/20/rollout-2026-11-20T12-00-00-" + forkID + ".jsonl"
	r, here := newRig(t), t.TempDir()
	write(t, filepath.Join(here, "a", "fork.jsonl"), []byte(fork))
	load(t, r.conn, here)
	if _, err := r.write(forkID); err == nil || !strings.Contains(err.Error(), codexID) {
		t.Errorf("without its parent: %v, want an error that names it", err)
	}
	r.holds(map[string]string{})
	other := parent[:needs] + codexSaid(9)
	elsewhere := "archived_sessions/rollout-2026-11-20T13-00-00-" + codexID + ".jsonl"
	write(t, filepath.Join(r.Path, elsewhere), []byte(other))
	done := must.Get(r.write(forkID))(t)
	r.holds(map[string]string{elsewhere: other, forkName: fork})
	must.Same(t, done.File, forkName, "the file is %s, want %s")

	write(t, filepath.Join(here, "parent.jsonl"), []byte(parent))
	load(t, r.conn, here)
	must.Get(r.write(forkID))(t)
	r.holds(map[string]string{elsewhere: other, forkName: fork})
	r.elsewhere()
	must.Get(r.write(forkID))(t)
	r.holds(map[string]string{parentName: parent, forkName: fork})
	r.elsewhere()
	write(t, filepath.Join(r.Path, parentName), []byte(codexSaid(7)+parent))
	must.Is(t, must.Err(r.write(forkID)), interchange.ErrThere, "over another beginning of its parent")
	r.holds(map[string]string{parentName: codexSaid(7) + parent})
}

// What lies beside the files of Claude Code is there on another machine, with its time; importing it there, or again, adds nothing, what was
// written anew is another artifact, and of a session that nobody imported nothing is.
func TestMaterializeBeside(t *testing.T) {
	r, here := newRig(t), t.TempDir()
	const folder = "projects/-home-dev-my-app/"
	tree := map[string]string{
		folder + claudeID + ".jsonl":                              claudeLine(1, "") + `{"type":"file-history-snapshot","messageId":"m","snapshot":{}}` + "\n",
		folder + claudeID + "/subagents/agent-a1b2c3d4.jsonl":     strings.Replace(claudeLine(3, `"agentId":"a1b2c3d4",`), `"isSidechain":false`, `"isSidechain":true`, 1),
		folder + claudeID + "/subagents/agent-a1b2c3d4.meta.json": `{"agentType":"general-purpose","toolUseId":"toolu_3"}`,
		folder + claudeID + "/tool-results/toolu_1.txt":           "line\nwithout an end",
		folder + claudeID + "/tool-results/empty.txt":             "",
		folder + claudeID + "/subagents/workflows/w1/agent-e5f6.jsonl": strings.Replace(claudeLine(4, `"agentId":"e5f6",`),
			`"isSidechain":false`, `"isSidechain":true`, 1),
		folder + claudeID + "/subagents/workflows/w1/agent-e5f6.meta.json": `{"agentType":"general-purpose","toolUseId":"toolu_4"}`,
		"file-history/" + claudeID + "/0123456789abcdef@v2":                "package main\n",
	}
	at := time.Date(2026, 11, 20, 12, 0, 0, 123456789, time.UTC)
	put := func(dir string) {
		for file, text := range tree {
			write(t, filepath.Join(dir, file), []byte(text))
			must.Do(t, os.Chtimes(filepath.Join(dir, file), at, at))
		}
	}
	put(here)
	write(t, filepath.Join(here, "file-history", forkID, "1@v1"), []byte("of a session that is not there"))
	write(t, filepath.Join(here, folder, "memory", "MEMORY.md"), []byte("of no session"))
	res := load(t, r.conn, here)
	beside := 0
	for _, f := range res.Files {
		if f.Err != nil {
			t.Errorf("%s: %v", f.File, f.Err)
		}
		beside += f.Artifacts
	}
	if want := len(tree) - 3; beside != want {
		t.Errorf("%d artifacts, want %d", beside, want)
	}
	done := must.Get(r.write(claudeID))(t)
	if len(done.Lost) > 0 {
		t.Errorf("not restored: %q", done.Lost)
	}
	r.holds(tree)
	for file := range tree {
		if strings.HasSuffix(file, ".jsonl") {
			continue
		}
		if got := must.Get(os.Stat(filepath.Join(r.Path, file)))(t); !got.ModTime().Equal(at) {
			t.Errorf("%s is of %v, want %v", file, got.ModTime(), at)
		}
	}
	before := stored(t, r.conn)
	load(t, r.conn, r.Path)
	again := filepath.Join(here, folder, claudeID, "tool-results", "toolu_1.txt")
	must.Do(t, os.Chtimes(again, at.Add(time.Hour), at.Add(time.Hour))) // the same, copied
	load(t, r.conn, here)
	must.Same(t, cmp.Diff(before, stored(t, r.conn)), "", "the second import changed %s, want %q")

	write(t, again, []byte("another"))
	load(t, r.conn, here)
	r.elsewhere()
	r.Cwd = "/srv/app"
	must.Get(r.write(claudeID))(t)
	const moved = "projects/-srv-app/" + claudeID + "/tool-results/toolu_1.txt"
	must.Same(t, string(must.Get(os.ReadFile(filepath.Join(r.Path, moved)))(t)), "another", "it has %q, want %q")
	write(t, filepath.Join(r.Path, moved), []byte("of this machine"))
	done = must.Get(r.write(claudeID))(t)
	must.Same(t, string(must.Get(os.ReadFile(filepath.Join(r.Path, moved)))(t)), "of this machine", "it has %q, want %q")
	if len(done.Lost) != 1 || !strings.Contains(done.Lost[0], "toolu_1.txt") {
		t.Errorf("not restored: %q, want the one that is another here", done.Lost)
	}
}

// What lay beside a file and is not kept is named.
func TestMaterializeSaysWhatIsLost(t *testing.T) {
	r, here := newRig(t), t.TempDir()
	text := strings.Replace(claudeLine(1, ""), "line 1", "Full output saved to: /home/dev/.claude/projects/x/"+claudeID+
		"/tool-results/toolu_1.txt", 1) +
		`{"type":"file-history-snapshot","messageId":"m","snapshot":{}}` + "\n"
	write(t, filepath.Join(here, claudeID+".jsonl"), []byte(text))
	load(t, r.conn, here)
	done := must.Get(r.write(claudeID))(t)
	for _, want := range []string{claudeID + "/tool-results/toolu_1.txt", "file-history/" + claudeID} {
		if !slices.ContainsFunc(done.Lost, func(s string) bool { return strings.HasSuffix(s, want) }) {
			t.Errorf("not restored: %q, want %s among them", done.Lost, want)
		}
	}
}

// Whatever a session, a link or an index says, nothing is written outside of the harness's directory, nor where another
// home's index points.
func TestMaterializeStaysInItsDirectory(t *testing.T) {
	r, here, outside := newRig(t), t.TempDir(), t.TempDir()
	write(t, filepath.Join(here, "s.jsonl"), []byte(codexMeta(codexID, "")+codexSaid(1)))
	write(t, filepath.Join(here, "f.jsonl"), []byte(codexMeta(forkID,
		`"history_base":{"thread_id":"../../x","end_byte_offset":1},`)+codexSaid(1)))
	load(t, r.conn, here)
	if _, err := r.write(forkID); err == nil || !strings.Contains(err.Error(), "history_base") {
		t.Errorf("a parent that is a path: %v, want an error", err)
	}
	r.holds(map[string]string{})
	r.elsewhere()
	must.Do(t, os.Symlink(outside, filepath.Join(r.Path, "sessions")))
	if _, err := r.write(codexID); err == nil {
		t.Error("through a link that leads out: no error")
	}
	for _, named := range []string{filepath.Join(outside, "rollout-x-"+codexID+".jsonl"),
		filepath.Join(outside, "up", "..", "..", "x.jsonl"), "/etc/passwd"} {
		r.elsewhere()
		index(t, r.Path, codexID, named)
		if _, err := r.write(codexID); !errors.Is(err, interchange.ErrThere) || !strings.Contains(err.Error(), named) {
			t.Errorf("an index that names %s: %v, want a refusal that says so", named, err)
		}
	}
	if left := files(t, os.DirFS(outside)); len(left) > 0 {
		t.Errorf("written outside: %q", left)
	}
	r.elsewhere()
	index(t, r.Path, codexID, filepath.Join(r.Path, "sessions", "rollout-x-"+codexID+".jsonl"))
	if done, err := r.write(codexID); err != nil || done.File != "sessions/rollout-x-"+codexID+".jsonl" {
		t.Errorf("an index that names a file of the directory: %v, %s", err, done.File)
	}
	link, file := filepath.Join(t.TempDir(), "link"), filepath.Join("sessions", "rollout-x-"+codexID+".jsonl")
	must.Do(t, os.Symlink(r.Path, link))
	must.Do(t, os.Symlink(r.Path, link+"2"))
	behind := r.Path
	for _, named := range []string{behind, link + "2"} { // Codex resolves a link of its directory, or another one led there
		must.Do(t, errors.Join(os.Remove(filepath.Join(behind, "state_5.sqlite")), os.Remove(filepath.Join(behind, file))))
		index(t, behind, codexID, filepath.Join(named, file))
		r.Path = link
		if done, err := r.write(codexID); err != nil || done.File != filepath.ToSlash(file) {
			t.Errorf("an index that names it in %s, through a link: %v, %s", named, err, done.File)
		}
	}
}

// index makes the index of a directory of Codex.
func index(t *testing.T, dir, thread, file string) {
	t.Helper()
	db := must.Get(sql.Open("sqlite", filepath.Join(dir, "state_5.sqlite")))(t)
	defer func() { _ = db.Close() }()
	must.Get(db.Exec("CREATE TABLE threads (id TEXT PRIMARY KEY, rollout_path TEXT)"))(t)
	must.Get(db.Exec("INSERT INTO threads VALUES (?, ?)", thread, file))(t)
}

// A rollout that its harness has compressed is ready when it is the same, and is never replaced.
func TestMaterializeBesideACompressedFile(t *testing.T) {
	r, here := newRig(t), t.TempDir()
	text := codexMeta(codexID, "") + codexSaid(1)
	write(t, filepath.Join(here, "s.jsonl"), []byte(text))
	load(t, r.conn, here)
	const name = "sessions/2026/11/20/rollout-2026-11-20T13-00-00-" + codexID + ".jsonl.zst"
	enc := must.Get(zstd.NewWriter(nil))(t)
	for there, want := range map[string]interchange.Outcome{text: interchange.Same, text[:40]: "", text + codexSaid(2): ""} {
		packed := string(enc.EncodeAll([]byte(there), nil))
		r.elsewhere()
		write(t, filepath.Join(r.Path, name), []byte(packed))
		r.Force = true
		if done, err := r.write(codexID); done.Outcome() != want || want == "" && !errors.Is(err, interchange.ErrThere) {
			t.Errorf("over %d bytes of %d: %v, %+v, want %q", len(there), len(text), err, done, want)
		}
		r.holds(map[string]string{name: packed})
	}
}

// A stored name that leads out of the harness's directory, or to something else in it, is refused.
func TestMaterializeRefusesStoredNames(t *testing.T) {
	for i, name := range []string{
		"../../" + claudeID + ".jsonl", "/projects/x/" + claudeID + ".jsonl", "projects/../" + claudeID + ".jsonl",
		"projects/x/../" + claudeID + ".jsonl", "projects/../../x/" + claudeID + ".jsonl", "projects/x/settings.json", "settings.json",
		"projects/x/y/" + claudeID + ".jsonl", "projects/x\n/" + claudeID + ".jsonl", "projects/x/" + codexID + ".jsonl", "",
	} {
		r := newRig(t)
		e := &events.Event{Producer: "p", Seq: 1, Kind: events.KindEntry, Dialect: "claude",
			Thread: events.Thread{Session: claudeID, Name: events.MainThread},
			File:   "claude:" + name, Body: []byte(strings.TrimSpace(claudeLine(1, "")))}
		must.Do(t, r.conn.Events().PublishEvents(t.Context(), []*events.Event{e}))
		must.Do(t, r.Client.Thread(e.Thread).Await(t.Context(), e.Producer, 0, 1))
		if _, err := r.write(claudeID); err == nil || !strings.Contains(err.Error(), "no place of a session's file") {
			t.Errorf("%d: a session of the file %q: %v, want a refusal", i, name, err)
		}
		r.holds(map[string]string{})
	}
}

// What a materialize that was killed had staged goes with a later one, and nothing else does.
func TestMaterializeRemovesWhatWasStaged(t *testing.T) {
	r, from := newRig(t), t.TempDir()
	write(t, filepath.Join(from, "s.jsonl"), []byte(codexMeta(codexID, "")+codexSaid(1)))
	load(t, r.conn, from)
	folder, old := filepath.Join(r.Path, "sessions", "2026"), time.Now().Add(-2*time.Hour)
	for name, goes := range map[string]bool{"a.jsonl.ABCDEFG2.part": true, "b.jsonl.ABCDEFG2.part": false,
		"notes.ABCDEFG2.part": false, "c.jsonl.part": false} {
		path := filepath.Join(folder, name)
		write(t, path, []byte("half"))
		if name[0] != 'b' {
			must.Do(t, os.Chtimes(path, old, old))
		}
		defer func() {
			if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) != goes {
				t.Errorf("%s: %v, want it gone: %v", name, err, goes)
			}
		}()
	}
	must.Get(r.write(codexID))(t)
}
