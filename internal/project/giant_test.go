package project_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"spool/internal/must"
	"spool/internal/project"
	"spool/pkg/casstore"
	"spool/pkg/dialect"
	"spool/pkg/events"
	"spool/pkg/threads"
	"spool/pkg/truncate"
)

// giants are entries with strings that the size rules cut, wherever an item can have one. %s is inside such a string, %d a
// number that makes them differ.
var giants = map[string][]string{
	"claude": {
		`{"type":"user","uuid":"u%[2]d","timestamp":"2026-11-20T10:00:00.000Z","message":{"role":"user","content":"%[1]s"}}`,
		`{"type":"user","uuid":"u%[2]d","timestamp":"2026-11-20T10:00:00.000Z","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":[{"type":"text","text":"%[1]s"},{"type":"text","text":"small"}]},{"type":"text","text":"also %[1]s"}]}}`,
		`{"type":"assistant","uuid":"u%[2]d","timestamp":"2026-11-20T10:00:00.000Z","message":{"id":"m%[2]d","role":"assistant","content":[{"type":"thinking","thinking":"%[1]s","signature":"x"},{"type":"tool_use","id":"t","name":"Write","input":{"path":"f","content":"%[1]s"}}]}}`,
	},
	"codex": {
		`{"timestamp":"2026-11-20T10:00:00.000Z","type":"response_item","payload":{"type":"function_call_output","call_id":"c","output":"%[1]s"}}`,
		`{"timestamp":"2026-11-20T10:00:00.000Z","type":"response_item","payload":{"type":"message","role":"assistant","content":[{"type":"output_text","text":"%[1]s"}]}}`,
	},
	"omp": {
		`{"type":"message","id":"e%[2]d","timestamp":"2026-11-20T10:00:00.000Z","message":{"role":"toolResult","toolCallId":"t","toolName":"bash","content":[{"type":"text","text":"%[1]s"}]}}`,
	},
	"item": {
		`{"id":"i%[2]d","content":[{"type":"text","text":"brief"}],"metadata":{"type":"tool_result","tool":{"invocation_id":"t","output":"%[1]s"},"mine":["%[1]s",{"k":"%[1]s"}]}}`,
	},
	"step": {`{"role":"coder","content":"%[1]s","meta":{"note":"%[1]s"}}`},
}

// long is the inside of a JSON string whose cut is at different characters, with every spelling.
func long(n int) string {
	unit := `line \u00e9 é \ud83c\udf4a 🍊 \"quoted\" \\ \/ \u0001\n`
	return strings.Repeat("x", n) + strings.Repeat(unit, 520_000/26)
}

// TestFullOfGiants: what is made of a giant as a stream is what is made of it in memory, but for what its brief says about a
// string that was cut (SPEC I5).
func TestFullOfGiants(t *testing.T) {
	th := events.Thread{Session: "s", Name: "main"}
	at := casstore.NodeRef([32]byte{1, 2, 3})
	for name, forms := range giants {
		d, ok := dialect.Lookup(name)
		if !ok {
			t.Fatalf("no dialect %s", name)
		}
		for i, form := range forms {
			for shift := range 4 {
				raw := fmt.Appendf(nil, form, long(shift*7), i)
				cut, err := truncate.Entry(raw, nil, truncate.Options{})
				if err != nil || cut.Full == nil {
					t.Fatalf("%s %d: Entry = %v, want a cut", name, i, err)
				}
				e := must.Get(d.Read(cut.Text, &dialect.Memory{}))(t)
				st := threads.State{Timestamp: 1_000, Entry: threads.Record{
					Dialect: name, Projection: project.Version(d), First: 1, Count: int64(len(e.Items)), ID: e.ID, Memory: (&dialect.Memory{}).Encode(),
				}}
				want := must.Get(project.Full(th, at, st, cut.Full))(t)
				var got bytes.Buffer
				must.Do(t, project.FullTo(&got, th, at, st, bytes.NewReader(cut.Full), bytes.NewReader(cut.Full), nil))
				lines := bytes.Split(bytes.TrimSuffix(got.Bytes(), []byte("\n")), []byte("\n"))
				if len(lines) != len(want) || len(want) == 0 {
					t.Fatalf("%s %d: %d items as a stream, %d in memory", name, i, len(lines), len(want))
				}
				for k := range want {
					if d := cmp.Diff(strict(t, want[k]), strict(t, lines[k])); d != "" {
						t.Fatalf("%s %d, item %d (-memory +stream):\n%.2000s", name, i, k, d)
					}
				}
			}
		}
	}
}

// strict is an item without what is said about the length of its strings.
func strict(t *testing.T, line []byte) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal(line, &v); err != nil {
		t.Fatalf("%.300s…: %v", line, err)
	}
	m, _ := v["metadata"].(map[string]any)
	if m == nil {
		return v
	}
	delete(m, "full_text_length")
	delete(m, "meta_bytes")
	if kind := m["type"]; kind == events.TypeToolResult || kind == events.TypeThinking || kind == events.TypeToolCall {
		delete(v, "content") // the brief
	}
	return v
}
