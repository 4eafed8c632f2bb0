package interchange_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"spool/examples"
	"spool/internal/artifactstore"
	"spool/internal/interchange"
	"spool/internal/must"
	"spool/internal/natsio"
	"spool/internal/natstest"
	"spool/internal/persist"
	"spool/internal/service"
	"spool/internal/transcript"
	"spool/pkg/casstore"
	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/sessions"
)

// disk is the operating system's files under their own names.
type disk struct{}

func (disk) Open(name string) (fs.File, error) { return os.Open(name) }

// system is an empty Spool with a persister, until the test ends.
func system(t *testing.T) *natsio.Conn {
	t.Helper()
	conn := natstest.Conn(t)
	natstest.Run(t, service.NewPersister(conn, service.PersisterConfig{Config: persist.Config{Lane: -1}}, slog.New(slog.DiscardHandler)).Run)
	return conn
}

// load imports a directory and waits until the threads have everything.
func load(t *testing.T, conn *natsio.Conn, dir string) transcript.Result {
	t.Helper()
	return loadAs(t, conn, dir, "")
}

// loadAs is load of files of that dialect.
func loadAs(t *testing.T, conn *natsio.Conn, dir, dialect string) transcript.Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	sources := must.Get(transcript.Find(disk{}, dir))(t)
	res, notes, err := interchange.Import(ctx, conn, sources, transcript.Config{Inbox: conn.Inbox(), Dialect: dialect})
	if err != nil || len(notes) > 0 {
		t.Fatalf("Import: %v, notes %q", err, notes)
	}
	cl := client.New(conn)
	for _, f := range res.Files {
		for _, p := range []transcript.Position{f.Last, f.Tail, f.Leaf} {
			if p.Seq == 0 || f.Err != nil {
				continue
			}
			must.Do(t, cl.Thread(f.ID()).Await(ctx, p.Producer, p.Epoch, p.Seq))
		}
	}
	return res
}

// A session of opencode is the document that the program exports: the newest one, with those before as former generations.
func TestDocuments(t *testing.T) {
	conn := system(t)
	cl := client.New(conn)
	file := filepath.Join(t.TempDir(), "session.json")
	document := func(more string) string {
		return "{\n  \"info\": {\n    \"id\": \"ses_1\", \"title\": \"The mill\", \"directory\": \"/srv/mill\"\n  },\n  \"messages\": [\n" +
			`    {"info": {"id": "msg_1", "role": "user"}, "parts": [{"type": "text", "text": "mill the rye"}]}` + more + "\n  ]\n}\n"
	}
	said := `, {"info": {"id": "msg_2", "role": "assistant", "finish": "stop"}, "parts": [{"type": "text", "text": "` + strings.Repeat("Done. ", 20_000) + `"}]}`
	for i, c := range []struct {
		text   string
		former bool
	}{{document(""), false}, {document(""), false}, {document(said), true}} {
		write(t, file, []byte(c.text))
		f := load(t, conn, file).Files[0]
		if f.ID() != (events.Thread{Session: "ses_1", Name: events.MainThread}) || f.Harness != "opencode" || (f.Former != "") != c.former {
			t.Fatalf("import %d: %+v", i, f)
		}
		var out bytes.Buffer
		must.Get(cl.Thread(f.ID()).Export(t.Context(), &out))(t)
		must.Same(t, out.String(), c.text, "export = %.200s, want %.200s")
		info := must.Get(cl.Session("ses_1").Info(t.Context()))(t)
		if info.Title != "The mill" || info.Cwd != "/srv/mill" || info.Harness != "opencode" || i == 0 &&
			must.Get(cl.Thread(f.ID()).Head(t.Context()))(t).N != 1 {
			t.Errorf("after import %d: %+v", i, info)
		}
	}
}

// save exports every session into a new directory.
func save(t *testing.T, conn *natsio.Conn) (dir string, out []interchange.Exported) {
	t.Helper()
	dir = t.TempDir()
	root := must.Get(os.OpenRoot(dir))(t)
	defer func() { _ = root.Close() }()
	cl := client.New(conn)
	list := must.Get(cl.Sessions(t.Context(), ""))(t)
	for _, s := range list {
		x := interchange.Exporter{Client: cl, Artifacts: artifactstore.Of(conn, 0), Dir: root, Home: "/home/u", Tmp: "/tmp"}
		one, err := x.Session(t.Context(), s.ID)
		if err != nil {
			t.Fatalf("export %s: %v", s.ID, err)
		}
		out = append(out, one)
	}
	return dir, out
}

