package events

import (
	"bytes"
	"encoding/json"
	"strings"

	"spool/internal/jsonscan"
)

// rank orders the members of a tool's input by how well they tell what the call does; 0 is no main argument.
func rank(key []byte) int {
	switch string(key) {
	case "command", "cmd":
		return 1
	case "file_path", "filePath", "notebook_path":
		return 2
	case "pattern", "query":
		return 3
	case "url", "uri":
		return 4
	case "path":
		return 5
	case "description", "plan", "question", "title":
		return 6
	case "prompt", "task", "text", "message", "script", "code", "name":
		return 7
	}
	return 0
}

// MainArgument says in one line what a tool was asked to do: at most 120 characters, then "…"; "" for an empty input.
func MainArgument(input []byte) string {
	if jsonscan.KindOf(input) == jsonscan.KindString {
		return inputLine(input)
	}
	var best []byte
	least := 8
	_ = jsonscan.Object(input, func(key, value []byte) bool {
		kind := jsonscan.KindOf(value)
		if r := rank(key); r != 0 && r < least && len(value) > 2 && (kind == jsonscan.KindString || kind == jsonscan.KindArray) {
			best, least = value, r
		}
		return least > 1
	})
	if jsonscan.KindOf(best) == jsonscan.KindArray {
		best = lastWord(best)
	}
	if best == nil {
		return compact(input)
	}
	return firstLine(best)
}

// inputLine is the first line of a free-text input; of a patch, the first line that names a file.
func inputLine(input []byte) string {
	line := firstLine(input)
	if line == "*** Begin Patch" {
		text, _ := jsonscan.Prefix(input, 4*briefRunes)
		line, _, _ = strings.Cut(strings.TrimPrefix(text, line+"\n*** "), "\n")
	}
	return cutRunes(line, briefRunes)
}

// lastWord is the last string of an argument vector, as in ["bash","-lc","npm test"].
func lastWord(argv []byte) (last []byte) {
	_ = jsonscan.Array(argv, func(v []byte) bool {
		if jsonscan.KindOf(v) == jsonscan.KindString {
			last = v
		}
		return true
	})
	return last
}

// compact is the beginning of a JSON text without the white space between its tokens.
func compact(raw []byte) string {
	var out bytes.Buffer
	if string(raw) == "null" || json.Compact(&out, raw) != nil || out.String() == "{}" {
		return ""
	}
	return cutRunes(out.String(), briefRunes)
}

// firstLine is the first line of a token that has anything to show.
func firstLine(token []byte) string {
	return cutRunes(jsonscan.FirstLine(token, 4*(briefRunes+1)), briefRunes)
}

// lines counts the lines of a token: a last line without newline counts, an empty text has none.
func lines(token []byte) int {
	if len(token) <= 2 {
		return 0
	}
	n := jsonscan.Lines(token)
	if !endsWithNewline(token) {
		n++
	}
	return n
}

func endsWithNewline(token []byte) bool {
	for _, newline := range []string{`\n`, `\u000a`, `\u000A`} {
		if rest, ok := bytes.CutSuffix(token[:len(token)-1], []byte(newline)); ok {
			return (len(rest)-len(bytes.TrimRight(rest, `\`)))%2 == 0
		}
	}
	return false
}

func cutRunes(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	n := 0
	for i := range s {
		if n == limit {
			return s[:i] + "…"
		}
		n++
	}
	return s
}
