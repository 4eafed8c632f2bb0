package otlp

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"spool/pkg/client"
	"spool/pkg/events"
)

// turn is what a thread said between two ends of turns, the second one included, as far as it was read: from its end back to its beginning.
type turn struct {
	harness, model, host string // of its session
	content              bool   // with what was said
	caller               []byte // the span of the call that began its thread; nil: none did
	end                  item
	first                uint64            // the earliest time that is known
	calls                []*tracepb.Span   // that were not given yet
	size                 int               // bytes of these, about
	results              map[string]result // of calls that were not read yet
	asked                []*tracepb.Span_Event
	user, agent          said
	held                 int // bytes of results and asked, about
}

// item is an item with what its metadata say.
type item struct {
	client.Item
	at   uint64 // Unix nanoseconds; 0: nobody said
	kind string // its type
	meta metadata
}

type metadata struct {
	Tool  tool `json:"tool"`
	Stats struct {
		Input    int64 `json:"input_tokens"`
		Cached   int64 `json:"input_tokens_cached"`
		Output   int64 `json:"output_tokens"`
		Duration int64 `json:"duration_ms"`
	} `json:"stats"` // of the end of a turn
}

type tool struct {
	Name    string          `json:"name"`
	Call    string          `json:"invocation_id"`
	Input   json.RawMessage `json:"input"`
	IsError bool            `json:"is_error"`
	Output  string          `json:"output"`
}

// task is what a call tells a helper to do; "" where it begins none.
func (t tool) task() string {
	var input struct {
		Prompt string `json:"prompt"`
	}
	_ = json.Unmarshal(t.Input, &input)
	return input.Prompt
}

// call is the id of the span of a call.
func (it item) call() []byte { return hash(8, "call", it.Session, it.Thread, it.N) }

// result is what the result of a call says of it.
type result struct {
	at     uint64
	failed bool
	output string
}

// readItem reads an item. A member of another shape than it should have is left out.
func readItem(i client.Item) item {
	it := item{Item: i, kind: i.Type()}
	_ = json.Unmarshal(i.Metadata, &it.meta)
	if at, err := time.Parse(time.RFC3339, i.CreatedAt); err == nil {
		it.at = uint64(max(at.UnixNano(), 0))
	}
	return it
}

// mostContent is how many bytes of a text are sent.
const mostContent = 32 << 10

// hash is the beginning of the hash of words.
func hash(n int, words ...any) []byte {
	sum := sha256.Sum256([]byte(fmt.Sprintf("%q", words)))
	return sum[:n]
}

func (t *turn) trace() []byte { return hash(16, "session", t.end.Session) }

func (t *turn) root() []byte { return hash(8, "turn", t.end.Session, t.end.Thread, t.end.N) }

// begin begins a turn with its end. It begins as long before that as it says, or with the first of its items that has a time.
func (t *turn) begin(end item) {
	t.end, t.first, t.results = end, end.at, map[string]result{}
	if took := uint64(max(end.meta.Stats.Duration, 0)) * uint64(time.Millisecond); took < end.at {
		t.first = end.at - took
	}
}

// mostHeld is how many bytes of a turn are held of results whose calls are not read yet, and of questions. What is more is left out.
const mostHeld = 16 << 20

// add takes the item before those that were read.
func (t *turn) add(it item) {
	if it.at != 0 {
		t.first = min(t.first, it.at)
	}
	switch it.kind {
	case events.TypeMessage:
		t.user.before(it.Text())
	case events.TypeText:
		t.agent.before(it.Text())
	case events.TypeToolCall:
		t.call(it)
	case events.TypeToolResult:
		r := result{at: it.at, failed: it.meta.Tool.IsError}
		if t.content {
			r.output = strings.Clone(short(it.meta.Tool.Output, mostContent))
		}
		if size := spanSize + len(it.meta.Tool.Call) + len(r.output); t.held+size <= mostHeld {
			t.results[it.meta.Tool.Call] = r
			t.held += size
		}
	case events.TypePendingPrompt:
		if t.held+spanSize <= mostHeld {
			t.asked = append(t.asked, &tracepb.Span_Event{Name: it.kind, TimeUnixNano: it.at})
			t.held += spanSize
		}
	}
}

// spanSize is about what a span takes without what was said.
const spanSize = 512

// call adds the call of a tool. One without a result lasts until the end of the turn.
func (t *turn) call(it item) {
	tool := it.meta.Tool
	name := cmp.Or(tool.Name, "tool")
	s := t.span(it.call(), t.root(), "execute_tool "+short(name, mostContent), it.at, t.end.at)
	s.Attributes = append(s.Attributes, text("gen_ai.operation.name", "execute_tool"), text("gen_ai.tool.name", name),
		text("gen_ai.tool.call.id", tool.Call))
	if t.content {
		s.Attributes = append(s.Attributes, text("gen_ai.tool.call.arguments", string(tool.Input)))
	}
	if r, ok := t.results[tool.Call]; ok {
		delete(t.results, tool.Call)
		s.EndTimeUnixNano = max(r.at, s.StartTimeUnixNano)
		if r.failed {
			s.Status = &tracepb.Status{Code: tracepb.Status_STATUS_CODE_ERROR}
			s.Attributes = append(s.Attributes, text("error.type", "tool_error"))
		}
		if t.content {
			s.Attributes = append(s.Attributes, text("gen_ai.tool.call.result", r.output))
		}
		t.held -= spanSize + len(tool.Call) + len(r.output)
	}
	t.calls = append(t.calls, s)
	t.size += spanSize
	for _, a := range s.Attributes {
		t.size += len(a.Value.GetStringValue())
	}
}

