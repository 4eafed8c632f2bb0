package interchange_test

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"spool/internal/artifactstore"
	"spool/internal/interchange"
	"spool/internal/must"
	"spool/internal/natsio"
	"spool/internal/transcript"
	"spool/pkg/artifacts"
	"spool/pkg/client"
)

// A program that counts on its own side gives a number that Spool has given, too: its file gets another one, and each is read by its own.
func TestNumberThatSpoolHasGiven(t *testing.T) {
	conn, dir := system(t), t.TempDir()
	write(t, filepath.Join(dir, "s.jsonl"), []byte(header("s", 3)+"\n"+message("a", "null", "one")+"\n"))
	write(t, filepath.Join(dir, "s", "0.bash.log"), []byte("zero"))
	load(t, conn, dir)
	cl := client.New(conn)
	n := client.NewArtifact{Tool: "bash", Record: artifacts.Record{Session: "s"}}
	must.Same(t, must.Get(cl.Artifacts().Put(t.Context(), n, strings.NewReader("Spool's")))(t).Seq, "1", "number %s, want %s")

	write(t, filepath.Join(dir, "s", "1.bash.log"), []byte("the program's"))
	src := must.Get(transcript.Find(disk{}, dir))(t)[0]
	for i, want := range []int{1, 0} { // the second time it is there
		out, err := interchange.Artifacts(t.Context(), artifactstore.Of(conn, 0), src, "s")
		if err != nil || out.New != want || len(out.Warnings) != want {
			t.Fatalf("import %d = %+v, %v, want %d new, with a warning", i, out, err, want)
		}
	}
	for address, want := range map[string]string{"artifact://0": "zero", "artifact://1": "Spool's", "artifact://2": "the program's"} {
		res := must.Get(cl.Session("s").Resolve(t.Context(), address, artifacts.Lines{}))(t)
		must.Same(t, string(must.Get(io.ReadAll(res.Body))(t)), want, address+" is %q, want %q")
	}
}

// A number that was taken, for an artifact that comes later, is that artifact's: a file of a program that gave it too gets another one.
func TestNumberThatIsTaken(t *testing.T) {
	conn, dir := system(t), t.TempDir()
	write(t, filepath.Join(dir, "s.jsonl"), []byte(header("s", 3)+"\n"+message("a", "null", "one")+"\n"))
	write(t, filepath.Join(dir, "s", "0.bash.log"), []byte("zero"))
	load(t, conn, dir)
	cl, reg := client.New(conn), artifactstore.Of(conn, 0)
	must.Same(t, must.Get(reg.TakeNumber(t.Context(), "s"))(t), "1", "number %s, want %s")
	for _, n := range []string{"3", "1", "2"} { // 2 comes behind 3, and nobody was given it
		write(t, filepath.Join(dir, "s", n+".bash.log"), []byte("the program's "+n))
		src := must.Get(transcript.Find(disk{}, dir))(t)[0]
		out, err := interchange.Artifacts(t.Context(), reg, src, "s")
		if warned := len(out.Warnings); err != nil || out.New != 1 || warned > 1 || (n == "1") != (warned == 1) {
			t.Errorf("import of %s = %+v, %v, want one new, with a warning if its number was taken", n, out, err)
		}
	}
	n := client.NewArtifact{Tool: "bash", Number: "1", Record: artifacts.Record{Session: "s"}}
	must.Get(cl.Artifacts().Put(t.Context(), n, strings.NewReader("Spool's")))(t)
	for address, want := range map[string]string{"artifact://0": "zero", "artifact://1": "Spool's", "artifact://2": "the program's 2",
		"artifact://3": "the program's 3", "artifact://4": "the program's 1"} {
		res := must.Get(cl.Session("s").Resolve(t.Context(), address, artifacts.Lines{}))(t)
		must.Same(t, string(must.Get(io.ReadAll(res.Body))(t)), want, address+" is %q, want %q")
	}
	must.Is(t, must.Err(cl.Artifacts().Put(t.Context(), n, strings.NewReader("again"))), artifacts.ErrTaken, "the number again")
}

// What Spool has given a number, an agent's id or a name of its own lies in the folder behind an export: importing that adds
// nothing, and the next export writes the same. A file of other bytes is another artifact.
func TestImportOfAnExportAddsNoArtifact(t *testing.T) {
	conn, dir := system(t), t.TempDir()
	file := filepath.Join(dir, "sessions", "--w--", "2026-01-01T00-00-00-000Z_s.jsonl")
	folder := strings.TrimSuffix(file, ".jsonl")
	write(t, file, []byte(header("s", 3)+"\n"+message("a", "null", "one")+"\n"))
	write(t, filepath.Join(folder, "0.bash.log"), []byte("zero"))
	load(t, conn, dir)
	cl, reg := client.New(conn), artifactstore.Of(conn, 0)
	for text, n := range map[string]client.NewArtifact{
		"by its number":            {Tool: "bash"},
		"by its agent":             {Record: artifacts.Record{Writer: artifacts.FromAgent, Agent: "0-Plan"}},
		"by its name":              {Record: artifacts.Record{Filename: "shot.png"}},
		"by its name, but another": {Record: artifacts.Record{Filename: "shot.png"}},
	} {
		n.Record.Session = "s"
		must.Get(cl.Artifacts().Put(t.Context(), n, strings.NewReader(text)))(t)
	}
	want := must.Get(reg.Records(t.Context(), "s", ""))(t)
	for range 2 {
		if out, err := export(t, conn, dir, "s", false); err != nil || len(out.Warnings) > 0 || out.Artifacts != len(want) {
			t.Fatalf("export: %+v, %v, want %d artifacts without a warning", out, err, len(want))
		}
		for _, f := range load(t, conn, dir).Files {
			if f.Err != nil || len(f.Warnings) > 0 {
				t.Errorf("import of the export: %v, %q", f.Err, f.Warnings)
			}
		}
		if diff := cmp.Diff(want, must.Get(reg.Records(t.Context(), "s", ""))(t)); diff != "" {
			t.Fatalf("importing the export changes the artifacts (-before +after):\n%s", diff)
		}
	}
	for _, r := range want {
		if r.Agent == "" && r.Filename != "0.bash.log" && r.Filename != "shot.png" {
			write(t, filepath.Join(folder, r.Filename), []byte("by the number"))
		}
	}
	load(t, conn, dir)
	all := must.Get(reg.Records(t.Context(), "s", ""))(t)
	must.Same(t, len(all), len(want)+1, "with a file of other bytes there are %d artifacts, want %d")
}

