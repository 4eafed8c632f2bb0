package main

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"spool/internal/must"
	"spool/internal/persist"
	"spool/internal/service"
	"spool/pkg/client"
	"spool/pkg/events"
)

// whole runs all of Spool on a directory of its own, and gives its address and a client.
func whole(t *testing.T) (url string, cl *client.Client) {
	t.Helper()
	data := t.TempDir() // before the clean-up that stops Spool, so that it is removed after that
	ctx, cancel := context.WithCancel(t.Context())
	up, done := make(chan *service.Up, 1), make(chan error, 1)
	go func() {
		done <- service.RunUp(ctx, service.UpConfig{Data: data, Listen: "127.0.0.1:0", Sync: time.Minute,
			Log: slog.New(slog.DiscardHandler), Persist: service.PersisterConfig{Config: persist.Config{Lane: -1}},
			Ready: func(u *service.Up) { up <- u }})
	}()
	t.Cleanup(func() {
		cancel()
		must.Do(t, <-done)
		must.Get(os.Stat(data))(t)
	})
	select {
	case u := <-up:
		return u.NATS, client.New(u.Conn)
	case err := <-done:
		t.Fatalf("Spool does not start: %v", err)
		return "", nil
	}
}

// namesSession are the arguments and flags that name a session, or a thread by it.
var namesSession = []string{"session", "session[/thread]", "session/thread", "other", "parent", "prefix"}

// beginsOne are those that name what may not be there yet, by command and argument: it is begun, waited for, or another
// system's.
var beginsOne = map[string]string{
	"publish session": "begins it", "exec session": "begins it", "session new session": "begins it",
	"thread start session[/thread]": "begins it",
	"prompts ask session[/thread]":  "begins it", "run start session[/thread]": "begins it", "thread watch session": "waits",
	"prompts watch session": "waits", "auth user add session": "is of no system yet",
	"artifact agent parent": "an agent",
}

// alsoSaid is what a command needs beside its arguments.
var alsoSaid = map[string][]string{
	"tail": {"--all", "-T"}, "session rm": {"--yes"}, "thread rm": {"--yes"}, "prompts answer": {"--approve"},
	"artifact cleanup": {"--apply", "--yes"}, "dead rm": {"--yes"}, "read": {}, "session reset": {},
}

// calls are the command lines of a command with a name in each of its places for one, the others filled with what is
// there.
func calls(t *testing.T, leaf *kong.Node, path string, name string) (lines [][]string) {
	t.Helper()
	var places []string
	for _, arg := range leaf.Positional {
		places = append(places, arg.Name)
	}
	for _, f := range leaf.Flags {
		places = append(places, f.Name)
	}
	for _, place := range places {
		if !slices.Contains(namesSession, place) || beginsOne[path+" "+place] != "" {
			continue
		}
		line := append(strings.Fields(path), alsoSaid[path]...)
		if path == "session export" {
			line = append(line, "--dir", t.TempDir())
		}
		if path == "prove" {
			key := filepath.Join(t.TempDir(), "key")
			must.Do(t, (&proveCmd{NewKey: key, Name: "k"}).newKey(&app{out: io.Discard, err: io.Discard}))
			line = append(line, "--key", key, "-o", key+".proof")
		}
		for _, arg := range leaf.Positional {
			switch {
			case arg.Name == place && place == "other": // else it is a thread of the first one's session
				line = append(line, name+"/main")
			case arg.Name == place:
				line = append(line, name)
			case slices.Contains(namesSession, arg.Name) && arg.Required:
				line = append(line, "build-42")
			case arg.Name == "url":
				line = append(line, "artifact://0")
			case arg.Name == "prefix", arg.Required:
				line = append(line, "x1")
			}
		}
		if slices.ContainsFunc(leaf.Flags, func(f *kong.Flag) bool { return f.Name == place }) {
			line = append(line, "--"+place, name)
		}
		lines = append(lines, line)
	}
	return lines
}

