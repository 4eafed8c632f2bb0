package artifactstore

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"

	"spool/pkg/artifacts"
)

// RegisterFile makes an artifact of a file of this machine (SPEC A3). It stays where it is and its tool's: removing the
// artifact does not remove it, and only this machine can read it. It is read whole, so that a change is seen later.
func (a *Artifacts) RegisterFile(ctx context.Context, n NewArtifact, path string) (artifacts.Record, error) {
	f, err := a.begin(ctx, n.Record)
	if err != nil {
		return artifacts.Record{}, err
	}
	if path, err = filepath.Abs(path); err != nil {
		return artifacts.Record{}, err
	}
	info, digest, err := measure(ctx, path)
	if err != nil {
		return artifacts.Record{}, err
	}
	host, err := os.Hostname()
	if err != nil {
		return artifacts.Record{}, err
	}
	n.Writer = artifacts.FromFile
	n.Filename = cmp.Or(n.Filename, filepath.Base(path))
	r, err := a.complete(ctx, f, n)
	if err != nil {
		return artifacts.Record{}, err
	}
	r.Object = (&url.URL{Scheme: "file", Host: host, Path: filepath.ToSlash(path)}).String()
	r.Size, r.Locator = info.Size(), nil
	r.Modified, r.Digest = info.ModTime().UnixNano(), digest
	return a.create(ctx, f, r, nil)
}

// measure reads a file that is to be registered.
func measure(ctx context.Context, path string) (info fs.FileInfo, digest []byte, err error) {
	if info, err = os.Stat(path); err == nil && !info.Mode().IsRegular() { // opening a pipe would wait for its writer
		err = fmt.Errorf("%w: %s is no regular file", artifacts.ErrRecord, path)
	}
	if err != nil {
		return nil, nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	if digest, err = sum(ctx, f); err != nil {
		return nil, nil, err
	}
	now, err := f.Stat()
	if err == nil && (now.Size() != info.Size() || !now.ModTime().Equal(info.ModTime())) {
		err = fmt.Errorf("%w: somebody writes to %s: register it when it is complete, or leave out --register to "+
			"store what it has now", artifacts.ErrChanged, path)
	}
	return info, digest, err
}

// sum is the digest of a file.
func sum(ctx context.Context, f io.Reader) ([]byte, error) {
	h := sha256.New()
	if _, err := io.Copy(h, untilDone{ctx, f}); err != nil {
		return nil, err
	}
	return h.Sum(nil), nil
}

// untilDone reads until its context ends.
type untilDone struct {
	ctx context.Context // of the whole reading: io.Reader has no room for one
	r   io.Reader
}

func (u untilDone) Read(p []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.r.Read(p)
}

// CheckFile tells whether the file of a registered artifact is what it was: artifacts.ErrNowhere if it is of
// another machine, fs.ErrNotExist if it is gone, artifacts.ErrChanged if it is another now.
func CheckFile(ctx context.Context, r artifacts.Record) error {
	f, _, err := openFile(ctx, r)
	if err != nil {
		return err
	}
	return f.Close()
}

// file opens a registered file, if files of this machine may be read.
func (a *Artifacts) file(ctx context.Context, r artifacts.Record) (io.ReadCloser, int64, error) {
	if u, err := url.Parse(r.Object); err == nil && !a.Local {
		return nil, 0, elsewhere(r, u)
	}
	f, size, err := openFile(ctx, r)
	if err != nil {
		return nil, 0, err // no file in the interface
	}
	return f, size, nil
}

// openFile opens the file of a registered artifact of this machine, if it is what it was.
func openFile(ctx context.Context, r artifacts.Record) (*os.File, int64, error) {
	u, err := url.Parse(r.Object)
	if err != nil {
		return nil, 0, fmt.Errorf("artifact %s: %w: %w", r.ID, artifacts.ErrRecord, err)
	}
	if host, err := os.Hostname(); err != nil || host != u.Host {
		return nil, 0, elsewhere(r, u)
	}
	f, err := os.Open(filepath.FromSlash(u.Path))
	if err != nil {
		return nil, 0, fmt.Errorf("artifact %s: %w", r.ID, err)
	}
	if err := unchanged(ctx, f, r); err != nil {
		return nil, 0, errors.Join(fmt.Errorf("artifact %s: %s: %w", r.ID, u.Path, err), f.Close())
	}
	return f, r.Size, nil
}

// unchanged tells whether a file is the one that was registered. One of the same size that was written to, or only
// touched, is read: its digest says which. Of one that an earlier version registered the size is known alone.
func unchanged(ctx context.Context, f *os.File, r artifacts.Record) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	const advice = "register it as it is now, and remove this artifact; a copy, without --register, never changes"
	if r.Size != artifacts.UnknownSize && info.Size() != r.Size {
		return fmt.Errorf("%w: it had %d bytes, and has %d: %s", artifacts.ErrChanged, r.Size, info.Size(), advice)
	}
	if r.Digest == nil || info.ModTime().UnixNano() == r.Modified {
		return nil
	}
	now, err := sum(ctx, f)
	if err == nil && !bytes.Equal(now, r.Digest) {
		err = fmt.Errorf("%w: its bytes are others: %s", artifacts.ErrChanged, advice)
	}
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	return err
}

// FilePath is where the file of a registered artifact is on its machine.
func FilePath(r artifacts.Record) string {
	u, err := url.Parse(r.Object)
	if err != nil {
		return r.Object
	}
	return filepath.FromSlash(u.Path)
}

// elsewhere says where a file can be read.
func elsewhere(r artifacts.Record, u *url.URL) error {
	return fmt.Errorf("%w: artifact %s is the file %s of the machine %s: read it there", artifacts.ErrNowhere, r.ID,
		u.Path, u.Host)
}
