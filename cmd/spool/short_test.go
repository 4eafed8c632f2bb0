package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"spool/internal/must"
	"spool/internal/service"
	"spool/internal/text"
	"spool/pkg/artifacts"
	"spool/pkg/client"
	"spool/pkg/events"
)

// TestMadeUpIDs: what changes something takes the beginning of an id that a program made up, and what removes something does
// not, where it does not ask.
func TestMadeUpIDs(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	url, cl := whole(t)
	ctx := t.Context()
	const id, twin = "019aa0d2-1780-7f03-b6c1-2e94d0a7f358", "019aa0d2-1790-7f03-b6c1-2e94d0a7f358"
	for _, id := range []string{id, twin} {
		must.Do(t, cl.Session(id).New(ctx, "/w", ""))
	}
	ask := func(line ...string) (out, said string, code int) {
		var o, e bytes.Buffer
		code = run(append(line, "--nats", url), strings.NewReader("x\n"), &o, &e)
		return o.String(), e.String(), code
	}
	for _, line := range [][]string{
		{"session", "name", "%", "A title"}, {"artifact", "put", "%"}, {"artifact", "number", "%"}, {"artifact", "cleanup", "%"},
		{"thread", "compact", "%", "so far"}, {"thread", "fork", "%", "side", "--index", "1"}, {"session", "fork", "%", "fork-1"},
		{"session", "new", "child", "--parent", "%"}, {"session", "move", "%", "/v"}, {"thread", "end", "%/side"},
	} {
		with := func(name string) []string {
			named := slices.Clone(line)
			for i := range named {
				named[i] = strings.ReplaceAll(named[i], "%", name)
			}
			return named
		}
		for name, says := range map[string]string{"019aa0d2": twin, "019aa0d2-18": "019aa0d2-18"} {
			if out, said, code := ask(with(name)...); code != service.ExitFailure || out != "" || !strings.Contains(said, says) {
				t.Errorf("%v = %d %q %q, want 1, and %s named", with(name), code, out, said, says)
			}
		}
		if _, said, code := ask(with("019AA0D2-178")...); code != 0 || !strings.Contains(said, "is the session "+id) {
			t.Errorf("%v = %d %q, want 0, and which session that is", with("019AA0D2-178"), code, said)
		}
	}
	must.Is(t, must.Err(cl.Thread(events.Thread{Session: id, Name: "side"}).AwaitHead(ctx)), nil, "the fork")
	for _, line := range [][]string{{"session", "rm", "019aa0d2-178", "--yes"}, {"thread", "rm", "019aa0d2-178/side", "--yes"}} {
		if _, said, code := ask(line...); code != service.ExitFailure || !strings.Contains(said, id) {
			t.Errorf("%v = %d %q, want 1, and the id in full", line, code, said)
		}
	}
	files := must.Get(cl.Session(id).Artifacts(ctx))(t)
	must.Same(t, len(files), 1, "%d artifacts, want %d")
	whole := string(files[0].ID)
	out, said, code := ask("artifact", "get", whole[:22])
	if out != "x\n" || code != 0 || !strings.Contains(said, whole) {
		t.Errorf("artifact get = %d %q %q, want its bytes, and which it is", code, out, said)
	}
	if _, said, code = ask("artifact", "rm", whole[:22], "--yes"); code != service.ExitFailure {
		t.Errorf("artifact rm = %d %q, want 1", code, said)
	}
	if _, said, code = ask("artifact", "get", "art_nosuch"); code != service.ExitFailure || !strings.Contains(said, "artifact ls") {
		t.Errorf("artifact get = %d %q, want 1, and what lists those that are there", code, said)
	}
}

// TestShortIDs: where a table does not fit, its ids are as short as every command takes them, and not cut.
func TestShortIDs(t *testing.T) {
	url, cl := whole(t)
	for _, id := range []string{"019aa0d2-1780-7f03-b6c1-2e94d0a7f358", "019aa0d2-1790-7f03-b6c1-2e94d0a7f358", "build-42"} {
		must.Do(t, cl.Session(id).New(t.Context(), "/w", ""))
	}
	r := must.Get(cl.Artifacts().Put(t.Context(), client.NewArtifact{Tool: "make",
		Record: artifacts.Record{Session: "019aa0d2-1780-7f03-b6c1-2e94d0a7f358"}},
		strings.NewReader("x")))(t)
	a := &app{ctx: t.Context(), err: &bytes.Buffer{}}
	var out strings.Builder
	table := text.NewTable(&out)
	table.Columns, table.Short = 60, a.short(cl, a.artifactIDs)
	for _, cell := range []string{"019aa0d2-1780-7f03-b6c1-2e94d0a7f358", "019aa0d2-1790-7f03-b6c1-2e94d0a7f358/main",
		"build-42", string(r.ID)} {
		table.Write([]byte(cell + "\ta cell that is long\tanother one\tand a rest that is long\n"))
	}
	must.Do(t, table.Flush())
	var shown []string
	for line := range strings.Lines(out.String()) {
		shown = append(shown, strings.Fields(line)[0])
	}
	want := []string{"019aa0d2-178", "019aa0d2-179/main", "build-42", string(r.ID[:8])}
	if !slices.Equal(shown, want) {
		t.Errorf("shown are %q, want %q", shown, want)
	}
	for _, name := range shown {
		command := []string{"thread", "show", name}
		if strings.HasPrefix(name, "art_") {
			command = []string{"artifact", "get", name}
		}
		var o, e bytes.Buffer
		if code := run(append(command, "--nats", url), strings.NewReader(""), &o, &e); code != 0 {
			t.Errorf("%v = %d %q", command, code, &e)
		}
	}
}

// TestBeginningOfAnEntry: every command that takes an entry's id takes the beginning of it, if no other one begins so.
func TestBeginningOfAnEntry(t *testing.T) {
	url, _ := whole(t)
	if out, code := spool(t, "import", "../../examples/omp", "--nats", url); code != 0 {
		t.Fatalf("import = %d %q", code, out)
	}
	const s = "019aa0d2-1780-7f03-b6c1-2e94d0a7f358"
	for _, line := range [][]string{
		{"session", "label", s, "%", "asked"}, {"session", "context", s, "--leaf", "%"},
		{"session", "fork", s, "to-it", "--path", "--leaf", "%"},
		{"thread", "fork", s, "beside", "--entry", "%"}, {"thread", "compact", s + "/beside", "planned", "--keep", "%"},
		{"session", "branch", s, "%", "--summary", "left"}, {"session", "branch", s, "%"},
	} {
		for _, name := range []string{"e07", "zzzz", "e07c"} { // what is there comes last: it makes forks
			want := "session tree"
			named := slices.Clone(line)
			named[slices.Index(named, "%")] = name
			code := service.ExitFailure
			if name == "e07c" {
				code, want = service.ExitOK, "e07c is the entry e07c9aed"
			}
			if out, got := spool(t, append(named, "--nats", url)...); got != code || !strings.Contains(out, want) {
				t.Errorf("%v = %d %q, want %d and %s", named, got, out, code, want)
			}
		}
	}
	if out, code := spool(t, "session", "tree", s, "--nats", url); code != 0 || !strings.Contains(out, "[asked]") {
		t.Errorf("session tree = %d %q, want the label", code, out)
	}
}
