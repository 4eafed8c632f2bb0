package main

import (
	"bytes"
	"testing"
	"unicode/utf16"

	"spool/examples"
)

// The files in the tree are those the generator writes.
func TestFilesAreCurrent(t *testing.T) {
	for name, want := range files() {
		got, err := examples.FS.ReadFile(name)
		if err != nil {
			t.Errorf("%v; run go run ./examples/gen", err)
			continue
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s differs from what the generator writes; run go run ./examples/gen", name)
		}
	}
}

// The examples reach every limit that the pipeline has a rule for, and stay small.
func TestFilesReachTheLimits(t *testing.T) {
	for name, data := range files() {
		if len(data) >= 1<<20 {
			t.Errorf("%s has %d bytes, want less than 1 MiB", name, len(data))
		}
	}
	if n := len(readings()); n <= 350_000 {
		t.Errorf("readings has %d bytes, want more than 350000", n)
	}
	if n := len(utf16.Encode([]rune(journal()))); n <= 500_000 {
		t.Errorf("journal has %d UTF-16 units, want more than 500000", n)
	}
	for _, seed := range []int{3, 12, 21} {
		if n := len(chart(seed)); n < 1024 {
			t.Errorf("chart(%d) has %d base64 characters, want at least 1024", seed, n)
		}
	}
}
