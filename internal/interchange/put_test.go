package interchange_test

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"spool/internal/artifactstore"
	"spool/internal/interchange"
	"spool/internal/must"
	"spool/internal/natsio"
	"spool/pkg/artifacts"
	"spool/pkg/client"
	"spool/pkg/events"
)

// export writes one session into a directory.
func export(t *testing.T, conn *natsio.Conn, dir, session string, force bool) (interchange.Exported, error) {
	t.Helper()
	root := must.Get(os.OpenRoot(dir))(t)
	defer func() { _ = root.Close() }()
	here := artifactstore.Of(conn, 0)
	here.Local = true
	x := interchange.Exporter{Client: client.New(conn), Artifacts: here, Dir: root, Force: force, Home: "/home/u", Tmp: "/tmp"}
	return x.Session(t.Context(), session)
}

// An export keeps every line of the program's that its thread does not have (SPEC P7).
func TestExportKeepsWhatIsThere(t *testing.T) {
	one, two := message("a", "null", "one")+"\n", message("b", `"a"`, "two")+"\n"
	text := header("s", 3) + "\n" + one + two
	more := message("c", `"b"`, "three") + "\n"
	for name, c := range map[string]struct {
		there   string
		refused string // part of the error; "" for none
	}{
		"nothing":                 {"", ""},
		"the same":                {text, ""},
		"a beginning":             {header("s", 3) + "\n" + one, ""},
		"a torn beginning":        {text[:len(text)-9], ""},
		"only lines that it has":  {header("s", 3) + "\n" + two + "\r\n" + one, ""},
		"a leaf of an export":     {strings.Replace(text, `"cwd"`, `"leaf":{"id":"a","after":"b"},"cwd"`, 1), ""},
		"more lines":              {text + more + more, "does not have 2, the first is line 4"},
		"a half line more":        {text + more[:20], "does not have 1, the first is line 4"},
		"another line":            {strings.Replace(text, `"one"`, `"ONE"`, 1), "does not have 1, the first is line 2"},
		"another title":           {strings.Replace(text, `"cwd"`, `"title":"T","cwd"`, 1), "does not have 1, the first is line 1"},
		"something of other kind": {"\x00rubbish", "does not have 1"},
	} {
		t.Run(name, func(t *testing.T) {
			conn, dir := system(t), t.TempDir()
			src := filepath.Join(dir, "src")
			write(t, filepath.Join(src, "s.jsonl"), []byte(text))
			load(t, conn, src)
			file := filepath.Join(dir, "sessions", "--w--", "2026-01-01T00-00-00-000Z_s.jsonl")
			if c.there != "" {
				write(t, file, []byte(c.there))
			}
			_, err := export(t, conn, dir, "s", false)
			got := string(must.Get(os.ReadFile(file))(t))
			switch {
			case c.refused == "" && (err != nil || got != text):
				t.Errorf("export: %v, and the file is\n%s", err, got)
			case c.refused == "":
			case !errors.Is(err, interchange.ErrThere) || !strings.Contains(err.Error(), c.refused) ||
				!strings.Contains(err.Error(), "--force"):
				t.Errorf("export: %v, want a refusal with %q", err, c.refused)
			case got != c.there:
				t.Errorf("the file was refused, and is now\n%s", got)
			}
			if _, err := export(t, conn, dir, "s", true); err != nil || string(must.Get(os.ReadFile(file))(t)) != text {
				t.Errorf("a forced export: %v", err)
			}
			if parts, _ := filepath.Glob(file + ".*"); len(parts) > 0 {
				t.Errorf("left beside it: %q", parts)
			}
		})
	}
}

