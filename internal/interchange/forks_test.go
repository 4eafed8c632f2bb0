package interchange_test

import (
	"bytes"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"spool/internal/artifactstore"
	"spool/internal/interchange"
	"spool/internal/must"
	"spool/internal/natsio"
	"spool/pkg/artifacts"
	"spool/pkg/casstore"
	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// A session that oh-my-pi made of another one, by fork or by branch, shares the nodes of what both have, whether it names the
// other by its id or by its file, and whether they come together. Its file comes back as it is, and grows (SPEC S9, X1).
func TestForksOfTheProgram(t *testing.T) {
	whole := []string{message("a", "null", "one"), message("b", `"a"`, "two"), message("c", `"b"`, "three")}
	branched := slices.Concat(whole, []string{message("d", `"a"`, "four")})
	own, titled := message("e", `"d"`, "own"), `{"type":"title","title":"behind entries"}`
	for name, x := range map[string]struct {
		parent      string // as the fork's header names it, with what stands behind that
		source, has []string
		own         []string
		shares      int
	}{
		"fork":               {"from", whole, whole, nil, 3},
		"fork that went on":  {"from", whole, whole, []string{message("x", `"c"`, "own")}, 3},
		"source went on":     {"from", whole, whole[:2], []string{message("x", `"b"`, "own")}, 2},
		"fork with branches": {"from", branched, branched, []string{own}, 4},
		"branch":             {"/home/u/2026-01-01T00-00-00-000Z_from.jsonl", branched, []string{branched[0], branched[3]}, []string{own}, 2},
		"windows":            {`C:\\u\\2026-01-01T00-00-00-000Z_from.jsonl`, whole, whole, nil, 3},
		"other members":      {`from","later":{"b":1,"a":[1.0]},"mark":"`, whole, whole, nil, 3},
		"escaped":            {`from","mark":"<&>`, whole, whole, nil, 3},
		"spaced":             {`from", "mark":"`, whole, whole, nil, 0},
		"damaged":            {"from", whole, whole, []string{"", "no json", `{"type":"mess` + message("x", `"c"`, "own") + "\r"}, 3},
		"titled":             {`from","title":"A <title>`, whole, whole, nil, 3},
		"titled behind":      {"from", slices.Concat(whole, []string{titled}), slices.Concat(whole, []string{titled}), []string{titled}, 4},
		"blank line left":    {"from", slices.Concat(whole[:2], []string{""}, whole[2:]), whole, nil, 2},
		"title left":         {"from", slices.Concat(whole[:2], []string{titled}, whole[2:]), whole, nil, 2},
		"torn":               {"from", slices.Concat(whole[:2], []string{"{"}), whole[:2], nil, 3}, // with where the source is torn
		"new session":        {"from", whole, nil, []string{message("x", "null", "own")}, 0},
		"of an unknown one":  {"gone", whole, whole, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			for _, together := range []bool{true, false} {
				conn, dir := system(t), t.TempDir()
				head := strings.Replace(header("fork", 3), `"cwd"`, `"parentSession":"`+x.parent+`","cwd"`, 1)
				files := map[string]string{
					"2026-01-01T00-00-00-000Z_from.jsonl": strings.Join(slices.Concat([]string{header("from", 3)}, x.source, []string{""}), "\n"),
					"2026-01-01T00-00-01-000Z_fork.jsonl": strings.Join(slices.Concat([]string{head}, x.has, x.own, []string{""}), "\n"),
				}
				for file, body := range files {
					if write(t, filepath.Join(dir, file), []byte(body)); !together && strings.HasSuffix(file, "_from.jsonl") {
						load(t, conn, dir)
					}
				}
				imported(t, conn, dir, files)
				shares := nodes(t, conn, "fork")
				for ref := range shares {
					if !nodes(t, conn, "from")[ref] {
						delete(shares, ref)
					}
				}
				if want := x.shares; len(shares) != want+min(want, 1) { // with the header of the source
					t.Errorf("together %v: the fork shares %d nodes with its source, want %d entries and the header", together, len(shares), want)
				}
				before := stored(t, conn)
				imported(t, conn, dir, files)
				must.Same(t, len(stored(t, conn)), len(before), "%d threads and artifacts behind the second import, want %d")
				files["2026-01-01T00-00-01-000Z_fork.jsonl"] += message("later", `"a"`, "later") + "\n"
				write(t, filepath.Join(dir, "2026-01-01T00-00-01-000Z_fork.jsonl"), []byte(files["2026-01-01T00-00-01-000Z_fork.jsonl"]))
				imported(t, conn, dir, files)
			}
		})
	}
}

