package e2e_test

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"spool/internal/must"
	"strings"
	"syscall"
	"testing"
	"time"
)

// transcripts are the examples, and the recorded transcripts where they are.
func transcripts(t *testing.T) []string {
	t.Helper()
	dirs := []string{"../examples"}
	if dir, named := os.LookupEnv("SPOOL_TRANSCRIPTS"); named {
		dirs = append(dirs, dir)
	} else if _, err := os.Stat("../../shared/transcripts"); err == nil {
		dirs = append(dirs, "../../shared/transcripts")
	}
	for i, dir := range dirs {
		abs := must.Get(filepath.Abs(dir))(t)
		dirs[i] = abs
	}
	return dirs
}

// imported is a line of spool import --json.
type imported struct {
	File, Session, Thread, Error, Beside string
	Lines, Published, Skipped            int
}

func (f imported) id() string { return f.Session + "/" + f.Thread }

// shown is a thread as thread ls --json and thread show --json tell it.
type shown struct {
	Session, Thread, State, Head string
	Entries, N                   int64
	Start                        struct{ Hash string }
	Last                         []struct {
		Index                        int64
		State, Content, Pack, Parent string
	}
}

// decode reads JSON values, one a line or more.
func decode[T any](t *testing.T, text string) (out []T) {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(text))
	for dec.More() {
		var v T
		if err := dec.Decode(&v); err != nil {
			t.Fatalf("decode %.200s: %v", text, err)
		}
		out = append(out, v)
	}
	return out
}

// imports gives what became of transcripts, without what lies beside them.
func (w *world) imports(paths ...string) []imported {
	w.t.Helper()
	files := decode[imported](w.t, w.run("spool", append([]string{"import", "--json"}, paths...)...))
	return slices.DeleteFunc(files, func(f imported) bool { return f.Beside != "" && f.Error == "" })
}

func (w *world) threads() map[string]shown {
	w.t.Helper()
	all := map[string]shown{}
	for _, th := range decode[shown](w.t, w.run("spool", "thread", "ls", "--json")) {
		all[th.Session+"/"+th.Thread] = th
	}
	return all
}

// checkItems reads all items of all threads: each has 1, 2, 3, … up to what its head says, once they are out behind its commit.
func (w *world) checkItems() {
	w.t.Helper()
	must.Eventually(w.t, "the items of all heads", func() error {
		last := w.lastItems()
		for id, th := range w.threads() {
			if last[id] != th.N {
				return fmt.Errorf("%s: tail ends with item %d, the head says %d", id, last[id], th.N)
			}
		}
		return nil
	})
}

// lastItems is the number of the last item of each thread.
func (w *world) lastItems() map[string]int64 {
	w.t.Helper()
	last := map[string]int64{}
	lines := bufio.NewScanner(strings.NewReader(w.run("spool", "tail", "--all", "-T", "--json")))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var it struct {
			Session, Thread string
			N               int64
		}
		if err := json.Unmarshal(lines.Bytes(), &it); err != nil {
			w.t.Fatalf("item %.200s: %v", lines.Text(), err)
		}
		id := it.Session + "/" + it.Thread
		if it.N != last[id]+1 {
			w.t.Fatalf("%s: item %d after %d", id, it.N, last[id])
		}
		last[id] = it.N
	}
	must.Do(w.t, lines.Err())
	return last
}

// checkExport holds what a thread gives back against the file.
func (w *world) checkExport(f imported) {
	w.t.Helper()
	want := must.Get(os.ReadFile(f.File))(w.t)
	got := []byte(w.run("spool", "export", f.id()))
	if bytes.Equal(got, want) {
		return
	}
	at := 0
	for at < min(len(got), len(want)) && got[at] == want[at] {
		at++
	}
	w.t.Errorf("export %s = %d bytes, want the %d of %s; they differ from byte %d, line %d on: %.80q, want %.80q", f.id(), len(got), len(want),
		f.File, at, 1+bytes.Count(want[:at], []byte("\n")), got[at:], want[at:])
}

