package show

import (
	"cmp"
	"encoding/json"
	"regexp"
	"strings"
	"time"

	"spool/internal/jsonscan"
	"spool/internal/text"
	"spool/pkg/events"
)

// Item is what a reader is told of an item.
type Item struct {
	N      int64
	Thread events.Thread
	At     time.Time // zero: nobody said
	Kind   string    // its type; events.TypeMessage for a post of a user
	User   string    // who posted it, if that is known
	Brief  string    // what it shows, in one line
	Text   string    // what was said, whole
	Tool   string    // of a call
	Call   string    // what a call and its result share
	Input  string    // of a call, beyond what Brief says of it: a line each
	Output string    // of a result
	Lines  int64     // of a result: that the tool printed, where a size rule may have left some out of Output
	Exit   int64     // of a result: its exit code
	Failed bool      // of a result
	Facts  []string  // of the end of a turn; of a call, whom it set to work
	Whole  string    // of a result: id of the artifact that has all of Output
	Cut    bool      // a size rule left something out of it
	Images []Image
}

// Image is a picture in an item.
type Image struct {
	Source string // blob ref, base64 or data URL
	Type   string // image/png, image/jpeg, image/gif, image/webp; "": it is none of these
	Size   int64  // in bytes
	Bytes  []byte // nil: they were not asked for
	Lost   string // why it cannot be read
}

// Name says what an image is.
func (i Image) Name() string {
	if i.Lost != "" {
		return "image that cannot be read: " + i.Lost
	}
	return cmp.Or(i.Type, "image of an unknown type") + ", " + text.Bytes(i.Size)
}

// Who is the heading of an item.
func (i Item) Who() string {
	switch i.Kind {
	case events.TypeMessage:
		return strings.TrimSpace("User " + i.User)
	case events.TypeText:
		return "Agent"
	case events.TypeToolCall:
		return cmp.Or(i.Tool, "Tool")
	case events.TypePendingPrompt:
		return "Question"
	case events.TypePendingPromptResolved:
		return "Answer"
	}
	words := strings.ReplaceAll(i.Kind, "_", " ")
	if words == "" {
		return "Item"
	}
	return strings.ToUpper(words[:1]) + words[1:]
}

// Read reads an item by its JSON. A member of another shape than it should have is left out.
func Read(raw []byte) Item {
	str := func(in []byte, path ...string) string {
		s, _ := jsonscan.Text(jsonscan.Get(in, path...))
		return s
	}
	meta := jsonscan.Get(raw, "metadata")
	tool := jsonscan.Get(meta, "tool")
	i := Item{
		Thread: events.Thread{Session: str(raw, "session"), Name: str(raw, "thread")}, User: str(raw, "user_id"),
		Kind: cmp.Or(str(meta, "type"), events.TypeMessage), Tool: str(tool, "name"), Call: str(tool, "invocation_id"),
	}
	i.N, _ = jsonscan.Int(jsonscan.Get(raw, "n"))
	i.At, _ = time.Parse(time.RFC3339, str(raw, "created_at"))
	i.Failed, _ = jsonscan.Bool(jsonscan.Get(tool, "is_error"))
	i.Cut, _ = jsonscan.Bool(jsonscan.Get(meta, "truncated"))
	if content := jsonscan.Get(raw, "content"); jsonscan.KindOf(content) == jsonscan.KindArray {
		i.readContent(content)
	}
	i.Brief = text.Line(i.Text)
	switch i.Kind {
	case events.TypeThinking:
		i.Text = cmp.Or(str(meta, "text"), strings.TrimPrefix(i.Text, "[thinking] "))
	case events.TypeToolCall:
		_, said, _ := strings.Cut(i.Brief, " → ")
		i.Input = input(jsonscan.Get(tool, "input"), said)
	case events.TypeToolResult:
		i.readOutput(value(jsonscan.Get(tool, "output")), jsonscan.Get(meta, "output"))
		if id := str(meta, "artifact", "artifact_id"); events.CheckToken("artifact_id", id) == nil { // it is shown as part of a command
			i.Whole = id
		}
	case events.TypeTurnEnd:
		i.Facts = facts(jsonscan.Get(meta, "stats"))
	}
	return i
}

// readOutput takes what a tool printed, and what is said of that which was streamed. Its lines are those that newlines part, so that one at
// the end makes one more.
func (i *Item) readOutput(printed string, of []byte) {
	i.Output = plain(printed)
	i.Lines = int64(lines(i.Output))
	if cut, _ := jsonscan.Bool(jsonscan.Get(of, "truncated")); cut {
		i.Cut = true
		i.Lines, _ = jsonscan.Int(jsonscan.Get(of, "total_lines"))
		if strings.HasSuffix(printed, "\n") {
			i.Lines--
		}
	}
	i.Exit, _ = jsonscan.Int(jsonscan.Get(of, "exit_code"))
}

