package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	gocmp "github.com/google/go-cmp/cmp"

	"spool/internal/history"
	"spool/internal/must"
	"spool/internal/natsio"
	"spool/internal/persist"
	"spool/internal/service"
	"spool/pkg/client"
	"spool/pkg/events"
)

// jsonWorld is a Spool with something of everything that commands and the HTTP API tell of.
type jsonWorld struct {
	*testing.T
	up     *service.Up
	data   string // directory of spool up
	config string
}

const talk = `{"type":"session","version":3,"id":"talk","cwd":"DIR","title":"Apples"}
{"type":"message","id":"aaaaaaa1","parentId":null,"timestamp":"2026-11-20T10:00:00.000Z","message":{"role":"user","content":"Find the needle"}}
{"type":"message","id":"aaaaaaa2","parentId":"aaaaaaa1","timestamp":"2026-11-20T10:00:01.000Z","message":{"role":"assistant","provider":"p","model":"m","content":[{"type":"text","text":"Found it"}],"stopReason":"stop","usage":{"input":10,"output":2}}}
`

// here is talk in the directory of the test.
func here(t *testing.T) string {
	t.Helper()
	return strings.ReplaceAll(talk, "DIR", must.Get(os.Getwd())(t))
}

func newJSONWorld(t *testing.T) *jsonWorld {
	t.Helper()
	t.Setenv("NATS_URL", "")
	t.Setenv("NATS_CONTEXT", "")
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	w := &jsonWorld{T: t, data: t.TempDir()}
	ctx, cancel := context.WithCancel(t.Context())
	up, done := make(chan *service.Up, 1), make(chan error, 1)
	go func() {
		done <- service.RunUp(ctx, service.UpConfig{Data: w.data, Listen: "127.0.0.1:0", HTTP: "127.0.0.1:0", Sync: time.Minute,
			Log: slog.New(slog.DiscardHandler), Persist: service.PersisterConfig{Config: persist.Config{Lane: -1}},
			History: func(*natsio.Conn) (string, error) { return service.HistoryFile(w.data), nil },
			Ready:   func(u *service.Up) { up <- u }})
	}()
	t.Cleanup(func() {
		cancel()
		must.Do(t, <-done)
	})
	select {
	case w.up = <-up:
	case err := <-done:
		t.Fatalf("Spool does not start: %v", err)
	}
	w.config = w.file("config.toml", "[[retention]]\nname = \"old\"\nmax-age = \"1h\"\nsession = \"talk*\"\n")
	w.run("import", w.file("talk.jsonl", here(t)))
	cl := client.New(w.up.Conn)
	main := events.Thread{Session: "talk", Name: events.MainThread}
	must.Do(t, cl.Thread(events.Thread{Session: "talk", Name: "side"}).Fork(ctx, events.Fork{Session: "talk", Thread: "main", Item: 1}))
	run := must.Get(cl.Thread(main).StartRun(ctx, client.RunConfig{ID: "r", Agent: "coder", Summary: "x"}))(t)
	must.Do(t, run.Wait(ctx))
	asked, stop := context.WithCancel(ctx)
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		_, _ = cl.Thread(main).Ask(asked, events.Prompt{ID: "p", Kind: events.PromptApproval, Text: "Deploy?"})
	}()
	t.Cleanup(func() { stop(); <-answered })
	for len(must.Get(cl.Session("talk").Prompts(ctx))(t)) == 0 {
	}
	out := must.Get(cl.Thread(main).Output(ctx, client.OutputConfig{ID: "open", Tool: "make"}))(t)
	must.Get(out.Write([]byte("building\n")))(t)
	for f, err := range cl.Thread(main).Follow(ctx, "open") {
		if must.Do(t, err); len(f.Text) > 0 {
			break
		}
	}
	w.run("artifact", "put", "talk", w.file("log.txt", "log\n"), "--tool", "bash")
	for n := int64(0); n == 0; { // the history follows the items
		must.Do(t, history.With(service.HistoryFile(w.data), func(db *history.DB) (err error) { n, err = db.Count(ctx); return err }))
	}
	return w
}

