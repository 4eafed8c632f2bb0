package e2e_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"spool/internal/must"
	"strings"
	"testing"
	"time"
)

// harness writes a transcript that grows, as an agent's does.
type harness struct {
	file   string
	thread string
	lines  int
	line   func(n int) string
}

// harnesses are one of each kind. Their lines are alike but for a number, and some are large, so that batches differ.
func harnesses(t *testing.T, dir string) []*harness {
	t.Helper()
	all := []*harness{
		{file: "claude/projects/-home-e2e/7b3e1c52-0000-4f61-8a20-5c1de0f4a9b3.jsonl", line: claudeLine,
			thread: "7b3e1c52-0000-4f61-8a20-5c1de0f4a9b3/main"},
		{file: "codex/sessions/2026/11/20/rollout-2026-11-20T09-15-00-019aa0c4-5be0-7c31-9f42-6d0e8b7a2c15.jsonl", line: codexLine,
			thread: "019aa0c4-5be0-7c31-9f42-6d0e8b7a2c15/main"},
		{file: "omp/sessions/--home-e2e--/2026-11-20T09-30-00-000Z_019aa0d2-1780-7f03-b6c1-2e94d0a7f358.jsonl", line: ompLine,
			thread: "019aa0d2-1780-7f03-b6c1-2e94d0a7f358/main"},
	}
	for _, h := range all {
		h.file = filepath.Join(dir, h.file)
		must.Do(t, os.MkdirAll(filepath.Dir(h.file), 0o755))
	}
	return all
}

// grow appends lines. The last of them has no newline yet if open.
func (h *harness) grow(t *testing.T, lines int, open bool) {
	t.Helper()
	f := must.Get(os.OpenFile(h.file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644))(t)
	defer f.Close()
	var b strings.Builder
	for i := range lines {
		b.WriteString(h.line(h.lines))
		if !open || i < lines-1 {
			b.WriteByte('\n')
		}
		h.lines++
	}
	must.Get(f.WriteString(b.String()))(t)
}

// finish gives the last line its newline.
func (h *harness) finish(t *testing.T) {
	t.Helper()
	f := must.Get(os.OpenFile(h.file, os.O_APPEND|os.O_WRONLY, 0))(t)
	defer f.Close()
	must.Get(f.WriteString("\n"))(t)
}

func stamp(n int) string {
	return time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC).Add(time.Duration(n) * time.Second).Format("2006-01-02T15:04:05.000Z")
}

// words is what line n says: a few words, and now and then much.
func words(n int) string {
	size := 80
	switch {
	case n%97 == 96:
		size = 40_000
	case n%10 == 9:
		size = 3_000
	}
	return fmt.Sprintf("line %d ", n) + strings.Repeat("of a long day's work, ", size/22+1)[:size]
}

func encode(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // maps of strings marshal
	}
	return string(b)
}

func claudeLine(n int) string {
	role, parent := "user", any(nil)
	message := map[string]any{"role": "user", "content": words(n)}
	if n%2 == 1 {
		role = "assistant"
		message = map[string]any{"role": "assistant", "id": fmt.Sprintf("msg_%d", n), "model": "m", "type": "message",
			"content": []any{map[string]any{"type": "text", "text": words(n)}}}
	}
	uuid := func(n int) string { return fmt.Sprintf("%08x-0000-4000-8000-%012x", n, n) }
	if n > 0 {
		parent = uuid(n - 1)
	}
	return encode(map[string]any{"type": role, "uuid": uuid(n), "parentUuid": parent, "sessionId": "7b3e1c52-0000-4f61-8a20-5c1de0f4a9b3",
		"timestamp": stamp(n), "cwd": "/home/e2e", "version": "2.1.240", "isSidechain": false, "message": message})
}

func codexLine(n int) string {
	const id = "019aa0c4-5be0-7c31-9f42-6d0e8b7a2c15"
	if n == 0 {
		return encode(map[string]any{"timestamp": stamp(n), "type": "session_meta", "payload": map[string]any{
			"id": id, "timestamp": stamp(n), "cwd": "/home/e2e", "originator": "codex_cli_rs", "cli_version": "0.169.0"}})
	}
	role, kind := "user", "input_text"
	if n%2 == 0 {
		role, kind = "assistant", "output_text"
	}
	return encode(map[string]any{"timestamp": stamp(n), "type": "response_item", "payload": map[string]any{
		"type": "message", "role": role, "content": []any{map[string]any{"type": kind, "text": words(n)}}}})
}

func ompLine(n int) string {
	id := func(n int) string { return fmt.Sprintf("e%07x", n) }
	if n == 0 {
		return encode(map[string]any{"type": "session", "version": 3, "id": "019aa0d2-1780-7f03-b6c1-2e94d0a7f358",
			"timestamp": stamp(n), "cwd": "/home/e2e"})
	}
	parent := any(id(n - 1))
	switch {
	case n == 1:
		parent = nil
	case n%151 == 150:
		parent = id(n - 7) // a branch
	}
	role := "user"
	if n%2 == 0 {
		role = "assistant"
	}
	return encode(map[string]any{"type": "message", "id": id(n), "parentId": parent, "timestamp": stamp(n),
		"message": map[string]any{"role": role, "content": []any{map[string]any{"type": "text", "text": words(n)}}}})
}