// readContent takes the first text and all images.
func (i *Item) readContent(content []byte) {
	_ = jsonscan.Array(content, func(part []byte) bool {
		switch kind, _ := jsonscan.Text(jsonscan.Get(part, "type")); kind {
		case "text":
			if i.Text == "" {
				i.Text, _ = jsonscan.Text(jsonscan.Get(part, "text"))
			}
		case "image", "image_url":
			source := ""
			for _, path := range [][]string{{"data"}, {"source", "data"}, {"image_url", "url"}, {"image_url"}, {"url"}} {
				if at := jsonscan.Get(part, path...); source == "" && jsonscan.KindOf(at) == jsonscan.KindString {
					source, _ = jsonscan.Text(at)
				}
			}
			i.Images = append(i.Images, Image{Source: source})
		}
		return true
	})
}

// Argument is Brief without the name of the tool, which Who says, and without the arrow of a result. Of a call that is asked
// by more than a line of text it is "", and Input has all.
func (i Item) Argument() string {
	if i.Kind == events.TypeToolCall {
		_, said, _ := strings.Cut(i.Brief, " → ")
		if strings.HasPrefix(said, "{") && i.Input != "" {
			return ""
		}
		return said
	}
	return strings.TrimPrefix(i.Brief, "→ ")
}

// value is a string, or JSON with a member a line.
func value(raw []byte) string {
	switch jsonscan.KindOf(raw) {
	case jsonscan.KindString:
		s, _ := jsonscan.Text(raw)
		return s
	case jsonscan.KindObject, jsonscan.KindArray:
		var any any
		if json.Unmarshal(raw, &any) == nil {
			if out, err := json.MarshalIndent(any, "", "  "); err == nil {
				return string(out)
			}
		}
	case jsonscan.KindNull:
		return ""
	}
	return string(raw)
}

// input is what a tool was asked to do, by its shape: an edit as a difference, a command, or a member a line. said is what
// the reader has been told.
func input(raw []byte, said string) string {
	if jsonscan.KindOf(raw) != jsonscan.KindObject {
		s := strings.TrimSpace(plain(value(raw)))
		if text.Line(s) == said {
			return ""
		}
		return s
	}
	var lines []string
	str := func(in []byte, key string) (string, bool) {
		at := jsonscan.Get(in, key)
		s, _ := jsonscan.Text(at)
		return s, jsonscan.KindOf(at) == jsonscan.KindString
	}
	edit := func(e []byte) bool {
		old, ok1 := str(e, "old_string")
		fresh, ok2 := str(e, "new_string")
		if ok1 && ok2 {
			lines = append(append(lines, marked("- ", old)...), marked("+ ", fresh)...)
		}
		return ok1 && ok2
	}
	edited := edit(raw)
	_ = jsonscan.Object(raw, func(name, v []byte) bool {
		key := string(name)
		switch s := value(v); {
		case edited && (key == "old_string" || key == "new_string"), s == "", text.Line(s) == said:
		case key == "edits" && jsonscan.KindOf(v) == jsonscan.KindArray:
			_ = jsonscan.Array(v, edit)
		case key == "command" || key == "cmd":
			lines = append(lines, marked("$ ", s)...)
		case strings.Contains(s, "\n"):
			lines = append(append(lines, key+":"), marked("  ", s)...)
		default:
			lines = append(lines, key+": "+s)
		}
		return true
	})
	return plain(strings.Join(lines, "\n"))
}

func marked(mark, s string) []string {
	if s == "" {
		return nil
	}
	lines := strings.Split(strings.TrimSuffix(s, "\n"), "\n")
	for i := range lines {
		lines[i] = mark + lines[i]
	}
	return lines
}

// sequence is what colours a terminal or moves its cursor.
var sequence = regexp.MustCompile(`\x1b(\[[0-9;?<=>]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\))`)

// plain is what a terminal would show of an output at its end, without colours: of a line that was written over, what
// came last.
func plain(s string) string {
	s = strings.TrimRight(strings.ReplaceAll(sequence.ReplaceAllString(s, ""), "\r\n", "\n"), " \n")
	if !strings.Contains(s, "\r") {
		return s
	}
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		line = strings.TrimRight(line, "\r")
		lines[i] = line[strings.LastIndexByte(line, '\r')+1:]
	}
	return strings.Join(lines, "\n")
}

// facts are the sums of a turn.
func facts(stats []byte) (out []string) {
	if ms, _ := jsonscan.Int(jsonscan.Get(stats, "duration_ms")); ms > 0 {
		out = append(out, took(time.Duration(ms)*time.Millisecond))
	}
	for _, f := range []struct{ key, says string }{
		{"input_tokens", " tokens in"}, {"input_tokens_cached", " of them cached"}, {"output_tokens", " tokens out"},
	} {
		if n, _ := jsonscan.Int(jsonscan.Get(stats, f.key)); n > 0 {
			out = append(out, count(n)+f.says)
		}
	}
	return out
}
