// Package resume_test has the real programs of others record sessions, and go on with them in another home.
package resume_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"spool/e2e/internal/proc"
	"spool/internal/must"
)

func TestMain(m *testing.M) { os.Exit(proc.Main(m, "spool/cmd/spool").Run()) }

// Prompts of a session: the first has the model call a tool.
const (
	toolPrompt = "mill the rye with your tool"
	toolSays   = "rye is ground to grist" // in one piece in nothing that the tool is told
	lastPrompt = "and now the oats"
	endPrompt  = "and at last the barley"
)

// within bounds a program, or a command of Spool.
const within = 60 * time.Second

// program is one that keeps sessions.
type program struct {
	name   string
	config map[string]string // files of its home directory; MODEL is the address of the model
	env    []string
	record []string                        // with the first prompt behind it
	resume func(command []string) []string // what Spool says, as it takes a prompt behind it and ends
}

var programs = []program{
	{
		name: "codex",
		config: map[string]string{".codex/config.toml": `model = "grinder"
model_provider = "mill"
check_for_update_on_startup = false
[model_providers.mill]
name = "mill"
base_url = "MODEL/v1"
wire_api = "responses"
[analytics]
enabled = false
`},
		record: []string{"codex", "exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"},
		resume: func(command []string) []string {
			return append([]string{"codex", "exec", "resume", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"}, command[2:]...)
		},
	},
	{
		name: "pi",
		config: map[string]string{".pi/agent/models.json": `{"providers":{"mill":{"baseUrl":"MODEL/v1","api":"openai-completions",
			"apiKey":"none","models":[{"id":"grinder"}]}}}`},
		env:    []string{"PI_OFFLINE=1", "PI_TELEMETRY=0"},
		record: []string{"pi", "--model", "mill/grinder", "-p"},
		resume: func(command []string) []string { return append(command, "--model", "mill/grinder", "-p") },
	},
	{
		name: "gemini", // which lists its own two skills in the order in which it finds them, another one now and then: none of them here
		config: map[string]string{".gemini/settings.json": `{"security":{"auth":{"selectedType":"gemini-api-key"}},"skills":{"enabled":false},
			"general":{"enableAutoUpdate":false},"privacy":{"usageStatisticsEnabled":false}}`},
		env:    []string{"GEMINI_API_KEY=none", "GOOGLE_GEMINI_BASE_URL=MODEL", "GEMINI_TELEMETRY_ENABLED=false"},
		record: []string{"gemini", "--skip-trust", "-y", "-m", "gemini-2.5-flash", "-p"},
		resume: func(command []string) []string {
			return append(command, "--skip-trust", "-y", "-m", "gemini-2.5-flash", "-p")
		},
	},
	{
		name: "copilot",
		env: []string{"COPILOT_OFFLINE=true", "COPILOT_PROVIDER_BASE_URL=MODEL/v1", "COPILOT_PROVIDER_TYPE=openai",
			"COPILOT_PROVIDER_API_KEY=none", "COPILOT_MODEL=grinder", "COPILOT_AUTO_UPDATE=false"},
		record: []string{"copilot", "--allow-all-tools", "-p"},
		resume: func(command []string) []string { return append(command, "--allow-all-tools", "-p") },
	},
	{
		name: "qwen",
		config: map[string]string{".qwen/settings.json": `{"memory":{"enableManagedAutoMemory":false,"enableManagedAutoDream":false},
			"telemetry":{"enabled":false},"privacy":{"usageStatisticsEnabled":false},"general":{"enableAutoUpdate":false}}`},
		env:    []string{"OPENAI_API_KEY=none", "OPENAI_BASE_URL=MODEL/v1", "OPENAI_MODEL=grinder"},
		record: []string{"qwen", "--auth-type", "openai", "-y", "-p"},
		resume: func(command []string) []string { return append(command, "--auth-type", "openai", "-y", "-p") },
	},
}

// opencode has no files that Spool could watch: its own documents of sessions go through Spool, as they are.
var opencode = program{
	name: "opencode",
	config: map[string]string{".config/opencode/opencode.json": `{"autoupdate":false,"share":"disabled","model":"mill/grinder",
		"small_model":"mill/grinder","provider":{"mill":{"npm":"@ai-sdk/openai-compatible","name":"mill",
		"options":{"baseURL":"MODEL/v1","apiKey":"none"},"models":{"grinder":{"name":"grinder"}}}}}`},
	env: []string{"OPENCODE_DISABLE_MODELS_FETCH=1", "OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_DISABLE_LSP_DOWNLOAD=1",
		"OPENCODE_DISABLE_DEFAULT_PLUGINS=1", "npm_config_registry=MODEL"},
	record: []string{"opencode", "run", "--auto"},
}

// TestDocument is TestResume with opencode.
func TestDocument(t *testing.T) {
	t.Parallel()
	needsPrograms(t)
	w := newWorld(t, opencode)
	w.makeHome()
	w.run(append(w.record, toolPrompt)...)
	id := regexp.MustCompile(`ses_\w+`).FindString(w.run("opencode", "session", "list"))
	known := known{w.run("opencode", "export", id)}
	file := filepath.Join(w.dir, "session.json")
	must.Do(t, os.WriteFile(file, []byte(known.text), 0o600))
	w.run("spool", "import", file)
	var imported struct{ ID string }
	must.Do(t, json.Unmarshal([]byte(w.run("spool", "session", "ls", "--all", "--json")), &imported))
	must.Same(t, imported.ID, id, "the session is %s, want %s")
	w.model.take()
	w.inBothHomes(known, func(other bool) {
		if other {
			must.Do(t, os.WriteFile(file, []byte(w.run("spool", "export", imported.ID)), 0o600))
			w.run("opencode", "import", file)
		}
		w.run(append(w.record, "--session", id, lastPrompt)...)
	})
}

func needsPrograms(t *testing.T) {
	t.Helper()
	if os.Getenv("SPOOL_RESUME") == "" {
		t.Skip("needs the programs: e2e/resume/run")
	}
}

// TestResume: what a program asks the model when it goes on in another home is what it asks in its own.
func TestResume(t *testing.T) {
	t.Parallel()
	needsPrograms(t)
	for _, p := range programs {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, p)
			w.makeHome()
			w.run(append(p.record, toolPrompt)...)
			w.quiet("")
			watch := proc.Start(t, w.command("spool", "watch"))
			recorded := w.model.take()
			if len(recorded) < 2 {
				t.Fatalf("%s asked the model %d times, want twice, the second time with what its tool said", p.name, len(recorded))
			}
			session, known := w.captured()
			must.Same(t, watch.Stop(), 0, "spool watch after SIGTERM: exit code %d, want %d")
			w.inBothHomes(known, func(bool) {
				var r struct{ Command []string }
				must.Do(t, json.Unmarshal([]byte(w.run("spool", "resume", session, "--json")), &r))
				w.run(append(p.resume(r.Command), lastPrompt)...)
			})

			// What was said in the other home goes on in the session's one thread.
			must.Do(t, os.Rename(w.home, filepath.Join(w.dir, "own")))
			must.Do(t, os.Rename(filepath.Join(w.dir, "other"), w.home))
			w.captures(session)
			if text := w.run("spool", "export", session); !slices.Contains(w.recorded(session), text) || !strings.Contains(text, lastPrompt) {
				t.Errorf("from the other home %d bytes are captured, and that is not what is in its file", len(text))
			}
			must.Same(t, strings.Count(w.run("spool", "thread", "ls", "--json"), "\n"), 1, "%d threads, want %d")

			// What was said in its own home is another copy: that takes the thread's name, and the one before can be gone on with, too.
			kept := w.run("spool", "export", session)
			must.Do(t, os.RemoveAll(w.home))
			must.Do(t, os.Rename(filepath.Join(w.dir, "own"), w.home))
			w.captures(session)
			if text := w.run("spool", "export", session); text == kept || !slices.Contains(w.recorded(session), text) {
				t.Errorf("from its own home %d bytes are captured, and that is not what is in its file", len(text))
			}
			former := session + "/" + regexp.MustCompile(`main-was-[0-9a-f]+`).FindString(w.run("spool", "thread", "ls", "--json"))
			must.Do(t, os.RemoveAll(w.home))
			w.makeHome()
			var r struct{ Command []string }
			must.Do(t, json.Unmarshal([]byte(w.run("spool", "resume", former, "--json")), &r))
			if files := w.recorded(session); !slices.Contains(files, kept) {
				t.Errorf("%s is in none of %d files", former, len(files))
			}
			w.model.take()
			w.run(append(p.resume(r.Command), endPrompt)...)
			asked := w.model.take()
			if len(asked) == 0 {
				t.Fatalf("%s does not ask the model", p.name)
			}
			for _, prompt := range []string{toolPrompt, lastPrompt, endPrompt} {
				if !strings.Contains(string(shown(asked[0].body)), prompt) {
					t.Errorf("going on with %s, the model is not told %q", former, prompt)
				}
			}
		})
	}
}