// Where its harness gives a session another title or directory in its header, a fork is that, too: what it shares it shares still, and the
// file that it was comes back as that (SPEC P6).
func TestForkOfTheProgramIsTitled(t *testing.T) {
	conn, dir := system(t), t.TempDir()
	lines := "\n" + message("a", "null", "one") + "\n" + message("b", `"a"`, "two") + "\n"
	write(t, filepath.Join(dir, "from.jsonl"), []byte(header("from", 3)+lines))
	head := strings.Replace(header("fork", 3), `"cwd"`, `"parentSession":"from","cwd"`, 1)
	was := head + lines + message("x", `"b"`, "own") + "\n"
	write(t, filepath.Join(dir, "fork.jsonl"), []byte(was))
	imported(t, conn, dir, map[string]string{"from.jsonl": header("from", 3) + lines, "fork.jsonl": was})
	now := strings.Replace(was, `"cwd":"/w"`, `"title":"A title","cwd":"/else"`, 1) + message("y", `"x"`, "later") + "\n"
	write(t, filepath.Join(dir, "fork.jsonl"), []byte(now))
	former := ""
	for _, f := range load(t, conn, dir).Files {
		if f.Session == "fork" {
			former = f.Former
		}
	}
	imported(t, conn, dir, map[string]string{"from.jsonl": header("from", 3) + lines, "fork.jsonl": now})
	var out bytes.Buffer
	must.Get(client.New(conn).Thread(events.Thread{Session: "fork", Name: former}).Export(t.Context(), &out))(t)
	must.Same(t, out.String(), was, "what the file was comes back as\n%s\nwant\n%s")
	shares := 0
	for ref := range nodes(t, conn, "from") {
		if nodes(t, conn, "fork")[ref] {
			shares++
		}
	}
	must.Same(t, shares, 3, "the fork shares %d nodes with its source, want %d: two entries and the header")
	retry := events.Thread{Session: "fork", Name: "retry"}
	must.Do(t, client.New(conn).Thread(retry).Fork(t.Context(), events.Fork{Session: "fork", Thread: events.MainThread, Entry: "x"}))
	want := strings.Join(strings.SplitAfter(now, "\n")[:4], "")
	exported, _ := save(t, conn)
	second := system(t)
	load(t, second, exported)
	for _, conn := range []*natsio.Conn{conn, second} {
		out.Reset()
		must.Get(client.New(conn).Thread(retry).Export(t.Context(), &out))(t)
		must.Same(t, out.String(), want, "a thread of the fork is\n%s\nwant\n%s")
	}
	all := must.Get(client.New(conn).Session("fork").Threads(t.Context()))(t)
	for _, th := range all {
		if th.Thread == retry {
			notes := string(must.Get(interchange.ForkNotes(t.Context(), client.New(conn), th, all))(t))
			must.Same(t, strings.Contains(notes, `"lines": 4`), true, notes+" says how many lines it shares: %v, want %v")
		}
	}
	info := must.Get(client.New(conn).Session("fork").Info(t.Context()))(t)
	must.Same(t, info.Title, "A title", "the session's title is %q, want %q")
	must.Same(t, info.Cwd, "/else", "the session's directory is %q, want %q")
}

