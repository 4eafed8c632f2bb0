//go:build !serverless

package transcript_test

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"spool/internal/must"
	"spool/internal/natsio"
	"spool/internal/natstest"
	"spool/internal/transcript"
	"spool/pkg/client"
)

// attempt imports a file as an import does that waits for nobody.
func attempt(t *testing.T, conn *natsio.Conn, path string) transcript.FileResult {
	return transcript.New(client.New(conn).Internal(), conn.Events(), transcript.Config{}).
		Import(t.Context(), must.Get(transcript.Find(disk{}, path))(t)).Files[0]
}

// A file that was rewritten before its thread had what it said is no mixture of both: it waits until a persister has come to that. One that
// has only grown, or is imported again, does not wait.
func TestRewrittenBeforeItIsApplied(t *testing.T) {
	conn := natstest.Conn(t)
	cl := client.New(conn)
	path := filepath.Join(t.TempDir(), "s.jsonl")
	large := ompEntry(strings.Repeat("x", 1_200_000))
	first, second := ompBegin+strings.Replace(large, "\n", " \r\n", 1), ompBegin+large
	for i := range 5 {
		first += ompEntry(fmt.Sprint("first-", i))
		second += ompEntry(fmt.Sprint("second-longer-", i))
	}
	write(t, path, first)
	must.Do(t, attempt(t, conn, path).Err)
	first += ompEntry("grown")
	write(t, path, first)
	for range 2 {
		must.Do(t, attempt(t, conn, path).Err)
	}

	write(t, path, second)
	if f := attempt(t, conn, path); f.Err == nil || !strings.Contains(f.Err.Error(), "import it again") || f.Published > 0 {
		t.Fatalf("without a persister a rewritten file is imported: %+v", f)
	}
	persister(t, conn)
	for f := attempt(t, conn, path); f.Err != nil; f = attempt(t, conn, path) { // the persister may need longer than an import waits
		t.Log(f.Err)
	}
	exported(t, conn, importAll(t, conn, path).Files[0])
	all := must.Get(cl.Session("s").Threads(t.Context()))(t)
	must.Same(t, len(all), 2, "there are %d threads, want %d")
	for _, x := range all {
		if x.Name != "main" {
			var was bytes.Buffer
			must.Get(cl.Thread(x.Thread).Export(t.Context(), &was))(t)
			must.Same(t, was.String(), first, "the former one is %.300q, want %.300q")
		}
	}
	must.Same(t, len(must.Get(cl.EverySession().DeadLetters(t.Context()))(t)), 0, "there are %d dead letters, want %d")
}
