package output_test

import (
	"bytes"
	"errors"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"spool/internal/must"
	"spool/pkg/truncate/output"
)

var errDisk = errors.New("disk")

// artifact is an artifact in memory whose step named by fails does.
type artifact struct {
	bytes.Buffer
	fails              string
	committed, aborted bool
}

func (a *artifact) Write(b []byte) (int, error) {
	if a.fails == "write" {
		return 0, errDisk
	}
	return a.Buffer.Write(b)
}

func (a *artifact) Commit() (string, error) {
	if a.fails == "commit" {
		return "", errDisk
	}
	a.committed = true
	return "7", nil
}

func (a *artifact) Abort() { a.aborted = true }

// begin is the Artifact of a Config.
func (a *artifact) begin() (output.Artifact, error) {
	if a.fails == "begin" {
		return nil, errDisk
	}
	return a, nil
}

// run puts chunks through a sink.
func run(cfg output.Config, chunks ...string) (output.Summary, string) {
	s := output.NewSink(cfg)
	var all strings.Builder
	for _, c := range chunks {
		all.Write(s.Write([]byte(c)))
	}
	sum, rest := s.Close()
	return sum, all.String() + string(rest)
}

func TestSink(t *testing.T) {
	text := "head line 1\nhead line 2\nmiddle 1\nmiddle 2\nmiddle 3\ntail 1\ntail 2\n"
	for name, c := range map[string]struct {
		cfg    output.Config
		chunks []string
		want   output.Summary
		stored string
	}{
		"nothing": {},
		"at the limit": {cfg: output.Config{Threshold: 6}, chunks: []string{"12", "345\n"},
			want: output.Summary{Output: "12345\n", TotalLines: 2, TotalBytes: 6, OutputLines: 2, OutputBytes: 6}},
		"over it": {cfg: output.Config{Threshold: 6}, chunks: []string{"12", "3456\n"}, stored: "123456\n",
			want: output.Summary{Output: "23456\n", Truncated: true, TotalLines: 2, TotalBytes: 7, OutputLines: 2, OutputBytes: 6, ArtifactID: "7"}},
		"tail moves forward": {cfg: output.Config{Threshold: 10}, chunks: []string{"漢字漢字"}, stored: "漢字漢字",
			want: output.Summary{Output: "字漢字", Truncated: true, TotalLines: 1, TotalBytes: 12, OutputLines: 1, OutputBytes: 9, ArtifactID: "7"}},
		"head and tail": {cfg: output.Config{Threshold: 40, Head: 16}, chunks: []string{text}, stored: text,
			want: output.Summary{Output: "head line 1\nhead\n[…25B elided…]\nmiddle 3\ntail 1\ntail 2\n", Truncated: true,
				TotalLines: 8, TotalBytes: 65,
				OutputLines: 8, OutputBytes: 59, ElidedBytes: 25, ElidedLines: 1, ArtifactID: "7"}},
		"head moves back, and says what it left": {cfg: output.Config{Threshold: 20, Head: 10}, chunks: []string{"漢字漢字漢字漢"}, stored: "漢字漢字漢字漢",
			want: output.Summary{Output: "漢字漢\n[…3B elided…]\n漢字漢", Truncated: true, TotalLines: 1, TotalBytes: 21, OutputLines: 3, OutputBytes: 37,
				ElidedBytes: 3, ArtifactID: "7"}},
		"head before its limit, tail over its": {cfg: output.Config{Threshold: 20, Head: 10}, chunks: []string{"漢字漢字漢字ab"}, stored: "漢字漢字漢字ab",
			want: output.Summary{Output: "漢字漢\n[…3B elided…]\n漢字ab", Truncated: true, TotalLines: 1, TotalBytes: 20, OutputLines: 3, OutputBytes: 36,
				ElidedBytes: 3, ArtifactID: "7"}},
		"columns": {cfg: output.Config{Columns: 10}, chunks: []string{"01234", "56789", "ABC", "DEF\nnext", "line is long\nok"},
			stored: "0123456789ABCDEF\nnextline is long\nok",
			want: output.Summary{Output: "0123456789…\nnextlin…\nok", TotalLines: 3, TotalBytes: 36, OutputLines: 3, OutputBytes: 27,
				ColumnDroppedBytes: 15, ColumnTruncatedLines: 2, ArtifactID: "7"}},
		"columns, head and a tail that lacks as much as the cap's marks have": {cfg: output.Config{Threshold: 20, Head: 10,
			Columns: 5},
			chunks: []string{"abcdefgh\nijklmnop\nqrst\nuv\n12\n"}, stored: "abcdefgh\nijklmnop\nqrst\nuv\n12\n",
			want: output.Summary{Output: "ab…\nij\n[…5B elided…]\nrst\nuv\n12\n", Truncated: true, TotalLines: 6,
				TotalBytes: 29, OutputLines: 7,
				OutputBytes: 37, ElidedBytes: 5, ColumnDroppedBytes: 12, ColumnTruncatedLines: 2, ArtifactID: "7"}},
		"least cut": {cfg: output.Config{Columns: 10}, chunks: []string{"0123456789", "A"}, stored: "0123456789A",
			want: output.Summary{Output: "0123456789…", TotalLines: 1, TotalBytes: 11, OutputLines: 1, OutputBytes: 13,
				ColumnDroppedBytes: 1, ColumnTruncatedLines: 1, ArtifactID: "7"}},
		"end of the stream": {cfg: output.Config{Threshold: 3}, chunks: []string{"abc\r"}, stored: "abc\n",
			want: output.Summary{Output: "bc\n", Truncated: true, TotalLines: 2, TotalBytes: 4, OutputLines: 2, OutputBytes: 3, ArtifactID: "7"}},
	} {
		a := &artifact{}
		c.cfg.Artifact = a.begin
		if got, _ := run(c.cfg, c.chunks...); got != c.want {
			t.Errorf("%s: %s", name, cmp.Diff(c.want, got))
		}
		if a.String() != c.stored || a.committed != (c.stored != "") {
			t.Errorf("%s: stored %q, committed %v, want %q", name, a.String(), a.committed, c.stored)
		}
	}
}

