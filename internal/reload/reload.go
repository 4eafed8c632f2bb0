// Package reload takes files anew that change while a process runs: tokens, a certificate and its key.
//
// A file can be met while it is written. What it holds is taken when two looks in a row find the same, and only if its
// taker can make sense of all of it; until then what was taken before stays. A taker has to refuse what may be the
// beginning of a longer file: a writer that stops in the middle leaves one for good.
package reload

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"spool/internal/sleep"
)

// Every is the time between two looks. What has changed is taken within three times as long.
const Every = time.Second

// Files are looked at together.
type Files struct {
	Paths []string
	Take  func(contents [][]byte) error // an error: what was taken before stays; it is logged once

	taken, seen [][]byte // what Take had last; what the look before found
	told        string   // the last error
}

// Open reads the files and gives them to Take.
func (f *Files) Open() error {
	got, err := f.read()
	if err != nil {
		return err
	}
	f.taken, f.seen = got, got
	return f.Take(got)
}

// Follow looks at the files until ctx ends. A nil log is told nothing.
func (f *Files) Follow(ctx context.Context, log *slog.Logger) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	for range sleep.Every(ctx, Every) {
		f.look(ctx, log)
	}
}

// look takes the files if they have changed since they were taken, and not since the last look.
func (f *Files) look(ctx context.Context, log *slog.Logger) {
	got, err := f.read()
	changed := err == nil && !same(got, f.taken)
	settled := changed && same(got, f.seen)
	f.seen = got
	switch {
	case err == nil && !changed:
		f.told = ""
		return
	case err == nil && !settled:
		return
	case err == nil:
		err = f.Take(got)
	}
	if err == nil {
		f.taken, f.told = got, ""
		log.InfoContext(ctx, "files are taken anew", "files", f.Paths)
	} else if err.Error() != f.told {
		f.told = err.Error()
		log.ErrorContext(ctx, "changed files are not taken: those before stay", "files", f.Paths, "error", err)
	}
}

func (f *Files) read() ([][]byte, error) {
	out := make([][]byte, len(f.Paths))
	for i, path := range f.Paths {
		b, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		out[i] = b
	}
	return out, nil
}

func same(a, b [][]byte) bool { return slices.EqualFunc(a, b, bytes.Equal) }

// Certificate is a certificate and its key, in files of their own. nil: none.
type Certificate struct {
	Files
	now atomic.Pointer[tls.Certificate]
}

// OpenCertificate reads a certificate and its key, PEM both; without names it is nil.
func OpenCertificate(cert, key string) (*Certificate, error) {
	if cert == "" && key == "" {
		return nil, nil
	}
	if cert == "" || key == "" {
		return nil, errors.New("TLS needs a certificate and its key: give both files")
	}
	c := &Certificate{}
	c.Files = Files{Paths: []string{cert, key}, Take: c.take}
	if err := c.Open(); err != nil {
		return nil, fmt.Errorf("TLS: %w", err)
	}
	return c, nil
}

// take refuses a chain that is cut, and a key that is another certificate's: one of both files is not written yet.
func (c *Certificate) take(contents [][]byte) error {
	for i, b := range contents {
		if !bytes.HasSuffix(bytes.TrimSpace(b), []byte("-----")) {
			return fmt.Errorf("%s ends in the middle: want PEM to its last line", c.Paths[i])
		}
	}
	pair, err := tls.X509KeyPair(contents[0], contents[1])
	if err == nil {
		c.now.Store(&pair)
	}
	return err
}

// Serve makes a configuration show the certificate as it is at each handshake.
func (c *Certificate) Serve(cfg *tls.Config) {
	cfg.Certificates = nil // with any, GetCertificate is not asked for clients that name no server
	cfg.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.now.Load(), nil }
}
