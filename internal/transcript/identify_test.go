package transcript_test

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"spool/internal/transcript"
	"spool/pkg/events"
)

const (
	codexLine = `{"timestamp":"2026-01-05T10:00:00.000Z","type":"session_meta","payload":{"id":"01a6f001-0000-7000-8000-000000000001","cwd":"/x"}}` + "\n"
	ompLine   = `{"type":"session","version":3,"id":"019f8412-6b41-7e5a-987f-261ed11eb751","timestamp":"2026-01-05T10:00:00.000Z","cwd":"/x"}` + "\n"
	titleSlot = `{"type":"title","v":1,"title":"A","pad":"   "}` + "\n"
	agentLine = `{"parentUuid":null,"isSidechain":true,"agentId":"a1b2","sessionId":"` + sessionID +
		`","type":"user","uuid":"u","message":{"role":"user","content":"x"}}` + "\n"
	sideLine = `{"parentUuid":null,"isSidechain":true,"sessionId":"` + sessionID +
		`","type":"user","uuid":"u","message":{"role":"user","content":"x"}}` + "\n"
	noID = `{"type":"summary","summary":"s","leafUuid":"l"}` + "\n"
)

func TestIdentify(t *testing.T) {
	const codexID, ompID = "01a6f001-0000-7000-8000-000000000001", "019f8412-6b41-7e5a-987f-261ed11eb751"
	const otherID = "0c0c9a52-7d0e-4f0b-9a3e-2f6f1c0d7e11" // goes on from the session that its lines name
	project := "projects/-home-dev/"
	for _, c := range []struct {
		name, content            string
		dialect, session, thread string
	}{
		{project + sessionID + ".jsonl", userLines(1), "claude", sessionID, "main"},
		{project + sessionID + ".jsonl", sideLine, "claude", sessionID, "main"},
		{project + sessionID + ".jsonl", noID, "claude", sessionID, "main"},
		{project + sessionID + ".jsonl", noID + userLines(1), "claude", sessionID, "main"},
		{project + otherID + ".jsonl", userLines(1), "claude", otherID, "main"},
		{project + otherID + "/subagents/agent-a1b2.jsonl", agentLine, "claude", otherID, "agent-a1b2"},
		{project + "agent-a1b2.jsonl", agentLine, "claude", sessionID, "agent-a1b2"},
		{project + "agent-ffff.jsonl", sideLine, "claude", sessionID, "agent-ffff"},
		{project + "agent-smith.jsonl", userLines(2), "claude", sessionID, "main"},
		{project + sessionID + "/subagents/agent-a1b2.jsonl", agentLine, "claude", sessionID, "agent-a1b2"},
		{project + sessionID + "/subagents/workflows/r1/agent-c3.jsonl", noID, "claude", sessionID, "agent-c3"},
		{"sessions/2026/01/05/rollout-2026-01-05T10-00-00-x.jsonl", codexLine, "codex", codexID, "main"},
		{"sessions/x.jsonl", ompLine, "omp", ompID, "main"},
		{"sessions/x.jsonl", titleSlot + ompLine, "omp", ompID, "main"},
		{"sessions/x.jsonl", bom + ompLine, "omp", ompID, "main"},
		{"sessions/x.jsonl", "\n\r\n" + strings.ReplaceAll(ompLine, "\n", "\r\n"), "omp", ompID, "main"},
		{"sessions/x.jsonl", strings.Replace(ompLine, `"id":"019f8412`, "\"id\":\n\"019f8412", 1), "omp", ompID, "main"},
		{"sessions/x.jsonl", "{\n \"type\":\"session\",\n \"id\":\"" + ompID + "\"\n}\n", "omp", ompID, "main"},
		{"x.jsonl", strings.ReplaceAll(ompLine, ompID, "a.b c"), "omp", "a_b_c-8640d2e2", "main"},
		{"x.jsonl", strings.ReplaceAll(ompLine, ompID, "a b.c"), "omp", "a_b_c-7509d20a", "main"},
		{"my notes.jsonl", noID, "claude", "claude-my_notes-", "main"},
		{"x.jsonl", "not JSON\n", "", "", ""},
		{"x.jsonl", "{\"a\":1}\n", "", "", ""},
		{"x.jsonl", "garbage without end", "", "", ""},
	} {
		fsys := fstest.MapFS{c.name: {Data: []byte(c.content)}}
		id, err := transcript.Identify(transcript.Source{FS: fsys, Path: c.name}, "")
		if c.dialect == "" {
			if !errors.Is(err, transcript.ErrNotTranscript) || !strings.Contains(err.Error(), "--dialect") ||
				!strings.Contains(err.Error(), c.name) {
				t.Errorf("Identify(%s) = %v, want ErrNotTranscript with the file and what to do", c.name, err)
			}
			continue
		}
		if err != nil || id.Dialect != c.dialect || !strings.HasPrefix(id.Thread.Session, c.session) || id.Thread.Name != c.thread {
			t.Errorf("Identify(%s with %.40q) = %s %s, %v, want %s %s/%s", c.name, c.content, id.Dialect, id.Thread, err, c.dialect,
				c.session, c.thread)
		}
		if err := id.Thread.Validate(); err != nil {
			t.Error(err)
		}
	}
}

