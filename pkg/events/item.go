package events

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"unicode/utf8"

	"spool/internal/family"
	"spool/internal/jsonscan"
	"spool/internal/runes"
)

// The types of item, as metadata.type (SPEC I1). A plain user post has none.
const (
	TypeText                  = "text"
	TypeToolCall              = "tool_call"
	TypeToolResult            = "tool_result"
	TypeThinking              = "thinking"
	TypeStatus                = "status"
	TypeTurnEnd               = "turn_end"
	TypePendingPrompt         = "pending_prompt"
	TypePendingPromptResolved = "pending_prompt_resolved"
)

// Kinds of pending prompt (SPEC I8); the third is "text".
const PromptApproval, PromptQuestion = "approval", "ask_user_question"

// Limits that keep what the budget cannot cut (SPEC I4) far below 350,000 bytes.
const (
	briefRunes  = 120    // characters of a brief
	detailRunes = 2_000  // characters of a status detail
	nameBytes   = 1_024  // a tool's name, an invocation id
	fieldBytes  = 65_536 // a raw JSON member; larger ones stay in the entry only
)

// Item is the downstream view of an entry (SPEC I1), before it is stamped.
//
// Content and Metadata are valid JSON in valid UTF-8, whatever the entry holds: bytes that are no UTF-8 become U+FFFD.
// Escapes are kept as the entry spells them, unpaired surrogates included.
type Item struct {
	Type     string // metadata.type; "" for a plain user post
	Detail   string // subject detail: the tool's name for tool_call, "ok" or "error" for tool_result, else ""
	Content  []byte // JSON array
	Metadata []byte // JSON object, or nil
}

// Stats are the figures of a turn (SPEC I2). InputTokens counts everything the model read, cached or not.
type Stats struct {
	InputTokens, InputTokensCached, OutputTokens, DurationMS int64
}

// Field is one more member of an item's metadata. A Value over 65,536 bytes is left out and its size told instead, as
// <Name>_bytes: the budget does not cut it, and the entry has it.
type Field struct {
	Name  string
	Value []byte // JSON
}

// User is a plain user post. text is a JSON string token, as everywhere below; what is no string counts as "".
func User(text []byte) Item { return Item{Content: appendContent(make([]byte, 0, len(text)+32), text)} }

// With is the item with more parts of its content, each JSON in valid UTF-8.
func (it Item) With(more [][]byte) Item {
	if len(more) > 0 {
		open := it.Content[:len(it.Content)-1]
		it.Content = slices.Concat(open, []byte(","), bytes.Join(more, []byte(",")), []byte("]"))
	}
	return it
}

// Text is the agent's user-facing text.
func Text(text []byte, extra ...Field) Item {
	b := builder{buf: make([]byte, 0, len(text)+64)}
	b.buf = appendContent(b.buf, text)
	b.open(TypeText)
	b.fields(extra)
	return b.item(TypeText, "")
}

// Thinking is a reasoning block: its first 120 characters as the brief, the whole in metadata.text. full_text_length counts
// characters (Unicode code points).
func Thinking(text []byte) Item {
	start, more := jsonscan.Prefix(text, briefRunes)
	if more {
		start += "..."
	}
	b := builder{buf: make([]byte, 0, len(text)+len(start)+128)}
	b.brief("[thinking] " + start)
	b.open(TypeThinking)
	b.key("text")
	b.buf = appendToken(b.buf, text)
	whole, _ := jsonscan.Text(text)
	b.int("full_text_length", int64(utf8.RuneCountInString(whole)))
	return b.item(TypeThinking, "")
}

// ToolCall is an invocation. The brief is the tool's name and its main argument: the first line of a command, else a
// path, pattern, address or the like, else the input as compact JSON. input is JSON, an object as a rule.
func ToolCall(name, id string, input []byte) Item {
	name, id = runes.Head(name, nameBytes), runes.Head(id, nameBytes)
	brief := name
	if arg := MainArgument(input); arg != "" {
		brief += " → " + arg
	}
	b := builder{buf: make([]byte, 0, len(input)+len(brief)+len(name)+len(id)+128)}
	b.brief(brief)
	b.open(TypeToolCall)
	b.object("tool", "name", name)
	b.string("invocation_id", id)
	b.key("input")
	if len(input) == 0 {
		input = []byte("{}")
	}
	b.buf = append(append(b.buf, valid(input)...), '}')
	return b.item(TypeToolCall, name)
}

// ToolResult is what the invocation gave. It carries no tool name: consumers fold it with its call by id (SPEC I3).
func ToolResult(id string, isError bool, output []byte) Item {
	return ToolResultOf(id, isError, output, lines(output))
}