// world is a home with a Spool and a model.
type world struct {
	*testing.T
	program
	model   *model
	dir     string
	home    string // both homes have this name, one after the other: programs tell the model of it
	project string // working directory
	nats    string
	path    string
}

func newWorld(t *testing.T, p program) *world {
	dir := must.Get(filepath.EvalSymlinks(t.TempDir()))(t)
	at := func(name string) string {
		name = filepath.Join(dir, name)
		must.Do(t, os.Mkdir(name, 0o700))
		return name
	}
	w := &world{T: t, program: p, model: newModel(t), dir: dir,
		home: filepath.Join(dir, "home"), project: at("project"), nats: proc.Address(t)}
	bin := must.Get(filepath.Abs("node_modules/.bin"))(t)
	w.path = strings.Join([]string{bin, proc.Bin(), os.Getenv("PATH")}, string(os.PathListSeparator))
	up := proc.Start(t, proc.Command(at("up"), "spool", "up", "--data", filepath.Join(dir, "data"), "--listen", w.nats,
		"--http", "127.0.0.1:0"))
	up.Await("Spool is up.")
	return w
}

// makeHome makes a home of what the program needs to find the model.
func (w *world) makeHome() {
	must.Do(w, os.Mkdir(w.home, 0o700))
	for name, text := range w.config {
		name = filepath.Join(w.home, name)
		must.Do(w, os.MkdirAll(filepath.Dir(name), 0o700))
		must.Do(w, os.WriteFile(name, []byte(strings.ReplaceAll(text, "MODEL", w.model.URL)), 0o600))
	}
}