// Imported where nothing is, an export has the artifacts' numbers and types, and what else their files' names do not say. Importing it
// again adds nothing.
func TestArtifactsOfAnExport(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "s.jsonl"), []byte(header("s", 3)+"\n"+message("a", "null", "one")+"\n"))
	conn := system(t)
	load(t, conn, dir)
	for i, r := range []artifacts.Record{
		{Filename: "shot.png", ToolCall: "call", Summary: "a picture"}, {Filename: "data.json"}, {Filename: "shot.png"},
		{Filename: "trace.html", Category: artifacts.ProviderRaw}, {Filename: "9.log", MIME: "text/x-log"}, {},
		{Writer: artifacts.FromAgent, Agent: "0-Plan", MIME: "application/json"},
		{Filename: "0.bash.log", MIME: "text/x-log"}, {Filename: "results.jsonl", MIME: "text/x-lines"},
		{Filename: "trace.jsonl.gz", MIME: "application/gzip"}, {Filename: "x.spool.json"},
	} {
		r.Session = "s"
		n := client.NewArtifact{Tool: map[bool]string{true: "bash"}[r.Filename == ""], Record: r}
		must.Get(client.New(conn).Artifacts().Put(t.Context(), n, strings.NewReader(fmt.Sprint("bytes ", i))))(t)
	}
	look := func(conn *natsio.Conn) map[string]string {
		out := map[string]string{}
		reg := artifactstore.Of(conn, 0)
		for _, r := range must.Get(reg.Records(t.Context(), "s", ""))(t) {
			body, _ := must.Two(reg.Open(t.Context(), r))(t)
			text := string(must.Get(io.ReadAll(body))(t))
			out[text] = fmt.Sprintf("%s number %q %q %s %q %q %q", r.Filename, r.Seq, strings.Split(r.MIME, ";")[0], r.Category,
				r.Agent, r.ToolCall, r.Summary)
			_ = body.Close()
		}
		return out
	}
	want := look(conn)
	want["bytes 5"] = strings.Replace(want["bytes 5"], `""`, `"text/plain"`, 1) // of a file <n>.<tool>.log
	for range 2 {                                                               // the second time an export of what was imported
		dir := t.TempDir()
		if out, err := export(t, conn, dir, "s", false); err != nil || len(out.Warnings) > 0 {
			t.Fatalf("export: %+v, %v", out, err)
		}
		for name, body := range files(t, os.DirFS(dir)) { // oh-my-pi finds artifact://<n> by the file's name
			number, _, ok := strings.Cut(filepath.Base(name), ".")
			if ok && strings.Trim(number, "0123456789") == "" && !strings.Contains(want[body], fmt.Sprintf("number %q", number)) {
				t.Errorf("%s has the bytes of %s", name, want[body])
			}
		}
		conn = system(t)
		for range 2 {
			for _, f := range load(t, conn, dir).Files {
				if f.Err != nil || len(f.Warnings) > 0 || f.Artifacts != len(want) {
					t.Errorf("import of the export: %v, %q, %d artifacts", f.Err, f.Warnings, f.Artifacts)
				}
			}
			if diff := cmp.Diff(want, look(conn)); diff != "" {
				t.Fatalf("the artifacts (-stored +imported):\n%s", diff)
			}
		}
	}
	// Notes that make no record are left alone.
	write(t, filepath.Join(dir, "s", "shot.png"), []byte("x"))
	write(t, filepath.Join(dir, "s", "data.json"), []byte("y"))
	write(t, filepath.Join(dir, "s.spool.json"),
		[]byte(`{"v":1,"artifacts":[{"file":"shot.png","number":"x"},{"file":"data.json","number":"1","mime":"a/b"}]}`))
	conn = system(t)
	load(t, conn, filepath.Join(dir, "s.jsonl"))
	must.Same(t, look(conn)["x"], `shot.png number "" "" normal "" "" ""`, "%s, want %s")
	must.Same(t, look(conn)["y"], `data.json number "1" "a/b" normal "" "" ""`, "%s, want %s")
	// A number that the session has given meanwhile is not given twice.
	must.Get(client.New(conn).Artifacts().Put(t.Context(),
		client.NewArtifact{Tool: "bash", Record: artifacts.Record{Session: "s"}}, strings.NewReader("z")))(t)
	write(t, filepath.Join(dir, "s", "late.html"), []byte("l"))
	write(t, filepath.Join(dir, "s.spool.json"), []byte(`{"v":1,"artifacts":[{"file":"late.html","number":"2","mime":"a/b"}]}`))
	for _, f := range load(t, conn, filepath.Join(dir, "s.jsonl")).Files {
		if text := strings.Join(f.Warnings, "; "); !strings.Contains(text, "this one is artifact://3") {
			t.Errorf("a number that is another artifact's: %q, want that it got the next", text)
		}
	}
	must.Same(t, look(conn)["l"], `late.html number "3" "a/b" normal "" "" ""`, "%s, want %s")
}