// What a program wrote behind an export of a thread that Spool began, and that has gone on since, is imported beside that thread. The next
// export of it does not take the file back to where the thread is (SPEC P7).
func TestExportKeepsWhatAnotherThreadHas(t *testing.T) {
	conn, dir := system(t), t.TempDir()
	src := filepath.Join(dir, "src")
	write(t, filepath.Join(src, "s.jsonl"), []byte(header("s", 3)+"\n"+message("a", "null", "one")+"\n"))
	load(t, conn, src)
	must.Do(t, client.New(conn).Session("s").Fork(t.Context(), "f", client.SessionFork{}))
	out, err := export(t, conn, dir, "f", false)
	must.Do(t, err)
	file := filepath.Join(dir, filepath.FromSlash(out.File))
	grown := string(must.Get(os.ReadFile(file))(t)) + message("b", `"a"`, "of the program") + "\n"
	publish(t, conn, "f", message("c", `"a"`, "of an agent"))
	write(t, file, []byte(grown))
	load(t, conn, filepath.Join(dir, "sessions"))
	_, err = export(t, conn, dir, "f", false)
	if !errors.Is(err, interchange.ErrThere) || !strings.Contains(err.Error(), "does not have 1, the first is line 3") {
		t.Errorf("export: %v, want a refusal that names line 3", err)
	}
	must.Same(t, string(must.Get(os.ReadFile(file))(t)), grown, "the file is now\n%s\nwant\n%s")
}

// An artifact that is something else in the directory is kept and named; the rest is written.
func TestExportKeepsArtifacts(t *testing.T) {
	conn, dir := system(t), t.TempDir()
	src := filepath.Join(dir, "src")
	write(t, filepath.Join(src, "s.jsonl"), []byte(header("s", 3)+"\n"+message("a", "null", "one")+"\n"))
	write(t, filepath.Join(src, "s", "0.bash.log"), []byte("stored\n"))
	write(t, filepath.Join(src, "s", "1.bash.log"), []byte("stored too\n"))
	load(t, conn, src)
	folder := filepath.Join(dir, "sessions", "--w--", "2026-01-01T00-00-00-000Z_s")
	write(t, filepath.Join(folder, "0.bash.log"), []byte("of the program\n"))
	out, err := export(t, conn, dir, "s", false)
	if err != nil || len(out.Warnings) != 1 || !errors.Is(out.Warnings[0], interchange.ErrThere) || out.Artifacts != 1 {
		t.Errorf("export: %+v, %v, want one warning and one artifact", out, err)
	}
	for name, want := range map[string]string{"0.bash.log": "of the program\n", "1.bash.log": "stored too\n"} {
		must.Same(t, string(must.Get(os.ReadFile(filepath.Join(folder, name)))(t)), want, "%s is %q, want %q", name)
	}
}

// A file of a blob that has other bytes than its name says, as a crash or a full disk leaves it, is written anew, and that is said.
func TestExportMendsBlobs(t *testing.T) {
	conn, dir := system(t), t.TempDir()
	png := strings.Repeat("iVBORw0KGgo", 200)
	publish(t, conn, "s", `{"type":"session","version":3,"id":"s","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/w"}`,
		`{"type":"message","id":"a","parentId":null,"timestamp":"2026-01-01T00:00:01.000Z","message":{"role":"user","content":[`+
			`{"type":"image","data":"`+png+`","mimeType":"image/png"}]}}`)
	must.Get(export(t, conn, dir, "s", false))(t)
	blob := must.Get(filepath.Glob(filepath.Join(dir, "blobs", "*")))(t)[0]
	whole := must.Get(os.ReadFile(blob))(t)
	for _, there := range [][]byte{[]byte("damaged\n"), whole[:10], append(bytes.Clone(whole), 'x'), {}} {
		write(t, blob, there)
		out, err := export(t, conn, dir, "s", false)
		if err != nil || len(out.Warnings) != 0 || len(out.Notes) != 1 || !strings.Contains(out.Notes[0], filepath.Base(blob)) {
			t.Errorf("export over a blob of %d bytes: %+v, %v, want a note of it", len(there), out, err)
		}
		if got := must.Get(os.ReadFile(blob))(t); !bytes.Equal(got, whole) {
			t.Errorf("the blob has %d bytes, want those of its name", len(got))
		}
	}
	if out, err := export(t, conn, dir, "s", false); err != nil || len(out.Notes) != 0 {
		t.Errorf("the next export: %+v, %v, want nothing to say", out, err)
	}
}