func TestLongAndForeignNamesStayApart(t *testing.T) {
	long := strings.Repeat("a", 200)
	seen := map[events.Thread]bool{}
	for _, session := range []string{long, long + "b", "ünï", "ünî", "..", "a/b", "a.b", "*", ">", " "} {
		line := strings.ReplaceAll(ompLine, "019f8412-6b41-7e5a-987f-261ed11eb751", session)
		id, err := transcript.Identify(transcript.Source{FS: fstest.MapFS{"x": {Data: []byte(line)}}, Path: "x"}, "")
		if err != nil || id.Thread.Validate() != nil || seen[id.Thread] {
			t.Errorf("session %q = %s, %v, want a valid name of its own", session, id.Thread, err)
		}
		seen[id.Thread] = true
	}
}

func TestForcedDialect(t *testing.T) {
	src := transcript.Source{FS: fstest.MapFS{"log.txt": {Data: []byte("one\n{\"a\":1}\n")}}, Path: "log.txt"}
	id, err := transcript.Identify(src, "raw")
	if err != nil || !strings.HasPrefix(id.Thread.Session, "raw-log_txt-") {
		t.Errorf("Identify as raw = %s, %v, want raw-log_txt-<8 hex>", id.Thread, err)
	}
	if _, err := transcript.Identify(src, "cobol"); err == nil || !strings.Contains(err.Error(), "claude") {
		t.Errorf("Identify as cobol = %v, want an error that names the dialects", err)
	}
}

func TestEmptyAndUnfinishedFiles(t *testing.T) {
	for _, content := range []string{"", "\n\n", `{"type":"sess`, titleSlot, titleSlot[:20]} {
		s := newStore()
		res := run(t, s, transcript.Config{}, write(t, filepath.Join(t.TempDir(), "a.jsonl"), content))
		if !warned(res, "nothing to import") || s.events() != 0 {
			t.Errorf("import of %q: warnings %q, %d events, want a word and none", content, res.Files[0].Warnings, s.events())
		}
	}
}