func (w *jsonWorld) file(name, text string) string {
	w.Helper()
	path := filepath.Join(w.TempDir(), name)
	must.Do(w.T, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// run gives what a command writes to standard output.
func (w *jsonWorld) run(args ...string) string {
	w.Helper()
	var out, errs bytes.Buffer
	whole := append(slices.Clone(args), "--config", cmp.Or(w.config, os.DevNull))
	if args[0] != "demo" && args[0] != "restore" {
		whole = append(whole, "--nats", w.up.NATS)
	}
	if code := run(whole, strings.NewReader("bytes"), &out, &errs); code != service.ExitOK && !told(out.String()) {
		w.Fatalf("spool %s = %d %s%s", strings.Join(args, " "), code, out.String(), errs.String())
	}
	return out.String()
}

// told reports whether a command said as JSON what it found; its exit code may say that it is not good.
func told(out string) bool { return strings.HasPrefix(out, "{") }

// values are the JSON values of a text.
func (w *jsonWorld) values(text string) (all []any) {
	w.Helper()
	for dec := json.NewDecoder(strings.NewReader(text)); dec.More(); {
		var v any
		if err := dec.Decode(&v); err != nil {
			w.Fatalf("%v in %.300s", err, text)
		}
		all = append(all, v)
	}
	return all
}

// get is what the HTTP API answers, as values.
func (w *jsonWorld) get(path, list string) []any {
	w.Helper()
	req := must.Get(http.NewRequest(http.MethodGet, w.up.HTTP+path, nil))(w.T)
	req.Header.Set("Accept", "application/json")
	res := must.Get(http.DefaultClient.Do(req))(w.T)
	defer res.Body.Close()
	body := string(must.Get(io.ReadAll(res.Body))(w.T))
	if res.StatusCode != http.StatusOK {
		w.Fatalf("GET %s = %s %s", path, res.Status, body)
	}
	got := w.values(body)
	if list != "" {
		all, ok := got[0].(map[string]any)[list].([]any)
		if !ok {
			w.Errorf("GET %s has no %s: %.300s", path, list, body)
		}
		return all
	}
	return got
}

// What a command writes with --json is what the HTTP API answers, member by member.
func TestJSONIsThatOfHTTP(t *testing.T) {
	w := newJSONWorld(t)
	const thread = "/v1/sessions/talk/threads/"
	for _, c := range []struct {
		command string
		path    string
		list    string   // member of the answer that holds the values
		more    []string // members that the command has beside those of the answer
		less    []string // members that it leaves out
	}{
		{command: "session ls --all --unanswered", path: "/v1/sessions?unanswered=1", list: "sessions"},
		{command: "session resume talk", path: "/v1/sessions/talk"},
		{command: "session show talk", path: "/v1/sessions/talk"},
		{command: "thread ls talk", path: "/v1/sessions/talk/threads", list: "threads", less: []string{"name", "fork_of", "parents"}},
		{command: "thread show talk/side", path: thread + "side", more: []string{"last"}},
		{command: "history recent --session talk --data " + w.data, path: "/v1/history?session=talk", list: "prompts"},
		{command: "search needle --session talk --data " + w.data, path: "/v1/search?q=needle&session=talk", list: "matches"},
		{command: "stats --session talk --by day --data " + w.data, path: "/v1/stats?by=day&session=talk"},
		{command: "prompts ls talk", path: "/v1/prompts?session=talk", list: "prompts"},
		{command: "run ls talk", path: "/v1/runs?session=talk", list: "runs"},
		{command: "artifact ls talk", path: "/v1/sessions/talk/artifacts", list: "artifacts"},
		{command: "output ls talk", path: thread + "main/outputs", list: "outputs", more: []string{"session", "thread", "last_at"}},
		{command: "session context talk", path: thread + "main/context"},
		{command: "session tree talk", path: thread + "main/tree", list: "entries", more: []string{"kind", "text"}},
	} {
		got, want := w.values(w.run(append(strings.Fields(c.command), "--json")...)), w.get(c.path, c.list)
		if len(want) == 0 {
			t.Errorf("GET %s has nothing", c.path)
		}
		if diff := gocmp.Diff(drop(want, append(c.less, passing...)...), drop(got, append(c.more, passing...)...)); diff != "" {
			t.Errorf("spool %s --json is not what GET %s answers (-HTTP +command):\n%s", c.command, c.path, diff)
		}
	}
	var items []any
	if diff := gocmp.Diff(w.get(thread+"main/items", "items"), w.values(w.run("show", "talk", "--json"))); diff != "" {
		t.Errorf("spool show --json does not write what GET items gives (-HTTP +command):\n%s", diff)
	}
	for _, it := range w.get(thread+"main/items", "items") {
		items = append(items, it.(map[string]any)["item"])
	}
	if diff := gocmp.Diff(items, w.values(w.run("tail", "talk/main", "--all", "-T", "--json"))); diff != "" {
		t.Errorf("spool tail --json does not write the items of GET items (-HTTP +command):\n%s", diff)
	}
}

// passing are members that change while one looks.
var passing = []string{"lease_left_ms", "touched_at"}

// drop is a value without some members.
func drop(v any, names ...string) any {
	switch v := v.(type) {
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = drop(v[i], names...)
		}
		return out
	case map[string]any:
		out := map[string]any{}
		for name, member := range v {
			if !slices.Contains(names, name) {
				out[name] = drop(member, names...)
			}
		}
		return out
	}
	return v
}

// withJSON are arguments with which commands write JSON, in this order: those that remove something come last.
var withJSON = []string{
	"session ls --all --unanswered", "session show talk", "session resume talk", "session latest", "session tree talk", "session context talk",
	"session export talk --dir %",
	"session materialize talk --to %", "resume talk",
	"thread ls", "thread show talk", "thread log talk", "thread diff talk side", "thread verify",
	"history recent", "history search needle", "search needle", "stats", "prompts ls", "output ls",
	"run ls --all", "run start talk --id r2", "run renew talk r2", "run end talk r2",
	"artifact ls", "artifact put talk", "blob put", "import %talk.jsonl", "watch --once %more.jsonl",
	"tail --all -T", "show talk", "top --once", "dead ls", "du", "doctor", "version", "offline ls %", "offline send %",
	"fsck", "fsck --events", "scrub --once", "backup %", "backup ls %", "auth ls %",
	"gc run", "gc run --plan %plan.json", "gc apply %plan.json", "gc explain node:sha256:" +
		"0000000000000000000000000000000000000000000000000000000000000000",
	"prove --new-key %key", "prove talk -o %talk.proof --key %key", "verify %talk.proof --key %key.pub",
	"tasks cleanup %", "retention report", "artifact cleanup talk", "demo",
	"session rm talk --force", "retention apply --yes",
}

// noJSON are commands with --json that the test does not run, and why.
var noJSON = map[string]string{
	"thread watch": "follows without end; its lines are those of thread ls", "bench threads": "takes long", "bench gc": "takes long",
	"bench subscribe": "takes long", "bench pipeline": "takes long", "bench fleet": "takes long", "bench soak": "takes long",
	"backup create": "is backup without a command", "prompts watch": "follows without end; its lines are those that a webhook gets",
}

// freeForm are members whose own names are somebody else's: of agents and streams.
var freeForm = []string{"streams", "message", "messages", "prompt", "metadata", "content", "entry", "input", "answer", "details", "first"}

// Members have names in lower case, a time is as everywhere, or its unit is in its name, and each value is on one line.
func TestJSONNames(t *testing.T) {
	w := newJSONWorld(t)
	dir := t.TempDir()
	t.Setenv("PI_CODING_AGENT_DIR", filepath.Join(dir, "agent"))
	must.Do(t, os.WriteFile(filepath.Join(dir, "talk.jsonl"), []byte(here(t)), 0o600))
	more := strings.ReplaceAll(here(t), `"id":"talk"`, `"id":"more"`)
	must.Do(t, os.WriteFile(filepath.Join(dir, "more.jsonl"), []byte(more), 0o600))
	for _, args := range [][]string{{"auth", "init", filepath.Join(dir, "auth")},
		{"auth", "tenant", "add", filepath.Join(dir, "auth"), "acme"}} {
		w.run(args...)
	}
	seen := map[string]bool{}
	for _, line := range withJSON {
		args := strings.Fields(line)
		for i, arg := range args {
			if name, ok := strings.CutPrefix(arg, "%"); ok {
				sub := map[string]string{"auth": "auth", "backup": "backup", "session": "out", "offline": "offline", "tasks": "project"}[args[0]]
				args[i] = filepath.Join(dir, cmp.Or(name, sub))
				if name == "" && (args[0] == "offline" || args[0] == "tasks") {
					must.Do(t, os.MkdirAll(args[i], 0o700))
				}
			}
		}
		seen[strings.Join(args[:min(2, len(args))], " ")], seen[args[0]] = true, true
		out := w.run(append(args, "--json")...)
		if line == "session context talk" { // its form is that of oh-my-pi
			continue
		}
		for _, v := range w.values(out) {
			for _, name := range capitals("", v) {
				t.Errorf("spool %s --json: member %s", line, name)
			}
			for _, name := range numbered("", v) {
				t.Errorf("spool %s --json: member %s is a time as a number", line, name)
			}
		}
		if lines := strings.Count(out, "\n"); lines != len(w.values(out)) {
			t.Errorf("spool %s --json: %d values on %d lines", line, len(w.values(out)), lines)
		}
	}
	var c cli
	parser := must.Get(kong.New(&c, vars()))(t)
	for _, leaf := range parser.Model.Leaves(true) {
		path := strings.TrimPrefix(leaf.Path(), "spool ")
		path, _, _ = strings.Cut(path, " <")
		path, _, _ = strings.Cut(path, " [")
		path, _, _ = strings.Cut(path, " (")
		if slices.ContainsFunc(leaf.Flags, func(f *kong.Flag) bool { return f.Name == "json" }) && !seen[path] && noJSON[path] == "" {
			t.Errorf("spool %s has --json, and the test does not run it", path)
		}
	}
}

// capitals are the names of members that have a capital letter.
func capitals(at string, v any) (bad []string) {
	switch v := v.(type) {
	case []any:
		for _, one := range v {
			bad = append(bad, capitals(at+"[]", one)...)
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if path := at + "." + name; strings.ToLower(name) != name {
				bad = append(bad, path)
			} else if !slices.Contains(freeForm, name) {
				bad = append(bad, capitals(path, v[name])...)
			}
		}
	}
	return bad
}

// numbered are members that are numbers as large as a time of now, in milliseconds or less, and do not say so.
func numbered(at string, v any) (bad []string) {
	switch v := v.(type) {
	case []any:
		for _, one := range v {
			bad = append(bad, numbered(at+"[]", one)...)
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if !slices.Contains(freeForm, name) {
				bad = append(bad, numbered(at+"."+name, v[name])...)
			}
		}
	case float64:
		if now := float64(time.Now().UnixMilli()); v > now/2 && !strings.HasSuffix(at, "_ms") && !strings.HasSuffix(at, "_ns") {
			bad = append(bad, at)
		}
	}
	return bad
}
