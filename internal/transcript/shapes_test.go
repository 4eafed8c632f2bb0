package transcript_test

import (
	"fmt"
	"strings"
)

const (
	sessionID = "5f0c9a52-7d0e-4f0b-9a3e-2f6f1c0d7e11"
	bom       = "\xef\xbb\xbf"
)

// userLine is one line of Claude Code with a text of n bytes.
func userLine(i, n int) string {
	return fmt.Sprintf(`{"parentUuid":null,"isSidechain":false,"sessionId":"%s","type":"user","uuid":"%08d-0000-4000-8000-000000000000","timestamp":"2026-01-05T10:%02d:00.000Z","message":{"role":"user","content":"%s"}}`,
		sessionID, i, i%60, strings.Repeat("x", n))
}

func userLines(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(userLine(i, 20+i%7) + "\n")
	}
	return b.String()
}

// shapes are files of one session each in every shape that a transcript was seen in.
var shapes = map[string]string{
	"plain":              userLines(3),
	"crlf":               strings.ReplaceAll(userLines(3), "\n", "\r\n"),
	"bom":                bom + userLines(3),
	"blank lines":        "\n" + userLines(2) + "\n\n  \n" + userLine(9, 5) + "\n\n",
	"torn tail":          userLines(3) + userLine(4, 9)[:60],
	"torn after blank":   userLines(1) + "\n" + `{"type`,
	"no final newline":   userLines(3) + userLine(4, 9),
	"one line, open":     userLine(0, 3),
	"open crlf":          userLines(1) + userLine(4, 9) + "\r",
	"space behind":       userLines(2) + "  ",
	"garbage":            "\x00\xff not json\n" + userLines(2) + "{\"type\":\"us\n" + "}{\n" + userLine(7, 4) + "\n" + "\x01\x02",
	"huge line":          userLines(1) + userLine(1, 3<<20) + "\n" + userLine(2, 8) + "\n",
	"many lines":         userLines(2500),
	"pretty":             "{\n  \"type\": \"user\",\n  \"sessionId\": \"" + sessionID + "\",\n  \"uuid\": \"u\"\n}\n" + userLines(2),
	"pretty crlf":        userLines(1) + "{\r\n\t\"type\": \"system\",\r\n\t\"a\": [\r\n\t]\r\n}\r\n",
	"pretty, open":       userLines(1) + "{\n  \"type\": \"system\"\n}",
	"pretty, torn":       userLines(1) + "{\n  \"type\": \"system\",\n",
	"pretty, torn line":  userLines(1) + "{\n  \"type\": \"sys",
	"lone braces":        userLines(1) + "{\n{\n}\n{\n  \"a\": 1,\n" + userLines(1) + "{",
	"deeper than 256":    userLines(1) + strings.Repeat("[", 300) + strings.Repeat("]", 300) + "\n",
	"invalid UTF-8":      userLines(1) + "{\"type\":\"system\",\"sessionId\":\"" + sessionID + "\",\"content\":\"\xff\xfe \\ud800\"}\n",
	"scalars":            userLines(1) + "12\n\"s\"\nnull\ntrue\n[1]\n",
	"unknown types":      userLines(1) + `{"type":"never-seen","sessionId":"` + sessionID + `"}` + "\n",
	"spaces around JSON": userLines(1) + "  " + userLine(3, 3) + " \t\n",
}