// ToolResultOf is ToolResult of an output that had so many lines, and of which output is what is shown.
func ToolResultOf(id string, isError bool, output []byte, lines int) Item {
	id = runes.Head(id, nameBytes)
	line := firstLine(output)
	if line != "" {
		line += " "
	}
	brief := "→ " + line + "(" + strconv.Itoa(lines) + " lines)"
	b := builder{buf: make([]byte, 0, len(output)+len(brief)+len(id)+128)}
	b.brief(brief)
	b.open(TypeToolResult)
	b.object("tool", "invocation_id", id)
	b.key("is_error")
	b.buf = strconv.AppendBool(b.buf, isError)
	b.key("output")
	b.buf = append(appendToken(b.buf, output), '}')
	return b.item(TypeToolResult, okOrError(isError))
}

// Status is progress: status is a machine-readable word, text what a person reads. detail is cut at 2,000 characters; ""
// leaves it out.
func Status(status, detail, text string, extra ...Field) Item {
	b := builder{buf: make([]byte, 0, len(status)+len(text)+min(len(detail), 4*detailRunes)+128)}
	b.brief(text)
	b.open(TypeStatus)
	b.string("status", status)
	if detail != "" {
		b.string("detail", cutRunes(detail, detailRunes))
	}
	b.fields(extra)
	return b.item(TypeStatus, "")
}

// TurnEnd marks that the agent has finished its turn.
func TurnEnd(s Stats) Item {
	b := builder{buf: make([]byte, 0, 224)}
	b.brief("Turn complete")
	b.open(TypeTurnEnd)
	b.key("stats")
	b.buf = strconv.AppendInt(append(b.buf, `{"input_tokens":`...), s.InputTokens, 10)
	b.int("input_tokens_cached", s.InputTokensCached)
	b.int("output_tokens", s.OutputTokens)
	b.int("duration_ms", s.DurationMS)
	b.buf = append(b.buf, '}')
	return b.item(TypeTurnEnd, "")
}

// PendingPrompt asks a person (SPEC I8): metadata.prompt is {id, kind} and the members of body, an object such as
// {"questions":[…]}; over 65,536 bytes they are left out and told as body_bytes. text is what to show.
func PendingPrompt(id, kind, text string, body []byte) Item {
	b := builder{buf: make([]byte, 0, len(text)+min(len(body), fieldBytes)+len(id)+160)}
	b.brief(cutRunes(text, detailRunes))
	b.open(TypePendingPrompt)
	b.prompt(id, kind)
	if len(body) > fieldBytes {
		b.int("body_bytes", int64(len(body)))
	} else {
		_ = jsonscan.Object(body, func(key, value []byte) bool {
			if string(key) != "id" && string(key) != "kind" {
				b.key(string(key))
				b.buf = append(b.buf, valid(value)...)
			}
			return true
		})
	}
	b.buf = append(b.buf, '}')
	return b.item(TypePendingPrompt, "")
}

// Resolution is how a prompt was settled (SPEC I8).
type Resolution struct {
	Outcome string // "answered", "approved", "denied" or "expired"
	By      string // who; "" when the source does not tell
	At      int64  // when, Unix milliseconds; 0 when the source does not tell
	Answer  []byte // JSON; nil for none
}

// PendingPromptResolved records who settled a prompt, how and when.
func PendingPromptResolved(id, kind string, r Resolution) Item {
	b := builder{buf: make([]byte, 0, min(len(r.Answer), fieldBytes)+len(id)+192)}
	text := "Prompt " + r.Outcome
	if line := firstLine(r.Answer); line != "" {
		text += ": " + line
	}
	b.brief(text)
	b.open(TypePendingPromptResolved)
	b.prompt(id, kind)
	b.buf = append(b.buf, '}')
	b.object("resolution", "outcome", r.Outcome)
	if r.By != "" {
		b.string("by", r.By)
	}
	if r.At != 0 {
		b.int("at", r.At)
	}
	if r.Answer != nil {
		b.fields([]Field{{Name: "answer", Value: r.Answer}})
	}
	b.buf = append(b.buf, '}')
	return b.item(TypePendingPromptResolved, "")
}

// ErrItem is wrapped by every refusal of ParseItem.
var ErrItem = family.Invalid.New("bad item")

// ParseItem reads an item that an agent made itself: {"content":[{"type":…},…],"metadata":{"type":…,…}}. metadata may be
// absent or null (a user post), its type may be any name ([A-Za-z0-9_-]{1,128}), unknown members stay. Assumes that
// jsonscan.Valid passed; the result aliases raw unless its UTF-8 had to be repaired.
func ParseItem(raw []byte) (Item, error) {
	var it Item
	if jsonscan.KindOf(raw) != jsonscan.KindObject {
		return it, fmt.Errorf("%w: not a JSON object; send {\"content\":[…],\"metadata\":{…}}", ErrItem)
	}
	content, metadata := jsonscan.Get(raw, "content"), jsonscan.Get(raw, "metadata")
	if err := checkContent(content); err != nil {
		return it, err
	}
	it.Content = valid(content)
	switch kind := jsonscan.KindOf(metadata); {
	case metadata == nil || kind == jsonscan.KindNull:
		return it, nil
	case kind != jsonscan.KindObject:
		return it, fmt.Errorf("%w: metadata must be an object, or absent for a user post", ErrItem)
	}
	it.Metadata = valid(metadata)
	typ := jsonscan.Get(metadata, "type")
	if typ == nil {
		return it, nil
	}
	name, ok := jsonscan.Text(typ)
	if !ok {
		return it, fmt.Errorf("%w: metadata.type must be a string", ErrItem)
	}
	if err := CheckToken("metadata.type", name); err != nil {
		return it, fmt.Errorf("%w: %w", ErrItem, err)
	}
	it.Type = name
	return it, it.parseTool()
}

