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

// turn is what a thread said between two ends of turns, the second one included.
type turn struct {
	harness, model, host string // of its session
	items                []item // in order, one at least
}

// item is an item with what its metadata say.
type item struct {
	client.Item
	at   uint64 // Unix nanoseconds; 0: nobody said
	kind string // its type
	meta metadata
}

type metadata struct {
	Tool struct {
		Name    string          `json:"name"`
		Call    string          `json:"invocation_id"`
		Input   json.RawMessage `json:"input"`
		IsError bool            `json:"is_error"`
		Output  string          `json:"output"`
	} `json:"tool"`
	Stats struct {
		Input    int64 `json:"input_tokens"`
		Cached   int64 `json:"input_tokens_cached"`
		Output   int64 `json:"output_tokens"`
		Duration int64 `json:"duration_ms"`
	} `json:"stats"` // of the end of a turn
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

func (t turn) end() item { return t.items[len(t.items)-1] }

// spans are the turn and its calls.
func (t turn) spans(content bool) []*tracepb.ResourceSpans {
	end := t.end()
	trace := hash(16, "session", end.Session)
	root := hash(8, "turn", end.Session, end.Thread, end.N)
	whole := t.span(trace, root, nil, "invoke_agent "+t.agent(), t.begins(), end.at)
	whole.Attributes = append(whole.Attributes, text("gen_ai.operation.name", "invoke_agent"), text("gen_ai.agent.name", t.agent()),
		number("gen_ai.usage.input_tokens", end.meta.Stats.Input), number("gen_ai.usage.cache_read.input_tokens", end.meta.Stats.Cached),
		number("gen_ai.usage.output_tokens", end.meta.Stats.Output))
	if t.model != "" {
		whole.Attributes = append(whole.Attributes, text("gen_ai.request.model", t.model))
	}
	if content {
		whole.Attributes = append(whole.Attributes, text("gen_ai.input.messages", t.messages("user", events.TypeMessage)),
			text("gen_ai.output.messages", t.messages("assistant", events.TypeText)))
	}
	for _, it := range t.items {
		if it.kind == events.TypePendingPrompt {
			whole.Events = append(whole.Events, &tracepb.Span_Event{Name: it.kind, TimeUnixNano: it.at})
		}
	}
	return []*tracepb.ResourceSpans{{
		Resource: &resourcepb.Resource{Attributes: []*commonpb.KeyValue{
			text("service.name", cmp.Or(t.harness, "agent")), text("host.name", t.host)}},
		ScopeSpans: []*tracepb.ScopeSpans{{Scope: &commonpb.InstrumentationScope{Name: "spool"},
			Spans: append([]*tracepb.Span{whole}, t.calls(trace, root, content)...)}},
	}}
}

// agent is what the turn's thread is called: its name, of a main thread its harness.
func (t turn) agent() string {
	if name := t.end().Thread; name != events.MainThread {
		return name
	}
	return cmp.Or(t.harness, events.MainThread)
}

// begins is when the turn began: with its first item that has a time, or as long before its end as that says.
func (t turn) begins() uint64 {
	end := t.end()
	first := end.at
	if i := slices.IndexFunc(t.items, func(it item) bool { return it.at != 0 }); i >= 0 {
		first = min(first, t.items[i].at)
	}
	if took := uint64(max(end.meta.Stats.Duration, 0)) * uint64(time.Millisecond); took < end.at {
		first = min(first, end.at-took)
	}
	return first
}

// calls are the calls of tools. One without a result lasts until the end of the turn.
func (t turn) calls(trace, root []byte, content bool) (spans []*tracepb.Span) {
	open := map[string]*tracepb.Span{}
	for _, it := range t.items {
		switch it.kind {
		case events.TypeToolCall:
			name := cmp.Or(it.meta.Tool.Name, "tool")
			s := t.span(trace, hash(8, "call", it.Session, it.Thread, it.N), root, "execute_tool "+name, it.at, t.end().at)
			s.Attributes = append(s.Attributes, text("gen_ai.operation.name", "execute_tool"), text("gen_ai.tool.name", name),
				text("gen_ai.tool.call.id", it.meta.Tool.Call))
			if content {
				s.Attributes = append(s.Attributes, text("gen_ai.tool.call.arguments", string(it.meta.Tool.Input)))
			}
			spans, open[it.meta.Tool.Call] = append(spans, s), s
		case events.TypeToolResult:
			s := open[it.meta.Tool.Call]
			if s == nil {
				continue
			}
			delete(open, it.meta.Tool.Call)
			s.EndTimeUnixNano = max(it.at, s.StartTimeUnixNano)
			if it.meta.Tool.IsError {
				s.Status = &tracepb.Status{Code: tracepb.Status_STATUS_CODE_ERROR}
				s.Attributes = append(s.Attributes, text("error.type", "tool_error"))
			}
			if content {
				s.Attributes = append(s.Attributes, text("gen_ai.tool.call.result", it.meta.Tool.Output))
			}
		}
	}
	return spans
}

func (t turn) span(trace, id, parent []byte, name string, from, until uint64) *tracepb.Span {
	return &tracepb.Span{
		TraceId: trace, SpanId: id, ParentSpanId: parent, Name: name, Kind: tracepb.Span_SPAN_KIND_INTERNAL,
		StartTimeUnixNano: from, EndTimeUnixNano: max(from, until),
		Attributes: []*commonpb.KeyValue{text("gen_ai.conversation.id", t.end().Session), text("spool.thread", t.end().Thread)},
	}
}

// messages are what somebody said, as the conventions write it.
func (t turn) messages(role, kind string) string {
	type part struct {
		Type    string `json:"type"`
		Content string `json:"content"`
	}
	type message struct {
		Role  string `json:"role"`
		Parts []part `json:"parts"`
	}
	all := []message{}
	left := mostContent
	for _, it := range t.items {
		if it.kind == kind && left > 0 {
			said := short(it.Text(), left)
			left -= len(said)
			all = append(all, message{role, []part{{"text", said}}})
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
		value = short(value, mostContent)
	}
	return &commonpb.KeyValue{Key: key, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: value}}}
}

func number(key string, value int64) *commonpb.KeyValue {
	return &commonpb.KeyValue{Key: key, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_IntValue{IntValue: value}}}
}
