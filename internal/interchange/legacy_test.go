package interchange_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"spool/internal/must"
	"spool/internal/rehydrate"
	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/sessions"
)

// Old and damaged files give the entries that loading them gives, and their bytes back (SPEC S5, S6, X1).
func TestLegacyFiles(t *testing.T) {
	from, err := filepath.Glob("../../testdata/golden/omp/legacy/*/input.jsonl")
	if err != nil || len(from) == 0 {
		t.Fatalf("no golden files: %v", err)
	}
	dir := t.TempDir()
	for i, name := range from {
		b := must.Get(os.ReadFile(name))(t)
		write(t, filepath.Join(dir, filepath.Base(filepath.Dir(name))+".jsonl"),
			bytes.ReplaceAll(b, []byte(`"sess1"`), fmt.Appendf(nil, `"sess%d"`, i)))
	}
	conn := system(t)
	cl := client.New(conn)
	for _, f := range load(t, conn, dir).Files {
		text := must.Get(os.ReadFile(f.File))(t)
		want, err := sessions.Load(text)
		if err != nil {
			if empty := len(bytes.TrimSpace(text)) == 0; f.Session != "" || !empty && !errors.Is(f.Err, sessions.ErrHeader) {
				t.Errorf("%s: imported into %s, %v; loading it: %v", f.File, f.ID(), f.Err, err)
			}
			continue
		}
		if f.Err != nil {
			t.Errorf("%s: %v", f.File, f.Err)
			continue
		}
		tree := must.Get(cl.Thread(f.ID()).Tree(t.Context()))(t)
		var out bytes.Buffer
		if _, err := cl.Thread(f.ID()).Export(t.Context(), &out); err != nil || !bytes.Equal(out.Bytes(), text) {
			t.Errorf("%s: exported as %q, %v, want %q", f.File, out.Bytes(), err, text)
		}
		if got, want := lines(tree.Entries()), lines(want.Entries); !slices.Equal(got, want) {
			t.Errorf("%s: entries\n%s\nwant\n%s", f.File, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		if got, want := tree.Context(sessions.Last).JSON(), want.Tree().Context(sessions.Last).JSON(); !bytes.Equal(got, want) {
			t.Errorf("%s: context %s, want %s", f.File, got, want)
		}
		var malformed []int
		for _, s := range want.Skipped {
			malformed = append(malformed, s.Line)
		}
		if !slices.Equal(f.MalformedLines, malformed) && !f.Open { // what is torn at the end is no line yet
			t.Errorf("%s: malformed lines %v, want %v", f.File, f.MalformedLines, malformed)
		}
	}
}

func lines(entries []sessions.Entry) (out []string) {
	for _, e := range entries {
		out = append(out, e.ID+" < "+e.Parent+": "+strings.TrimSpace(string(e.JSON())))
	}
	return out
}

// A session that was forked, branched and labelled in Spool is exported as a file of its own that says so (SPEC S9, S12).
func TestExportOfAFork(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a.jsonl"), []byte(header("source", 3)+"\n"+message("a", "null", "one")+"\n"+message("b", `"a"`, "two")+"\n"))
	conn := system(t)
	load(t, conn, dir)
	cl := client.New(conn)
	must.Do(t, cl.Session("source").Fork(t.Context(), "fork", client.SessionFork{}))
	fork := events.Thread{Session: "fork", Name: "main"}
	must.Get(cl.Thread(fork).Label(t.Context(), "a", "here"))(t)
	must.Do(t, cl.Thread(fork).Branch(t.Context(), "a"))
	exported, out := save(t, conn)
	second := system(t)
	load(t, second, exported)
	for _, x := range out {
		body := must.Get(os.ReadFile(filepath.Join(exported, x.File)))(t)
		f, err := sessions.Load(body)
		if err != nil || f.Migrated {
			t.Fatalf("%s: %v", x.File, err)
		}
		if f.Header.ID != "fork" {
			continue
		}
		tree, err := client.New(second).Thread(fork).Tree(t.Context())
		if err != nil || f.Header.ParentSession != "source" || tree.Label("a") != "here" || tree.Leaf() != sessions.At("a") ||
			len(tree.Entries()) != 3 {
			t.Errorf("the fork came back as %v with %d entries, leaf %v, labels %v: %v", f.Header, len(tree.Entries()), tree.Leaf(),
				tree.Labels(), err)
		}
	}
}

// A fork inside a session shares with the thread that it leaves what both have, also where its export is imported.
func TestExportOfAForkInItsSession(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a.jsonl"), []byte(header("source", 3)+"\n"+message("a", "null", "one")+"\n"+message("b", `"a"`, "two")+"\n"))
	conn := system(t)
	load(t, conn, dir)
	cl := client.New(conn)
	main, fork := events.Thread{Session: "source", Name: "main"}, events.Thread{Session: "source", Name: "retry"}
	must.Do(t, cl.Thread(fork).Fork(t.Context(), events.Fork{Session: "source", Thread: "main", Entry: "a"}))
	must.Get(cl.Thread(fork).Label(t.Context(), "a", "here"))(t)
	exported, _ := save(t, conn)
	second := system(t)
	load(t, second, exported)
	there := client.New(second)
	lines := func(cl *client.Client, t2 events.Thread) string {
		var out bytes.Buffer
		must.Get(cl.Thread(t2).Export(t.Context(), &out))(t)
		return out.String()
	}
	for _, th := range []events.Thread{main, fork} {
		must.Same(t, lines(there, th), lines(cl, th), th.String()+" comes back as\n%s\nwant\n%s")
	}
	if a, b := must.Get(there.Thread(main).Head(t.Context()))(t),
		must.Get(there.Thread(fork).Head(t.Context()))(t); a.Start.Ref != b.Start.Ref {
		t.Errorf("%s begins at %s, want it to share %s of %s", fork, b.Start.Ref, a.Start.Ref, main)
	}
	before := stored(t, second)
	load(t, second, exported)
	if diff := cmp.Diff(before, stored(t, second)); diff != "" {
		t.Errorf("the same again changes (-before +after):\n%s", diff)
	}
}

// A file of version 1 keeps its lines; its entries have the ids that loading it gives, and its export is of the current
// version (SPEC S5, S12, X1).
func TestVersion1(t *testing.T) {
	lines := []string{
		`{"type":"session","id":"old","timestamp":"2025-11-20T23:33:50.805Z","cwd":"/w"}`,
		`{"type":"message","timestamp":"2025-11-20T23:33:51.000Z","message":{"role":"user","content":"one"}}`,
		`{"type":"message","timestamp":"2025-11-20T23:33:52.000Z","message":{"role":"assistant","provider":"p","model":"m","content":[{"type":"text","text":"two"}]}}`,
		`{"type":"compaction","timestamp":"2025-11-20T23:33:53.000Z","summary":"S","firstKeptEntryIndex":2,"tokensBefore":5}`,
		`{"type":"message","timestamp":"2025-11-20T23:33:54.000Z","message":{"role":"hookMessage","content":"three"}}`, "",
	}
	old := strings.Join(lines, "\n")
	version1(t, old, "old")
}

func version1(t *testing.T, old, id string) {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "old.jsonl"), []byte(old))
	conn := system(t)
	load(t, conn, dir)
	cl := client.New(conn)
	main := events.Thread{Session: id, Name: "main"}
	var raw bytes.Buffer
	if _, err := cl.Thread(main).Export(t.Context(), &raw); err != nil || raw.String() != old {
		t.Errorf("spool export gives %d bytes, %v, want %d", raw.Len(), err, len(old))
	}
	f := must.Get(sessions.Load([]byte(old)))(t)
	head := must.Get(cl.Thread(main).Head(t.Context()))(t)
	n := 0
	for step := range must.All(t, cl.Reader().Entries(t.Context(), head)) {
		if st := step.State.Entry; st.Type != "session" {
			if st.ID != f.Entries[n].ID {
				t.Fatalf("entry %d has the id %q, want %q", n, st.ID, f.Entries[n].ID)
			}
			n++
		}
	}
	got, err := cl.Thread(main).Context(t.Context(), sessions.Last, nil)
	if want := f.Tree().Context(sessions.Last); err != nil || string(got.JSON()) != string(want.JSON()) || n != len(f.Entries) {
		t.Errorf("context of %d entries is %.300s, %v, want of %d %.300s", n, got.JSON(), err, len(f.Entries), want.JSON())
	}

	exported, out := save(t, conn)
	body := must.Get(os.ReadFile(filepath.Join(exported, out[0].File)))(t)
	raw.Reset()
	must.Get(cl.Internal().ExportAs(t.Context(), main, rehydrate.Stored, &raw, nil))(t)
	if f, err = sessions.Load(raw.Bytes()); err != nil {
		t.Fatal(err)
	}
	if want := text(t, f.Tree()); string(body) != want || !out[0].Migrated {
		t.Errorf("exported %d bytes, migrated %v, want %d", len(body), out[0].Migrated, len(want))
	}
	_, again, _ := cycle(t, exported)
	if same, err := os.ReadFile(filepath.Join(again, out[0].File)); err != nil || string(same) != string(body) {
		t.Errorf("the export of its import has %d bytes, %v, want the same %d", len(same), err, len(body))
	}
}