func TestFind(t *testing.T) {
	files := fstest.MapFS{}
	for _, name := range []string{
		"h/projects/k/s.jsonl", "h/projects/k/s/subagents/agent-1.jsonl", "h/projects/k/s/subagents/w/r/agent-2.jsonl",
		"h/projects/k/s/subagents/agent-1.meta.json", "h/projects/k/s/tool-results/t.txt", "h/history.jsonl",
		"h/projects/k/memory/MEMORY.md", "h/projects/k/sessions-index.json", "h/projects/k/s/notes.txt", "h/settings.json",
		"c/sessions/2026/01/05/rollout-a.jsonl", "c/sessions/2026/01/05/rollout-b.jsonl.zst", "c/session_index.jsonl", "c/state.sqlite",
		"named.txt",
	} {
		files[name] = &fstest.MapFile{Data: []byte("x")}
	}
	found, err := transcript.Find(files, "h", "c", "named.txt", "h/projects/k/s.jsonl", "gone")
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "gone") {
		t.Errorf("Find = %v, want ErrNotExist for gone", err)
	}
	var got []string
	for _, s := range found {
		got = append(got, s.Path)
		if named := s.Path == "named.txt" || s.Path == "h/projects/k/s.jsonl"; s.Walked == named {
			t.Errorf("%s: Walked = %v, want %v", s.Path, s.Walked, !named)
		}
	}
	want := "c/sessions/2026/01/05/rollout-a.jsonl c/sessions/2026/01/05/rollout-b.jsonl.zst h/projects/k/s.jsonl h/projects/k/s/subagents/agent-1.jsonl " +
		"h/projects/k/s/subagents/agent-1.meta.json h/projects/k/s/subagents/w/r/agent-2.jsonl h/projects/k/s/tool-results/t.txt named.txt"
	if strings.Join(got, " ") != want {
		t.Errorf("Find = %s\nwant %s", got, want)
	}
}

// In a directory a file that is no transcript is passed over with a word; one that was named is an error. Neither stops the
// others.
func TestForeignFiles(t *testing.T) {
	dir := t.TempDir()
	other := write(t, filepath.Join(dir, "other.jsonl"), "{\"a\":1}\n")
	write(t, filepath.Join(dir, "z.jsonl"), userLines(2))
	s := newStore()
	if res := run(t, s, transcript.Config{}, dir); !warned(res, "not a transcript") || res.Published != 2 {
		t.Errorf("import of the directory = %+v, want a warning and 2 lines", res)
	}
	sources, _ := transcript.Find(disk{}, dir, other)
	res := transcript.New(s, s, transcript.Config{}).Import(t.Context(), sources)
	if !errors.Is(res.Files[0].Err, transcript.ErrNotTranscript) || res.Failed != 1 || res.Skipped != 2 {
		t.Errorf("import of the named file = %+v, want ErrNotTranscript", res)
	}
}

func TestDamagedCompression(t *testing.T) {
	for _, name := range []string{"a.jsonl.zst", "a.jsonl.gz"} {
		s := newStore()
		sources, _ := transcript.Find(disk{}, write(t, filepath.Join(t.TempDir(), name), "no such format, whatever the name says"))
		res := transcript.New(s, s, transcript.Config{}).Import(t.Context(), sources)
		if res.Failed != 1 || !strings.Contains(res.Files[0].Error, name) {
			t.Errorf("import of a damaged %s = %+v, want an error that names it", name, res.Files[0])
		}
	}
}

// FuzzImport holds that whatever a file has in it comes back, and only once.
func FuzzImport(f *testing.F) {
	for _, content := range shapes {
		if len(content) < 2000 {
			f.Add([]byte(content))
		}
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		s := newStore()
		src := []transcript.Source{{FS: fstest.MapFS{"a": {Data: content}}, Path: "a"}}
		res := transcript.New(s, s, transcript.Config{Dialect: "claude"}).Import(t.Context(), src)
		if res.Failed > 0 {
			t.Fatal(res.Files[0].Error)
		}
		if res.Files[0].Session == "" {
			return
		}
		same(t, s.export(t, res.Files[0].ID()), string(content))
		n := s.events()
		if again := transcript.New(s, s, transcript.Config{Dialect: "claude"}).Import(t.Context(), src); again.Published != 0 || s.events() != n {
			t.Fatalf("second import published %d", again.Published)
		}
	})
}