// command is a command in the project, with nothing of our environment but PATH.
func (w *world) command(name string, args ...string) *exec.Cmd {
	file := name
	for dir := range strings.SplitSeq(w.path, string(os.PathListSeparator)) {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			file = filepath.Join(dir, name)
			break
		}
	}
	cmd := exec.Command(file, args...)
	cmd.Dir = w.project
	cmd.Env = append([]string{"HOME=" + w.home, "TMPDIR=" + w.dir, "PATH=" + w.path, "NATS_URL=nats://" + w.nats}, w.env...)
	for i, e := range cmd.Env {
		cmd.Env[i] = strings.Replace(e, "=MODEL", "="+w.model.URL, 1)
	}
	return cmd
}

// run runs a command to its end.
func (w *world) run(command ...string) string {
	w.Helper()
	out, errs, code := proc.Run(w, w.command(command[0], command[1:]...), within)
	if code != 0 {
		w.Fatalf("%q: exit code %d\n%s%s", command, code, out, errs)
	}
	return string(out)
}

// captured waits until the one session that was recorded is in Spool as it is in its file.
func (w *world) captured() (session string, known known) {
	w.Helper()
	must.Eventually(w, "the session is captured", func() error {
		var one struct{ ID string }
		list := w.run("spool", "session", "ls", "--all", "--json")
		if err := json.Unmarshal([]byte(list), &one); err != nil {
			return fmt.Errorf("%w: not one session: %s", err, list)
		}
		session = one.ID
		text, files := w.run("spool", "export", session), w.recorded(session)
		if text == "" || !slices.Contains(files, text) {
			return fmt.Errorf("%d bytes are captured, and that is what is in none of %d files", len(text), len(files))
		}
		known.text = strings.Join(files, "\n")
		return nil
	})
	return session, known
}

// captures has the home captured when nothing writes there any more: a program may have left a process that does, and a file that it is
// writing anew has another beginning for that moment.
func (w *world) captures(session string) {
	w.Helper()
	w.quiet(session)
	w.run("spool", "watch", "--once")
}

// quiet returns when nothing writes any more to the files of a session, or to any.
func (w *world) quiet(session string) {
	w.Helper()
	for was := []string(nil); ; time.Sleep(time.Second) {
		now := w.recorded(session)
		if was != nil && slices.Equal(was, now) {
			return
		}
		was = now
	}
}

// recorded is what the files say that are called after the session: Gemini CLI takes the beginning of its id.
func (w *world) recorded(session string) (files []string) {
	must.Do(w, filepath.WalkDir(w.home, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || !strings.Contains(strings.TrimPrefix(name, w.home), session[:min(8, len(session))]) {
			return gone(err)
		}
		text, err := os.ReadFile(name)
		files = append(files, string(text))
		return gone(err)
	}))
	return files
}

// gone is an error, but for that a file is not there any more.
func gone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// inBothHomes has the session go on in an empty home, and in its own, and compares what the model is asked.
func (w *world) inBothHomes(known known, goOn func(other bool)) {
	w.Helper()
	recorded := filepath.Join(w.dir, "recorded")
	must.Do(w, os.Rename(w.home, recorded))
	w.makeHome()
	goOn(true)
	got := w.model.take()
	must.Do(w, os.Rename(w.home, filepath.Join(w.dir, "other")))
	must.Do(w, os.Rename(recorded, w.home))
	goOn(false)
	want := w.model.take()
	if len(got) != len(want) || len(want) == 0 {
		w.Fatalf("%d requests, want %d, and at least one", len(got), len(want))
	}
	if text := string(shown(want[0].body)); !strings.Contains(text, toolPrompt) || !strings.Contains(text, toolSays) {
		w.Fatalf("%s does not go on where it was recorded: %.2000s", w.name, text)
	}
	for i := range want {
		must.Same(w, got[i].path, want[i].path, "request %d: path %s, want %s", i)
		if d := differ("body", known.hide(want[i].body), known.hide(got[i].body)); d != "" {
			w.Errorf("request %d of %d to %s: %s", i+1, len(want), got[i].path, d)
		}
	}
}

// known is the text that a session has: ids and times in it are no ones of a later run.
type known struct{ text string }

var (
	ids   = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	times = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)|\b1[0-9]{12}\b`)
)

// hide is a body without ids and times of the run that asked.
func (k known) hide(body map[string]any) (out any) {
	text := string(shown(body))
	for kind, of := range map[string]*regexp.Regexp{"ID": ids, "TIME": times} {
		text = of.ReplaceAllStringFunc(text, func(s string) string {
			if strings.Contains(k.text, s) {
				return s
			}
			return kind
		})
	}
	_ = json.Unmarshal([]byte(text), &out)
	return out
}