// TestWrongNames: every command says of a session that is not there that it is not, and fails; of the beginning of one
// session's id it knows whose it is, and of that of several it names them.
func TestWrongNames(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	t.Setenv("XDG_DATA_HOME", t.TempDir())
	url, cl := whole(t)
	for _, name := range []string{"build-42", "else-1", "else-2"} {
		must.Do(t, cl.Session(name).New(t.Context(), "/w", ""))
	}
	var c cli
	parser := must.Get(kong.New(&c, vars()))(t)
	n := 0
	for _, leaf := range parser.Model.Leaves(false) {
		path := commandOf(leaf)
		for name, says := range map[string][]string{"nosuch": {"nosuch"}, "build-": {"build-42"}, "else": {"else-1", "else-2"}} {
			for _, line := range calls(t, leaf, path, name) {
				n++
				var out, errw bytes.Buffer
				code := run(append(line, "--nats", url), strings.NewReader("x\n"), &out, &errw)
				if name != "build-" && (code != service.ExitFailure || out.Len() > 0) {
					t.Errorf("spool %s = %d %q, want 1 and nothing", strings.Join(line, " "), code, &out)
				}
				for _, want := range says {
					if !strings.Contains(errw.String()+out.String(), want) {
						t.Errorf("spool %s = %d %q, want %s named", strings.Join(line, " "), code, &errw, want)
					}
				}
			}
		}
	}
	if n < 100 {
		t.Errorf("%d command lines were tried, want 100 or more", n)
	}
	left := must.Get(cl.Sessions(t.Context(), ""))(t)
	must.Same(t, len(left), 3, "%d sessions are left, want %d: no beginning of an id changes anything")
	for _, s := range left {
		if files := must.Get(cl.Session(s.ID).Artifacts(t.Context()))(t); len(s.Threads) != 1 || s.Threads[0].Head.Entries != 1 ||
			len(files) > 0 {
			t.Errorf("%s has %d threads and %d artifacts, its first thread %d entries; want what it began with", s.ID, len(s.Threads), len(files),
				s.Threads[0].Head.Entries)
		}
	}
}

// TestBeginningOfAnID: what reads takes the beginning of an id, and gives the same as for the whole of it.
func TestBeginningOfAnID(t *testing.T) {
	url, cl := whole(t)
	ctx := t.Context()
	must.Do(t, cl.Session("build-42").New(ctx, "/w", ""))
	must.Do(t, cl.Thread(events.Thread{Session: "build-42", Name: "side"}).Start(ctx, events.Start{Prompt: "Look"}))
	ask := func(line ...string) (out, errw string, code int) {
		var o, e bytes.Buffer
		code = run(append(line, "--nats", url), strings.NewReader(""), &o, &e)
		return o.String(), e.String(), code
	}
	for _, line := range [][]string{
		{"export", "%"}, {"export", "%/side"}, {"thread", "show", "%/side", "--json"}, {"thread", "ls", "%", "--json"}, {"session", "tree", "%"},
		{"thread", "verify", "%"}, {"thread", "diff", "%", "side"}, {"read", "%/threads/side/logs/thread.log"},
		{"tail", "%", "--all", "-T", "--json"},
		{"du", "%", "--json"}, {"artifact", "ls", "%"},
	} {
		with := func(name string) []string {
			named := slices.Clone(line)
			for i := range named {
				named[i] = strings.ReplaceAll(named[i], "%", name)
			}
			return named
		}
		want, _, code := ask(with("build-42")...)
		must.Same(t, code, 0, strings.Join(line, " ")+" = %d, want %d")
		got, said, code := ask(with("build")...)
		if got != want || code != 0 || !strings.Contains(said, "build is the session build-42") {
			t.Errorf("%v = %d %q, %q; want 0, %q, and which session that is", with("build"), code, got, said, want)
		}
	}
	_, said, code := ask("export", "build-42/syde")
	if code != service.ExitFailure || !strings.Contains(said, "build-42/syde") ||
		!strings.Contains(said, "there is build-42/main, build-42/side") {
		t.Errorf("export of a thread that is not there = %d %q, want 1 and the threads that there are", code, said)
	}
	file := filepath.Join(t.TempDir(), "out")
	if _, said, code = ask("export", "nosuch", "-o", file); code != service.ExitFailure {
		t.Errorf("export = %d %q", code, said)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("an export of nothing left a file")
	}
}

