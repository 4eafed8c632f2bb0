package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf16"

	"spool/pkg/truncate/output"
)

func init() { groups["sink"] = sinkGroup }

// sinkOracle is the first version with a column cap and a head.
const sinkOracle = "expected.17.2.15.json"

// sinkGroup compares what is shown, published and stored of outputs (SPEC O1–O6). Each output is three cases: its live
// chunks, its summary and its artifact.
func sinkGroup(dir string, report func(Case)) error {
	inputs, err := readObject(filepath.Join(dir, "inputs.json"))
	if err != nil {
		return err
	}
	expected, err := readObject(filepath.Join(dir, sinkOracle))
	if err != nil {
		return err
	}
	for name, input := range inputs {
		input, err := expand(input)
		if err != nil {
			return err
		}
		run, err := runSink(field(input, "cfg"), field(input, "artifact"), items(field(input, "ops")))
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		run.report(name, field(expected["cases"], name), report)
	}
	return nil
}

// sinkRun is an output that went through a sink.
type sinkRun struct {
	cfg       any
	chunks    [][]byte // as they were pushed
	replaced  bool
	live      []string
	summary   output.Summary
	artifact  *storedArtifact // nil if none was begun
	artifacts any             // "bad" if they can not be stored
}

// storedArtifact is an artifact in memory.
type storedArtifact struct{ bytes.Buffer }

func (*storedArtifact) Commit() (string, error) { return "7", nil }
func (a *storedArtifact) Abort()                { a.Reset() }

// runSink does with a sink what the oracle did.
func runSink(cfg, artifacts any, ops []any) (*sinkRun, error) {
	r := &sinkRun{cfg: cfg, artifacts: artifacts}
	s := output.NewSink(r.config())
	var at time.Time
	write := func(chunk []byte) {
		r.chunks = append(r.chunks, chunk)
		if live, due := s.Write(at, chunk); due {
			r.live = append(r.live, string(live))
		}
	}
	at = time.UnixMilli(0)
	for _, op := range ops {
		if ms, ok := number(field(op, "at")); ok {
			at = time.UnixMilli(int64(ms))
		} else if text, ok := field(op, "push").(string); ok {
			write([]byte(text))
		} else if text, ok := field(op, "replace").(string); ok {
			s.Replace(text)
			r.replaced = true
		} else if chunks, ok := field(op, "stream").([]any); ok {
			for _, chunk := range chunks {
				var b []byte
				for _, v := range items(chunk) {
					n, _ := number(v)
					b = append(b, byte(n))
				}
				write(b)
			}
		} else {
			return nil, fmt.Errorf("unknown operation %v", op)
		}
	}
	sum, live := s.Close()
	if r.summary = sum; len(live) > 0 {
		r.live = append(r.live, string(live))
	}
	return r, nil
}

// config translates the oracle's settings.
func (r *sinkRun) config() (c output.Config) {
	c.Threshold, _ = number(field(r.cfg, "spillThreshold"))
	c.Head, _ = number(field(r.cfg, "headBytes"))
	c.Columns, _ = number(field(r.cfg, "maxColumns"))
	ms, _ := number(field(r.cfg, "chunkThrottleMs"))
	c.Every = time.Duration(ms) * time.Millisecond
	switch r.artifacts {
	case true:
		c.Artifact = func() (output.Artifact, error) {
			r.artifact = &storedArtifact{}
			return r.artifact, nil
		}
	case "bad":
		c.Artifact = func() (output.Artifact, error) { return nil, errors.New("cannot be opened") }
	}
	return c
}

func (r *sinkRun) report(name string, want any, report func(Case)) {
	split := func() bool {
		var apart string
		for _, chunk := range r.chunks {
			apart += sanitized(string(chunk))
		}
		return apart != sanitized(string(bytes.Join(r.chunks, nil)))
	}
	report(Case{Name: name + "/chunks", Got: chunksLike(r.live, field(want, "onChunk")), Want: field(want, "onChunk"),
		When:  map[string]func() bool{"split": split, "throttled": func() bool { return r.config().Every > 0 }},
		Holds: map[string]func() error{"all of it": func() error { return same(r.whole(), strings.Join(r.live, "")) }},
	})
	wantSummary, got := field(want, "summary"), r.summaryLike(field(want, "summary"))
	report(Case{Name: name + "/summary", Got: got, Want: wantSummary,
		When: map[string]func() bool{"split": split, "small cut": func() bool {
			return field(wantSummary, "artifactId") == nil && r.summary.ColumnDroppedBytes > 0
		}, "cut lines beside a head": func() bool {
			return r.config().Head > 0 && r.summary.ColumnTruncatedLines > 0 && r.summary.ElidedBytes > 0
		}},
		Holds: map[string]func() error{"as one chunk": r.asOneChunk, "counted": func() error {
			return r.counted(got, wantSummary)
		}, "with the artifact": func() error {
			with, _ := clone(wantSummary).(map[string]any)
			with["artifactId"] = "7"
			return same(with, got)
		}},
	})
	wantArtifact := field(want, "artifact")
	report(Case{Name: name + "/artifact", Got: r.artifactLike(wantArtifact), Want: wantArtifact,
		When: map[string]func() bool{"incomplete": func() bool {
			return difference(artifactObject(r.whole(), wantArtifact), wantArtifact) != ""
		}},
		Holds: map[string]func() error{"all of it": func() error {
			if r.artifact == nil {
				return errors.New("nothing was stored")
			}
			return same(r.whole(), r.artifact.String())
		}},
	})
}