// A session that is one of another directory now has one file: what an export wrote for the directory before goes, and what a program
// put beside it comes along. A file that has more than the thread stays, and is named.
func TestExportOfAMovedSession(t *testing.T) {
	conn, dir := system(t), t.TempDir()
	src := filepath.Join(dir, "src")
	write(t, filepath.Join(src, "s.jsonl"), []byte(header("s", 3)+"\n"+message("a", "null", "one")+"\n"))
	write(t, filepath.Join(src, "s", "0.bash.log"), []byte("stored\n"))
	write(t, filepath.Join(src, "s", "0-Review.jsonl"), []byte(header("sub", 3)+"\n"+message("x", "null", "sub")+"\n"))
	write(t, filepath.Join(src, "other.jsonl"), []byte(header("other", 3)+"\n"+message("a", "null", "one")+"\n"))
	load(t, conn, src)
	cl := client.New(conn)
	move := func(to string) {
		must.Do(t, cl.Session("s").Move(t.Context(), to))
		must.Do(t, cl.Thread(events.Thread{Session: "s", Name: events.MainThread}).Settled(t.Context()))
	}
	under := filepath.Join(dir, "sessions")
	const of, name = "--w--/2026-01-01T00-00-00-000Z_", "2026-01-01T00-00-00-000Z_s"
	other := of + "other.jsonl"
	same := func(when string, want []string) {
		t.Helper()
		if diff := cmp.Diff(want, slices.Sorted(maps.Keys(files(t, os.DirFS(under))))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
	}
	all := func(folder string) []string {
		return []string{other, folder + name + ".jsonl", folder + name + "/0-Review.jsonl", folder + name + "/0.bash.log"}
	}
	must.Get(export(t, conn, dir, "other", false))(t)
	must.Get(export(t, conn, dir, "s", false))(t)
	same("before", all("--w--/"))

	write(t, filepath.Join(under, "--w--", name, "plan.md"), []byte("of the program"))
	move("/v")
	out, err := export(t, conn, dir, "s", false)
	if err != nil || len(out.Notes) != 1 || !strings.Contains(out.Notes[0], "--w--/"+name+".jsonl") {
		t.Errorf("export of the moved session: %+v, %v, want a note of the file that went", out, err)
	}
	want := slices.Sorted(slices.Values(append(all("--v--/"), "--v--/"+name+"/plan.md")))
	same("moved", want)

	file := filepath.Join(under, "--v--", name+".jsonl")
	grown := string(must.Get(os.ReadFile(file))(t)) + message("b", `"a"`, "of the program") + "\n"
	write(t, file, []byte(grown))
	move("/u")
	for range 2 {
		out, err = export(t, conn, dir, "s", false)
		if err != nil || len(out.Notes) != 1 || !strings.Contains(out.Notes[0], "--v--/"+name+".jsonl") {
			t.Errorf("export beside a file that has more: %+v, %v, want a note that names it", out, err)
		}
		must.Same(t, string(must.Get(os.ReadFile(file))(t)), grown, "it is now\n%s\nwant\n%s")
	}
	same("with one that has more", slices.Sorted(slices.Values(append(want, all("--u--/")[1:]...))))
}

// publish appends entries to the main thread of a session, as an agent does.
func publish(t *testing.T, conn *natsio.Conn, session string, lines ...string) {
	t.Helper()
	cl, main := client.New(conn), events.Thread{Session: session, Name: events.MainThread}
	p := cl.Publisher(client.PublisherConfig{})
	for i, line := range lines {
		must.Get(p.Publish(t.Context(), client.Entry{Thread: main, Dialect: "omp", Body: []byte(line), Seq: uint64(i + 1)}))(t)
	}
	must.Do(t, cl.Thread(main).Await(t.Context(), p.Producer(), 0, uint64(len(lines))))
}

// A session that Spool began goes on where its program wrote behind an export of it: what is in the file is in its thread
// once, whatever was said of the session meanwhile (SPEC P6).
func TestProgramGoesOnFromAnExport(t *testing.T) {
	begins := map[string]func(conn *natsio.Conn, cl *client.Client){
		"a fork": func(conn *natsio.Conn, cl *client.Client) {
			src := t.TempDir()
			write(t, filepath.Join(src, "s.jsonl"), []byte(header("s", 3)+"\n"+message("a", "null", "one")+"\n"))
			load(t, conn, src)
			must.Do(t, cl.Session("s").Fork(t.Context(), "f", client.SessionFork{}))
		},
		"new":         func(_ *natsio.Conn, cl *client.Client) { must.Do(t, cl.Session("f").New(t.Context(), "/w", "")) },
		"of an agent": func(conn *natsio.Conn, _ *client.Client) { publish(t, conn, "f", message("a", "null", "one")) },
		"new and used": func(conn *natsio.Conn, cl *client.Client) {
			must.Do(t, cl.Session("f").New(t.Context(), "/w", ""))
			publish(t, conn, "f", message("a", "null", "one"), message("z", `"a"`, "two"))
		},
	}
	for name, begin := range begins {
		t.Run(name, func(t *testing.T) {
			conn, dir := system(t), t.TempDir()
			cl, main := client.New(conn), events.Thread{Session: "f", Name: events.MainThread}
			begin(conn, cl)
			has := func(want int, what string) {
				t.Helper()
				if tree := must.Get(cl.Thread(main).Tree(t.Context()))(t); len(tree.Entries()) != want {
					t.Errorf("%s: the thread has %d entries, want %d: %q", what, len(tree.Entries()), want, lines(tree.Entries()))
				}
				must.Same(t, len(must.Get(cl.Session("f").Threads(t.Context()))(t)), 1, "%s: there are %d threads, want %d", what)
			}
			n := len(must.Get(cl.Thread(main).Tree(t.Context()))(t).Entries())
			out := must.Get(export(t, conn, dir, "f", false))(t)
			file, files := filepath.Join(dir, filepath.FromSlash(out.File)), filepath.Join(dir, "sessions")
			load(t, conn, files)
			has(n, "the export as it is")
			grow := func(line string) {
				t.Helper()
				f := must.Get(os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0))(t)
				must.Get(f.WriteString(line + "\n"))(t)
				must.Do(t, f.Close())
			}
			parent := "null"
			if n > 0 {
				parent = `"a"`
			}
			grow(message("b", parent, "of the program"))
			load(t, conn, files)
			has(n+1, "what the program wrote")
			must.Do(t, cl.Session("f").Name(t.Context(), "renamed", false))
			load(t, conn, files)
			has(n+1, "the same file")
			publish(t, conn, "f", message("n", `"b"`, "of an agent"))
			grow(message("c", `"b"`, "of the program"))
			load(t, conn, files)
			has(n+3, "what the program wrote beside an agent")
			text := string(must.Get(os.ReadFile(file))(t))
			write(t, file, []byte(strings.Replace(text, "of the program", "of somebody else", 1)))
			res := load(t, conn, files)
			if tree := must.Get(cl.Thread(main).Tree(t.Context()))(t); len(tree.Entries()) != n+2 || res.Files[0].Former == "" {
				t.Errorf("a rewritten file: %d entries, want %d; former %q", len(tree.Entries()), n+2, res.Files[0].Former)
			}
		})
	}
}

