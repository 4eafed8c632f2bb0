package otlp_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/receiver/receivertest"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"spool/adapters/otlp"
	"spool/internal/must"
	"spool/internal/natstest"
	"spool/internal/service"
	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/sessions"
)

// The turns of a session of Claude Code: one with a call that failed, and one that is not over.
var lines = []string{
	`{"type":"user","uuid":"u1","sessionId":"s","timestamp":"2026-11-20T10:00:00.000Z","message":{"role":"user","content":"count the lines"}}`,
	`{"type":"assistant","uuid":"a1","parentUuid":"u1","sessionId":"s","timestamp":"2026-11-20T10:00:02.000Z","message":{"id":"m1","role":"assistant","model":"claude-x","content":[{"type":"tool_use","id":"call_1","name":"Bash","input":{"command":"wc -l secret.txt"}}],"usage":{"input_tokens":10,"cache_read_input_tokens":90,"output_tokens":5}}}`,
	`{"type":"user","uuid":"u2","parentUuid":"a1","sessionId":"s","timestamp":"2026-11-20T10:00:05.000Z","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"call_1","is_error":true,"content":"no such file"}]}}`,
	`{"type":"assistant","uuid":"a2","parentUuid":"u2","sessionId":"s","timestamp":"2026-11-20T10:00:07.000Z","message":{"id":"m2","role":"assistant","model":"claude-x","stop_reason":"end_turn","content":[{"type":"text","text":"It is not there."}],"usage":{"input_tokens":20,"output_tokens":7}}}`,
	`{"type":"system","subtype":"turn_duration","uuid":"d1","parentUuid":"a2","sessionId":"s","timestamp":"2026-11-20T10:00:07.100Z","durationMs":7100}`,
	`{"type":"user","uuid":"u3","parentUuid":"d1","sessionId":"s","timestamp":"2026-11-20T10:01:00.000Z","message":{"role":"user","content":"then write it"}}`,
}

// collector is a receiver of the OpenTelemetry Collector, and what it was given.
func collector(t *testing.T) (upload func(context.Context, []*tracepb.ResourceSpans) error, sink *consumertest.TracesSink) {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	addr := l.Addr().String()
	must.Do(t, l.Close())
	f, sink := otlpreceiver.NewFactory(), &consumertest.TracesSink{}
	cfg := f.CreateDefaultConfig()
	must.Do(t, confmap.NewFromStringMap(map[string]any{"protocols": map[string]any{"http": map[string]any{"endpoint": addr}}}).Unmarshal(cfg))
	r := must.Get(f.CreateTraces(t.Context(), receivertest.NewNopSettings(f.Type()), cfg, sink))(t)
	must.Do(t, r.Start(t.Context(), componenttest.NewNopHost()))
	t.Cleanup(func() { must.Do(t, r.Shutdown(context.Background())) })
	out := otlptracehttp.NewClient(otlptracehttp.WithInsecure(), otlptracehttp.WithEndpoint(addr))
	must.Do(t, out.Start(t.Context()))
	return out.UploadTraces, sink
}

// spans are those that a collector has, by their ids.
func spans(sink *consumertest.TracesSink) map[string]ptrace.Span {
	all := map[string]ptrace.Span{}
	for _, traces := range sink.AllTraces() {
		for _, r := range traces.ResourceSpans().All() {
			for _, scope := range r.ScopeSpans().All() {
				for _, s := range scope.Spans().All() {
					all[s.TraceID().String()+s.SpanID().String()] = s
				}
			}
		}
	}
	return all
}

func named(t *testing.T, all map[string]ptrace.Span, name string) ptrace.Span {
	t.Helper()
	for _, s := range all {
		if s.Name() == name {
			return s
		}
	}
	t.Fatalf("there is no span %q", name)
	return ptrace.Span{}
}

// stored is a client of a Spool that has the lines.
func stored(t *testing.T) *client.Client {
	t.Helper()
	return storedLines(t, lines)
}

func storedLines(t *testing.T, lines []string) *client.Client {
	t.Helper()
	conn := natstest.Conn(t)
	natstest.Run(t, service.NewPersister(conn, service.PersisterConfig{}, nil).Run)
	cl, main := client.New(conn), events.Thread{Session: "s", Name: events.MainThread}
	pub := cl.Publisher(client.PublisherConfig{Producer: "p"})
	for i, line := range lines {
		must.Get(pub.Publish(t.Context(), client.Entry{Thread: main, Dialect: "claude", Seq: uint64(i + 1), Body: []byte(line)}))(t)
	}
	must.Do(t, cl.Thread(main).Await(t.Context(), "p", 0, uint64(len(lines))))
	return cl
}

