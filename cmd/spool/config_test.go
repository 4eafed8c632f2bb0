package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"spool/internal/must"
	"spool/internal/service"
)

// configured parses a command line with text as the configuration file.
func configured(t *testing.T, text string, args ...string) (c cli, path string, err error) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "config.toml")
	must.Do(t, os.WriteFile(path, []byte(text), 0o600))
	for _, name := range []string{"NATS_URL", "NATS_CONTEXT", "NATS_CREDS", "NATS_USER", "NATS_TIMEOUT"} {
		if _, set := os.LookupEnv(name); set {
			t.Setenv(name, "") // restores it
			must.Do(t, os.Unsetenv(name))
		}
	}
	t.Setenv(service.ConfigEnv, path)
	parser, err := kong.New(&c, kong.Resolvers(&fromFile{}), vars())
	must.Do(t, err)
	_, err = parser.Parse(args)
	return c, path, err
}

func TestConfigFile(t *testing.T) {
	const text = `
log-level = "info"
creds = "file.creds"
[up]
data = "/srv/spool"
http = "127.0.0.1:7000"
items-bytes = 1024
log-level = "debug"
[session]
log-format = "json"
[session.ls]
all = true
[persister]
lane = 3
`
	c, _, err := configured(t, text, "up", "--http", "127.0.0.1:8000")
	must.Do(t, err)
	if up := c.Up; up.Data != "/srv/spool" || up.HTTP != "127.0.0.1:8000" || up.ItemsBytes != 1024 || up.Sync != "always" {
		t.Errorf("up = %+v, want data and items-bytes of the file, http of the command line, and the default sync", up)
	}
	if c.LogLevel != "debug" || c.LogFormat != "text" || c.NATS.Creds != "file.creds" {
		t.Errorf("log %s %s, creds %s, want debug of [up], the default text, and file.creds", c.LogLevel, c.LogFormat, c.NATS.Creds)
	}

	c, _, err = configured(t, text, "session", "ls")
	if err != nil || !c.Session.Ls.All || c.LogFormat != "json" || c.LogLevel != "info" {
		t.Errorf("session ls: all %v, log %s %s, %v, want the tables of the command and of those above it", c.Session.Ls.All,
			c.LogLevel, c.LogFormat, err)
	}

	t.Setenv("NATS_CREDS", "") // restored after the test, when configured has cleared it
	c, _, err = configured(t, text, "--creds", "flag.creds", "version")
	if err != nil || c.NATS.Creds != "flag.creds" {
		t.Errorf("creds = %s, %v, want the command line's", c.NATS.Creds, err)
	}
}

// TestConfigFileNamesFiles: a file that the configuration names is that of the command.
func TestConfigFileNamesFiles(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	must.Do(t, os.WriteFile(file, []byte("x"), 0o600))
	var text strings.Builder
	keys := []string{"token-file", "http-cert", "http-key", "tls-cert", "tls-key", "tls-client-ca", "key-file", "secret-rules"}
	dir := t.TempDir()
	fmt.Fprintf(&text, "[up]\nauth = %q\n", dir)
	for _, key := range keys {
		fmt.Fprintf(&text, "%s = %q\n", key, file)
	}
	c, _, err := configured(t, text.String(), "up")
	up := c.Up
	must.Same(t, up.Auth, dir, "auth of the file: %q, want %q")
	for i, got := range []string{up.TokenFile, up.HTTPCert, up.HTTPKey, up.NATSCert, up.NATSKey, up.ClientCA, up.KeyFile, up.SecretRules} {
		if got != file || err != nil {
			t.Errorf("%s of the file: %q, %v, want %q", keys[i], got, err, file)
		}
	}
}

func TestConfigFileUnderEnvironment(t *testing.T) {
	var c cli
	path := filepath.Join(t.TempDir(), "config.toml")
	must.Do(t, os.WriteFile(path, []byte("user = \"file\"\ntimeout = \"9s\"\n"), 0o600))
	t.Setenv("NATS_USER", "env")
	parser := must.Get(kong.New(&c, kong.Resolvers(&fromFile{}), vars()))(t)
	if _, err := parser.Parse([]string{"--config", path, "version"}); err != nil || c.NATS.User != "env" {
		t.Errorf("user = %s, %v, want the environment's", c.NATS.User, err)
	}
}

func TestConfigFileNamesFileAndKey(t *testing.T) {
	for _, x := range []struct{ text, says string }{
		{"[up]\ndatta = \"x\"", "up.datta: unknown key"},
		{"[upp]\ndata = \"x\"", "upp.data: unknown key"},
		{"data = \"x\"", "data: unknown key"}, // a flag of up alone belongs in its table
		{"[session]\nall = true", "session.all: unknown key"},
		{"help = true", "help: unknown key"},
		{"timeout = \"soon\"", "timeout: "},
		{"log-level = \"loud\"", "log-level: \"loud\": use debug, info, warn or error"},
		{"log-format = \"\"", "log-format: \"\": use text or json"},
	} {
		_, path, _ := configured(t, x.text, "version")
		var out, errw bytes.Buffer
		if code := run([]string{"version"}, nil, &out, &errw); code != service.ExitUsage ||
			!strings.HasPrefix(errw.String(), "spool: "+path+": "+x.says) {
			t.Errorf("%q: exit code %d, %q, want %d and %q of %s", x.text, code, errw.String(), service.ExitUsage, x.says, path)
		}
	}
}