// TestTailWaits: who follows what is not there yet is told that he waits, and for that name alone.
func TestTailWaits(t *testing.T) {
	url, cl := whole(t)
	must.Do(t, cl.Session("build-42").New(t.Context(), "/w", ""))
	var out, said bytes.Buffer
	begun := false
	told := writer(func(b []byte) (int, error) { // the thread begins between what tail says and its next look
		if !begun {
			begun = true
			publish(t, cl, "build-4", `{"content":[{"type":"text","text":"here"}]}`)
		}
		return said.Write(b)
	})
	code := run([]string{"tail", "build-4", "--all", "--count", "1", "--nats", url}, strings.NewReader(""), &out, told)
	must.Same(t, code, 0, "tail = %d, want %d")
	lines := strings.Split(strings.TrimSpace(said.String()), "\n")
	if len(lines) != 1 || !strings.Contains(lines[0], "build-4 has nothing yet: waiting") || !strings.Contains(lines[0], "build-42") {
		t.Errorf("tail says %q, want only that it waits, and which session the name may mean", lines)
	}
	if !strings.Contains(out.String(), "build-4/main") || !strings.Contains(out.String(), "here") {
		t.Errorf("tail gives %q", &out)
	}
}

// TestPromptsWatchWaits: who watches a session that is not there is told that he waits.
func TestPromptsWatchWaits(t *testing.T) {
	url, _ := whole(t)
	ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
	defer stop()
	var said bytes.Buffer
	told := writer(func(b []byte) (int, error) { defer stop(); return said.Write(b) })
	a := &app{ctx: ctx, nats: &service.NATS{Server: url}, log: slog.New(slog.DiscardHandler), out: io.Discard, err: told}
	defer a.close()
	err := (&promptsWatchCmd{Session: "gone"}).Run(a)
	if err != nil || !strings.Contains(said.String(), "the session gone has nothing yet: waiting for it") {
		t.Errorf("prompts watch gone = %v, says %q, want that it waits", err, &said)
	}
}

type writer func([]byte) (int, error)

func (w writer) Write(b []byte) (int, error) { return w(b) }

func publish(t *testing.T, cl *client.Client, session, item string) {
	t.Helper()
	th := events.Thread{Session: session, Name: events.MainThread}
	must.Get(cl.Publisher(client.PublisherConfig{}).Publish(t.Context(), client.Entry{Thread: th, Dialect: "item", Body: []byte(item)}))(t)
	must.Do(t, cl.Thread(th).Settled(t.Context()))
}

// TestTypes: a type that is misspelt is refused, one of an agent's own is taken.
func TestTypes(t *testing.T) {
	url, cl := whole(t)
	tail := func(kind string) (string, int) {
		return spool(t, "tail", "--all", "-T", "--type", kind, "--nats", url)
	}
	if out, code := tail("tool_reslt"); code == 0 || !strings.Contains(out, "tool_result, thinking") {
		t.Errorf("tail --type tool_reslt = %d %q, want a failure and the types", code, out)
	}
	if out, code := tail("deploy"); code != 0 || !strings.Contains(out, "no item has the type deploy yet") {
		t.Errorf("tail --type deploy = %d %q, want 0 and a note", code, out)
	}
	publish(t, cl, "s", `{"content":[{"type":"text","text":"own"}],"metadata":{"type":"tool_reslt"}}`)
	if out, code := tail("tool_reslt"); code != 0 || !strings.Contains(out, "own") {
		t.Errorf("tail --type of what an agent has posted = %d %q", code, out)
	}
}

// TestFollowOfWhatCannotCome: an output of a thread that has ended is not waited for.
func TestFollowOfWhatCannotCome(t *testing.T) {
	url, cl := whole(t)
	main := events.Thread{Session: "s", Name: events.MainThread}
	must.Do(t, cl.Session("s").New(t.Context(), "/w", ""))
	must.Do(t, cl.Thread(main).End(t.Context(), events.End{}))
	out, code := spool(t, "output", "follow", "s", "o1", "--nats", url)
	if code != service.ExitFailure || !strings.Contains(out, "s/main has no output o1, and none can begin") {
		t.Errorf("output follow = %d %q, want 1 and why", code, out)
	}
}

