package e2e_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"spool/e2e/internal/proc"
	"spool/internal/must"
)

// runMark stands on the line before a ```sh block of a document that this test runs.
const runMark = "<!-- run -->"

// snippet is a marked block.
type snippet struct {
	line int // of its first command, from 1
	text string
}

// snippets finds the marked blocks of a Markdown text. A mark without a block is an error.
func snippets(text string) (found []snippet, err error) {
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); i++ {
		if strings.TrimSpace(lines[i]) != runMark {
			continue
		}
		mark := i + 1
		for i++; i < len(lines) && strings.TrimSpace(lines[i]) == ""; i++ {
		}
		if i >= len(lines) || strings.TrimSpace(lines[i]) != "```sh" {
			return nil, fmt.Errorf("line %d: %s and no ```sh block behind it", mark, runMark)
		}
		s := snippet{line: i + 2}
		for i++; i < len(lines) && strings.TrimSpace(lines[i]) != "```"; i++ {
			s.text += lines[i] + "\n"
		}
		if i == len(lines) {
			return nil, fmt.Errorf("line %d: the block does not end", s.line-1)
		}
		found = append(found, s)
	}
	return found, nil
}

func TestSnippets(t *testing.T) {
	got, err := snippets("# x\n```sh\nno\n```\n<!-- run -->\n\n```sh\na\nb\n```\n<!-- run -->\n```sh\nc\n```\n")
	if err != nil || len(got) != 2 || got[0] != (snippet{8, "a\nb\n"}) || got[1] != (snippet{13, "c\n"}) {
		t.Errorf("snippets = %+v, %v, want two", got, err)
	}
	for _, text := range []string{"<!-- run -->\ntext", "<!-- run -->\n```go\n```", "<!-- run -->", "<!-- run -->\n```sh\na\n"} {
		if got, err := snippets(text); err == nil {
			t.Errorf("snippets(%q) = %+v, nil, want an error", text, got)
		}
	}
}

// TestReadme runs the marked blocks of a document one after the other, in one shell, in a home of their own. Ports are moved to
// free ones, and commands behind a spool up wait until it is up, as a reader does.
func TestReadme(t *testing.T) {
	for _, file := range []string{"README.md", "docs/guide.md", "docs/http.md", "docs/streams.md"} {
		t.Run(file, func(t *testing.T) { testDocument(t, file) })
	}
}

func testDocument(t *testing.T, file string) {
	t.Parallel()
	text := must.Get(os.ReadFile("../" + file))(t)
	blocks, err := snippets(string(text))
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	if len(blocks) == 0 {
		t.Fatalf("%s has no ```sh block behind a line %s: the first steps that it shows are to be tested", file, runMark)
	}
	w := newWorld(t)
	script := "set -eu\ntrap 'kill $(jobs -p) 2>/dev/null || true; wait || true' EXIT\n"
	for _, b := range blocks {
		script += fmt.Sprintf("echo '== %s:%d' >&2\n%s", file, b.line, w.moved(b.text))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", script)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 10 * time.Second
	cmd.Dir, cmd.Env = w.checkout(), w.reader(strings.Contains(script, "spool up"))
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		t.Errorf("%s: %v; the last block that began is the one at fault:\n%s", file, err, out.String())
	}
}

// moved is a block with the ports of this world.
func (w *world) moved(text string) string {
	_, nats, _ := strings.Cut(w.nats, ":")
	_, http, _ := strings.Cut(w.http, ":")
	return strings.NewReplacer("4222", nats, "7717", http).Replace(text)
}

// checkout is a folder in which a reader finds what the repository has.
func (w *world) checkout() string {
	w.t.Helper()
	dir := filepath.Join(w.home, "spool")
	must.Do(w.t, os.Mkdir(dir, 0o755))
	root := must.Get(filepath.Abs(".."))(w.t)
	entries := must.Get(os.ReadDir(root))(w.t)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		must.Do(w.t, os.Symlink(filepath.Join(root, e.Name()), filepath.Join(dir, e.Name())))
	}
	return dir
}

// reader is the environment of the blocks: a spool that starts on the ports of this world.
func (w *world) reader(up bool) []string {
	w.t.Helper()
	front := filepath.Join(w.home, "front")
	must.Do(w.t, os.Mkdir(front, 0o755))
	wait := "true"
	if up {
		wait = "i=0; until " + proc.Bin() + "/spool session ls >/dev/null 2>&1 || [ $i -ge 200 ]; do i=$((i+1)); sleep 0.1; done"
	}
	script := strings.Join([]string{
		"#!/bin/sh",
		"case ${1-} in",
		"up) shift; unset NATS_URL; exec " + proc.Bin() + "/spool up --listen " + w.nats + " --http " + w.http + ` "$@";;`,
		"demo|version|bench|--help|'') ;;",
		"*) " + wait + ";;",
		"esac",
		"exec " + proc.Bin() + `/spool "$@"`, "",
	}, "\n")
	must.Do(w.t, os.WriteFile(filepath.Join(front, "spool"), []byte(script), 0o755))
	env := append(w.command("spool").Env, "PATH="+front+string(os.PathListSeparator)+proc.Bin()+string(os.PathListSeparator)+os.Getenv("PATH"),
		"GOBIN="+filepath.Join(w.home, "bin"), "COLUMNS=120")
	for _, name := range []string{"GOCACHE", "GOMODCACHE", "GOPATH", "GOPROXY"} {
		value := must.Get(exec.Command("go", "env", name).Output())(w.t)
		env = append(env, name+"="+strings.TrimSpace(string(value)))
	}
	return env
}
