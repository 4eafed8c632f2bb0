package main

import (
	"bytes"
	"net"
	"regexp"
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
		for url, says := range map[string]string{gone: gone, "http://127.0.0.1:7717": "no NATS server", "foo://u:secret@x": "foo://x"} {
			t.Setenv("NATS_URL", url)
			said, code := ask(strings.Fields(line)...)
			want := service.ExitFailure
			if url != gone {
				want = service.ExitUsage
			}
			if strings.Count(said, "\n") > 2 || code != want || !strings.Contains(said, says) || strings.Contains(said, "secret") {
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

// TestOtherServer: who names a server in a way that it cannot be reached is told which way it could.
func TestOtherServer(t *testing.T) {
	s, _ := plain(t)
	for name, of := range map[string]struct{ url, context, says string }{
		"no TLS":                 {"tls" + strings.TrimPrefix(s.ClientURL(), "nats"), "", "speaks no TLS: name it with nats://"},
		"a server and a context": {s.ClientURL(), "prod", "NATS_URL or --nats, and a context by NATS_CONTEXT or --context: use one of them"},
	} {
		t.Setenv("NATS_URL", of.url)
		t.Setenv("NATS_CONTEXT", of.context)
		if said, code := spool(t, "session", "ls"); code != service.ExitFailure || !strings.Contains(said, of.says) {
			t.Errorf("%s: spool session ls = %d %q, want 1 and %q", name, code, said, of.says)
		}
	}
}

// TestAskExpired: who asks what nobody answers in time is told so.
func TestAskExpired(t *testing.T) {
	url, _ := whole(t)
	said, code := spool(t, "prompts", "ask", "s", "Which one?", "--deadline", "1ms", "--nats", url)
	if code != service.ExitFailure || !strings.Contains(said, `"outcome":"expired"`) || !strings.Contains(said, "nobody answered until the deadline") {
		t.Errorf("prompts ask --deadline 1ms = %d %q, want 1, and that nobody answered", code, said)
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

// TestWrongWords: what is wrong with a command line is said in this program's words, whatever it is that kong finds: what, where, and
// what to do.
func TestWrongWords(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	found := map[string]bool{}
	for line, want := range map[string]string{
		"nosuch":                              "there is no command nosuch",
		"del 1":                               "del is no command by itself; there is spool dead rm, spool auth user rm",
		"threads":                             "there is no command threads: did you mean thread?",
		"hsow s":                              "there is no command hsow: did you mean show?",
		"session nosuch":                      "there is no command session nosuch",
		"session lss":                         "there is no command session lss: did you mean ls?",
		"session ls x":                        "x is one word too many: use spool session ls",
		"show a b":                            "b is one word too many: use spool show <session[/thread][#n]>",
		"show":                                "<session[/thread][#n]> is missing: use spool show <session[/thread][#n]>",
		"auth user rm":                        "<dir> <tenant/user> is missing: use spool auth user rm <dir> <tenant/user>",
		"prompts answer s":                    "<prompt> is missing: use spool prompts answer <session[/thread]> <prompt> [<answer>]",
		"auth":                                "a command is missing: use init, tenant, user, ls or env",
		"--nosuch":                            "there is no flag --nosuch",
		"show s -Z":                           "there is no flag -Z",
		"session ls --jso":                    "there is no flag --jso: did you mean --json?",
		"auth user add":                       "a flag is missing: add --role=ROLE",
		"prompts answer a b --approve --deny": "--approve and --deny exclude each other: use one of them",
		"session ls --limit":                  "--limit needs a value",
		"check --warn":                        "--warn needs a value",
		"bench --entries -5":                  `--entries "-5": use --entries="-5"`,
		"session ls --limit x":                `--limit "x": use a whole number`,
		"session ls --limit 99999999999999999999": `--limit "99999999999999999999": use a whole number`,
		"bench soak --rate x":                     `--rate "x": use a number`,
		"check --warn dead=x":                     `--warn "x": use a number`,
		"check --warn x":                          `--warn "x": use NAME=VALUE`,
		"top --every 3":                           `--every "3": use a duration like 90s, 10m or 36h`,
		"top --every soon":                        `--every "soon": use a duration like 90s, 10m or 36h`,
		"session ls --json=maybe":                 `--json "maybe": use true or false`,
		"session ls --state x":                    `--state "x": use waiting, running, failed, idle or done`,
		"dead rm x":                               `[<at> ...] "x": use a whole number`,
		"completion ksh":                          `<shell> "ksh": use bash, zsh or fish`,
	} {
		var out, errw bytes.Buffer
		code := run(strings.Fields(line), strings.NewReader(""), &out, &errw)
		said, help, _ := strings.Cut(errw.String(), "\n")
		if code != service.ExitUsage || said != "spool: "+want || out.Len() > 0 || !strings.HasPrefix(help, "Try spool ") {
			t.Errorf("spool %s = %d %q %q, want %d %q, and where the help is", line, code, &out, &errw, service.ExitUsage, want)
		}
		var c cli
		_, err := must.Get(kong.New(&c, kong.Name("spool"), vars()))(t).Parse(strings.Fields(line))
		for _, r := range rewordings {
			if reworded(err, nil).Error() != err.Error() && regexp.MustCompile("^"+r.kong+"$").MatchString(err.Error()) {
				found[r.kong] = true
				break
			}
		}
	}
	for _, r := range rewordings {
		if !found[r.kong] {
			t.Errorf("no line makes kong say %s", r.kong)
		}
	}
}
