package main

import (
	"bytes"
	"net"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"spool/internal/must"
	"spool/internal/service"
)

// TestWrongLines: of a flag that it has not, every command says so in one line and where its help is, and does nothing; of a server that
// is none, or is not there, who needs one says so in one line, with the address, and where another one is named.
func TestWrongLines(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	t.Setenv("XDG_DATA_HOME", t.TempDir())
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	t.Setenv("NATS_CONTEXT", "")
	free := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	gone := "nats://" + free.Addr().String()
	must.Do(t, free.Close())
	ask := func(args ...string) (said string, code int) {
		var out, errw bytes.Buffer
		code = run(args, strings.NewReader(""), &out, &errw)
		if out.Len() > 0 {
			t.Errorf("spool %s writes %q, want nothing", strings.Join(args, " "), &out)
		}
		return errw.String(), code
	}
	var c cli
	model := must.Get(kong.New(&c, vars()))(t).Model
	leaves, zeros := 0, strings.Repeat("0", 64)
	for _, leaf := range model.Leaves(true) {
		leaves++
		path := commandOf(leaf)
		said, code := ask(append(strings.Fields(path), "--nosuch")...)
		if lines := strings.Split(strings.TrimSpace(said), "\n"); code != service.ExitUsage || len(lines) != 2 ||
			!strings.Contains(lines[0], "nosuch") || lines[1] != "Try spool "+path+" --help." {
			t.Errorf("spool %s --nosuch = %d %q, want 2, the flag, and its own help", path, code, said)
		}
	}
	if leaves < 80 {
		t.Errorf("%d commands were tried, want 80 or more", leaves)
	}
	for _, line := range []string{
		"serve", "publish --session s --dialect item", "exec -- true", "show s", "tail", "tail -T", "top --once", "search x", "stats", "history recent",
		"history search x", "export s", "read artifact://art_1", "output ls", "cat blob:sha256:" + zeros, "resume s", "session ls", "session tree s",
		"session rm s --yes", "thread ls", "thread show s", "thread log s", "prompts ls", "prompts ask s q", "run ls", "run start s", "artifact ls", "blob put",
		"fsck", "scrub --once", "gc", "gc --apply", "gc --once", "gc --every 1h", "du", "retention", "dead ls", "dead replay 1", "persister", "ingest",
		"ingest -session s -dialect item -",
	} {
		for url, says := range map[string]string{gone: gone, "http://127.0.0.1:7717": "no NATS server"} {
			t.Setenv("NATS_URL", url)
			said, code := ask(strings.Fields(line)...)
			want := service.ExitFailure
			if strings.HasPrefix(url, "http") {
				want = service.ExitUsage
			}
			if strings.Count(said, "\n") > 2 || code != want || !strings.Contains(said, says) {
				t.Errorf("NATS_URL=%s spool %s = %d %q, want %d, one line, and %s", url, line, code, said, want, says)
			}
		}
	}
	for url, says := range map[string]string{
		"nats://u:secret@127.0.0.1:99999": "127.0.0.1:99999", "nats://u:secret@a b": "a b", "nats://u:secret@127.0.0.1:4222x": "127.0.0.1:4222x", " ": "NATS_URL",
	} {
		t.Setenv("NATS_URL", url)
		said, code := ask("session", "ls")
		if strings.Count(said, "\n") != 1 || code != service.ExitFailure || strings.Contains(said, "secret") ||
			!strings.Contains(said, says) || !strings.Contains(said, "--nats or NATS_URL names another") {
			t.Errorf("NATS_URL=%s spool session ls = %d %q, want 1, one line, %s without what is secret, and what to do", url, code, said, says)
		}
	}
}

// TestTakenAddress: who is to listen where another one does says so in one line, with the address and the flag, and ends.
func TestTakenAddress(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	url, _ := whole(t)
	taken := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer taken.Close()
	busy := taken.Addr().String()
	for _, line := range [][]string{
		{"up", "--http", "127.0.0.1:0", "--data", t.TempDir(), "--listen"}, {"up", "--nats", url, "--http"}, {"serve", "--nats", url, "--http"},
		{"ingest", "--nats", url, "--http"}, {"persister", "--nats", url, "--metrics"}, {"gc", "--every", "1h", "--nats", url, "--metrics"},
	} {
		var out, errw bytes.Buffer
		code := run(append(line, busy), strings.NewReader(""), &out, &errw)
		said := strings.Split(strings.TrimSpace(errw.String()), "\n")
		if last := said[len(said)-1]; code != service.ExitFailure || !strings.Contains(last, busy) || !strings.Contains(last, line[len(line)-1]+",") {
			t.Errorf("spool %q %s = %d %q, want 1, the address and the flag", line, busy, code, &errw)
		}
	}
}
