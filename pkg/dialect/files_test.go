package dialect_test

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"spool/examples"
	"spool/internal/jsonscan"
	"spool/internal/must"
	"spool/pkg/dialect"
	"spool/pkg/dialect/entry"
	"spool/pkg/events"
)

// counts is how many items of each type a file has; "" is a user post. They were counted by a program of its own.
var counts = map[string]map[string]int{
	"claude-recorded-v1.0.108-sidechains-japanese": {"": 1, "status": 2, "text": 7, "tool_call": 21, "tool_result": 21},
	"claude-recorded-v2.0.26-inline-image": {"": 4, "pending_prompt": 3, "pending_prompt_resolved": 3, "status": 2, "text": 6,
		"tool_call": 10, "tool_result": 10, "turn_end": 3},
	"claude-recorded-v2.1.14-compact-progress-queue": {"": 3, "status": 4, "text": 12, "thinking": 40, "tool_call": 39,
		"tool_result": 39, "turn_end": 3},
	"claude-recorded-v2.1.17-tool-errors-emoji": {"": 3, "status": 2, "text": 11, "thinking": 32, "tool_call": 38,
		"tool_result": 38, "turn_end": 2},
	"claude-synthetic": {"": 1, "status": 2, "text": 2, "thinking": 1, "tool_call": 1, "tool_result": 1, "turn_end": 1},
	"codex-synthetic":  {"": 1, "status": 4, "text": 1, "thinking": 1, "tool_call": 2, "tool_result": 2, "turn_end": 1},
	"omp-recorded-v1": {"": 88, "status": 23, "text": 244, "thinking": 1, "tool_call": 391, "tool_result": 373,
		"turn_end": 87},
	"pi-recorded-v3-five-user-turns": {"": 5, "status": 30, "text": 9, "thinking": 33, "tool_call": 38, "tool_result": 38,
		"turn_end": 22},
	"7b3e1c52-9d4a-4f61-8a20-5c1de0f4a9b3": {"": 4, "pending_prompt": 1, "pending_prompt_resolved": 1, "status": 2, "text": 7,
		"thinking": 2, "tool_call": 12, "tool_result": 12, "turn_end": 4},
	"agent-a4f19c27": {"": 1, "text": 2, "tool_call": 2, "tool_result": 2, "turn_end": 1},
	"rollout-2026-11-20T09-15-00-019aa0c4-5be0-7c31-9f42-6d0e8b7a2c15": {"": 4, "status": 8, "text": 3, "thinking": 4,
		"tool_call": 9, "tool_result": 9, "turn_end": 4},
	"2026-11-20T09-30-00-000Z_019aa0d2-1780-7f03-b6c1-2e94d0a7f358": {"": 4, "status": 6, "text": 6, "thinking": 2,
		"tool_call": 6, "tool_result": 6, "turn_end": 4},
}

// transcripts are the examples, and the recorded files where they are present: in the folder that SPOOL_TRANSCRIPTS names,
// or beside the module.
func transcripts(t testing.TB) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	add := func(fsys fs.FS) error {
		return fs.WalkDir(fsys, ".", func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || filepath.Ext(path) != ".jsonl" {
				return err
			}
			data, err := fs.ReadFile(fsys, path)
			all[strings.TrimSuffix(filepath.Base(path), ".jsonl")] = data
			return err
		})
	}
	must.Do(t, add(examples.FS))
	dir := os.Getenv("SPOOL_TRANSCRIPTS")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "shared", "transcripts")
	}
	if _, err := os.Stat(dir); err == nil {
		must.Do(t, add(os.DirFS(dir)))
	}
	return all
}

func lines(data []byte) (out [][]byte) {
	for line := range bytes.Lines(data) {
		if line = bytes.TrimSpace(line); len(line) > 0 {
			out = append(out, line)
		}
	}
	return out
}

func detect(t testing.TB, data []byte) dialect.Dialect {
	t.Helper()
	all := lines(data)
	name, ok := dialect.Detect(all[:min(12, len(all))])
	d, found := dialect.Lookup(name)
	if !ok || !found {
		t.Fatalf("Detect = %q, %v", name, ok)
	}
	return d
}

func TestDetect(t *testing.T) {
	want := map[string]string{"7b": "claude", "ag": "claude", "cl": "claude", "ro": "codex", "co": "codex", "20": "omp",
		"om": "omp", "pi": "omp"}
	for name, data := range transcripts(t) {
		must.Same(t, detect(t, data).Name(), want[name[:2]], "Detect(%s) = %s, want %s", name)
	}
	for _, line := range []string{``, `{}`, `[]`, `{"type":"x"}`, `hello`, `{"content":[],"metadata":{"type":"text"}}`,
		`{"role":"coder","content":""}`} {
		if name, ok := dialect.Detect([][]byte{[]byte(line)}); ok {
			t.Errorf("Detect(%s) = %s, want nothing", line, name)
		}
	}
	for line, want := range map[string]string{
		`{"info":{"id":"ses_1"},"messages":[]}`:                                                   "opencode",
		`{"type":"session.start","data":{"sessionId":"s"},"id":"e","parentId":null}`:              "copilot",
		`{"sessionId":"s","projectHash":"p","kind":"main"}`:                                       "gemini",
		`{"uuid":"u","parentUuid":null,"sessionId":"s","type":"user","message":{"parts":[]}}`:     "qwen",
		`{"uuid":"u","parentUuid":"u","sessionId":"s","type":"system","provenance":"system"}`:     "qwen",
		`{"uuid":"u","parentUuid":null,"sessionId":"s","type":"user","message":{"content":"hi"}}`: "claude",
	} {
		name, _ := dialect.Detect([][]byte{[]byte(line)})
		must.Same(t, name, want, "Detect(%s) = %s, want %s", line)
	}
	titled := [][]byte{[]byte(`{"type":"title","v":1,"title":"T","pad":"  "}`), []byte(`{"type":"session","version":3,"id":"s"}`)}
	if name, _ := dialect.Detect(titled); name != "omp" {
		t.Errorf("Detect(title slot) = %q, want omp", name)
	}
}