// mostGiven is how many bytes of calls are given to a collector at a time, about.
const mostGiven = 1 << 20

// full reports whether there are calls enough to be given.
func (t *turn) full() bool { return t.size >= mostGiven }

// take are the calls that were not given yet.
func (t *turn) take() []*tracepb.ResourceSpans {
	slices.Reverse(t.calls)
	spans := t.calls
	t.calls, t.size = nil, 0
	return t.given(spans)
}

// rest is the turn itself, once it is read, and the calls that were not given yet.
func (t *turn) rest() []*tracepb.ResourceSpans {
	whole := t.span(t.root(), t.caller, "invoke_agent "+t.name(), t.first, t.end.at)
	whole.Attributes = append(whole.Attributes, text("gen_ai.operation.name", "invoke_agent"), text("gen_ai.agent.name", t.name()),
		number("gen_ai.usage.input_tokens", t.end.meta.Stats.Input), number("gen_ai.usage.cache_read.input_tokens", t.end.meta.Stats.Cached),
		number("gen_ai.usage.output_tokens", t.end.meta.Stats.Output))
	if t.model != "" {
		whole.Attributes = append(whole.Attributes, text("gen_ai.request.model", t.model))
	}
	if t.content {
		whole.Attributes = append(whole.Attributes, text("gen_ai.input.messages", t.user.messages("user")),
			text("gen_ai.output.messages", t.agent.messages("assistant")))
	}
	slices.Reverse(t.asked)
	whole.Events = t.asked
	slices.Reverse(t.calls)
	return t.given(append([]*tracepb.Span{whole}, t.calls...))
}

func (t *turn) given(spans []*tracepb.Span) []*tracepb.ResourceSpans {
	return []*tracepb.ResourceSpans{{
		Resource: &resourcepb.Resource{Attributes: []*commonpb.KeyValue{
			text("service.name", cmp.Or(t.harness, "agent")), text("host.name", t.host)}},
		ScopeSpans: []*tracepb.ScopeSpans{{Scope: &commonpb.InstrumentationScope{Name: "spool"}, Spans: spans}},
	}}
}

// name is what the turn's thread is called: its name, of a main thread its harness.
func (t *turn) name() string {
	if name := t.end.Thread; name != events.MainThread {
		return name
	}
	return cmp.Or(t.harness, events.MainThread)
}

func (t *turn) span(id, parent []byte, name string, from, until uint64) *tracepb.Span {
	return &tracepb.Span{
		TraceId: t.trace(), SpanId: id, ParentSpanId: parent, Name: strings.ToValidUTF8(name, "\uFFFD"), Kind: tracepb.Span_SPAN_KIND_INTERNAL,
		StartTimeUnixNano: from, EndTimeUnixNano: max(from, until),
		Attributes: []*commonpb.KeyValue{text("gen_ai.conversation.id", t.end.Session), text("spool.thread", t.end.Thread)},
	}
}

// said is the beginning of what somebody said: the newest text first, no more of them than are sent.
type said struct {
	texts []string
	size  int
}

// textSize is about what JSON takes beside a text.
const textSize = 64

// before takes the text before those that were read.
func (s *said) before(text string) {
	text = strings.Clone(short(text, mostContent))
	s.texts, s.size = append(s.texts, text), s.size+textSize+len(text)
	for len(s.texts) > 1 && s.size-textSize-len(s.texts[0]) >= mostContent {
		s.size -= textSize + len(s.texts[0])
		s.texts = slices.Delete(s.texts, 0, 1)
	}
}

// messages are the texts as the conventions write them.
func (s *said) messages(role string) string {
	type part struct {
		Type    string `json:"type"`
		Content string `json:"content"`
	}
	type message struct {
		Role  string `json:"role"`
		Parts []part `json:"parts"`
	}
	all, left := []message{}, mostContent
	for _, text := range slices.Backward(s.texts) {
		if left > 0 {
			all = append(all, message{role, []part{{"text", short(text, left)}}})
			left -= textSize + len(text)
		}
	}
	b, _ := json.Marshal(all) // of strings
	return string(b)
}

// short is the beginning of a text: bytes at most, no rune in two.
func short(s string, bytes int) string {
	if len(s) <= bytes {
		return s
	}
	for bytes > 0 && !utf8.RuneStart(s[bytes]) {
		bytes--
	}
	return s[:bytes]
}

func text(key, value string) *commonpb.KeyValue {
	value = strings.ToValidUTF8(value, "\uFFFD")
	if key != "gen_ai.input.messages" && key != "gen_ai.output.messages" { // JSON, and bounded
		value = strings.Clone(short(value, mostContent))
	}
	return &commonpb.KeyValue{Key: key, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: value}}}
}

func number(key string, value int64) *commonpb.KeyValue {
	return &commonpb.KeyValue{Key: key, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_IntValue{IntValue: value}}}
}
