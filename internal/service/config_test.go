package service

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"spool/internal/must"
	"strings"
	"testing"
	"time"
)

// withConfig makes text the configuration file of the test's own home, and clears the environment of what would hide it.
func withConfig(t *testing.T, text string) (path string) {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", dir)
	t.Setenv(ConfigEnv, "")
	for _, env := range NewFlags("persister", "persister", nil, nil).env {
		t.Setenv(env, "")
	}
	path = filepath.Join(dir, "spool", "config.toml")
	must.Do(t, os.MkdirAll(filepath.Dir(path), 0o700))
	must.Do(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

type daemon struct {
	nats  NATS
	lane  int
	lease time.Duration
	level string
	large Artifacts
}

func parse(args ...string) (d daemon, err error) {
	f := NewFlags("persister", "persister", io.Discard, io.Discard)
	f.Take(&d.large)
	f.IntVar(&d.lane, "lane", -1, "")
	f.DurationVar(&d.lease, "output-lease", 0, "")
	f.Func("when", "", func(s string) error { return fmt.Errorf("%q: never", s) })
	_, err = f.Parse(args)
	d.nats, d.level = f.NATS, f.level
	return d, err
}

// What stands behind a daemon's flags is not passed over.
func TestParseRefusesArguments(t *testing.T) {
	withConfig(t, "")
	if _, err := parse("-lane", "3", "restart"); !errors.As(err, new(UsageError)) ||
		!strings.Contains(err.Error(), "unexpected argument restart") {
		t.Errorf("with an argument: %v, want it refused", err)
	}
	must.Get(NewFlags("ingest", "ingest", io.Discard, io.Discard).Parse([]string{"-log-level", "warn", "-"}, "-"))(t)
}

// A value that a flag does not take is told with the flag, and with what it takes: on the command line, in the environment, in the file.
func TestParseSaysWhatAFlagTakes(t *testing.T) {
	path := withConfig(t, "")
	for arg, says := range map[string]string{
		"-lane=x": `-lane "x": use a whole number`, "-lane=": `-lane "": use a whole number`,
		"-output-lease=3":            `-output-lease "3": use a duration like 90s, 10m or 36h`,
		"-lane=99999999999999999999": "use a whole number", "-version=maybe": `-version "maybe": use true or false`,
		"-output-lease=-1h": "-output-lease -1h0m0s: use 0 or more", "-artifact-bytes=-5": "-artifact-bytes -5: use 0 or more",
		"-nosuch": "there is no flag -nosuch", "-when=x": `-when "x": never`, "-lane": "-lane needs a value",
	} {
		if _, err := parse(arg); !errors.As(err, new(UsageError)) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %s", arg, err, says)
		}
	}
	t.Setenv("SPOOL_ARTIFACT_BYTES", "many")
	if _, err := parse(); err == nil || !strings.Contains(err.Error(), `SPOOL_ARTIFACT_BYTES "many": use a whole number`) {
		t.Errorf("in the environment: %v, want what the flag takes", err)
	}
	t.Setenv("SPOOL_ARTIFACT_BYTES", "-5")
	if _, err := parse(); err == nil || !strings.Contains(err.Error(), `SPOOL_ARTIFACT_BYTES "-5": use 0 or more`) {
		t.Errorf("in the environment: %v, want what the flag takes", err)
	}
	t.Setenv("SPOOL_ARTIFACT_BYTES", "")
	must.Do(t, os.WriteFile(path, []byte("[persister]\nlane = \"x\"\n"), 0o600))
	if _, err := parse(); err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "use a whole number") {
		t.Errorf("in the file: %v, want what the flag takes", err)
	}
}

// Nothing, as a variable that is not set leaves it on a command line or in a file, switches nothing off and stands for no file. As a value of
// the environment it is none: what the file says holds, and where that says nothing, the default.
func TestEmptyIsNoValue(t *testing.T) {
	masked := "[persister]\nsecrets = \"mask\"\n"
	parsed := func(text string, args ...string) (string, error) {
		withConfig(t, text)
		var of Secrets
		f := NewFlags("persister", "persister", io.Discard, io.Discard)
		f.Take(&of)
		f.Take(new(Door))
		_, err := f.Parse(args)
		return of.Secrets, err
	}
	for arg, says := range map[string]string{
		"-secrets=": `-secrets "": use off, report or mask`, "-secrets=yes": `-secrets "yes": use off, report or mask`,
		"-secret-rules=": `-secret-rules "": use the name of a file`, "-token-file=": `-token-file "": use the name of a file`,
	} {
		if got, err := parsed(masked, arg); !errors.As(err, new(UsageError)) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %q, %v; want %s", arg, got, err, says)
		}
	}
	if got, err := parsed("[persister]\nsecrets = \"\"\n"); err == nil || !strings.Contains(err.Error(), "use off, report or mask") {
		t.Errorf("nothing in the file: %q, %v; want what the flag takes", got, err)
	}
	t.Setenv("SPOOL_SECRETS", "")
	must.Same(t, must.Get(parsed(masked))(t), "mask", "nothing in the environment, over a file: %s, want %s")
	must.Same(t, must.Get(parsed(""))(t), "off", "nothing in the environment: %s, want %s")
	t.Setenv("SPOOL_SECRETS", "on")
	if _, err := parsed(""); err == nil || !strings.Contains(err.Error(), `SPOOL_SECRETS "on": use off, report or mask`) {
		t.Errorf("in the environment: %v, want what the flag takes", err)
	}
}