// The id is only there if the artifact is complete and durable (SPEC O5).
func TestSinkArtifactFails(t *testing.T) {
	for _, fails := range []string{"begin", "write", "commit"} {
		a := &artifact{fails: fails}
		sum, _ := run(output.Config{Threshold: 4, Artifact: a.begin}, "12345", "678")
		if sum.Output != "5678" || sum.ArtifactID != "" || !errors.Is(sum.ArtifactError, errDisk) || a.aborted != (fails == "write") {
			t.Errorf("failing %s: %+v, aborted %v", fails, sum, a.aborted)
		}
	}
	sum, _ := run(output.Config{Threshold: 4}, "12345")
	if sum.Output != "2345" || sum.ArtifactID != "" || sum.ArtifactError != nil {
		t.Errorf("without a place to store: %+v", sum)
	}
	a := &artifact{}
	s := output.NewSink(output.Config{Threshold: 4, Artifact: a.begin})
	s.Write([]byte("12345"))
	if s.Abort(); !a.aborted || a.committed {
		t.Errorf("Abort: aborted %v, committed %v", a.aborted, a.committed)
	}
}

// marker stands between head and tail.
var marker = regexp.MustCompile(`\n?\[…[0-9.]+[a-zA-Z]+ elided…\]\n?`)

// Whatever the chunks: nothing is left out between head and tail without a marker, what is stored and published is the
// whole sanitized output, what is shown is within its limits, and without a column cap it does not depend on the
// chunks.
func TestSinkProperties(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		text := string(streams.Draw(r, "text")) + strings.Repeat("0123456789\n",
			rapid.IntRange(0, 9).Draw(r, "lines")) + string(streams.Draw(r, "end"))
		cfg := output.Config{Threshold: rapid.IntRange(4, 90).Draw(r, "threshold"), Head: rapid.IntRange(0, 60).Draw(r, "head"),
			Columns: rapid.SampledFrom([]int{0, 0, 5, 20}).Draw(r, "columns")}
		var chunks []string
		for rest := text; rest != ""; {
			n := rapid.IntRange(1, len(rest)).Draw(r, "length")
			chunks, rest = append(chunks, rest[:n]), rest[n:]
		}
		a, b := &artifact{}, &artifact{}
		cfg.Artifact = a.begin
		got, live := run(cfg, chunks...)
		whole := string(output.Sanitize([]byte(text)))
		if live != whole {
			r.Fatalf("live = %q, want %q", live, whole)
		}
		cut := got.Truncated || got.ColumnDroppedBytes > 0
		if got.TotalBytes != int64(len(whole)) || cut != (got.Output != whole) || cut != (got.ArtifactID != "") {
			r.Fatalf("summary of %q = %+v", whole, got)
		}
		if cut && a.String() != whole {
			r.Fatalf("stored %q, want %q", a.String(), whole)
		}
		if limit := int64(cfg.Threshold + len("\n[…99999999B elided…]\n")); got.OutputBytes > limit || !utf8.ValidString(got.Output) {
			r.Fatalf("shown %d bytes: %q, want at most %d", got.OutputBytes, got.Output, limit)
		}
		full, _ := run(output.Config{Threshold: 1 << 20, Columns: cfg.Columns}, chunks...)
		if parts := marker.Split(got.Output, 2); len(parts) == 1 && !strings.HasSuffix(full.Output, got.Output) {
			r.Fatalf("shown of %q without a marker: %q", full.Output, got.Output)
		} else if len(parts) == 2 {
			more := len(full.Output) - len(parts[0]) - len(parts[1]) - int(got.ElidedBytes) // newlines beside the marker
			if !strings.HasPrefix(full.Output, parts[0]) || !strings.HasSuffix(full.Output, parts[1]) || more < 0 || more > 2 {
				r.Fatalf("shown of %q: %q, %d bytes elided", full.Output, got.Output, got.ElidedBytes)
			}
		}
		cfg.Artifact = b.begin
		if one, _ := run(cfg, text); cfg.Columns == 0 && one != got {
			r.Fatalf("as one chunk: %s", cmp.Diff(one, got))
		}
	})
}

// An output of any size goes through in bounded memory (SPEC O7).
func TestSinkMemory(t *testing.T) {
	chunk := []byte(strings.Repeat("go build ok\n", 2700))
	s := output.NewSink(output.Config{Head: 20_000, Columns: 768})
	write := func() { s.Write(chunk) }
	for range 100 {
		write()
	}
	must.Same(t, testing.AllocsPerRun(2000, write), 0, "%v allocations a chunk, want %v")
}