// healthy waits until doctor finds nothing: after a start it takes a moment until every partition is asked for.
func (w *world) healthy() {
	w.t.Helper()
	var out string
	for late := time.Now().Add(30 * time.Second); time.Now().Before(late); {
		var code int
		if out, _, code = w.try("", "spool", "doctor"); code == 0 {
			return
		}
	}
	w.t.Errorf("doctor never exits 0:\n%s", out)
}

// post sends entries over HTTP and gives the answer.
func (w *world) post(path, contentType, body string) (status int, answer string) {
	w.t.Helper()
	resp := must.Get(http.Post("http://"+w.http+path, contentType, strings.NewReader(body)))(w.t)
	defer http.DefaultClient.CloseIdleConnections()
	defer resp.Body.Close()
	var b bytes.Buffer
	must.Get(b.ReadFrom(resp.Body))(w.t)
	return resp.StatusCode, b.String()
}

func TestDemo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	out := w.run("spool", "demo", "--json")
	if !strings.Contains(out, `"ok":true`) || strings.Contains(out, `"ok":false`) {
		t.Errorf("demo = %s, want every check ok", out)
	}
	if left, err := filepath.Glob(filepath.Join(w.home, "spool-demo-*")); err != nil || len(left) > 0 {
		t.Errorf("demo leaves %v behind", left)
	}
}

// TestUp is a user's day: start, import, look around, publish, stop, start again.
func TestUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	up := w.up()

	files := w.imports(transcripts(t)...)
	if len(files) < 4 {
		t.Fatalf("import = %d files, want those of examples at least", len(files))
	}
	for _, f := range files {
		if f.Error != "" || f.Published != f.Lines || f.Lines == 0 {
			t.Errorf("import %s = %+v, want every line new", f.File, f)
		}
		w.checkExport(f)
	}
	w.checkItems()
	for _, f := range w.imports(transcripts(t)...) {
		if f.Published != 0 || f.Skipped != f.Lines {
			t.Errorf("second import of %s = %+v, want nothing new", f.File, f)
		}
	}
	w.checkThreads(files)
	w.checkBlobs(files)
	w.healthy()
	w.checkPublish()
	w.checkGC(files)
	w.checkLetters()
	w.checkUndelete()

	must.Same(t, up.Stop(), 0, "spool up after SIGTERM: exit code %d, want %d")
	up.Await("everything that was acknowledged is stored")
	up = w.up()
	must.Same(t, w.run("spool", "dead", "ls", "--json"), "", "dead letters that were removed before a restart: %q, want %q")
	for _, f := range files {
		w.checkExport(f)
	}
	w.checkItems()
	must.Same(t, up.Stop(), 0, "spool up after SIGTERM, the second time: exit code %d, want %d")
}

func (w *world) checkThreads(files []imported) {
	w.t.Helper()
	sessions := w.run("spool", "session", "ls", "--all", "--unanswered")
	all := w.threads()
	for _, f := range files {
		if !strings.Contains(sessions, f.Session) {
			w.t.Errorf("session ls does not list %s", f.Session)
		}
		if th := all[f.id()]; th.Entries < int64(f.Lines) {
			w.t.Errorf("thread ls: %s has %d entries, want %d", f.id(), th.Entries, f.Lines)
		}
		th := decode[shown](w.t, w.run("spool", "thread", "show", "--json", "--last", "3", f.id()))[0]
		if len(th.Last) == 0 || th.Head != th.Last[len(th.Last)-1].State {
			w.t.Fatalf("thread show %s = %+v, want its head to be the last entry", f.id(), th)
		}
		head := th.Last[len(th.Last)-1]
		named := w.run("spool", "cat", head.State, "--pack", head.Pack)
		if !strings.Contains(named, `"type": "state"`) || !strings.Contains(named, head.Content) || !strings.Contains(named, th.Start.Hash) {
			w.t.Errorf("cat %s = %s, want a state with its start and content", head.State, named)
		}
		must.Same(w.t, w.run("spool", "cat", head.State), named, "cat %s without --pack = %s, want %s", head.State)
	}
}

var blobRef = regexp.MustCompile(`blob:sha256:[0-9a-f]{64}`)

