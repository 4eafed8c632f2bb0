package redact_test

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	pemlib "encoding/pem"
	"strings"
	"testing"
)

// TestBundleOfKeyAndChain: a TLS bundle, key first and then the chain, as the one line of base64 that a Secret or a CI variable has, hides its key
// however long the chain is.
func TestBundleOfKeyAndChain(t *testing.T) {
	block := func(kind string, n int) string {
		b := make([]byte, n)
		_, _ = rand.Read(b)
		return string(pemlib.EncodeToMemory(&pemlib.Block{Type: kind, Bytes: b}))
	}
	for _, certs := range []int{2, 3, 4, 5} {
		bundle := block("PRIVATE KEY", 2374) + strings.Repeat(block("CERTIFICATE", 1400), certs) // RSA 4096, and a chain
		line := base64.StdEncoding.EncodeToString([]byte(bundle))
		raw := []byte(`{"text":"TLS_PEM_B64: ` + line + `\n"}`)
		if got, n := mask().Clean(raw, true); n == 0 || bytes.Contains(got, []byte(line[200:1000])) {
			t.Errorf("%d certificates behind the key, %d bytes: %d found, the key is stored", certs, len(line), n)
		}
	}
}