// What a listing says of a session that oh-my-pi forked is what its own file says of it, not what its source is called by then, or asks behind
// where the two part (SPEC S10).
func TestListingOfForksOfTheProgram(t *testing.T) {
	conn, dir := system(t), t.TempDir()
	model := `{"type":"model_change","id":"m","parentId":null,"timestamp":"2026-01-01T00:00:01.000Z","provider":"p","modelId":"q"}`
	write(t, filepath.Join(dir, "from.jsonl"), []byte(header("from", 3)+"\n"+model+"\n"+message("a", `"m"`, "asked first")+"\n"))
	load(t, conn, dir)
	cl := client.New(conn)
	must.Do(t, cl.Session("from").Name(t.Context(), "The source", false))
	must.Do(t, cl.Session("from").Move(t.Context(), "/moved"))
	head := strings.Replace(header("fork", 3), `"cwd"`, `"parentSession":"from","title":"The fork","cwd"`, 1)
	head = strings.Replace(head, `"/w"`, `"/own"`, 1)
	fork := head + "\n" + model + "\n" + message("b", `"m"`, "asked otherwise") + "\n"
	write(t, filepath.Join(dir, "fork.jsonl"), []byte(fork))
	load(t, conn, dir)
	info := must.Get(cl.Session("fork").Info(t.Context()))(t)
	got := fmt.Sprintf("%q in %q: %q, from %q", info.Title, info.Cwd, info.Prompt, info.Parent)
	must.Same(t, got, `"The fork" in "/own": "asked otherwise", from "from"`, "the fork is %s, want %s")
	var out bytes.Buffer
	must.Get(cl.Thread(events.Thread{Session: "fork", Name: events.MainThread}).Export(t.Context(), &out))(t)
	must.Same(t, out.String(), fork, "comes back as\n%s\nwant\n%s")
}

// A session that is removed and imported again has bytes of its own: the names of its fork's artifacts lead to those that the fork has (SPEC A7).
func TestSourceOfAForkComesAgain(t *testing.T) {
	conn, dir := system(t), t.TempDir()
	large := strings.Replace(message("b", `"a"`, strings.Repeat("a long line\n", 9000)), `{"role":"user","content":`,
		`{"role":"toolResult","toolCallId":"t","toolName":"bash","content":`, 1)
	write(t, filepath.Join(dir, "from.jsonl"), []byte(header("from", 3)+"\n"+message("a", "null", "one")+"\n"+large+"\n"))
	write(t, filepath.Join(dir, "from", "0.bash.log"), []byte("zero"))
	load(t, conn, dir)
	cl := client.New(conn)
	must.Do(t, cl.Session("from").Fork(t.Context(), "fork", client.SessionFork{}))
	for range 2 {
		must.Get(cl.Session("from").Delete(t.Context(), client.Deletion{}))(t)
		load(t, conn, dir)
		objects := map[string]artifacts.ID{}
		for _, r := range must.Get(artifactstore.Of(conn, 0).Records(t.Context(), "", ""))(t) {
			if other, ok := objects[r.Object]; ok {
				t.Errorf("%s and %s have bytes of their own under one name, %s", r.ID, other, r.Object)
			}
			objects[r.Object] = r.ID
		}
		must.Same(t, len(objects), 4, "%d artifacts, want %d: a file and a large result, in both sessions")
		artifactsOf(t, conn) // all of them can be read
	}
}

// imported imports a directory; each of its files comes back from the session of its name.
func imported(t *testing.T, conn *natsio.Conn, dir string, files map[string]string) {
	t.Helper()
	for _, f := range load(t, conn, dir).Files {
		if f.Err != nil || len(f.Warnings) > 0 {
			t.Errorf("%s: %v, %q", f.File, f.Err, f.Warnings)
		}
		var out bytes.Buffer
		must.Get(client.New(conn).Thread(f.ID()).Export(t.Context(), &out))(t)
		must.Same(t, out.String(), files[filepath.Base(f.File)], f.File+" comes back as\n%s\nwant\n%s")
	}
}

// nodes are the states of a session's main thread.
func nodes(t *testing.T, conn *natsio.Conn, session string) map[casstore.Ref]bool {
	t.Helper()
	cl, out := client.New(conn), map[casstore.Ref]bool{}
	head := must.Get(cl.Thread(events.Thread{Session: session, Name: events.MainThread}).Head(t.Context()))(t)
	for step, err := range cl.Reader().Entries(t.Context(), head) {
		must.Do(t, err)
		if step.Role != threads.RoleFork {
			out[step.At.Ref] = true
		}
	}
	return out
}

