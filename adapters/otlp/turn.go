package otlp

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"spool/internal/jsonscan"
	"spool/internal/project"
	"spool/internal/show"
	"spool/pkg/events"
	"spool/pkg/sessions"
)

// turn is what a thread said between two ends of turns, the second one included.
type turn struct {
	session sessions.Info
	items   []item // in order, one at least
}

type item struct {
	show.Item
	raw []byte // its JSON
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
	trace := hash(16, "session", end.Thread.Session)
	root := hash(8, "turn", end.Thread.Session, end.Thread.Name, end.N)
	stats := project.Stats(jsonscan.Get(end.raw, "metadata"))
	whole := t.span(trace, root, nil, "invoke_agent "+t.agent(), t.begins(stats.DurationMS), at(end))
	whole.Attributes = append(whole.Attributes, text("gen_ai.operation.name", "invoke_agent"), text("gen_ai.agent.name", t.agent()),
		number("gen_ai.usage.input_tokens", stats.InputTokens), number("gen_ai.usage.cache_read.input_tokens", stats.InputTokensCached),
		number("gen_ai.usage.output_tokens", stats.OutputTokens))
	if t.session.Model != "" {
		whole.Attributes = append(whole.Attributes, text("gen_ai.request.model", t.session.Model))
	}
	if content {
		whole.Attributes = append(whole.Attributes, text("gen_ai.input.messages", t.messages("user", events.TypeMessage)),
			text("gen_ai.output.messages", t.messages("assistant", events.TypeText)))
	}
	for _, it := range t.items {
		if it.Kind == events.TypePendingPrompt {
			whole.Events = append(whole.Events, &tracepb.Span_Event{Name: it.Kind, TimeUnixNano: at(it)})
		}
	}
	return []*tracepb.ResourceSpans{{
		Resource: &resourcepb.Resource{Attributes: []*commonpb.KeyValue{
			text("service.name", cmp.Or(t.session.Harness, "agent")), text("host.name", t.session.Host)}},
		ScopeSpans: []*tracepb.ScopeSpans{{Scope: &commonpb.InstrumentationScope{Name: "spool"},
			Spans: append([]*tracepb.Span{whole}, t.calls(trace, root, content)...)}},
	}}
}

// agent is what the turn's thread is called: its name, of a main thread its harness.
func (t turn) agent() string {
	if name := t.end().Thread.Name; name != events.MainThread {
		return name
	}
	return cmp.Or(t.session.Harness, events.MainThread)
}

// begins is when the turn began: with its first item that has a time, or as long before its end as that says.
func (t turn) begins(durationMS int64) uint64 {
	end := at(t.end())
	first := end
	for _, it := range t.items {
		if when := at(it); when != 0 {
			first = min(first, when)
			break
		}
	}
	if took := uint64(max(durationMS, 0)) * uint64(time.Millisecond); took < end {
		first = min(first, end-took)
	}
	return first
}

// calls are the calls of tools. One without a result lasts until the end of the turn.
func (t turn) calls(trace, root []byte, content bool) (spans []*tracepb.Span) {
	open := map[string]*tracepb.Span{}
	for _, it := range t.items {
		switch it.Kind {
		case events.TypeToolCall:
			name := cmp.Or(it.Tool, "tool")
			s := t.span(trace, hash(8, "call", it.Thread.Session, it.Thread.Name, it.N), root, "execute_tool "+name, at(it), at(t.end()))
			s.Attributes = append(s.Attributes, text("gen_ai.operation.name", "execute_tool"), text("gen_ai.tool.name", name),
				text("gen_ai.tool.call.id", it.Call))
			if content {
				s.Attributes = append(s.Attributes, text("gen_ai.tool.call.arguments", string(jsonscan.Get(it.raw, "metadata", "tool", "input"))))
			}
			spans, open[it.Call] = append(spans, s), s
		case events.TypeToolResult:
			s := open[it.Call]
			if s == nil {
				continue
			}
			delete(open, it.Call)
			s.EndTimeUnixNano = max(at(it), s.StartTimeUnixNano)
			if it.Failed {
				s.Status = &tracepb.Status{Code: tracepb.Status_STATUS_CODE_ERROR}
				s.Attributes = append(s.Attributes, text("error.type", "tool_error"))
			}
			if content {
				s.Attributes = append(s.Attributes, text("gen_ai.tool.call.result", it.Output))
			}
		}
	}
	return spans
}

func (t turn) span(trace, id, parent []byte, name string, from, until uint64) *tracepb.Span {
	return &tracepb.Span{
		TraceId: trace, SpanId: id, ParentSpanId: parent, Name: name, Kind: tracepb.Span_SPAN_KIND_INTERNAL,
		StartTimeUnixNano: from, EndTimeUnixNano: max(from, until),
		Attributes: []*commonpb.KeyValue{text("gen_ai.conversation.id", t.end().Thread.Session), text("spool.thread", t.end().Thread.Name)},
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
		if it.Kind == kind && left > 0 {
			said := short(it.Text, left)
			left -= len(said)
			all = append(all, message{role, []part{{"text", said}}})
		}
	}
	b, _ := json.Marshal(all) // of strings
	return string(b)
}

func at(it item) uint64 {
	if it.At.IsZero() {
		return 0
	}
	return uint64(it.At.UnixNano())
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
