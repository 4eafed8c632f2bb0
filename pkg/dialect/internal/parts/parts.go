// Package parts reads what the transcripts of several harnesses share: timestamps, numbers, and content that is a string
// or an array of parts.
package parts

import (
	"bytes"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"spool/internal/jsonscan"
	"spool/pkg/dialect/entry"
	"spool/pkg/events"
)

// Text is a string token as text, "" for anything else.
func Text(token []byte) string {
	if token == nil {
		return ""
	}
	s, _ := jsonscan.Text(token)
	return s
}

// maxID and maxFact bound, in bytes, what goes into records that hold many of them.
const maxID, maxFact = 512, 4_096

// ID is an id; one that is longer than 512 bytes is none.
func ID(token []byte) string {
	if len(token) > maxID+2 {
		return ""
	}
	return Text(token)
}

// Under is the place of an entry that names its parent in a tree (SPEC S3).
func Under(parent []byte, m *entry.Memory) (place entry.Place) {
	switch jsonscan.KindOf(parent) {
	case jsonscan.KindString:
		m.Tree()
		if id := ID(parent); id != "" {
			place = entry.Place{Kind: entry.Parent, ID: id}
		}
	case jsonscan.KindNull:
		if m.Tree() {
			m.Use()
			place.Kind = entry.Root
		}
	}
	return place
}

// Fact is a short text such as a title or a path, cut at 4,096 bytes.
func Fact(token []byte) string {
	s := Text(token)
	if len(s) > maxFact {
		s = strings.ToValidUTF8(s[:maxFact], "")
	}
	return s
}

// Is tells whether a token spells exactly the plain text s.
func Is(token []byte, s string) bool {
	return len(token) == len(s)+2 && token[0] == '"' && string(token[1:len(token)-1]) == s
}

// Body is a string token without its quotes, escapes as spelled; nil for anything else.
func Body(token []byte) []byte {
	if len(token) < 2 || token[0] != '"' {
		return nil
	}
	return token[1 : len(token)-1]
}

// Empty tells whether a token is no string, or one without text.
func Empty(token []byte) bool { return len(Body(token)) == 0 }

// True tells whether raw is true.
func True(raw []byte) bool { return string(raw) == "true" }

// Int is an integer, 0 for anything else.
func Int(raw []byte) int64 {
	if raw == nil {
		return 0
	}
	n, _ := jsonscan.Int(raw)
	return n
}

// Time is a timestamp in Unix milliseconds: an RFC 3339 string, or a number that already is one. 0 for anything else.
func Time(raw []byte) int64 {
	s := Body(raw)
	if s == nil {
		return Int(raw)
	}
	if t, ok := isoTime(s); ok {
		return t
	}
	t, err := time.Parse(time.RFC3339Nano, string(s))
	if err != nil {
		return 0
	}
	return t.UnixMilli()
}

// isoTime reads the spelling of JavaScript's toISOString, 2026-11-20T12:00:01.000Z, on days that every month has.
func isoTime(s []byte) (int64, bool) {
	const shape = "0000-00-00T00:00:00.000Z"
	if len(s) != len(shape) {
		return 0, false
	}
	for i, c := range s {
		if shape[i] == '0' && (c < '0' || c > '9') || shape[i] != '0' && c != shape[i] {
			return 0, false
		}
	}
	n := func(from, to int) (v int) {
		for _, c := range s[from:to] {
			v = v*10 + int(c-'0')
		}
		return v
	}
	year, month, day, hour, minute, second := n(0, 4), n(5, 7), n(8, 10), n(11, 13), n(14, 16), n(17, 19)
	if month < 1 || month > 12 || day < 1 || day > 28 || hour > 23 || minute > 59 || second > 59 {
		return 0, false
	}
	return time.Date(year, time.Month(month), day, hour, minute, second, n(20, 23)*1e6, time.UTC).UnixMilli(), true
}

// Join makes one string token of content: the string itself, or the texts of an array of parts, a line break between
// them. A picture becomes "[image]", another part without text "[<its type>]". One text alone is not copied; anything else
// than a string or an array is its JSON as text. nil and null give nil.
func Join(content []byte) []byte {
	switch jsonscan.KindOf(content) {
	case jsonscan.KindString:
		return content
	case jsonscan.KindArray:
		var j Joiner
		_ = jsonscan.Array(content, func(part []byte) bool {
			j.Part(part)
			return true
		})
		return j.Token()
	case jsonscan.KindInvalid, jsonscan.KindNull:
		return nil
	}
	return jsonscan.AppendString(nil, string(content))
}

// How many pictures of a message an item has, and how long one may be that is not a ref: the budget cuts none of them.
const maxPictures, maxInline = 32, 1_024

// Pictures are the pictures of a content array that an item can show: refs to blobs, and small ones. In a picture's part the bytes
// stand at data, and their type at mime. urls: as a data URL at image_url, too; what is elsewhere is no part of an item.
func Pictures(content []byte, data, mime []string, urls bool) (all [][]byte) {
	if jsonscan.KindOf(content) != jsonscan.KindArray {
		return nil
	}
	_ = jsonscan.Array(content, func(part []byte) bool {
		typ := jsonscan.Get(part, "type")
		if urls && (Is(typ, "input_image") || Is(typ, "image_url")) {
			url := jsonscan.Get(part, "image_url")
			here := bytes.HasPrefix(url, []byte(`"blob:`)) || bytes.HasPrefix(url, []byte(`"data:`))
			if here && len(url) <= maxInline && utf8.Valid(url) {
				all = append(all, slices.Concat([]byte(`{"type":"image_url","image_url":`), url, []byte("}")))
			}
			return len(all) < maxPictures
		}
		if !Is(typ, "image") {
			return true
		}
		data, kind := jsonscan.Get(part, data...), jsonscan.Get(part, mime...)
		if !Empty(data) && len(data) <= maxInline && utf8.Valid(data) {
			picture := append([]byte(`{"type":"image","data":`), data...)
			if !Empty(kind) && len(kind) <= maxID && utf8.Valid(kind) {
				picture = append(append(picture, `,"mimeType":`...), kind...)
			}
			all = append(all, append(picture, '}'))
		}
		return len(all) < maxPictures
	})
	return all
}

// Joiner makes one string token of texts, escapes kept as they are spelled.
type Joiner struct {
	first []byte // the only text so far
	buf   []byte // body of more than one
	n     int
}

// Part adds one part of a content array.
func (j *Joiner) Part(part []byte) {
	if jsonscan.KindOf(part) == jsonscan.KindString {
		j.Add(part)
		return
	}
	var typ, text []byte
	jsonscan.Fields(part, []jsonscan.Field{{Key: "type", To: &typ}, {Key: "text", To: &text}})
	switch {
	case Body(text) != nil:
		j.Add(text)
	case Is(typ, "image") || Is(typ, "input_image") || Is(typ, "image_url"):
		j.Add([]byte(`"[image]"`))
	case !Empty(typ):
		j.Add([]byte(`"[` + events.Token(string(Body(typ))) + `]"`))
	}
}

// Add adds a string token.
func (j *Joiner) Add(token []byte) {
	switch j.n++; j.n {
	case 1:
		j.first = token
		return
	case 2:
		j.buf = append(make([]byte, 0, len(j.first)+len(token)+64), '"')
		j.buf = append(j.buf, Body(j.first)...)
	}
	j.buf = append(append(j.buf, `\n`...), Body(token)...)
}

// Token is everything as one token; nil if nothing was added. The Joiner must not be used again.
func (j *Joiner) Token() []byte {
	if j.n < 2 {
		return j.first
	}
	return append(j.buf, '"')
}