// whole is the sanitized output.
func (r *sinkRun) whole() string { return string(output.Sanitize(bytes.Join(r.chunks, nil))) }

// asOneChunk holds the summary against the one that the same output gets when it comes in one piece. Where the column cap
// cuts depends on the pieces, so that with one only the totals are compared.
func (r *sinkRun) asOneChunk() error {
	if r.replaced {
		return errors.New("replaced outputs have no such promise")
	}
	one, err := runSink(r.cfg, r.artifacts, []any{map[string]any{"push": string(bytes.Join(r.chunks, nil))}})
	if err != nil {
		return err
	}
	if r.config().Columns > 0 {
		return same([]int64{one.summary.TotalBytes, one.summary.TotalLines}, []int64{r.summary.TotalBytes, r.summary.TotalLines})
	}
	return same(one.summaryLike(nil), r.summaryLike(nil))
}

// counted holds the bytes that are said to be left out against those that are, and all that does not follow from them
// against the oracle.
func (r *sinkRun) counted(got, want any) error {
	like, _ := clone(want).(map[string]any)
	follows := []string{"elidedBytes"}
	if field(want, "elidedBytes") == nil { // the oracle put head and tail together
		follows = append(follows, "elidedLines", "output", "outputSha256", "outputBytes", "outputLines")
	}
	for _, name := range follows {
		like[name] = field(got, name)
	}
	cap := r.config()
	cap.Threshold, cap.Head, cap.Artifact = 1<<30, 0, nil
	s := output.NewSink(cap)
	for _, chunk := range r.chunks {
		s.Write(time.Time{}, chunk)
	}
	whole, _ := s.Close()
	head, tail, marked := r.divided()
	left := int64(len(whole.Output)-len(head)-len(tail)) - r.summary.ElidedBytes // newlines that the marker brought
	if r.replaced || !marked || !strings.HasPrefix(whole.Output, head) || !strings.HasSuffix(whole.Output, tail) ||
		left < 0 || left > 2 {
		return fmt.Errorf("%d bytes are said to be left out of %q in %q", r.summary.ElidedBytes, whole.Output,
			r.summary.Output)
	}
	return same(like, got)
}

// divided is what is shown before and behind the marker.
func (r *sinkRun) divided() (head, tail string, ok bool) {
	head, rest, ok := strings.Cut(r.summary.Output, "[…")
	_, tail, found := strings.Cut(rest, " elided…]")
	return strings.TrimSuffix(head, "\n"), strings.TrimPrefix(tail, "\n"), ok && found
}

// summaryLike is the summary in the shape of the oracle's.
func (r *sinkRun) summaryLike(want any) any {
	s := r.summary
	sum := sha256.Sum256([]byte(s.Output))
	m := map[string]any{
		"output": textLike(s.Output, field(want, "output")), "truncated": s.Truncated, "outputSha256": hex.EncodeToString(sum[:]),
		"totalLines": integer(int(s.TotalLines)), "totalBytes": integer(int(s.TotalBytes)),
		"outputLines": integer(int(s.OutputLines)), "outputBytes": integer(int(s.OutputBytes)),
	}
	if s.ElidedBytes > 0 {
		m["elidedBytes"], m["elidedLines"] = integer(int(s.ElidedBytes)), integer(int(s.ElidedLines))
	}
	if s.ColumnTruncatedLines > 0 {
		m["columnDroppedBytes"], m["columnTruncatedLines"] = integer(int(s.ColumnDroppedBytes)), integer(int(s.ColumnTruncatedLines))
		m["columnMax"] = integer(r.config().Columns)
	}
	if s.ArtifactID != "" {
		m["artifactId"] = s.ArtifactID
	}
	return m
}

func (r *sinkRun) artifactLike(want any) any {
	if r.artifact == nil {
		return nil
	}
	return artifactObject(r.artifact.String(), want)
}

// artifactObject is a stored text as the oracle describes it.
func artifactObject(text string, want any) any {
	sum := sha256.Sum256([]byte(text))
	return map[string]any{"bytes": integer(len(text)), "sha256": hex.EncodeToString(sum[:]), "text": textLike(text, field(want, "text"))}
}

// chunksLike is a list of chunks, or its digest if the oracle gave one.
func chunksLike(chunks []string, want any) any {
	if field(want, "concatSha256") != nil {
		all := strings.Join(chunks, "")
		sum := sha256.Sum256([]byte(all))
		return map[string]any{
			"count": integer(len(chunks)), "concatSha256": hex.EncodeToString(sum[:]), "concatLength": integer(len(utf16.Encode([]rune(all)))),
		}
	}
	out := []any{}
	for i, chunk := range chunks {
		var like any
		if i < len(items(want)) {
			like = items(want)[i]
		}
		out = append(out, textLike(chunk, like))
	}
	return out
}

// textLike is a text, or its digest if the oracle gave one.
func textLike(text string, want any) any {
	if !isObject(want) {
		return text
	}
	sum := sha256.Sum256([]byte(text))
	units := utf16.Encode([]rune(text))
	end := len(utf16.Encode([]rune(str(field(want, "head")))))
	end = min(end, len(units))
	return map[string]any{
		"length": integer(len(units)), "utf8Bytes": integer(len(text)), "sha256": hex.EncodeToString(sum[:]),
		"head": wtf8(units[:end]), "tail": wtf8(units[len(units)-end:]),
	}
}

// wtf8 is a string of UTF-16 units.
func wtf8(units []uint16) string {
	var out []byte
	for _, u := range slices.Clone(units) {
		out = appendUnit(out, rune(u))
	}
	return joinSurrogates(string(out))
}
