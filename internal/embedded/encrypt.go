package embedded

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/nats-io/nats-server/v2/server"
)

// A data directory is encrypted from its first byte or never: JetStream then encrypts every block of every stream, and the
// state of its consumers. The file "encrypted" in the directory says so and for which secret, by a hash that does not tell it. A
// server that is started without the secret, or with another one, would find no streams, take the directory for an empty one
// and make new streams beside the old: so it is refused.

const encryptedMark = "encrypted"

// leastSecret is the shortest secret, in bytes.
const leastSecret = 32

// encrypt gives the server its secret, and holds it against the one that the directory was begun with. The directory is locked.
func (cfg Config) encrypt(opts *server.Options) error {
	path := filepath.Join(cfg.Dir, encryptedMark)
	mark, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	begun := err == nil
	if cfg.KeyFile == "" {
		if begun {
			return fmt.Errorf("%s is encrypted: give its secret with --key-file", cfg.Dir)
		}
		return nil
	}
	secret, err := readSecret(cfg.KeyFile)
	if err != nil {
		return err
	}
	cipher := cfg.Cipher
	switch cipher {
	case "", "chacha":
		cipher, opts.JetStreamCipher = "chacha", server.ChaCha
	case "aes":
		opts.JetStreamCipher = server.AES
	default:
		return fmt.Errorf("cipher %q: use chacha or aes", cipher)
	}
	opts.JetStreamKey = string(secret)
	want := fmt.Appendf(nil, "%s %s\n", cipher, fingerprint(secret))
	switch {
	case begun && bytes.Equal(mark, want):
		return nil
	case begun:
		return fmt.Errorf("%s is encrypted with another secret or cipher (%s) than %s: give those that it was begun with",
			cfg.Dir, bytes.TrimSpace(mark), cfg.KeyFile)
	}
	if _, err := os.Stat(opts.StoreDir); err == nil {
		return fmt.Errorf("%s holds data that is not encrypted: copy it with spool backup, and restore it into a new directory that is", cfg.Dir)
	}
	// A crash behind this leaves an empty directory with a mark: the same secret begins it again.
	return writeDurably(path, want)
}

func readSecret(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("key file: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("key file %s can be read by others: chmod 600 it", path)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("key file: %w", err)
	}
	if b = bytes.TrimSpace(b); len(b) < leastSecret {
		return nil, fmt.Errorf("key file %s has %d bytes: at least %d, as openssl rand -base64 32 makes them", path, len(b), leastSecret)
	}
	return b, nil
}

func fingerprint(secret []byte) string {
	h := hmac.New(sha256.New, secret)
	h.Write([]byte("spool data directory"))
	return hex.EncodeToString(h.Sum(nil)[:16])
}

func writeDurably(path string, b []byte) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	err = errors.Join(err, f.Sync(), f.Close())
	if err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}