// TestErrorsSayWhatToDo: who gave something that cannot be taken is told what can.
func TestErrorsSayWhatToDo(t *testing.T) {
	url, cl := whole(t)
	must.Do(t, cl.Session("s").New(t.Context(), must.Get(os.Getwd())(t), ""))
	dir, file := t.TempDir(), filepath.Join(t.TempDir(), "f")
	must.Do(t, os.WriteFile(file, []byte("x"), 0o600))
	notes := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(notes, "notes.jsonl"), []byte("hello\n"), 0o600))
	taken := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer taken.Close()
	busy := taken.Addr().String()
	for _, x := range []struct {
		line []string
		says string
		code int
	}{
		{[]string{"read", "artifact://0"}, "name the session with --session", service.ExitFailure},
		{[]string{"read", "artifact://0", "--session", "s"}, "No artifacts directory found\ns has no artifacts: spool exec keeps",
			service.ExitFailure},
		{[]string{"read", "h1"}, "<session>/threads/<thread>/logs/thread.log", service.ExitUsage},
		{[]string{"tail", "-T", "--type", "mesage"}, "did you mean message?", service.ExitUsage},
		{[]string{"thread", "rename", "s", "x/y"}, `thread "x/y" has '/'`, service.ExitUsage},
		{[]string{"thread", "fork", "s", "t", "--node", "bogus"}, `--node "bogus": not a ref`, service.ExitUsage},
		{[]string{"session", "name", "s", " "}, "a title has from 1 to 4096 bytes", service.ExitUsage},
		{[]string{"session", "move", "s", "a\nb"}, "a directory has from 1 to 4096 bytes", service.ExitUsage},
		{[]string{"session", "new", "t", "--parent", "a b"}, `session "a b" has ' '`, service.ExitUsage},
		{[]string{"run", "start", "s", "--lease=-1s"}, "--lease -1s: use 1s or more", service.ExitUsage},
		{[]string{"run", "renew", "s", "r", "--lease=9000h"}, "--lease 9000h0m0s: use at most 168h0m0s", service.ExitUsage},
		{[]string{"artifact", "put", "s", file, "--number", "x"}, "--number", service.ExitUsage},
		{[]string{"artifact", "put", "s", file, "--agent", "a b"}, `agent "a b" has ' '`, service.ExitUsage},
		{[]string{"artifact", "put", "s", file, "--agent", "0-Plan..x"}, "agent is empty", service.ExitUsage},
		{[]string{"artifact", "agent", "s", "Look", "--parent", "a/b"}, `parent "a/b" has '/'`, service.ExitUsage},
		{[]string{"prompts", "ask", "s", "go on?", "--deadline", "1s", "--id", "a b"}, `--id "a b" has ' '`, service.ExitUsage},
		{[]string{"prompts", "ask", "s", "go on?", "--deadline", "1s", "--id", "a\nb"}, `--id "a\nb" has '\n'`, service.ExitUsage},
		{[]string{"artifact", "get", "a b"}, `artifact_id "a b" has ' '`, service.ExitUsage},
		{[]string{"artifact", "rm", "a b", "--yes"}, `artifact_id "a b" has ' '`, service.ExitUsage},
		{[]string{"artifact", "cleanup", "s", "--older-than=-1h"}, "--older-than -1h", service.ExitUsage},
		{[]string{"tasks", "cleanup", dir, "--older-than=-1h"}, "--older-than -1h", service.ExitUsage},
		{[]string{"artifact", "put", "s", dir}, "is a directory", service.ExitFailure},
		{[]string{"artifact", "put", "s", file, "--number", "7"}, "spool artifact number s", service.ExitFailure},
		{[]string{"artifact", "agent", "s", "Look", "--parent", "7-Nobody"}, "no such agent: 7-Nobody", service.ExitFailure},
		{[]string{"export", "node:sha256:3dd71e5bc0af"}, "spool thread show --json", service.ExitUsage},
		{[]string{"session", "ls", "--limit=-3"}, "--limit -3", service.ExitUsage},
		{[]string{"session", "ls", "--nats", "http://127.0.0.1:1"}, "NATS has a port of its own", service.ExitUsage},
		{[]string{"run", "end", "s", "r"}, "spool run ls --all s", service.ExitFailure},
		{[]string{"gc", "explain", "blob:sha256:" + strings.Repeat("0", 64)}, "there is no record of it", service.ExitFailure},
		{[]string{"gc", "explain", "node:sha256:" + strings.Repeat("0", 64), "--json"}, `"state":"missing"`, service.ExitFailure},
		{[]string{"thread", "show", "s", "--last=-1"}, "--last -1", service.ExitUsage},
		{[]string{"thread", "start", "s/t", "--depth=-1"}, "--depth -1", service.ExitUsage},
		{[]string{"tail", "-T", "--count=-1"}, "--count -1", service.ExitUsage},
		{[]string{"tail", "-T", "--since=-1h"}, "--since: \"-1h\"", service.ExitUsage},
		{[]string{"tail", "-T", "--since", "7d"}, "", service.ExitOK},
		{[]string{"tail", "-T", "--since", "2026-11-20"}, "", service.ExitOK},
		{[]string{"top", "--once", "--limit=-1"}, "--limit -1", service.ExitUsage},
		{[]string{"exec", "--session", "s", "--show=-1", "--", "true"}, "--show -1", service.ExitUsage},
		{[]string{"read", "artifact://0", "--session", "s", "--offset=-1"}, "--offset -1", service.ExitUsage},
		{[]string{"thread", "fork", "s", "t", "--index", "0"}, "--index 0", service.ExitUsage},
		{[]string{"thread", "fork", "s", "t", "--item", "0"}, "--item 0", service.ExitUsage},
		{[]string{"thread", "fork", "s", "t", "--role", ""}, "--role", service.ExitUsage},
		{[]string{"thread", "fork", "s", "t", "--time", "bogus"}, "--time: \"bogus\": use a time like 2026-11-20T10:00:00Z", service.ExitUsage},
		{[]string{"thread", "fork", "s", "t", "--time", "1999-01-01T00:00:00Z"}, "after 1999-01-01T00:00:00Z", service.ExitFailure},
		{[]string{"thread", "ls", "--status", "bogus"}, "--status \"bogus\": use pending, active, completed or failed", service.ExitUsage},
		{[]string{"thread", "ls", "--from", "today"}, "--from: \"today\": use a date like 2026-11-20", service.ExitUsage},
		{[]string{"dead", "rm", "--all"}, "there are no dead letters", service.ExitOK},
		{[]string{"prompts", "ask", "s", " "}, "the question is empty", service.ExitUsage},
		{[]string{"prompts", "ask", "s", "Well?", "--deadline=-1s"}, "--deadline -1s", service.ExitUsage},
		{[]string{"export", "s", "-o", file}, file + ": what would be lost stands there", service.ExitFailure},
		{[]string{"export", "s", "-o", filepath.Join(dir, "none", "x")}, "write " + filepath.Join(dir, "none", "x") + ": " +
			filepath.Join(dir, "none") + ": no such file",
			service.ExitFailure},
		{[]string{"export", "s", "-o", dir}, "write " + dir + ": it is a directory: name a file in it", service.ExitFailure},
		{[]string{"export", "s", "-o", "/"}, "write /: it is a directory: name a file in it", service.ExitFailure},
		{[]string{"export", "--all", file}, "spool: mkdir " + file, service.ExitFailure},
		{[]string{"session", "fork", "s", "s"}, "fork s/main: thread exists already", service.ExitFailure},
		{[]string{"thread", "show", "nosuch"}, "spool: session not found: nosuch; spool session ls", service.ExitFailure},
		{[]string{"session", "ls", "--nats", "nats://" + busy}, "is it a NATS server that listens at nats://" + busy, service.ExitFailure},
		{[]string{"import", notes}, "no transcript is in 1 file", service.ExitFailure},
		{[]string{"up", "--data", t.TempDir(), "--listen", "127.0.0.1:0", "--http", busy}, "--http", service.ExitFailure},
		{[]string{"publish"}, "--session S, and --dialect with one of claude", service.ExitUsage},
		{[]string{"resume", "nosuch"}, "spool: session not found: nosuch; spool session ls", service.ExitFailure},
		{[]string{"session", "resume", "nosuch"}, "spool: session not found: nosuch; spool session ls", service.ExitFailure},
		{[]string{"session", "materialize", "nosuch"}, "spool: session not found: nosuch; spool session ls", service.ExitFailure},
		{[]string{"prompts"}, "no prompt waits for an answer", service.ExitOK},
		{[]string{"run"}, "no runs", service.ExitOK},
		{[]string{"session"}, "(--unanswered)", service.ExitOK},
		{[]string{"thread"}, "s/main", service.ExitOK},
		{[]string{"dead"}, "no dead letters", service.ExitOK},
		{[]string{"output"}, "no output is open", service.ExitOK},
		{[]string{"artifact"}, "no artifacts", service.ExitOK},
		{[]string{"session", "fork"}, "Try spool session fork --help", service.ExitUsage},
		{[]string{"session", "lss"}, "Try spool session --help", service.ExitUsage},
		{[]string{"search", "x", "--limit", "0"}, "Try spool search --help", service.ExitUsage},
		{[]string{"nosuch"}, "Try spool --help", service.ExitUsage},
	} {
		line := append([]string{"--nats", url}, x.line...)
		if x.line[0] == "up" { // it has a server of its own
			line = x.line
		}
		out, code := spool(t, line...)
		if code != x.code || !strings.Contains(out, x.says) {
			t.Errorf("spool %s = %d %q, want %d and %q", strings.Join(x.line, " "), code, out, x.code, x.says)
		}
	}
	for word, says := range map[string]string{
		"materialize": "there is spool session materialize", "recent": "there is spool history recent", "hsow": "did you mean show?",
	} {
		if out, code := spool(t, word, "s"); code != service.ExitUsage || !strings.Contains(out, says) {
			t.Errorf("spool %s s = %d %q, want 2 and %s", word, code, out, says)
		}
	}
	for line, says := range map[string]string{"x": "spool: nothing is stored: 1 refused line",
		`{"content":[{"type":"text","text":"again"}]}`: "spool: 1 dead letter came meanwhile"} {
		var out bytes.Buffer
		args := []string{"publish", "--session", "p", "--dialect", "item", "--producer", "p", "--nats", url}
		run(args, strings.NewReader(`{"content":[{"type":"text","text":"first"}]}`), &out, &out)
		if code := run(args, strings.NewReader(line), &out, &out); code != service.ExitFailure || !strings.Contains(out.String(), says) {
			t.Errorf("publish %s = %d %q, want 1 and %q", line, code, &out, says)
		}
	}
	newest := must.Get(cl.Thread(events.Thread{Session: "s", Name: events.MainThread}).Head(t.Context()))(t)
	head := newest.Head().Ref.Hex()[:12]
	for _, line := range [][]string{{"cat", head}, {"gc", "explain", head}, {"gc", "undelete", head}, {"export", head}} {
		if out, code := spool(t, append(line, "--nats", url)...); code == 0 || !strings.Contains(out, "spool thread show --json") {
			t.Errorf("%v = %d %q, want a failure that says where the whole state stands", line, code, out)
		}
	}
	if out, code := spool(t, "--nats", url, "thread", "fork", "s", "t", "--node", head); code != 0 ||
		!strings.Contains(out, "begins at entry 1 of s/main") {
		t.Errorf("thread fork --node %s = %d %q, want the fork", head, code, out)
	}
	if out, code := spool(t, "--nats", url, "thread", "fork", "s", "all", "--whole"); code != 0 ||
		!strings.Contains(out, "s/all begins at entry 1 of s/main") {
		t.Errorf("thread fork --whole = %d %q, want the fork", code, out)
	}
	if out, code := spool(t, "--nats", url, "thread", "fork", "s", "u", "--node", "0123456789ab"); code != 1 ||
		!strings.Contains(out, "available: "+head) {
		t.Errorf("thread fork at a state of nobody = %d %q, want 1 and the states that there are", code, out)
	}
	if out, _ := spool(t, "--nats", url, "session", "new", "other", "--parent", "nosuch"); strings.Contains(out, "other") ||
		!strings.Contains(out, "nosuch") {
		t.Errorf("session new --parent nosuch says %q, want the parent alone", out)
	}
	id, code := spool(t, "--nats", url, "artifact", "put", "s", file)
	out, removed := spool(t, "--nats", url, "artifact", "rm", "--yes", strings.TrimSpace(id))
	if code != 0 || removed != 0 || out != "removed artifact "+id {
		t.Errorf("artifact rm = %d %q, want 0 and what was removed", removed, out)
	}
}

