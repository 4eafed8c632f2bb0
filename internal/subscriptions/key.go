package subscriptions

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Key reads the key of webhooks, PEM of an Ed25519 key, which only its owner may read; one is made where none is.
func Key(file string) (ed25519.PrivateKey, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		if err = makeKey(file); err == nil {
			text, err = os.ReadFile(file)
		}
	}
	if err != nil {
		return nil, err
	}
	if block, _ := pem.Decode(text); block != nil {
		if key, err := x509.ParsePKCS8PrivateKey(block.Bytes); err == nil {
			if key, ok := key.(ed25519.PrivateKey); ok {
				return key, nil
			}
		}
	}
	return nil, fmt.Errorf("%s has no Ed25519 key: openssl genpkey -algorithm ed25519 makes one", file)
}

// makeKey makes a file with a key, unless another process does first.
func makeKey(file string) error {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(file), ".webhook-key-*") // 0600
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	if err = pem.Encode(tmp, &pem.Block{Type: "PRIVATE KEY", Bytes: der}); err == nil {
		err = tmp.Sync()
	}
	if err = errors.Join(err, tmp.Close()); err != nil {
		return err
	}
	if err := os.Link(tmp.Name(), file); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}
