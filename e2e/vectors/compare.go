package main

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/google/go-cmp/cmp"
)

// difference is empty when both values are equal.
func difference(want, got any) string {
	if cmp.Equal(want, got) {
		return ""
	}
	return cmp.Diff(want, got)
}

// short makes one line of a difference.
func short(diff string) string {
	var kept []string
	for line := range strings.Lines(diff) {
		line = strings.Join(strings.Fields(line), " ")
		if !strings.Contains(diff, "\n") || strings.HasPrefix(line, "-") || strings.HasPrefix(line, "+") {
			kept = append(kept, line)
		}
	}
	s := strings.Join(kept, " | ")
	if len(s) > maxDiff {
		s = strings.ToValidUTF8(s[:maxDiff], "") + " …"
	}
	return s
}

const maxDiff = 400

// readFile reads a file of vectors, which may be gzipped: name, or name.gz.
func readFile(name string) ([]byte, error) {
	b, err := os.ReadFile(name)
	if !errors.Is(err, fs.ErrNotExist) {
		return b, err
	}
	f, err := os.Open(name + ".gz")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	return io.ReadAll(z)
}
