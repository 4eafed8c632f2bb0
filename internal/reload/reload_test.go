package reload_test

import (
	"context"
	"crypto/tls"
	"log/slog"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"spool/internal/must"
	"spool/internal/natstest"
	"spool/internal/reload"
)

// A certificate that is cut, or has another's key, is said once and not shown; the one before is, until both are whole.
func TestCertificate(t *testing.T) {
	dir := t.TempDir()
	cert, key := natstest.Certificate(t, dir, 1)
	renewed, renewedKey := natstest.Certificate(t, t.TempDir(), 2)
	read := func(file string) string {
		b := must.Get(os.ReadFile(file))(t)
		return string(b)
	}
	old, public, private := read(cert), read(renewed), read(renewedKey)
	synctest.Test(t, func(t *testing.T) {
		c := must.Get(reload.OpenCertificate(cert, key))(t)
		var log natstest.Log
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); c.Follow(ctx, slog.New(slog.NewTextHandler(&log, nil))) }()
		defer func() { stop(); <-done }()
		var cfg tls.Config
		c.Serve(&cfg)
		for _, step := range []struct {
			file, content, told string
			serial              int64
		}{
			{cert, "", "ends in the middle", 1},
			{cert, public[:len(public)/2], "", 1}, // as before: said once
			{cert, public, "private key does not match", 1},
			{cert, public + old[:len(old)/2], "ends in the middle", 1},
			{cert, public, "private key does not match", 1},
			{key, private[:len(private)-3], "ends in the middle", 1},
			{key, private, "taken anew", 2},
			{cert, public + old, "taken anew", 2}, // a chain
			{cert, public + old, "", 2},
		} {
			log.Reset()
			must.Do(t, os.WriteFile(step.file, []byte(step.content), 0o600))
			time.Sleep(3 * reload.Every)
			shown, err := cfg.GetCertificate(nil)
			if err != nil || shown.Leaf.SerialNumber.Int64() != step.serial {
				t.Errorf("%q: certificate %v, %v, want %d", step.told, shown.Leaf.SerialNumber, err, step.serial)
			}
			if got := log.String(); !strings.Contains(got, step.told) || (got == "") != (step.told == "") {
				t.Errorf("log = %q, want %q", got, step.told)
			}
		}
	})
}

func TestOpenCertificate(t *testing.T) {
	if c, err := reload.OpenCertificate("", ""); c != nil || err != nil {
		t.Errorf("without names = %v, %v, want nothing", c, err)
	}
	cert, key := natstest.Certificate(t, t.TempDir(), 1)
	for _, names := range [][2]string{{cert, ""}, {"", key}, {key, cert}, {cert, cert}, {"/nowhere", key}} {
		if c, err := reload.OpenCertificate(names[0], names[1]); err == nil {
			t.Errorf("OpenCertificate(%q) = %v, want a refusal", names, c)
		}
	}
}