// An artifact whose bytes are lost is named, and all others are written. Files that are registered are, too, and an import
// knows them again.
func TestExportWithoutLostArtifacts(t *testing.T) {
	conn, dir := system(t), t.TempDir()
	write(t, filepath.Join(dir, "src", "s.jsonl"), []byte(header("s", 3)+"\n"+message("a", "null", "one")+"\n"))
	load(t, conn, filepath.Join(dir, "src"))
	for _, name := range []string{"here.txt", "gone.txt"} {
		file := filepath.Join(dir, name)
		write(t, file, []byte(name))
		must.Get(client.New(conn).Artifacts().RegisterFile(t.Context(), client.NewArtifact{Record: artifacts.Record{Session: "s"}}, file))(t)
	}
	must.Do(t, os.Remove(filepath.Join(dir, "gone.txt")))
	out, err := export(t, conn, dir, "s", false)
	if err != nil || out.Artifacts != 1 || len(out.Warnings) != 1 || !strings.Contains(out.Warnings[0].Error(), "gone.txt") {
		t.Errorf("%d artifacts, warnings %v, error %v; want one, and that the other one is gone", out.Artifacts, out.Warnings, err)
	}
	load(t, conn, dir)
	if all := must.Get(client.New(conn).Session("s").Artifacts(t.Context()))(t); len(all) != 2 {
		t.Errorf("behind an import of its export the session has %d artifacts, want 2", len(all))
	}
}