// export runs an export until what it sends is taken.
func export(t *testing.T, cl *client.Client, name string, cfg otlp.Config) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	taken, upload := false, cfg.Upload
	cfg.All = true
	cfg.Upload = func(ctx context.Context, s []*tracepb.ResourceSpans) error {
		if taken {
			cancel() // the turn before is done
			return ctx.Err()
		}
		err := upload(ctx, s)
		taken = err == nil
		if taken {
			time.AfterFunc(time.Second, cancel) // there may be no other
		}
		return err
	}
	if err := otlp.Run(ctx, cl, name, cfg); !errors.Is(err, context.Canceled) || !taken {
		t.Fatalf("Run() = %v, taken %v", err, taken)
	}
}

func TestTurn(t *testing.T) {
	cl := stored(t)
	upload, sink := collector(t)
	export(t, cl, "one", otlp.Config{Upload: upload})
	first := spans(sink)
	if len(first) != 2 {
		t.Fatalf("%d spans, want a turn and a call", len(first))
	}
	whole, call := named(t, first, "invoke_agent claude"), named(t, first, "execute_tool Bash")
	if call.ParentSpanID() != whole.SpanID() || call.TraceID() != whole.TraceID() || !whole.ParentSpanID().IsEmpty() {
		t.Error("the call is no child of the turn")
	}
	if got := whole.EndTimestamp().AsTime().Sub(whole.StartTimestamp().AsTime()); got < 7*time.Second || got > 8*time.Second {
		t.Errorf("the turn took %v, want 7.1 s", got)
	}
	if got := call.EndTimestamp().AsTime().Sub(call.StartTimestamp().AsTime()); got != 3*time.Second {
		t.Errorf("the call took %v, want 3 s", got)
	}
	if call.Status().Code() != ptrace.StatusCodeError {
		t.Error("the call failed, and its span does not say so")
	}
	for key, want := range map[string]any{
		"gen_ai.conversation.id": "s", "gen_ai.operation.name": "invoke_agent", "gen_ai.usage.input_tokens": int64(120),
		"gen_ai.usage.cache_read.input_tokens": int64(90), "gen_ai.usage.output_tokens": int64(12), "spool.thread": "main",
	} {
		if got, ok := whole.Attributes().Get(key); !ok || got.AsRaw() != want {
			t.Errorf("%s = %v, want %v", key, got.AsRaw(), want)
		}
	}
	for _, s := range first {
		for key, v := range s.Attributes().All() {
			if said := v.AsString(); strings.Contains(said, "secret") || strings.Contains(said, "count the lines") ||
				strings.Contains(said, "no such") {
				t.Errorf("%s says what was said: %s", key, said)
			}
		}
	}

	export(t, cl, "two", otlp.Config{Upload: upload, Content: true})
	again := spans(sink)
	if !maps.EqualFunc(first, again, func(a, b ptrace.Span) bool { return a.Name() == b.Name() }) {
		t.Errorf("what is sent again is %d spans, want the %d of before", len(again), len(first))
	}
	if got, _ := named(t, again, "execute_tool Bash").Attributes().Get("gen_ai.tool.call.arguments"); !strings.Contains(got.AsString(), "secret.txt") {
		t.Errorf("arguments with content: %q", got.AsString())
	}
	if got, _ := named(t, again, "invoke_agent claude").Attributes().Get("gen_ai.input.messages"); !strings.Contains(got.AsString(), "count the lines") {
		t.Errorf("messages with content: %q", got.AsString())
	}
}

// A collector that does not take a turn is given it again, and a program that ends before is followed by one that sends it.
func TestCollectorFails(t *testing.T) {
	cl := stored(t)
	upload, sink := collector(t)
	var tries atomic.Int64
	ctx, cancel := context.WithCancel(t.Context())
	err := otlp.Run(ctx, cl, "name", otlp.Config{All: true, Upload: func(context.Context, []*tracepb.ResourceSpans) error {
		if tries.Add(1) == 3 {
			cancel()
		}
		return errors.New("not now")
	}})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("Run() = %v, want that of its context", err)
	}
	export(t, cl, "name", otlp.Config{Upload: upload})
	if all := slices.Collect(maps.Keys(spans(sink))); len(all) != 2 {
		t.Errorf("%d spans, want 2", len(all))
	}
}

