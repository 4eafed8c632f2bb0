package redact_test

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"spool/internal/must"
	"testing"
)

// accepted are what the rules find in recorded transcripts, by file and rule, and why that is right. Everything else that they
// find there is a false positive, and a change of the rules that makes one fails the test.
var accepted = map[string]map[string]struct {
	n   int
	why string
}{}

// recordedIn is the folder of the recorded transcripts, which are not part of this repository.
func recordedIn() string {
	if dir := os.Getenv("SPOOL_TRANSCRIPTS"); dir != "" {
		return dir
	}
	return filepath.Join("..", "..", "..", "shared", "transcripts")
}

var masked = regexp.MustCompile(`\[redacted:([a-z-]+)\]`)

// TestRecorded: nothing in what agents really wrote is taken for a secret that is none; and a secret put among it is found, so that
// the test does not pass because nothing was looked at.
func TestRecorded(t *testing.T) {
	files, _ := filepath.Glob(filepath.Join(recordedIn(), "*.jsonl"))
	if len(files) == 0 {
		t.Skipf("no recorded transcripts in %s; SPOOL_TRANSCRIPTS names a folder of *.jsonl", recordedIn())
	}
	for _, path := range files {
		text := must.Get(os.ReadFile(path))(t)
		name, total := filepath.Base(path), 0
		found := map[string]int{}
		var places []string
		for line := range bytes.Lines(text) {
			got, n := mask().Clean(line, true)
			total += n
			for _, at := range masked.FindAllSubmatchIndex(got, -1) {
				if !bytes.Contains(line, got[at[0]:at[1]]) { // the transcript may speak of masks
					found[string(got[at[2]:at[3]])]++
					places = append(places, string(got[max(0, at[0]-60):at[1]]))
				}
			}
		}
		for rule, n := range found {
			if want := accepted[name][rule]; n != want.n {
				t.Errorf("%s: rule %s finds %d, of which %d are accepted: %.1000q", name, rule, n, want.n, places)
			}
		}
		t.Logf("%s: %d bytes, %d found %v", name, len(text), total, found)
		planted := append(bytes.Clone(entry("github-token")), text...)
		if _, n := mask().Clean(planted[:min(len(planted), 1<<20)], true); n != total+1 && len(planted) <= 1<<20 {
			t.Errorf("%s with one secret more: %d found, want %d", name, n, total+1)
		}
	}
}

// BenchmarkRecorded is how fast real transcripts are searched.
func BenchmarkRecorded(b *testing.B) {
	files, _ := filepath.Glob(filepath.Join(recordedIn(), "*.jsonl"))
	var lines [][]byte
	size := 0
	for _, path := range files {
		text := must.Get(os.ReadFile(path))(b)
		for line := range bytes.Lines(text) {
			lines = append(lines, line)
			size += len(line)
		}
	}
	if size == 0 {
		b.Skipf("no recorded transcripts in %s", recordedIn())
	}
	r := mask()
	b.SetBytes(int64(size))
	for b.Loop() {
		for _, line := range lines {
			r.Clean(line, true)
		}
	}
}