// Every line of every transcript is read, to the items counted by other means.
func TestTranscripts(t *testing.T) {
	for name, data := range transcripts(t) {
		t.Run(name, func(t *testing.T) {
			d := detect(t, data)
			var m dialect.Memory
			got := map[string]int{}
			called := map[string]bool{}
			unknown := map[string]int{}
			for i, line := range lines(data) {
				e := readTwice(t, d, line, &m)
				if !e.Known {
					unknown[e.Type]++
				}
				for _, it := range e.Items {
					checkItem(t, it)
					got[it.Type]++
					checkFold(t, i+1, it, called)
				}
			}
			if want := counts[name]; want != nil {
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("items (-want +got):\n%s", diff)
				}
			}
			wantUnknown := map[string]int{}
			if strings.HasPrefix(name, "7b3e1c52") {
				wantUnknown["weather-annotation"] = 1
			}
			if diff := cmp.Diff(wantUnknown, unknown); diff != "" {
				t.Errorf("unknown types (-want +got):\n%s", diff)
			}
		})
	}
}

// readTwice reads a line and checks what rebuilding relies on: the same line and memory give the same result, also with
// the memory stored and read back; and a memory that was not used can be left out.
func readTwice(t testing.TB, d dialect.Dialect, line []byte, m *dialect.Memory) dialect.Entry {
	t.Helper()
	before := *m
	snapshot := m.Encode()
	e, err := d.Read(line, m)
	if err != nil {
		t.Fatalf("%s.Read(%.200s): %v", d.Name(), line, err)
	}
	stored, err := dialect.DecodeMemory(snapshot)
	if err != nil {
		t.Fatalf("DecodeMemory(%x): %v", snapshot, err)
	}
	for what, other := range map[string]*dialect.Memory{"again": &before, "from a snapshot": &stored} {
		again, err := d.Read(line, other)
		if err != nil || !reflect.DeepEqual(e, again) {
			t.Fatalf("Read %s differs (%v):\n%.300s\n%s", what, err, line, cmp.Diff(e, again))
		}
		if other.Used() != m.Used() || !bytes.Equal(other.Encode(), m.Encode()) {
			t.Fatalf("memory after Read %s differs: %x, want %x", what, other.Encode(), m.Encode())
		}
	}
	if !m.Used() {
		fresh, err := d.Read(line, nil)
		if err != nil || !reflect.DeepEqual(e, fresh) {
			t.Fatalf("memory is not used, but Read without it differs (%v):\n%.300s\n%s", err, line, cmp.Diff(e, fresh))
		}
	}
	if n := len(m.Encode()); n > entry.MaxMemory {
		t.Fatalf("memory has %d bytes, want at most %d", n, entry.MaxMemory)
	}
	return e
}

func checkItem(t testing.TB, it events.Item) {
	t.Helper()
	if !json.Valid(it.Content) || !utf8.Valid(it.Content) || jsonscan.KindOf(it.Content) != jsonscan.KindArray {
		t.Fatalf("content is no JSON array in UTF-8: %.300q", it.Content)
	}
	if it.Type == "" && it.Metadata == nil {
		return
	}
	if !json.Valid(it.Metadata) || !utf8.Valid(it.Metadata) || jsonscan.KindOf(it.Metadata) != jsonscan.KindObject {
		t.Fatalf("metadata is no JSON object in UTF-8: %.300q", it.Metadata)
	}
	if typ, _ := jsonscan.Text(jsonscan.Get(it.Metadata, "type")); typ != it.Type {
		t.Fatalf("metadata.type = %q, want %q", typ, it.Type)
	}
}

// checkFold checks that a result comes after its call (SPEC I3).
func checkFold(t *testing.T, line int, it events.Item, called map[string]bool) {
	t.Helper()
	if it.Type != events.TypeToolCall && it.Type != events.TypeToolResult {
		return
	}
	id, _ := jsonscan.Text(jsonscan.Get(it.Metadata, "tool", "invocation_id"))
	switch {
	case it.Type == events.TypeToolCall && called[id]:
		t.Errorf("line %d: call %q is posted twice", line, id)
	case it.Type == events.TypeToolResult && !called[id]:
		t.Errorf("line %d: result %q has no call before it", line, id)
	}
	called[id] = true
}