// TestFollowOfABeginning: an output that is open is found by the beginning of its id; one that is not there is waited for only if asked.
func TestFollowOfABeginning(t *testing.T) {
	url, cl := whole(t)
	th := events.Thread{Session: "s", Name: events.MainThread}
	must.Do(t, cl.Session("s").New(t.Context(), "/w", ""))
	for _, name := range []string{"nosuch", "mak"} {
		if out, code := spool(t, "output", "follow", "s", name, "--nats", url); code != service.ExitFailure ||
			!strings.Contains(out, "spool output ls s") ||
			!strings.Contains(out, "--wait") {
			t.Errorf("output follow of %s = %d %q, want 1, what lists outputs, and --wait", name, code, out)
		}
	}
	open := map[string]*client.Output{}
	for _, id := range []string{"make-1", "make-2", "test-1"} {
		open[id] = must.Get(cl.Thread(th).Output(t.Context(), client.OutputConfig{ID: id, Tool: "make"}))(t)
		must.Get(open[id].Write([]byte("42 passed\n")))(t)
	}
	if out, code := spool(t, "output", "follow", "s", "make", "--nats", url); code != service.ExitFailure ||
		!strings.Contains(out, "make-1\n  make-2") {
		t.Errorf("output follow = %d %q, want 1 and both that begin so", code, out)
	}
	var out, said bytes.Buffer
	told := writer(func(b []byte) (int, error) { // the output ends once it is found
		if strings.Contains(string(b), "test is the output test-1") {
			must.Do(t, open["test-1"].Close(client.OutputEnd{}))
		}
		return said.Write(b)
	})
	code := run([]string{"output", "follow", "s", "test", "--nats", url}, strings.NewReader(""), &out, told)
	if code != 0 || out.String() != "42 passed\n" {
		t.Errorf("output follow = %d %q %q, want 0 and the output", code, &out, &said)
	}
	for _, id := range []string{"make-1", "make-2"} {
		must.Do(t, open[id].Close(client.OutputEnd{}))
	}
}

