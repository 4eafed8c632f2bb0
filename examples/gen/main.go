// Command gen writes the example transcripts in examples/: invented sessions of an invented project, each in its
// harness's own format, the same bytes on every run.
//
//	go run ./examples/gen
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	dir := flag.String("dir", "examples", "folder to write into")
	flag.Parse()
	for name, data := range files() {
		path := filepath.Join(*dir, filepath.FromSlash(name))
		if err := write(path, data); err != nil {
			fmt.Fprintln(os.Stderr, "gen:", err)
			os.Exit(1)
		}
	}
}

// files is every example by its path.
func files() map[string][]byte {
	const claude = "claude/projects/-home-mira-orchard/" + claudeSession
	return map[string][]byte{
		claude + ".jsonl": claudeMain(),
		claude + "/subagents/agent-" + claudeAgent + ".jsonl":                                  claudeSubagent(),
		claude + "/subagents/agent-" + claudeAgent + ".meta.json":                              claudeMeta(),
		"codex/sessions/2026/11/20/rollout-2026-11-20T09-15-00-" + codexThread + ".jsonl":      codexRollout(),
		"omp/sessions/--home-mira-orchard--/2026-11-20T09-30-00-000Z_" + ompSession + ".jsonl": ompSessionFile(),
	}
}

func write(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o644)
}