// stored is what a system holds: the head of each thread, its counts and its start, and each artifact.
func stored(t *testing.T, conn *natsio.Conn) map[string]string {
	t.Helper()
	cl := client.New(conn)
	list := must.Get(cl.EverySession().Threads(t.Context()))(t)
	out := map[string]string{}
	for _, th := range list {
		var tips []string
		for _, l := range th.Head.Tips {
			tips = append(tips, l.Ref.Hex()[:8])
		}
		slices.Sort(tips)
		out[th.Thread.String()] = fmt.Sprintf("head %s start %s, %d entries, %d items, tips %v", th.Head.Head().Ref,
			th.Head.Start.Ref, th.Head.Entries, th.Head.N, tips)
	}
	maps.Copy(out, artifactsOf(t, conn))
	return out
}

func artifactsOf(t *testing.T, conn *natsio.Conn) map[string]string {
	t.Helper()
	reg := artifactstore.Of(conn, 0)
	rs := must.Get(reg.Records(t.Context(), "", ""))(t)
	out := map[string]string{}
	for _, r := range rs {
		f, _ := must.Two(reg.Open(t.Context(), r))(t)
		body := must.Get(io.ReadAll(f))(t)
		_ = f.Close()
		out[fmt.Sprintf("%s/%s %s seq %q %s", r.Session, r.Filename, r.ID, r.Seq, r.Writer)] = string(body)
	}
	return out
}

func write(t *testing.T, name string, content []byte) {
	t.Helper()
	must.Do(t, os.MkdirAll(filepath.Dir(name), 0o755))
	must.Do(t, os.WriteFile(name, content, 0o644))
}

// files are the files of a tree by their path.
func files(t *testing.T, fsys fs.FS) map[string]string {
	t.Helper()
	out := map[string]string{}
	must.Do(t, fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := fs.ReadFile(fsys, name)
		out[name] = string(b)
		return err
	}))
	return out
}

// cycle imports a directory, exports it, and imports that into an empty system: it must hold the same (SPEC S12).
func cycle(t *testing.T, dir string) (first *natsio.Conn, exported string, out []interchange.Exported) {
	t.Helper()
	first = system(t)
	for _, f := range load(t, first, dir).Files {
		must.Do(t, f.Err)
	}
	want := stored(t, first)
	load(t, first, dir)
	if diff := cmp.Diff(want, stored(t, first)); diff != "" {
		t.Fatalf("importing again changes (-before +after):\n%s", diff)
	}
	exported, out = save(t, first)
	second := system(t)
	load(t, second, exported)
	if diff := cmp.Diff(want, stored(t, second)); diff != "" {
		t.Fatalf("the import of an export is something else (-first +second):\n%s", diff)
	}
	return first, exported, out
}

// golden copies the session directories that the program wrote into one, each under ids of its own.
func golden(t *testing.T) string {
	t.Helper()
	from, err := filepath.Glob("../../testdata/golden/omp/sessions/*/files.*")
	if err != nil || len(from) == 0 {
		t.Fatalf("no golden sessions: %v", err)
	}
	dir := t.TempDir()
	for i, src := range from {
		own := strings.NewReplacer("019f0000-0000-7000", fmt.Sprintf("019f0000-%04d-7000", i))
		for name, body := range files(t, os.DirFS(src)) {
			write(t, filepath.Join(dir, fmt.Sprint(i), own.Replace(name)), []byte(own.Replace(body)))
		}
		if blobs := filepath.Join(filepath.Dir(src), "blobs"); isDir(blobs) {
			for name, body := range files(t, os.DirFS(blobs)) {
				write(t, filepath.Join(dir, fmt.Sprint(i), "blobs", name), []byte(body))
			}
		}
	}
	return dir
}

