package interchange_test

import (
	"path/filepath"
	"strings"
	"testing"

	"spool/internal/must"
	"spool/pkg/client"
)

// A subagent that has a transcript and no output yet has its id: the next one that starts gets another (SPEC A9).
func TestAgentsOfTranscripts(t *testing.T) {
	dir, conn := t.TempDir(), system(t)
	header := `{"type":"session","version":3,"id":"ID","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/w"}` + "\n"
	write(t, filepath.Join(dir, "s.jsonl"), []byte(strings.Replace(header, "ID", "s", 1)))
	for _, agent := range []string{"3-Plan", "3-Plan.1-Look"} {
		write(t, filepath.Join(dir, "s", agent+".jsonl"), []byte(strings.Replace(header, "ID", agent, 1)))
	}
	load(t, conn, dir)
	load(t, conn, dir)
	cl := client.New(conn)
	for parent, want := range map[string]string{"": "4-Plan", "3-Plan": "3-Plan.2-Plan"} {
		must.Same(t, must.Get(cl.Session("s").TakeAgentID(t.Context(), parent, "Plan"))(t), want, "AgentID(%q) = %s, want %s", parent)
	}
}