// Folders and other things in the folder of a session that moved come along, or stay and are named; none of it stops the export.
func TestExportOfAMovedSessionWithFolders(t *testing.T) {
	conn, dir := system(t), t.TempDir()
	src := filepath.Join(dir, "src")
	write(t, filepath.Join(src, "s.jsonl"), []byte(header("s", 3)+"\n"+message("a", "null", "one")+"\n"))
	load(t, conn, src)
	const name = "2026-01-01T00-00-00-000Z_s"
	under := filepath.Join(dir, "sessions")
	must.Get(export(t, conn, dir, "s", false))(t)
	put := func(folder, text string, names ...string) {
		for _, n := range names {
			write(t, filepath.Join(under, folder, name, n), []byte(text))
		}
	}
	put("--w--", "same", "both/same.txt", "old/a.txt", "folder/x.txt", "file")
	put("--w--", "of the old one", "both/other.txt")
	put("--v--", "same", "both/same.txt", "folder", "file/x.txt")
	put("--v--", "of the new one", "both/other.txt")
	cl := client.New(conn)
	must.Do(t, cl.Session("s").Move(t.Context(), "/v"))
	must.Do(t, cl.Thread(events.Thread{Session: "s", Name: events.MainThread}).Settled(t.Context()))
	out, err := export(t, conn, dir, "s", false)
	if err != nil || len(out.Notes) != 4 {
		t.Errorf("export: %q, %v, want notes of what stays, and of the file that went", out.Notes, err)
	}
	want := []string{
		"--v--/" + name + ".jsonl", "--v--/" + name + "/both/other.txt", "--v--/" + name + "/both/same.txt", "--v--/" + name + "/file/x.txt",
		"--v--/" + name + "/folder", "--v--/" + name + "/old/a.txt", "--w--/" + name + "/both/other.txt", "--w--/" + name + "/file",
		"--w--/" + name + "/folder/x.txt",
	}
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(files(t, os.DirFS(under))))); diff != "" {
		t.Errorf("the directory (-want +got):\n%s", diff)
	}
}

// A folder of the former directory that only leads to that of the present one keeps all that is in it.
func TestExportOfAMovedSessionThroughALink(t *testing.T) {
	conn, dir := system(t), t.TempDir()
	src := filepath.Join(dir, "src")
	write(t, filepath.Join(src, "s.jsonl"), []byte(header("s", 3)+"\n"+message("a", "null", "one")+"\n"))
	load(t, conn, src)
	must.Get(export(t, conn, dir, "s", false))(t)
	const name = "2026-01-01T00-00-00-000Z_s"
	file := filepath.Join(dir, "sessions", "--v--", name, "plan.md")
	write(t, file, []byte("of the program"))
	must.Do(t, os.Symlink(filepath.Join("..", "--v--", name), filepath.Join(dir, "sessions", "--w--", name)))
	cl := client.New(conn)
	must.Do(t, cl.Session("s").Move(t.Context(), "/v"))
	must.Do(t, cl.Thread(events.Thread{Session: "s", Name: events.MainThread}).Settled(t.Context()))
	must.Get(export(t, conn, dir, "s", false))(t)
	must.Same(t, string(must.Get(os.ReadFile(file))(t)), "of the program", "it has %q, want %q")
}