func checkContent(content []byte) error {
	if content == nil || jsonscan.KindOf(content) != jsonscan.KindArray {
		return fmt.Errorf("%w: content must be an array of parts such as {\"type\":\"text\",\"text\":\"…\"}", ErrItem)
	}
	n, ok := 0, true
	_ = jsonscan.Array(content, func(part []byte) bool {
		n++
		ok = jsonscan.KindOf(jsonscan.Get(part, "type")) == jsonscan.KindString
		return ok
	})
	if !ok {
		return fmt.Errorf("%w: content[%d] must be an object with a string \"type\"", ErrItem, n-1)
	}
	return nil
}

// parseTool checks that calls and results can be folded (SPEC I3) and derives the detail.
func (it *Item) parseTool() error {
	if it.Type != TypeToolCall && it.Type != TypeToolResult {
		return nil
	}
	if id, ok := jsonscan.Text(jsonscan.Get(it.Metadata, "tool", "invocation_id")); !ok || id == "" {
		return fmt.Errorf("%w: a %s needs metadata.tool.invocation_id, a string that its call and result share", ErrItem, it.Type)
	}
	if it.Type == TypeToolResult {
		isError, _ := jsonscan.Bool(jsonscan.Get(it.Metadata, "tool", "is_error"))
		it.Detail = okOrError(isError)
		return nil
	}
	name, ok := jsonscan.Text(jsonscan.Get(it.Metadata, "tool", "name"))
	if !ok || name == "" {
		return fmt.Errorf("%w: a tool_call needs metadata.tool.name, a string", ErrItem)
	}
	it.Detail = runes.Head(name, nameBytes)
	return nil
}

func okOrError(isError bool) string {
	if isError {
		return "error"
	}
	return "ok"
}

// builder appends content and metadata to one buffer.
type builder struct {
	buf   []byte
	split int // where metadata begins
}

func (b *builder) brief(text string) {
	b.buf = append(b.buf, `[{"type":"text","text":`...)
	b.buf = append(jsonscan.AppendString(b.buf, text), "}]"...)
}

func (b *builder) open(typ string) {
	b.split = len(b.buf)
	b.buf = append(append(append(b.buf, `{"type":"`...), typ...), '"')
}

func (b *builder) prompt(id, kind string) {
	b.object("prompt", "id", runes.Head(id, nameBytes))
	b.string("kind", kind)
}

// object opens a member that is an object and begins with a string.
func (b *builder) object(name, first, value string) {
	b.key(name)
	b.buf = append(append(append(b.buf, `{"`...), first...), `":`...)
	b.buf = jsonscan.AppendString(b.buf, value)
}

func (b *builder) key(name string) {
	b.buf = append(jsonscan.AppendString(append(b.buf, ','), name), ':')
}

func (b *builder) string(name, value string) {
	b.key(name)
	b.buf = jsonscan.AppendString(b.buf, value)
}

func (b *builder) int(name string, n int64) {
	b.key(name)
	b.buf = strconv.AppendInt(b.buf, n, 10)
}

func (b *builder) fields(fields []Field) {
	for _, f := range fields {
		if len(f.Value) > fieldBytes {
			b.int(f.Name+"_bytes", int64(len(f.Value)))
			continue
		}
		b.key(f.Name)
		b.buf = append(b.buf, valid(f.Value)...)
	}
}

func (b *builder) item(typ, detail string) Item {
	b.buf = append(b.buf, '}')
	return Item{Type: typ, Detail: detail, Content: b.buf[:b.split:b.split], Metadata: b.buf[b.split:]}
}

func appendContent(dst, token []byte) []byte {
	return append(appendToken(append(dst, `[{"type":"text","text":`...), token), "}]"...)
}

// appendToken copies a string token as it is spelled.
func appendToken(dst, token []byte) []byte {
	if jsonscan.KindOf(token) != jsonscan.KindString {
		return append(dst, `""`...)
	}
	return append(dst, valid(token)...)
}

// valid repairs UTF-8. Only strings can hold bytes that are none, so the text stays JSON.
func valid(raw []byte) []byte {
	if utf8.Valid(raw) {
		return raw
	}
	return bytes.ToValidUTF8(raw, []byte("\uFFFD"))
}
