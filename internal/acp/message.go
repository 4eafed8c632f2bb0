package acp

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	"spool/internal/jsonscan"
)

// message is a line that was read: raw texts of its members, which alias the line.
type message struct {
	line                      []byte // without the newline
	id, params, result, error []byte
	method                    string // "" in an answer
}

// parse reads a line; ok is false for what is no message, or several.
func parse(line []byte) (m message, ok bool) {
	if jsonscan.KindOf(line) != jsonscan.KindObject || jsonscan.Valid(line) != nil {
		return m, false
	}
	var method []byte
	m.line = bytes.TrimSpace(line)
	jsonscan.Fields(line, []jsonscan.Field{
		{Key: "id", To: &m.id}, {Key: "method", To: &method}, {Key: "params", To: &m.params}, {Key: "result", To: &m.result},
		{Key: "error", To: &m.error},
	})
	m.method, _ = jsonscan.Text(method)
	if jsonscan.KindOf(m.id) == jsonscan.KindNull {
		m.id = nil
	}
	return m, true
}

func (m message) isRequest() bool { return m.method != "" && m.id != nil }
func (m message) isAnswer() bool  { return m.method == "" && m.id != nil }

// session is the id of the session that a request or a notification is of.
func (m message) session() string { return text(m.params, "sessionId") }

// text is a string that is reached by keys; "" for anything else.
func text(raw []byte, path ...string) string {
	s, _ := jsonscan.Text(jsonscan.Get(raw, path...))
	return s
}

func quoted(s string) []byte { return jsonscan.AppendString(nil, s) }

// find gives where in an object, which begins at from, the value is that the keys lead to; ok is false where there is none. Of several
// with one key it is the last.
func find(raw []byte, from int, path ...string) (at, end int, ok bool) {
	at, end = jsonscan.SkipSpace(raw, from), len(raw)
	for _, name := range path {
		found := -1
		if at >= len(raw) || raw[at] != '{' {
			return 0, 0, false
		}
		jsonscan.Members(raw, at, func(key []byte, value int) int {
			skipped := jsonscan.SkipValue(raw, value)
			if string(key) == name {
				found, end = value, skipped
			}
			return skipped
		})
		if found < 0 {
			return 0, 0, false
		}
		at = found
	}
	return at, end, true
}

// with is an object with another value in the place of the one that the keys lead to. Where there is none it is added to the object that
// all but the last key lead to; where that is none either, the object is as it was. All else stays as it is, to the byte.
func with(raw, value []byte, path ...string) []byte {
	if at, end, ok := find(raw, 0, path...); ok {
		return slices.Concat(raw[:at], value, raw[end:])
	}
	last := len(path) - 1
	at, end, ok := find(raw, 0, path[:last]...)
	if !ok || raw[at] != '{' {
		return raw
	}
	inner := bytes.TrimRight(raw[at:end], " \t\r\n")
	end = at + len(inner) - 1
	comma := ","
	if len(bytes.TrimSpace(raw[at+1:end])) == 0 {
		comma = ""
	}
	return slices.Concat(raw[:end], []byte(comma), quoted(path[last]), []byte(":"), value, raw[end:])
}

// withSession is the line with another session's id.
func (m message) withSession(id string) []byte {
	if jsonscan.Get(m.params, "sessionId") == nil {
		return m.line
	}
	return with(m.line, quoted(id), "params", "sessionId")
}

// lines cuts what is written into lines, each of which goes to take, and what is longer than may be, or never ends, to pass.
type lines struct {
	take    func(line []byte) error
	pass    func(b []byte) error
	unread  func(why string) // told of a line that is too long
	begun   []byte
	passing bool // the line that is being written is too long: it goes through unread
	most    int  // bytes of the longest line that is read; 0 = maxLine
}

// maxLine is the longest line that is read: it has to fit into memory several times. A longer one passes, and is not recorded.
const maxLine = 128 << 20

func (l *lines) Write(p []byte) (n int, err error) {
	n = len(p)
	for len(p) > 0 && err == nil {
		line, rest, whole := bytes.Cut(p, []byte("\n"))
		p = rest
		switch {
		case l.passing && whole:
			l.passing, err = false, l.pass(append(slices.Clone(line), '\n'))
		case l.passing:
			err = l.pass(line)
		case whole:
			if l.begun == nil {
				l.begun = []byte{} // an empty line is one
			}
			line = append(l.begun, line...)
			l.begun = nil
			err = l.take(line)
		case len(l.begun)+len(line) > cmp.Or(l.most, maxLine):
			l.unread(fmt.Sprintf("with more than %d bytes", cmp.Or(l.most, maxLine)))
			l.passing, err = true, l.pass(append(l.begun, line...))
			l.begun = nil
		default:
			l.begun = append(l.begun, line...)
		}
	}
	return n, err
}

// end passes on what never got its newline.
func (l *lines) end() error {
	if len(l.begun) == 0 {
		return nil
	}
	torn := l.begun
	l.begun = nil
	return l.pass(torn)
}

// withoutValues is a message without what servers of the Model Context Protocol and commands are given beside their names.
func withoutValues(m message) []byte {
	line := m.line
	for _, member := range []string{"mcpServers", "env"} {
		all := jsonscan.Get(m.params, member)
		if jsonscan.KindOf(all) != jsonscan.KindArray {
			continue
		}
		names := []byte("[")
		_ = jsonscan.Array(all, func(one []byte) bool {
			if len(names) > 1 {
				names = append(names, ',')
			}
			names = slices.Concat(names, []byte(`{"name":`), quoted(text(one, "name")), []byte("}"))
			return true
		})
		line = with(line, append(names, ']'), "params", member)
	}
	return line
}