func isDir(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

// What the program wrote is exported as it was, byte for byte: sessions, artifacts, blobs.
func TestGoldenSessions(t *testing.T) {
	dir := golden(t)
	_, exported, out := cycle(t, dir)
	byName := map[string]string{}
	for name, body := range files(t, os.DirFS(exported)) {
		byName[tail(name)] = body
	}
	n := 0
	for name, body := range files(t, os.DirFS(dir)) {
		must.Same(t, byName[tail(name)], body, "%s is exported as\n%.300s\nwant\n%.300s", name)
		n++
	}
	if n < len(out) {
		t.Errorf("%d files of %d sessions", n, len(out))
	}
	for _, x := range out {
		if len(x.Warnings) > 0 || x.Migrated {
			t.Errorf("export of %s: %v, migrated %v", x.File, x.Warnings, x.Migrated)
		}
	}
}

// tail is the name of a file and, of one among artifacts or blobs, of its folder.
func tail(name string) string {
	parts := strings.Split(filepath.ToSlash(name), "/")
	if last := parts[len(parts)-1]; strings.HasPrefix(last, "20") || len(parts) == 1 {
		return last
	}
	return strings.Join(parts[len(parts)-2:], "/")
}

func TestExamples(t *testing.T) {
	dir := t.TempDir()
	for name, body := range files(t, examples.FS) {
		if strings.HasPrefix(name, "omp/") {
			write(t, filepath.Join(dir, name), []byte(body))
		}
	}
	cycle(t, dir)
}

func image(n int) []byte { return bytes.Repeat([]byte{0x89, 'P', 'N', 'G', byte(n)}, 400+n) }

// large is a session with everything that the size rules treat, with branches, labels and a compaction.
func large(t *testing.T, id string) *sessions.Tree {
	t.Helper()
	now := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	tree := sessions.NewTree(sessions.Header{Type: "session", Version: sessions.Version, ID: id,
		Timestamp: sessions.FormatTime(now), Cwd: "/home/mira/pi"})
	add := func(d sessions.Draft) string {
		t.Helper()
		now = now.Add(time.Second)
		e := must.Get(tree.Append(d, sessions.Stamp{Time: now}))(t)
		return e.ID
	}
	block := func(data string) string { return `{"type":"image","data":"` + data + `","mimeType":"image/png"}` }
	std, bare := base64.StdEncoding.EncodeToString(image(1)), base64.RawStdEncoding.EncodeToString(image(2))
	first := add(sessions.Message([]byte(`{"role":"user","content":[` + block(std) + `,` + block(bare) + `,{"type":"text","text":"look"}]}`)))
	second := add(sessions.Message([]byte(`{"role":"assistant","provider":"p","model":"m","content":[{"type":"text","text":"` +
		strings.Repeat("long ", 120_000) + `"}],"stopReason":"stop"}`)))
	add(sessions.Label(first, "begin"))
	add(sessions.Message([]byte(`{"role":"toolResult","toolCallId":"c","toolName":"read","content":[{"type":"text","text":"` +
		strings.Repeat("x", 500_001) + `"},` + block(std) + `]}`)))
	must.Do(t, tree.Branch(second))
	add(sessions.Message([]byte(`{"role":"user","content":"again"}`)))
	add(sessions.Custom("state", []byte(`{"image_url":"data:image/gif;base64,R0lGODlh","partialJson":"gone"}`)))
	must.Do(t, tree.Branch(first))
	add(sessions.BranchSummary(first, sessions.Summarized{Summary: "tried"}))
	add(sessions.Compaction{Summarized: sessions.Summarized{Summary: "S"}, FirstKept: first, TokensBefore: 9}.Draft())
	tree.ResetLeaf()
	add(sessions.Message([]byte(`{"role":"user","content":"from the beginning"}`)))
	return tree
}

func text(t *testing.T, tree *sessions.Tree) string {
	t.Helper()
	var b bytes.Buffer
	must.Get(tree.WriteTo(&b))(t)
	return b.String()
}

func message(id, parent, text string) string {
	return fmt.Sprintf(`{"type":"message","id":%q,"parentId":%s,"timestamp":"2026-01-01T00:00:01.000Z","message":{"role":"user","content":%q}}`, id, parent, text)
}

func header(id string, version int) string {
	return fmt.Sprintf(`{"type":"session","version":%d,"id":%q,"timestamp":"2026-01-01T00:00:00.000Z","cwd":"/w"}`, version, id)
}

// Images in line, long strings, damaged lines, subagents and their outputs: all of it comes back (SPEC S6, S12, T9).
func TestGeneratedSessions(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a.jsonl"), []byte(text(t, large(t, "large"))))
	damaged := "\xef\xbb\xbf" + header("damaged", 3) + "\r\n\r\n" + message("a", "null", "one") + message("b", `"a"`, "two") + " \n" +
		`{"type":"mess` + message("c", `"b"`, "three") +
		"\nrubbish\n{\n  \"type\": \"custom\",\n  \"id\": \"d\",\n  \"parentId\": \"c\"\n}\n" + `{"torn`
	write(t, filepath.Join(dir, "b.jsonl"), []byte(damaged))
	write(t, filepath.Join(dir, "b", "0-Review.jsonl"), []byte(header("sub", 3)+"\n"+message("x", "null", "sub")+"\n"))
	write(t, filepath.Join(dir, "b", "0-Review.1-Deep.jsonl"), []byte(header("deep", 3)+"\n"+message("y", "null", "deep")))
	write(t, filepath.Join(dir, "b", "0-Review.md"), []byte(`{"findings":[]}`))
	write(t, filepath.Join(dir, "b", "7.bash.log"), []byte("output\n"))
	write(t, filepath.Join(dir, "b", "notes.txt"), nil)

	conn, exported, _ := cycle(t, dir)
	got := files(t, os.DirFS(exported))
	for name, body := range got {
		switch tail(name) {
		case "2026-01-01T00-00-00-000Z_damaged.jsonl":
			must.Same(t, body, damaged, "exported as\n%q\nwant\n%q")
		case "2026-03-04T05-06-07-000Z_large.jsonl":
			if strings.Contains(body, "iVBOR") || len(body) > 1_050_000 || !strings.Contains(body, "blob:sha256:") ||
				!strings.Contains(body, "truncated large content") {
				t.Errorf("the session's file has %d bytes: images and long strings are still in line", len(body))
			}
			if f, err := sessions.Load([]byte(body)); err != nil || f.Migrated || len(f.Skipped) > 0 {
				t.Errorf("the program cannot open it: %v, %v", err, f)
			}
		}
	}
	folder := "sessions/--w--/2026-01-01T00-00-00-000Z_damaged/"
	for _, name := range []string{"0-Review.jsonl", "0-Review.1-Deep.jsonl", "0-Review.md", "7.bash.log", "notes.txt"} {
		if _, ok := got[folder+name]; !ok {
			t.Errorf("%s is not exported", name)
		}
	}
	if n, err := artifactstore.Of(conn, 0).TakeNumber(t.Context(), "damaged"); err != nil || n != "8" {
		t.Errorf("the next artifact's number is %s, %v, want 8", n, err)
	}
	if id, err := artifactstore.Of(conn, 0).TakeAgent(t.Context(), "damaged", "", "Next"); err != nil || id != "1-Next" {
		t.Errorf("the next agent is %s, %v, want 1-Next", id, err)
	}
	tree := must.Get(client.New(conn).Thread(events.Thread{Session: "damaged", Name: "main"}).Tree(t.Context()))(t)
	var ids []string
	for _, e := range tree.Entries() {
		ids = append(ids, e.ID)
	}
	if want := []string{"a", "b", "c", "d"}; !slices.Equal(ids, want) {
		t.Errorf("entries %q, want %q", ids, want)
	}
}

// What the program, or a tool, named at length has a file of its own, and comes back from there.
func TestLongNames(t *testing.T) {
	dir, id := t.TempDir(), strings.Repeat("é", 150)
	for _, last := range []string{"1", "2"} {
		head := strings.Replace(header(id+last, 3), `"/w"`, `"/`+strings.Repeat("w", 300)+`"`, 1)
		write(t, filepath.Join(dir, last+".jsonl"), []byte(head+"\n"+message("a", "null", "of "+last)+"\n"))
		write(t, filepath.Join(dir, last, strings.Repeat("n", 251)+".log"), []byte("of "+last))
		agent := strings.Repeat("A", 249)
		write(t, filepath.Join(dir, last, agent+".jsonl"), []byte(header("sub", 3)+"\n"+message("x", "null", "sub")+"\n"))
	}
	_, exported, out := cycle(t, dir)
	must.Same(t, len(out), 2, "%d sessions, want %d")
	got := files(t, os.DirFS(exported))
	must.Same(t, len(got), 6, "%d files, want %d") // of each session: its own, its agent's, its artifact
	for name := range got {
		if !utf8.ValidString(name) || strings.HasSuffix(name, ".part") {
			t.Errorf("a file is called %q", name)
		}
	}
}

// The leaf is where the file has it, and a file that has grown since goes on from its own entries (SPEC S3).
func TestStoredLeaf(t *testing.T) {
	dir := t.TempDir()
	for i := range 2 {
		tree := large(t, fmt.Sprint("leaf", i))
		tree.ResetLeaf()
		if i == 1 {
			must.Do(t, tree.Branch(tree.Entries()[1].ID))
		}
		write(t, filepath.Join(dir, fmt.Sprint(i, ".jsonl")), []byte(text(t, tree)))
	}
	conn, _, _ := cycle(t, dir)
	for i := range 2 {
		id := events.Thread{Session: fmt.Sprint("leaf", i), Name: "main"}
		tree := must.Get(client.New(conn).Thread(id).Tree(t.Context()))(t)
		want := sessions.Root
		if i == 1 {
			want = sessions.At(tree.Entries()[1].ID)
		}
		must.Same(t, tree.Leaf(), want, "leaf of %s is %v, want %v", id)
		name := filepath.Join(dir, fmt.Sprint(i, ".jsonl"))
		b, err := os.ReadFile(name)
		must.Do(t, err)
		grown := string(b) + message("more", `"`+tree.Entries()[0].ID+`"`, "more") + "\n"
		write(t, name, []byte(grown))
		if f := load(t, conn, name).Files[0]; f.Published != 1 || f.ID() != id {
			t.Errorf("the file that has grown gives %d new lines in %s, want 1 in %s", f.Published, f.ID(), id)
		}
		if tree, err = client.New(conn).Thread(id).Tree(t.Context()); err != nil || tree.Leaf() != sessions.At("more") {
			t.Errorf("leaf of %s is %v, %v, want more", id, tree.Leaf(), err)
		}
	}
}

// A blob that is missing or has another hash is said and leaves its ref; all else is imported (SPEC T10).
func TestMissingBlobs(t *testing.T) {
	dir := t.TempDir()
	good, bad, gone := casstore.SumBlob(image(1)), casstore.SumBlob(image(2)), casstore.SumBlob(image(3))
	block := func(r casstore.Ref) string {
		return `{"type":"image","data":"` + r.String() + `","mimeType":"image/png"}`
	}
	file := header("s", 3) + "\n" + `{"type":"message","id":"a","parentId":null,"timestamp":"2026-01-01T00:00:01.000Z","message":{"role":"user","content":[` +
		block(good) + "," + block(bad) + "," + block(gone) + "]}}\n"
	write(t, filepath.Join(dir, "sessions", "x", "s.jsonl"), []byte(file))
	write(t, filepath.Join(dir, "blobs", good.Hex()), image(1))
	write(t, filepath.Join(dir, "blobs", bad.Hex()), image(1))
	conn := system(t)
	f := load(t, conn, dir).Files[0]
	if f.Err != nil || f.Blobs != 1 || f.MissingBlobs != 2 || len(f.Warnings) != 2 ||
		!strings.Contains(f.Warnings[0], "line 2") || !strings.Contains(f.Warnings[0], "another hash") ||
		!strings.Contains(f.Warnings[1], gone.String()) {
		t.Errorf("import = %+v, want one blob and two warnings", f)
	}
	cl := client.New(conn)
	if b, err := cl.Blob(t.Context(), good); err != nil || !bytes.Equal(b, image(1)) {
		t.Errorf("the blob that is there: %v", err)
	}
	var out bytes.Buffer
	if _, err := cl.Thread(f.ID()).Export(t.Context(), &out); err != nil || out.String() != file {
		t.Errorf("export = %s, %v, want the file", out.String(), err)
	}
	head := must.Get(cl.Thread(f.ID()).Head(t.Context()))(t)
	step := must.Get(cl.Reader().Step(t.Context(), head.Head()))(t)
	content, err := step.ReadContent(t.Context())
	if err != nil || !slices.Equal(content.Refs, []casstore.Ref{good}) {
		t.Errorf("the entry holds %v, %v, want the blob that is there", content.Refs, err)
	}
}

// A file whose header is none is an error that names file and line; the others are imported (SPEC S6).
func TestBadHeader(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "bad.jsonl"), []byte("\n"+`{"type":"session","version":3,"timestamp":"t","cwd":"/w"}`+"\n"+
		message("a", "null", "x")+"\n"))
	write(t, filepath.Join(dir, "none.jsonl"), []byte(message("a", "null", "x")+"\n"+header("late", 3)+"\n"))
	write(t, filepath.Join(dir, "good.jsonl"), []byte(header("good", 3)+"\n"+message("a", "null", "x")+"\n"))
	conn := system(t)
	res := load(t, conn, dir)
	if res.Failed != 2 || res.Published != 2 {
		t.Errorf("%d files failed and %d lines are new, want 2 and 2", res.Failed, res.Published)
	}
	for i, want := range []string{"bad.jsonl: line 2: not a session header", "", "none.jsonl: line 1: not a session header"} {
		if got := res.Files[i].Error; !strings.Contains(got, want) || (want == "") != (got == "") {
			t.Errorf("%s: error %q, want %q", res.Files[i].File, got, want)
		}
	}
	if all := stored(t, conn); len(all) != 1 {
		t.Errorf("stored: %v", all)
	}
}