// TestAskInterrupted: who stops waiting for an answer is told that the question stays, and how to wait on.
func TestAskInterrupted(t *testing.T) {
	url, cl := whole(t)
	ctx, stop := context.WithCancel(t.Context())
	var out bytes.Buffer
	a := &app{ctx: ctx, nats: &service.NATS{Server: url}, log: slog.New(slog.DiscardHandler), out: &out, err: &out}
	defer a.close()
	go func() {
		defer stop()
		for t.Context().Err() == nil {
			if all, err := cl.Session("s").Prompts(t.Context()); err != nil || len(all) == 1 {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
	err := (&promptsAskCmd{Thread: "s", Text: "Ship it?", Kind: "approval", ID: "ship"}).Run(a)
	if err == nil || strings.Contains(err.Error(), "canceled") || !strings.Contains(err.Error(), "spool prompts ls s") ||
		!strings.Contains(err.Error(), "--id ship") {
		t.Errorf("prompts ask = %v, want that the question waits, and how to wait on", err)
	}
	if said, code := spool(t, "prompts", "answer", "s", "ship", "true", "--nats", url); code != 1 || !strings.Contains(said, "--approve or --deny") {
		t.Errorf("prompts answer true = %d %q, want how an approval is answered", code, said)
	}
	if said, code := spool(t, "prompts", "answer", "s", "ship", "--approve", "--nats", url); code != 0 {
		t.Errorf("prompts answer = %d %q", code, said)
	}
	if said, code := spool(t, "prompts", "ask", "s", "Ship it?", "--kind", "approval", "--id", "ship", "--nats",
		url); code != 0 || !strings.Contains(said, "approved") {
		t.Errorf("prompts ask --id = %d %q, want the answer", code, said)
	}
}
