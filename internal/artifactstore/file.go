package artifactstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"

	"spool/pkg/artifacts"
)

// RegisterFile makes an artifact of a file of this machine (SPEC A3). It stays where it is and its tool's: removing the
// artifact does not remove it, and only this machine can read it.
func (a *Artifacts) RegisterFile(ctx context.Context, n NewArtifact, path string) (artifacts.Record, error) {
	f, err := a.begin(ctx)
	if err != nil {
		return artifacts.Record{}, err
	}
	if path, err = filepath.Abs(path); err != nil {
		return artifacts.Record{}, err
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return artifacts.Record{}, err
	case !info.Mode().IsRegular():
		return artifacts.Record{}, fmt.Errorf("%w: %s is no regular file", artifacts.ErrRecord, path)
	}
	host, err := os.Hostname()
	if err != nil {
		return artifacts.Record{}, err
	}
	n.Writer = artifacts.FromFile
	if n.Filename == "" {
		n.Filename = filepath.Base(path)
	}
	r, err := a.complete(ctx, f, n)
	if err != nil {
		return artifacts.Record{}, err
	}
	r.Object = (&url.URL{Scheme: "file", Host: host, Path: filepath.ToSlash(path)}).String()
	r.Size, r.Locator = info.Size(), nil
	return a.create(ctx, f, r, nil)
}

func (a *Artifacts) openFile(r artifacts.Record) (io.ReadCloser, int64, error) {
	u, err := url.Parse(r.Object)
	if err != nil {
		return nil, 0, fmt.Errorf("artifact %s: %w: %w", r.ID, artifacts.ErrRecord, err)
	}
	if host, err := os.Hostname(); err != nil || host != u.Host || !a.Local {
		return nil, 0, fmt.Errorf("%w: artifact %s is the file %s of the machine %s: read it there", artifacts.ErrUnavailable, r.ID, u.Path, u.Host)
	}
	f, err := os.Open(filepath.FromSlash(u.Path))
	if err != nil {
		return nil, 0, fmt.Errorf("artifact %s: %w", r.ID, err)
	}
	info, err := f.Stat()
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, info.Size(), nil
}
