package otlp_test

import (
	"context"
	"errors"
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
	conn := natstest.Conn(t)
	natstest.Run(t, service.NewPersister(conn, service.PersisterConfig{}, nil).Run)
	cl, main := client.New(conn), events.Thread{Session: "s", Name: events.MainThread}
	pub := cl.Publisher(client.PublisherConfig{Producer: "p"})
	for i, line := range lines {
		must.Do(t, pub.Publish(t.Context(), client.Entry{Thread: main, Dialect: "claude", Seq: uint64(i + 1), Body: []byte(line)}))
	}
	must.Do(t, cl.Await(t.Context(), main, "p", 0, uint64(len(lines))))
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
			if said := v.AsString(); strings.Contains(said, "secret") || strings.Contains(said, "count the lines") || strings.Contains(said, "no such") {
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