// until runs an export of all turns until one is taken that has a span of that name, and gives what was taken and said.
func until(t *testing.T, cl *client.Client, name string, cfg otlp.Config) (given [][]*tracepb.Span, log string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
	defer cancel()
	var said bytes.Buffer
	upload, found := cfg.Upload, false
	cfg.All, cfg.Log = true, slog.New(slog.NewTextHandler(&said, nil))
	cfg.Upload = func(ctx context.Context, all []*tracepb.ResourceSpans) error {
		spans := all[0].ScopeSpans[0].Spans
		err := upload(ctx, all)
		if err == nil {
			given = append(given, spans)
		}
		if found || err == nil && slices.ContainsFunc(spans, func(s *tracepb.Span) bool { return s.Name == name }) {
			if found {
				cancel() // the turn is done that it was in
			}
			found = true
			time.AfterFunc(time.Second, cancel)
		}
		return err
	}
	if err := otlp.Run(ctx, cl, "name", cfg); !errors.Is(err, context.Canceled) || !found {
		t.Fatalf("Run() = %v, want the turn %q to be taken; log: %s", err, name, &said)
	}
	return given, said.String()
}

// A turn that the collector refuses does not hold up for ever what is behind it.
func TestRefusedTurn(t *testing.T) {
	then := []string{
		`{"type":"assistant","uuid":"a3","parentUuid":"u3","sessionId":"s","timestamp":"2026-11-20T10:01:07.000Z","message":{"id":"m3","role":"assistant","model":"claude-x","stop_reason":"end_turn","content":[{"type":"tool_use","id":"call_2","name":"Write","input":{}}],"usage":{"input_tokens":20,"output_tokens":7}}}`,
		`{"type":"system","subtype":"turn_duration","uuid":"d2","parentUuid":"a3","sessionId":"s","timestamp":"2026-11-20T10:01:08.000Z","durationMs":8000}`,
	}
	cl := storedLines(t, append(slices.Clone(lines), then...))
	_, log := until(t, cl, "execute_tool Write", otlp.Config{Upload: func(_ context.Context, all []*tracepb.ResourceSpans) error {
		if slices.ContainsFunc(all[0].ScopeSpans[0].Spans, func(s *tracepb.Span) bool { return s.Name == "execute_tool Bash" }) {
			return errors.New("400 Bad Request")
		}
		return nil
	}})
	if !strings.Contains(log, "level=ERROR") || !strings.Contains(log, "left out") || !strings.Contains(log, "s/main item") {
		t.Errorf("the log does not say that the turn is left out: %s", log)
	}
}

// Spans that the collector took in part, or with a remark, are not sent again.
func TestTakenInPart(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	tries := 0
	err := otlp.Run(ctx, stored(t), "name", otlp.Config{All: true, Upload: func(context.Context, []*tracepb.ResourceSpans) error {
		if tries++; tries == 1 {
			time.AfterFunc(2*time.Second, cancel)
		}
		return errors.New("OTLP partial success: too old (1 spans rejected)")
	}})
	if !errors.Is(err, context.Canceled) || tries != 1 {
		t.Errorf("Run() = %v after %d tries, want 1", err, tries)
	}
}

// A turn of many calls is sent in parts, each span in one of them.
func TestLongTurn(t *testing.T) {
	const calls = 100
	long := strings.Repeat("x", 40<<10)
	many := []string{lines[0]}
	for i := range calls {
		many = append(many, fmt.Sprintf(`{"type":"assistant","uuid":"a%d","sessionId":"s","timestamp":"2026-11-20T10:00:02.000Z","message":{"id":"n%[1]d","role":"assistant","content":[{"type":"tool_use","id":"c%[1]d","name":"T%[1]d","input":{"command":%q}}]}}`, i, long),
			fmt.Sprintf(`{"type":"user","uuid":"r%d","sessionId":"s","timestamp":"2026-11-20T10:00:05.000Z","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"c%[1]d","content":"ok"}]}}`, i))
	}
	cl := storedLines(t, append(many, lines[4]))
	given, _ := until(t, cl, "invoke_agent claude", otlp.Config{Content: true,
		Upload: func(context.Context, []*tracepb.ResourceSpans) error { return nil }})
	names := map[string]bool{}
	for _, spans := range given {
		size := 0
		for _, s := range spans {
			size += len(s.String())
			names[s.Name] = true
		}
		if size > 2<<20 {
			t.Errorf("%d bytes are sent at a time, want 2 MiB at most", size)
		}
	}
	if len(names) != calls+1 {
		t.Errorf("%d spans, want %d", len(names), calls+1)
	}
}