// checkBlobs finds values that were moved out of entries and reads them.
func (w *world) checkBlobs(files []imported) {
	w.t.Helper()
	seen := map[string]bool{}
	for _, f := range files {
		th := decode[shown](w.t, w.run("spool", "thread", "show", "--json", "--last", "60", f.id()))[0]
		for _, e := range th.Last {
			if len(seen) == 3 {
				return
			}
			if !strings.Contains(f.File, "examples") {
				break // one process an entry: enough of the small files
			}
			for _, ref := range blobRef.FindAllString(w.run("spool", "cat", e.Content, "--pack", e.Pack), -1) {
				if seen[ref] {
					continue
				}
				seen[ref] = true
				sum := sha256.Sum256([]byte(w.run("spool", "cat", ref)))
				if got := "blob:sha256:" + hex.EncodeToString(sum[:]); got != ref {
					w.t.Errorf("cat %s = bytes of %s", ref, got)
				}
			}
		}
	}
	if len(seen) == 0 {
		w.t.Error("no blob in any of the examples")
	}
}

// checkPublish publishes by the command and over HTTP.
func (w *world) checkPublish() {
	w.t.Helper()
	post := func(n int) string { return fmt.Sprintf(`{"content":[{"type":"text","text":"hello %d"}]}`, n) }
	lines := func(from, to int) string {
		var b strings.Builder
		for n := from; n <= to; n++ {
			b.WriteString(post(n) + "\n")
		}
		return b.String()
	}
	for range 2 { // the same again adds nothing
		if _, errw, code := w.try(lines(1, 3), "spool", "publish", "-", "--session", "posts", "--dialect", "item", "--producer",
			"me"); code != 0 {
			w.t.Fatalf("publish - = exit code %d: %s", code, errw)
		}
	}
	status, answer := w.post("/v1/sessions/posts/threads/main/entries?dialect=item", "application/json", post(4))
	if status != http.StatusAccepted || !strings.Contains(answer, `"ok":true`) {
		w.t.Errorf("POST one entry = %d %s, want 202", status, answer)
	}
	status, answer = w.post("/v1/sessions/posts/threads/main/entries?dialect=item", "application/x-ndjson", lines(5, 7))
	if status != http.StatusOK || strings.Count(answer, `"ok":true`) != 3 {
		w.t.Errorf("POST 3 lines = %d %s, want 200 and 3 times ok", status, answer)
	}
	if status, answer := w.post("/v1/sessions/a.b/threads/main/entries?dialect=item", "application/json",
		post(1)); status != http.StatusBadRequest {
		w.t.Errorf("POST to a bad name = %d %s, want 400", status, answer)
	}
	if status, answer := w.post("/v1/sessions/posts/threads/main/entries?dialect=item", "application/json",
		`{"content":`); status != http.StatusBadRequest {
		w.t.Errorf("POST no JSON = %d %s, want 400", status, answer)
	}
	if _, errw, code := w.try("{}\n", "spool", "publish", "-", "--session", "posts", "--dialect", "cobol"); code != 2 ||
		!strings.Contains(errw, "cobol") {
		w.t.Errorf("publish in a dialect that is none = exit code %d: %s, want 2", code, errw)
	}
	items := decode[struct {
		N       int64
		Content []struct{ Text string }
	}](w.t, w.run("spool", "tail", "posts", "--all", "--json", "--count", "7"))
	for i, it := range items {
		if want := fmt.Sprintf("hello %d", i+1); it.N != int64(i+1) || it.Content[0].Text != want {
			w.t.Errorf("item %d of posts = %+v, want number %d, %q", i, it, i+1, want)
		}
	}
	must.Same(w.t, w.run("spool", "export", "posts"), lines(1, 7), "export posts = %q, want %q")
}