// A mistake in a flag is told once, by Exit; what -help asks for is an answer, and the flags alone.
func TestParseIsSilent(t *testing.T) {
	withConfig(t, "")
	for arg, says := range map[string]string{"-lane=x": "", "-nosuch": "", "-help": "Usage of persister"} {
		var out strings.Builder
		f := NewFlags("persister", "persister", &out, io.Discard)
		f.Int("lane", -1, "")
		if _, err := f.Parse([]string{arg}); err == nil || !strings.HasPrefix(out.String(), says) || says == "" && out.Len() > 0 {
			t.Errorf("%s: %v, and %q; want an error, and %q", arg, err, out.String(), says)
		}
	}
}

func TestParseFlagsOverEnvironmentOverFile(t *testing.T) {
	withConfig(t, `
nats = "nats://file:4222"
creds = "file.creds"
user = "file"
log-level = "warn"
timeout = "9s"
[persister]
lane = 7
output-lease = "3m"
log-level = "debug"
artifact-bytes = 3000
artifact-tokens = 4000
[gc]
every = "1h"
[up]
data = "/srv/spool"
`)
	t.Setenv("NATS_CREDS", "env.creds")
	t.Setenv("NATS_USER", "env")
	t.Setenv("SPOOL_ARTIFACT_BYTES", "2000")
	t.Setenv("SPOOL_SIGNED", "verbatim")
	d := must.Get(parse("-user", "flag", "-output-lease=1m"))(t)
	want := daemon{
		nats: NATS{Server: "nats://file:4222", Creds: "env.creds", User: "flag", Timeout: 9 * time.Second}, lane: 7, lease: time.Minute,
		level: "debug", large: Artifacts{ArtifactBytes: 2000, ArtifactTokens: 4000, Signed: "verbatim"},
	}
	must.Same(t, d, want, "Parse = %+v, want %+v")
}

func TestParseNamesFileAndKey(t *testing.T) {
	for _, c := range []struct{ text, says string }{
		{"[persister]\nlame = 1", "persister.lame: unknown key"},
		{"lane = 1", "lane: unknown key"}, // a flag of this daemon alone belongs in its table
		{"config = \"x\"", "config: unknown key"},
		{"[persister]\nlane = \"x\"", `persister.lane: "x": use a whole number`},
		{"[persister]\nlane = [1]", "persister.lane: one value, not a list"},
		{"[persister]\nlane = 2026-01-01", "persister.lane: time.Time is no value"},
		{"[[persister]]\nlane = 1", "persister: []map[string]interface {} is no value"},
		{"lane =", "toml: line 1"},
	} {
		path := withConfig(t, c.text)
		_, err := parse()
		var usage UsageError
		if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), c.says) || !errors.As(err, &usage) {
			t.Errorf("%q: Parse = %v, want a usage error with %q and %q", c.text, err, path, c.says)
		}
	}
}

func TestOpenConfigFinds(t *testing.T) {
	path := withConfig(t, "[persister]\nlane = 1")
	other := filepath.Join(t.TempDir(), "other.toml")
	must.Do(t, os.WriteFile(other, []byte("[persister]\nlane = 2"), 0o600))
	lane := func(args ...string) int {
		t.Helper()
		d, err := parse(args...)
		if err != nil {
			t.Error(err)
		}
		return d.lane
	}
	must.Same(t, lane(), 1, "lane by default = %d, want %d")
	t.Setenv(ConfigEnv, other)
	must.Same(t, lane(), 2, "lane by %s = %d, want %d", ConfigEnv)
	must.Same(t, lane("-config", path), 1, "lane by -config = %d, want %d")
	must.Is(t, must.Err(parse("-config", other+".missing")), os.ErrNotExist, "a file that is named and missing")
	t.Setenv(ConfigEnv, "")
	must.Do(t, os.Remove(path))
	must.Same(t, lane(), -1, "lane without a file = %d, want %d")
}

// A value may read like what package flag says of one.
func TestParseOddValue(t *testing.T) {
	if _, err := parse(`-when=x" for flag -nosuch: z`); !errors.As(err, new(UsageError)) {
		t.Errorf("parse = %v, want a UsageError", err)
	}
}
