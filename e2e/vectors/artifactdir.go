package main

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"spool/pkg/artifacts"
)

// artifactDir is a folder of artifacts in memory; nil is one that does not exist.
type artifactDir map[string]string

func (d artifactDir) Names(context.Context) ([]string, error) {
	if d == nil {
		return nil, fs.ErrNotExist
	}
	var names []string
	for name := range d {
		names = append(names, name)
	}
	return names, nil
}

func (d artifactDir) Open(_ context.Context, name string) (io.ReadCloser, int64, error) {
	text, ok := d[name]
	if !ok {
		return nil, 0, fs.ErrNotExist
	}
	return io.NopCloser(strings.NewReader(text)), int64(len(text)), nil
}

// memberAs is a member of a decoded object, or an error that says what is missing.
func memberAs[T any](v any, key string) (T, error) {
	m, _ := v.(map[string]any)
	t, ok := m[key].(T)
	if !ok {
		return t, fmt.Errorf("member %q is %T, want %T", key, m[key], t)
	}
	return t, nil
}

// resolveText resolves an address and reads all of it.
func resolveText(s artifacts.Sources, address string) (artifacts.Resource, string, error) {
	res, err := s.Resolve(context.Background(), address, artifacts.Lines{})
	if err != nil {
		return res, "", err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return res, string(b), err
}
