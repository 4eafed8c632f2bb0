package embedded_test

import (
	"context"
	"crypto/tls"
	"os"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"spool/internal/embedded"
	"spool/internal/must"
	"spool/internal/natstest"
)

// The server shows a certificate that was renewed while it runs, and the one before until its key is there, too.
func TestCertificateChanges(t *testing.T) {
	t.Parallel()
	dir, next := t.TempDir(), t.TempDir()
	cert, key := natstest.Certificate(t, dir, 1)
	s := must.Get(embedded.Start(embedded.Config{
		Dir: t.TempDir(), Listen: "127.0.0.1:0", Sync: time.Minute, TLS: embedded.TLS{Cert: cert, Key: key},
	}))(t)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); s.Follow(ctx, nil) }()
	t.Cleanup(func() { cancel(); <-done; s.Stop() })
	shown := func() int64 {
		t.Helper()
		nc := must.Get(nats.Connect(s.ClientURL(), nats.Secure(&tls.Config{InsecureSkipVerify: true})))(t)
		defer nc.Close()
		state := must.Get(nc.TLSConnectionState())(t)
		return state.PeerCertificates[0].SerialNumber.Int64()
	}
	renewed, renewedKey := natstest.Certificate(t, next, 2)
	for from, to := range map[string]string{renewed: cert, renewedKey: key} {
		if n := shown(); n != 1 {
			t.Errorf("certificate %d is shown, want the first", n)
		}
		must.Do(t, os.Rename(from, to))
	}
	must.Until(t, "the renewed certificate is shown", func() bool { return shown() == 2 })
}