// The numbers of a fork that oh-my-pi made are those of its own folder, whatever its source has got since; of its source it has
// what entries that both have name by its id, also when the source is gone (SPEC A1, A7).
func TestArtifactsOfForksOfTheProgram(t *testing.T) {
	conn, dir := system(t), t.TempDir()
	large := message("b", `"a"`, strings.Repeat("a long line\n", 9000))
	large = strings.Replace(large, `{"role":"user","content":`, `{"role":"toolResult","toolCallId":"t","toolName":"bash","content":`, 1)
	lines := message("a", "null", "one") + "\n" + large + "\n"
	write(t, filepath.Join(dir, "from.jsonl"), []byte(header("from", 3)+"\n"+lines))
	write(t, filepath.Join(dir, "from", "0.bash.log"), []byte("zero"))
	write(t, filepath.Join(dir, "from", "1.bash.log"), []byte("the source's"))
	load(t, conn, dir)
	cl := client.New(conn)
	put := func(session, call string) string {
		r := artifacts.Record{Session: session, ToolCall: call}
		return string(must.Get(cl.Artifacts().Put(t.Context(), client.NewArtifact{Tool: "sh", Record: r},
			strings.NewReader("of "+session)))(t).Seq)
	}
	must.Same(t, put("from", "call"), "2", "number %s, want %s")
	head := strings.Replace(header("fork", 3), `"cwd"`, `"parentSession":"from","cwd"`, 1)
	write(t, filepath.Join(dir, "fork.jsonl"), []byte(head+"\n"+lines))
	write(t, filepath.Join(dir, "fork", "0.bash.log"), []byte("zero"))
	write(t, filepath.Join(dir, "fork", "1.bash.log"), []byte("the fork's"))
	for _, f := range load(t, conn, dir).Files {
		if f.Err != nil || len(f.Warnings) > 0 {
			t.Errorf("%s: %v, %q", f.File, f.Err, f.Warnings)
		}
	}
	must.Same(t, put("fork", ""), "2", "the fork's next number is %s, want %s")
	must.Get(cl.Session("from").Delete(t.Context(), client.Deletion{}))(t)
	for address, want := range map[string]string{"artifact://0": "zero", "artifact://1": "the fork's", "artifact://2": "of fork"} {
		res := must.Get(cl.Session("fork").Resolve(t.Context(), address, artifacts.Lines{}))(t)
		must.Same(t, string(must.Get(io.ReadAll(res.Body))(t)), want, address+" is %q, want %q")
	}
	got := artifactsOf(t, conn)
	unnumbered := map[int]int{} // by their sizes
	for name, body := range got {
		if strings.Contains(name, `seq ""`) {
			unnumbered[len(body)]++
		}
	}
	if len(got) != 5 || len(unnumbered) != 2 || unnumbered[12*9000] != 1 || unnumbered[len("of from")] != 1 {
		t.Errorf("the fork has %d artifacts, want 5; without a number %v, want the large result and what the call made", len(got), unnumbered)
	}
}

// A session whose fork is refused is imported whole, and that is said.
func TestRefusedForkOfTheProgram(t *testing.T) {
	conn, dir := system(t), t.TempDir()
	lines := message("a", "null", "one") + "\n"
	write(t, filepath.Join(dir, "from.jsonl"), []byte(header("from", 3)+"\n"+lines))
	load(t, conn, dir)
	cl := client.New(conn)
	put := func(r artifacts.Record) artifacts.Record {
		return must.Get(cl.Artifacts().Put(t.Context(), client.NewArtifact{Tool: "sh", Record: r}, strings.NewReader("one")))(t)
	}
	had := put(artifacts.Record{Session: "from", ToolCall: "call"})
	must.Do(t, cl.Session("other").New(t.Context(), "/w", ""))
	put(artifacts.Record{Session: "other", ID: had.ForkID("fork")}) // which the fork would have

	head := strings.Replace(header("fork", 3), `"cwd"`, `"parentSession":"from","cwd"`, 1)
	file := head + "\n" + lines + message("b", `"a"`, "own") + "\n"
	write(t, filepath.Join(dir, "fork.jsonl"), []byte(file))
	for range 2 {
		for _, f := range load(t, conn, dir).Files {
			warned := len(f.Warnings) == 1 && strings.Contains(f.Warnings[0], "imported whole")
			if f.Err != nil || warned != (f.Session == "fork" && f.Published > 0) {
				t.Errorf("%s: warnings %q, %v", f.File, f.Warnings, f.Err)
			}
		}
		var out bytes.Buffer
		must.Get(cl.Thread(events.Thread{Session: "fork", Name: events.MainThread}).Export(t.Context(), &out))(t)
		must.Same(t, out.String(), file, "it comes back as\n%s\nwant\n%s")
	}
}
