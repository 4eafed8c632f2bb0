package interchange_test

import (
	"io"
	"path/filepath"
	"strings"
	"testing"

	"spool/internal/artifactstore"
	"spool/internal/interchange"
	"spool/internal/must"
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
	must.Same(t, must.Get(cl.PutArtifact(t.Context(), n, strings.NewReader("Spool's")))(t).Seq, "1", "number %s, want %s")

	write(t, filepath.Join(dir, "s", "1.bash.log"), []byte("the program's"))
	src := must.Get(transcript.Find(disk{}, dir))(t)[0]
	for i, want := range []int{1, 0} { // the second time it is there
		out, err := interchange.Artifacts(t.Context(), artifactstore.Of(conn, 0), src, "s")
		if err != nil || out.New != want || len(out.Warnings) != want {
			t.Fatalf("import %d = %+v, %v, want %d new, with a warning", i, out, err, want)
		}
	}
	for address, want := range map[string]string{"artifact://0": "zero", "artifact://1": "Spool's", "artifact://2": "the program's"} {
		res := must.Get(cl.Resolve(t.Context(), "s", address, artifacts.Lines{}))(t)
		must.Same(t, string(must.Get(io.ReadAll(res.Body))(t)), want, address+" is %q, want %q")
	}
}
