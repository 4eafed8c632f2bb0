package main

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"spool/pkg/events"
	"spool/pkg/truncate/output"
)

// cleaned is what SPEC O1 leaves of a stream, chunk by chunk, without those of which nothing is left.
func cleaned(chunks [][]byte) (stream []string) {
	var s output.Sanitizer
	for _, chunk := range chunks {
		if text := s.Append(nil, chunk); len(text) > 0 {
			stream = append(stream, string(text))
		}
	}
	if rest := s.Flush(nil); len(rest) > 0 {
		stream = append(stream, string(rest))
	}
	return stream
}

// frameBytes is how much text a live frame has at most (docs/format.md).
const frameBytes = 64 << 10

// framed cuts the chunks of a stream into frames.
func framed(stream []string) (frames []string) {
	for _, chunk := range stream {
		for ; len(chunk) > frameBytes; chunk = chunk[frameBytes:] {
			frames = append(frames, chunk[:frameBytes])
		}
		frames = append(frames, chunk)
	}
	return frames
}

// apart is what is left of chunks each of which is taken for the whole stream, as the oracle does.
func apart(chunks [][]byte) (out []string) {
	for _, chunk := range chunks {
		out = append(out, string(output.Sanitize(chunk)))
	}
	return out
}

// view is a summary as SPEC O3–O5 have it.
type view struct {
	text                       string
	truncated                  bool
	bytes, lines, shown        int // lines of all, and of what is shown
	elidedBytes, elidedLines   int
	droppedBytes, droppedLines int
	columns                    int
}

// ruled makes the summary of a clean stream: the check of those cases in which the oracle's is another one.
func ruled(stream []string, cfg events.OutputStart) (v view) {
	whole := strings.Join(stream, "")
	v.bytes, v.lines, v.columns = len(whole), linesIn(whole), cfg.Columns
	text := v.capped(stream)
	show := cmp.Or(cfg.Show, events.MaxShow)
	most := min(max(cfg.Head, 0), show/2)
	head := text[:boundary(text, min(most, len(text)))]
	rest := text[len(head):]
	at := max(len(rest)-(show-most), 0)
	for at < len(rest) && !utf8.RuneStart(rest[at]) {
		at++
	}
	tail := rest[at:]
	v.text, v.truncated, v.shown = head+tail, at > 0, linesIn(head+tail)
	if head == "" || at == 0 {
		return v
	}
	v.elidedBytes = at
	both := strings.Count(strings.TrimSuffix(head, "\n"), "\n") + 1 + linesIn(tail)
	v.elidedLines, v.shown = max(0, v.lines-both), both+1
	marker := fmt.Sprintf("[…%dln elided…]", v.elidedLines)
	if v.elidedLines <= 1 {
		marker = fmt.Sprintf("[…%dB elided…]", at)
	}
	v.text = strings.TrimSuffix(head, "\n") + "\n" + marker + "\n" + strings.TrimPrefix(tail, "\n")
	return v
}

// boundary is the last beginning of a character at or before a byte.
func boundary(s string, at int) int {
	for at < len(s) && at > 0 && !utf8.RuneStart(s[at]) {
		at--
	}
	return at
}

func linesIn(s string) int {
	if s == "" {
		return 0
	}
	return strings.Count(s, "\n") + 1
}

// capped shortens the lines of a stream. What a chunk brings of a line that becomes too long keeps what fits without
// the mark.
func (v *view) capped(stream []string) string {
	if v.columns <= 0 {
		return strings.Join(stream, "")
	}
	const mark = "…"
	var out strings.Builder
	used, cutting := 0, false
	for _, chunk := range stream {
		for i, line := range strings.Split(chunk, "\n") {
			if i > 0 {
				out.WriteByte('\n')
				used, cutting = 0, false
			}
			switch {
			case cutting:
				v.droppedBytes += len(line)
			case used+len(line) <= v.columns:
				used += len(line)
				out.WriteString(line)
			default:
				keep := boundary(line, max(v.columns-used-len(mark), 0))
				v.droppedBytes += len(line) - keep
				v.droppedLines++
				cutting = true
				out.WriteString(line[:keep] + mark)
			}
		}
	}
	return out.String()
}

// object is the summary in the oracle's words.
func (v view) object(like any) map[string]any {
	m := shown(v.text, like)
	m["truncated"], m["outputBytes"], m["outputLines"] = v.truncated, integer(len(v.text)), integer(v.shown)
	m["totalBytes"], m["totalLines"] = integer(v.bytes), integer(v.lines)
	if v.elidedBytes > 0 {
		m["elidedBytes"], m["elidedLines"] = integer(v.elidedBytes), integer(v.elidedLines)
	}
	if v.droppedLines > 0 {
		m["columnDroppedBytes"], m["columnTruncatedLines"] = integer(v.droppedBytes), integer(v.droppedLines)
		m["columnMax"] = integer(v.columns)
	}
	return m
}

// shown is a text that is shown, and its digest.
func shown(text string, like any) map[string]any {
	return map[string]any{"output": textLike(text, like), "outputSha256": digest(text)}
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// stored is the text of an artifact as the oracle describes it, nil if there is none.
func stored(text, like any) any {
	t, ok := text.(string)
	if !ok {
		return nil
	}
	return map[string]any{"bytes": integer(len(t)), "sha256": digest(t), "text": textLike(t, field(like, "text"))}
}

// chunksLike is a list of chunks, or its digest if the oracle gave one.
func chunksLike(chunks []string, want any) any {
	if field(want, "concatSha256") != nil {
		all := strings.Join(chunks, "")
		return map[string]any{
			"count": integer(len(chunks)), "concatSha256": digest(all), "concatLength": integer(len(utf16.Encode([]rune(all)))),
		}
	}
	out := []any{}
	for i, chunk := range chunks {
		out = append(out, textLike(chunk, itemAt(want, i)))
	}
	return out
}

// textLike is a text, or its digest if the oracle gave one.
func textLike(text string, want any) any {
	if !isObject(want) {
		return text
	}
	units := utf16.Encode([]rune(text))
	end := min(len(utf16.Encode([]rune(str(field(want, "head"))))), len(units))
	return map[string]any{
		"length": integer(len(units)), "utf8Bytes": integer(len(text)), "sha256": digest(text),
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
