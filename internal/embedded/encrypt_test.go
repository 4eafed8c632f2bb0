package embedded_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"spool/internal/embedded"
	"spool/internal/must"
	"spool/internal/natsio"
	"spool/pkg/events"
)

const marker = "orchard-marker-5512"

// found is the files below dir that hold the marker.
func found(t *testing.T, dir string) (files []string) {
	t.Helper()
	must.Do(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if bytes.Contains(b, []byte(marker)) {
			files = append(files, path)
		}
		return err
	}))
	return files
}

// fill starts a server, and publishes an event with the marker if there is none yet.
func fill(t *testing.T, cfg embedded.Config) (stored uint64) {
	t.Helper()
	s := must.Get(embedded.Start(cfg))(t)
	defer s.Stop()
	c := must.Get(natsio.Dial(t.Context(), natsio.Config{InProcess: s}))(t)
	defer c.Close()
	must.Do(t, c.Ensure(t.Context(), natsio.Limits{EventsBytes: 64 << 20, ItemsBytes: 64 << 20}))
	stream := must.Get(c.JetStream().Stream(t.Context(), events.EventsStream))(t)
	if n := stream.CachedInfo().State.Msgs; n > 0 {
		m, err := stream.GetMsg(t.Context(), 1)
		if err != nil || !bytes.Contains(m.Data, []byte(marker)) {
			t.Fatalf("message after a restart = %v, %v, want the one with the marker", m, err)
		}
		return n
	}
	must.Do(t, c.Events().PublishEvents(t.Context(), []*events.Event{{Producer: "p", Seq: 1, Kind: events.KindEntry, Dialect: "raw",
		Thread: events.Thread{Session: "s", Name: "main"}, Body: []byte(marker)}}))
	return 0
}

func secret(t *testing.T, b byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	must.Do(t, os.WriteFile(path, bytes.Repeat([]byte{b}, 40), 0o600))
	return path
}

// TestEncrypted: with a secret nothing that is stored is in the files, and a restart has it all; without, it is there to be read.
func TestEncrypted(t *testing.T) {
	plain := embedded.Config{Dir: t.TempDir()}
	fill(t, plain)
	if len(found(t, plain.Dir)) == 0 {
		t.Error("the marker is in no file of a directory that is not encrypted: this test finds nothing")
	}
	for _, cipher := range []string{"", "chacha", "aes"} {
		cfg := embedded.Config{Dir: t.TempDir(), KeyFile: secret(t, 'k'), Cipher: cipher}
		fill(t, cfg)
		if files := found(t, cfg.Dir); len(files) > 0 {
			t.Errorf("cipher %q: the marker is in %v", cipher, files)
		}
		must.Same(t, fill(t, cfg), 1, "cipher %q: %d messages after a restart, want %d", cipher)
	}
}

// TestSecretRefused: a server with another secret, or none, would find no streams and begin anew beside them.
func TestSecretRefused(t *testing.T) {
	cfg := embedded.Config{Dir: t.TempDir(), KeyFile: secret(t, 'k')}
	fill(t, cfg)
	plain := embedded.Config{Dir: t.TempDir()}
	fill(t, plain)
	short, open := secret(t, 'k'), secret(t, 'k')
	must.Do(t, os.WriteFile(short, []byte("short"), 0o600))
	must.Do(t, os.Chmod(open, 0o644))
	for want, c := range map[string]embedded.Config{
		"--key-file":        {Dir: cfg.Dir},
		"another secret":    {Dir: cfg.Dir, KeyFile: secret(t, 'x')},
		"cipher (chacha":    {Dir: cfg.Dir, KeyFile: cfg.KeyFile, Cipher: "aes"},
		"use chacha or aes": {Dir: t.TempDir(), KeyFile: cfg.KeyFile, Cipher: "rot13"},
		"not encrypted":     {Dir: plain.Dir, KeyFile: cfg.KeyFile},
		"at least 32":       {Dir: t.TempDir(), KeyFile: short},
		"chmod 600":         {Dir: t.TempDir(), KeyFile: open},
		"key file":          {Dir: t.TempDir(), KeyFile: "/nowhere"},
	} {
		s, err := embedded.Start(c)
		if err == nil {
			s.Stop()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Start = %v, want a refusal with %q", err, want)
		}
	}
	must.Same(t, fill(t, cfg), 1, "%d messages after the refusals, want %d")
}

// TestDoors: beyond loopback nobody is let in without a key.
func TestDoors(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "accounts.conf")
	must.Do(t, os.WriteFile(empty, []byte("accounts { }\n"), 0o600))
	for want, c := range map[string]embedded.Config{
		"spool auth":     {Listen: "0.0.0.0:0"},
		"names no users": {Listen: "127.0.0.1:0", Auth: empty},
		"accounts":       {Listen: "127.0.0.1:0", Auth: "/nowhere"},
		"certificate":    {Listen: "127.0.0.1:0", TLS: embedded.TLS{Cert: empty}},
		"TLS":            {Listen: "127.0.0.1:0", TLS: embedded.TLS{Cert: empty, Key: empty}},
	} {
		c.Dir = t.TempDir()
		s, err := embedded.Start(c)
		if err == nil {
			s.Stop()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Start = %v, want a refusal with %q", err, want)
		}
	}
}