// checkLetters: another line under a sequence that its producer has used is a dead letter, and who published it is told; what is
// removed stays so.
func (w *world) checkLetters() {
	w.t.Helper()
	publish := []string{"publish", "-", "--session", "letters", "--dialect", "raw", "--producer", "p"}
	for i, want := range []struct {
		line string
		code int
		says string
	}{{"one", 0, "1 stored"}, {"one", 0, "1 stored"}, {"other", 1, "another entry of its producer has its sequence"}} {
		_, errw, code := w.try(want.line+"\n", "spool", publish...)
		if code != want.code || !strings.Contains(errw, want.says) {
			w.t.Errorf("publish %d = exit code %d, %s, want %d, %q", i, code, errw, want.code, want.says)
		}
		if i == 0 {
			w.run("spool", "export", "letters") // it waits until the thread has it
		}
	}
	w.run("spool", "dead", "rm", "--all", "--yes")
	must.Same(w.t, w.run("spool", "dead", "ls", "--json"), "", "dead ls = %q, want %q")
}

// checkUndelete: what a removed thread had is condemned, said to be so, taken back, and written from its last state.
func (w *world) checkUndelete() {
	w.t.Helper()
	const lines = "{\"role\":\"user\",\"content\":\"one\"}\n{\"role\":\"user\",\"content\":\"two\"}\n"
	if _, errw, code := w.try(lines, "spool", "publish", "-", "--session", "lost", "--dialect", "step"); code != 0 {
		w.t.Fatalf("publish = exit code %d: %s", code, errw)
	}
	must.Same(w.t, w.run("spool", "export", "lost"), lines, "export = %q, want %q")
	head := decode[shown](w.t, w.run("spool", "thread", "show", "--json", "lost"))[0].Head
	w.run("spool", "thread", "rm", "lost/main", "--yes")
	explained := func(when, state string) {
		w.t.Helper()
		if out := w.run("spool", "gc", "explain", head); !strings.Contains(out, ": "+state+": ") {
			w.t.Errorf("gc explain %s = %s, want %s", when, out, state)
		}
	}
	w.run("spool", "gc", "--apply", "--quarantine", "1h")
	explained("in quarantine", "tombstone")
	w.run("spool", "gc", "undelete", head)
	explained("taken back", "young")
	must.Same(w.t, w.run("spool", "export", head), lines, "export of a state = %q, want %q")
}

// checkGC: everything is in use; a dry run and a real one find nothing to condemn, and nothing is lost by them.
func (w *world) checkGC(files []imported) {
	w.t.Helper()
	type report struct {
		Packs, Blobs, Threads int
		Applied               bool
		Planned               struct{ Condemn, Repack, Reclaim int }
		Done                  struct{ Condemned, Repacked, Reclaimed int }
	}
	dry := decode[report](w.t, w.run("gc", "-once", "-json", "-dry-run"))[0]
	text, errw, code := w.try("", "spool", "gc")
	if code != 0 || !strings.Contains(text, "nothing was deleted") {
		w.t.Errorf("spool gc = exit code %d, %s%s, want it to say that it deletes nothing", code, text, errw)
	}
	wet := decode[report](w.t, w.run("gc", "-once", "-json"))[0]
	if dry.Applied || !wet.Applied || dry.Planned != wet.Planned || wet.Done.Condemned != 0 || wet.Done.Repacked != dry.Planned.Repack {
		w.t.Errorf("gc reports %+v in a dry run, then %+v, want it to do what it says, and nothing condemned", dry, wet)
	}
	if dry.Packs == 0 || dry.Blobs == 0 || dry.Threads <= len(files) {
		w.t.Errorf("gc reports %+v, want every thread, packs and blobs", dry)
	}
	for _, f := range files {
		w.checkExport(f)
	}
}

// TestHangup: what runs without a terminal is not ended when the one that it was started from goes.
func TestHangup(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	dir := filepath.Join(w.home, "auth")
	for _, args := range [][]string{{"init", dir}, {"tenant", "add", dir, "acme"}} {
		if out, errs, code := w.try("", "spool", append([]string{"auth"}, args...)...); code != 0 {
			t.Fatalf("spool auth %v = %d: %s%s", args, code, out, errs)
		}
	}
	up := w.up("--auth", dir)
	up.Signal(syscall.SIGHUP)
	up.Signal(syscall.SIGTERM) // which is delivered second
	must.Same(t, up.Wait(), 0, "spool up after SIGHUP and SIGTERM: exit code %d, want %d")
}