// A thread of version 1 reads as its file does, where another header, a title slot or an id that stands twice is in it (SPEC S5).
func TestVersion1WithOthersBetween(t *testing.T) {
	message := func(id, role, text string) string {
		return `{"type":"message",` + id + `"timestamp":"2025-11-20T23:33:51.000Z","message":{"role":"` + role + `","content":"` + text + `"}}`
	}
	first := `{"type":"session","id":"old","timestamp":"2025-11-20T23:33:50.805Z","cwd":"/w"}`
	for name, between := range map[string]string{
		"header":      strings.Replace(first, "/w", "/other", 1),
		"slot":        `{"type":"title","v":1,"title":"T","pad":"  "}`,
		"repeated id": message(`"id":"x",`, "user", "one more") + "\n" + message(`"id":"x",`, "user", "and more"),
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Join([]string{first, message("", "user", "one"), between, message("", "user", "two"), message("", "user", "three"),
				`{"type":"compaction","timestamp":"2025-11-20T23:33:53.000Z","summary":"S","firstKeptEntryIndex":3,"tokensBefore":5}`,
				message("", "hookMessage", "four"), ""}, "\n")
			dir, conn := t.TempDir(), system(t)
			write(t, filepath.Join(dir, "old.jsonl"), []byte(text))
			load(t, conn, dir)
			cl, main := client.New(conn), events.Thread{Session: "old", Name: "main"}
			f := must.Get(sessions.Load([]byte(text)))(t)
			tree := must.Get(cl.Thread(main).Tree(t.Context()))(t)
			got, want := tree.Entries(), f.Entries
			if len(got) != len(want) {
				t.Fatalf("%d entries, want %d", len(got), len(want))
			}
			for i := range want {
				if string(got[i].JSON()) != string(want[i].JSON()) {
					t.Errorf("entry %d is\n%s\nwant\n%s", i, got[i].JSON(), want[i].JSON())
				}
			}
			context := must.Get(cl.Thread(main).Context(t.Context(), sessions.Last, nil))(t)
			if want := f.Tree().Context(sessions.Last); string(context.JSON()) != string(want.JSON()) || len(context.Messages) < 4 {
				t.Errorf("context is\n%s\nwant\n%s", context.JSON(), want.JSON())
			}
		})
	}
}

// The same with a session that the program wrote, where it is at hand.
func TestRecordedVersion1(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "shared", "transcripts", "omp-recorded-v1.jsonl"))
	if err != nil {
		return // it is not part of the module
	}
	h := must.Get(sessions.ParseHeader(text))(t)
	version1(t, string(text), h.ID)
}
