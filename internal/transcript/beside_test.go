package transcript_test

import (
	"testing"

	"spool/internal/transcript"
)

func TestBeside(t *testing.T) {
	const id = "0199aaaa-0000-4000-8000-000000000001"
	type sidecar = transcript.Sidecar
	for name, want := range map[string]sidecar{
		"projects/-w/" + id + "/tool-results/toolu_1.txt":                               {"claude", id, "tool-results/toolu_1.txt"},
		"/h/.claude/projects/-w/" + id + "/tool-results/a/b.txt":                        {"claude", id, "tool-results/a/b.txt"},
		"/h/.claude/projects/-w/" + id + "/subagents/agent-1.meta.json":                 {"claude", id, "subagents/agent-1.meta.json"},
		"/h/.claude/file-history/" + id + "/0123456789abcdef@v2":                        {"claude", id, "file-history/0123456789abcdef@v2"},
		"/h/.qwen/projects/-w/subagents/" + id + "/agent-scout-1.meta.json":             {"qwen", id, "subagents/agent-scout-1.meta.json"},
		"/srv/file-history/team/.claude/projects/-w/" + id + "/tool-results/1.txt":      {"claude", id, "tool-results/1.txt"},
		"/srv/projects/-w/tool-results/x/.claude/file-history/" + id + "/1@v1":          {"claude", id, "file-history/1@v1"},
		"/srv/projects/-w/s/tool-results/.claude/projects/-w/" + id + "/tool-results/1": {"claude", id, "tool-results/1"},
		"/h/.claude/projects/-w/" + id + "/tool-results/file-history/1.txt":             {"claude", id, "tool-results/file-history/1.txt"},
		"/h/.claude/projects/-w/" + id + "/subagents/agent-1.jsonl":                     {},
		"/h/.claude/projects/-w/" + id + ".jsonl":                                       {},
		"/h/.claude/file-history/" + id:                                                 {},
		"/h/.claude/file-history/a/b/c":                                                 {},
		"/h/.claude/projects/-w/" + id + "/tool-results/../x":                           {},
		"/h/.qwen/projects/-w/subagents/" + id + "/agent-scout-1.jsonl":                 {},
	} {
		if got, ok := transcript.Beside(name); got != want || ok != (want.Place != "") {
			t.Errorf("Beside(%s) = %+v, %v, want %+v", name, got, ok, want)
		}
	}
}