// The turns of a subagent are in the call that began it: of two that say the same, the last one before it.
func TestSubagent(t *testing.T) {
	call := func(n int, at, prompt string) string {
		return fmt.Sprintf(`{"type":"assistant","uuid":"t%d","sessionId":"s","timestamp":"2026-11-20T10:00:%sZ","message":{"id":"k%[1]d","role":"assistant",`+
			`"content":[{"type":"tool_use","id":"task_%[1]d","name":"Task%[1]d","input":{"description":"look","prompt":%[3]q}}]}}`, n, at, prompt)
	}
	cl := storedLines(t, []string{lines[0], call(1, "01.000", "Find it."), call(2, "02.000", "Find it."), call(3, "03.000", "Count it."),
		call(4, "09.000", "Find it."), lines[3], lines[4]})
	for name, task := range map[string]string{"agent-1": "Find it.", "agent-2": "Count it.", "agent-3": "Nobody asked."} {
		th := events.Thread{Session: "s", Name: name}
		pub := cl.Publisher(client.PublisherConfig{Producer: name})
		for i, line := range []string{
			fmt.Sprintf(`{"type":"user","uuid":"%s-1","isSidechain":true,"agentId":"x","sessionId":"s","timestamp":"2026-11-20T10:00:04.000Z","message":{"role":"user","content":%q}}`, name, task),
			fmt.Sprintf(`{"type":"assistant","uuid":"%s-2","isSidechain":true,"agentId":"x","sessionId":"s","timestamp":"2026-11-20T10:00:05.000Z","message":{"id":"m","role":"assistant","stop_reason":"end_turn","content":[{"type":"text","text":"there"}]}}`, name),
		} {
			must.Get(pub.Publish(t.Context(), client.Entry{Thread: th, Dialect: "claude", Seq: uint64(i + 1), Body: []byte(line)}))(t)
		}
		must.Do(t, cl.Thread(th).Await(t.Context(), name, 0, 2))
	}
	upload, sink := collector(t)
	ctx, cancel := context.WithTimeout(t.Context(), must.Patience)
	defer cancel()
	turns := 0
	err := otlp.Run(ctx, cl, "name", otlp.Config{All: true, Upload: func(ctx context.Context, all []*tracepb.ResourceSpans) error {
		if turns++; turns == 4 {
			defer cancel()
		}
		return upload(context.WithoutCancel(ctx), all)
	}})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("Run() = %v after %d turns", err, turns)
	}
	all := spans(sink)
	for name, call := range map[string]string{"agent-1": "execute_tool Task2", "agent-2": "execute_tool Task3"} {
		if got, want := named(t, all, "invoke_agent "+name).ParentSpanID(), named(t, all, call).SpanID(); got != want {
			t.Errorf("the parent of %s is %s, want %s, which is %s", name, got, want, call)
		}
	}
	for _, name := range []string{"agent-3", "claude"} {
		if s := named(t, all, "invoke_agent "+name); !s.ParentSpanID().IsEmpty() {
			t.Errorf("%s has a parent", name)
		}
	}
}

// TestAgent: the turns of a session are those of the program that listings name.
func TestAgent(t *testing.T) {
	conn := natstest.Conn(t)
	natstest.Run(t, service.NewPersister(conn, service.PersisterConfig{}, nil).Run)
	cl, main := client.New(conn), events.Thread{Session: "s", Name: events.MainThread}
	pub := cl.Publisher(client.PublisherConfig{Producer: "p", File: sessions.FileACP})
	for i, line := range []string{
		`{"type":"message","id":"a","timestamp":"2026-11-20T12:00:00Z","message":{"role":"user","content":"hi"}}`,
		`{"type":"message","id":"b","timestamp":"2026-11-20T12:00:01Z","message":{"role":"assistant","content":[],"stopReason":"stop"}}`,
	} {
		must.Get(pub.Publish(t.Context(), client.Entry{Thread: main, Dialect: "omp", Seq: uint64(i + 1), Body: []byte(line)}))(t)
	}
	must.Do(t, cl.Thread(main).Await(t.Context(), "p", 0, 2))
	upload, sink := collector(t)
	export(t, cl, "o", otlp.Config{Upload: upload})
	named(t, spans(sink), "invoke_agent acp")
}
