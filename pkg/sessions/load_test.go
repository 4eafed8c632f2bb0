package sessions

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"spool/internal/jsonscan"
	"spool/internal/must"
)

const (
	header3 = `{"type":"session","version":3,"id":"s1","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/w"}`
	header1 = `{"type":"session","id":"s1","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/w"}`
)

// user is a user's message as an entry; parent "" is null.
func user(id, parent string) string {
	return fmt.Sprintf(`{"type":"message","id":%q,"parentId":%s,"timestamp":"2026-01-01T00:00:01.000Z","message":{"role":"user","content":"%s says {\"a\": [1","timestamp":1}}`, id, quotedOrNull(parent), id)
}

func mustLoad(t testing.TB, text string) *File {
	t.Helper()
	f, err := Load([]byte(text))
	if err != nil {
		t.Fatalf("Load: %v\n%s", err, text)
	}
	return f
}

func entryIDs(entries []Entry) string {
	var all []string
	for _, e := range entries {
		all = append(all, e.ID)
	}
	return strings.Join(all, " ")
}

// SPEC S6: a malformed line never takes its neighbours with it, and is counted where it stands.
func TestLoadDamaged(t *testing.T) {
	a, b, c := user("a", ""), user("b", "a"), user("c", "b")
	pretty := strings.NewReplacer(`{"`, "{\n  \"", `,"`, ",\n  \"").Replace(b)
	for _, tt := range []struct {
		name, text, ids, skipped string
	}{
		{"nothing odd", header3 + "\n" + a + "\n" + b + "\n", "a b", ""},
		{"no final newline", header3 + "\n" + a, "a", ""},
		{"BOM, CR LF, blank lines", "\xef\xbb\xbf" + header3 + "\r\n\r\n \t\r\n" + a + "\r\n" + b + "\r\n", "a b", ""},
		{"title slot", `{"type":"title","title":"T"}` + "\n" + header3 + "\n" + a, "a", ""},
		{"rubbish before the header", "rubbish\n" + header3 + "\n" + a, "a", "1 rubbish"},
		{"rubbish between", header3 + "\n" + a + "\nrubbish\n" + b, "a b", "3 rubbish"},
		{"torn in a text", header3 + "\n" + a[:40] + "\n" + b, "b", "2 " + a[:40]},
		{"torn and fused in a text", header3 + "\n" + a + "\n" + b[:60] + c + "\n", "a c", "3 " + b[:60]},
		{"torn and fused at an escape", header3 + "\n" + a[:len(a)-30] + c, "c", "2 " + a[:len(a)-30]},
		{"torn and fused at a value", header3 + "\n" + `{"type":` + c + "\n" + b, "c b", `2 {"type":`},
		{"torn and fused after a backslash", header3 + "\n" + `{"x":"\` + c + "\n", "c", `2 {"x":"\`},
		{"two on a line", header3 + "\n" + a + b + "\n" + c, "a b c", ""},
		{"torn, two on a line", header3 + "\n" + a[:50] + b + c, "b c", "2 " + a[:50]},
		{"rubbish behind", header3 + "\n" + a + " rubbish\n" + b, "a b", "2 rubbish"},
		{"NUL line", header3 + "\n\x00\x00\n" + a, "a", "2 \x00\x00"},
		{"hole before an entry", header3 + "\n" + a + "\n\x00\x00" + b, "a b", "3 \x00\x00"},
		{"object over lines", header3 + "\n" + a + "\n" + pretty + "\n" + c, "a b c", ""},
		{"object over lines, fused", header3 + "\n" + a + "\n" + pretty + c, "a b c", ""},
		{"object over lines, torn", header3 + "\n{\n  \"type\": \"message\",\n" + a, "a", "2 {;3 \"type\": \"message\","},
		{"torn between values, then good lines", header3 + "\n" + `{"type":"custom","data":[` + "\n" + a + "\n" + b, "a b",
			`2 {"type":"custom","data":[`},
		{"no objects", header3 + "\n1\nnull\n\"x\"\n[1]\n" + a, "a", "2 1;3 null;4 \"x\";5 [1]"},
		{"too deep", header3 + "\n" + `{"a":` + strings.Repeat("[", 300) + strings.Repeat("]", 300) + "}\n" + a, "a", "2 …"},
		{"an inner object is no entry", header3 + "\n" +
			`{"type":"message","message":{"content":[{"type":"toolCall","id":"t","arguments":{"a":1}}]` + "\n" + a, "a", `2 …`},
		{"an inner object of a torn entry is none", header3 + "\n" +
			`{"type":"message","message":{"content":[{"type":"text","text":"x"}` + b + "\n" + c, "b c", `2 …`},
		{"a second header is none", header3 + "\n" + a + "\n" + header3 + "\n" + b, "a b", ""},
		{"invalid UTF-8 and lone surrogates", header3 + "\n" + strings.Replace(a, "says", "\xff\\ud83d", 1), "a", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := mustLoad(t, tt.text)
			var skipped []string
			for _, s := range f.Skipped {
				skipped = append(skipped, fmt.Sprintf("%d %s", s.Line, s.Raw))
			}
			got := strings.Join(skipped, ";")
			if want, short := strings.CutSuffix(tt.skipped, "…"); entryIDs(f.Entries) != tt.ids || !short && got != want || short &&
				!strings.HasPrefix(got, want) {
				t.Errorf("Load = %q, skipped %q, want %q, %q", entryIDs(f.Entries), got, tt.ids, tt.skipped)
			}
			for _, e := range f.Entries {
				if lines := strings.Split(tt.text, "\n"); !strings.Contains(lines[e.Line-1], string(e.Raw[:1])) {
					t.Errorf("entry %s is not on line %d", e.ID, e.Line)
				}
			}
		})
	}
}

// SPEC S6: the error names the line, and what was given stays as it is.
func TestLoadNoHeader(t *testing.T) {
	a := user("a", "")
	for _, tt := range []struct{ text, line string }{
		{"", "line 1:"},
		{"\n\n\n", "line 4:"},
		{"rubbish\n" + a + "\n" + header3, "line 2:"},
		{`{"type":"session","version":3}` + "\n" + a, "line 1:"},
		{"\n" + `{"type":"session","id":7}`, "line 2:"},
		{`{"type":"title","title":"T"}` + "\n" + a, "line 2:"},
	} {
		text := []byte(tt.text)
		_, err := Load(text)
		if !errors.Is(err, ErrHeader) || !strings.HasPrefix(err.Error(), tt.line) || string(text) != tt.text {
			t.Errorf("Load(%q): %v, want ErrHeader at %s", tt.text, err, tt.line)
		}
	}
}

// SPEC S5: what a migration makes of entries.
func TestMigrate(t *testing.T) {
	f := mustLoad(t, strings.Join([]string{
		header1,
		`{"type":"message","timestamp":"t1","n":1.50,"message":{"role":"hookMessage","content":"h\u0041"}}`,
		`{"type":"message","id":"own","parentId":null,"timestamp":"t2","message":{"role":"user","content":"x"}}`,
		`{"type":"compaction","firstKeptEntryIndex":2,"timestamp":"t3","summary":"S"}`,
		`{"type":"compaction","timestamp":"t4","firstKeptEntryIndex":0}`,
		`{"timestamp":"t5","firstKeptEntryIndex":9,"type":"compaction"}`,
		`{"type":"label","timestamp":"t6","targetId":"own","label":"L"}`,
		`{"type":"message","id":"own","timestamp":"t7","message":null}`,
		`{"type":"message","id":"hook","timestamp":"t8","message":{"role":"hookMessage"}}`,
		`{"type":"compaction","id":"kept","timestamp":"t9","firstKeptEntryIndex":8}`,
	}, "\n"))
	id := func(n int) string { return EntryID("s1", n, 0) }
	want := []string{
		`{"type":"message","timestamp":"t1","n":1.50,"message":{"role":"custom","content":"h\u0041"},"id":"` + id(1) + `","parentId":null}`,
		`{"type":"message","id":"own","parentId":"` + id(1) + `","timestamp":"t2","message":{"role":"user","content":"x"}}`,
		`{"type":"compaction","timestamp":"t3","summary":"S","id":"` + id(3) + `","parentId":"own","firstKeptEntryId":"own"}`,
		`{"type":"compaction","timestamp":"t4","id":"` + id(4) + `","parentId":"` + id(3) + `"}`,
		`{"timestamp":"t5","type":"compaction","id":"` + id(5) + `","parentId":"` + id(4) + `"}`,
		`{"type":"label","timestamp":"t6","targetId":"own","label":"L","id":"` + id(6) + `","parentId":"` + id(5) + `"}`,
		`{"type":"message","id":"` + id(7) + `","timestamp":"t7","message":null,"parentId":"` + id(6) + `"}`,
		`{"type":"message","id":"hook","timestamp":"t8","message":{"role":"custom"},"parentId":"` + id(7) + `"}`,
		`{"type":"compaction","id":"kept","timestamp":"t9","parentId":"hook","firstKeptEntryId":"hook"}`,
	}
	var got []string
	for _, e := range f.Entries {
		got = append(got, string(e.JSON()))
	}
	if diff := cmp.Diff(want, got); !f.Migrated || diff != "" {
		t.Errorf("migrated %v (-want +got):\n%s", f.Migrated, diff)
	}
	must.Same(t, f.Tree().Label("own"), "L", "label of the entry that kept its id is %q, want %q")
}

func TestVersionOf(t *testing.T) {
	for raw, want := range map[string]int64{
		"": 1, "null": 1, "0": 1, "-3": 1, "1": 1, "1.9": 1, "2": 2, "2.5": 2, "3": 3, "4": 4, "1e99": 1<<31 - 1,
		`"2"`: 2, `"x"`: 3, "true": 1, "[]": 1,
	} {
		must.Same(t, versionOf([]byte(raw)), want, "versionOf(%s) = %d, want %d", raw)
	}
}

// drawFile makes the text of a session file of any version, damaged or not.
func drawFile(t *rapid.T) string {
	line := rapid.OneOf(
		rapid.Just(`{"type":"message","timestamp":"t","message":{"role":"user","content":"a"}}`),
		rapid.Just(`{"type":"message","timestamp":"t","message":{"role":"hookMessage"}}`),
		rapid.Just(`{"type":"message","id":"x","parentId":null,"timestamp":"t","message":{}}`),
		rapid.Map(rapid.IntRange(-1, 20), func(n int) string {
			return fmt.Sprintf(`{"type":"compaction","timestamp":"t","firstKeptEntryIndex":%d,"summary":"s"}`, n)
		}),
		rapid.Just("{\n\"type\":\"custom\",\n\"timestamp\":\"t\"\n}"),
		rapid.SampledFrom([]string{"", "\r", "\x00", "{", `{"a":`, `{"type":"message","timest`, "}", `[`, `{"a":"`, "1", header1, "{}"}),
	)
	version := rapid.SampledFrom([]string{header1, header3, strings.Replace(header3, "3", "2", 1)}).Draw(t, "header")
	text := version + "\n"
	for _, l := range rapid.SliceOfN(line, 0, 15).Draw(t, "lines") {
		text += l + rapid.SampledFrom([]string{"\n", "\n", "\n", "\r\n", ""}).Draw(t, "end")
	}
	return text
}

// SPEC S5, S12: what is written loads to the same entries with the same ids, and is written the same again; a longer file
// has the ids of the shorter one.
func TestLoadWriteLoad(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := drawFile(t)
		f := must.Get(Load([]byte(text)))(t)
		checkRoundTrip(t, f)
		if !strings.HasSuffix(text, "\n") {
			text += "\n"
		}
		longer := must.Get(Load([]byte(text + `{"type":"message","timestamp":"t","message":{}}` + "\n")))(t)
		if whole, err := Load([]byte(text)); err != nil || !strings.HasPrefix(entryIDs(longer.Entries), entryIDs(whole.Entries)) {
			t.Fatalf("ids of a longer file are %s, of the file %s", entryIDs(longer.Entries), entryIDs(whole.Entries))
		}
	})
}

type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

func checkRoundTrip(t fataler, f *File) {
	t.Helper()
	var once, twice bytes.Buffer
	n, err := f.Tree().WriteTo(&once)
	if err != nil || n != int64(once.Len()) {
		t.Fatalf("WriteTo = %d, %v, want %d", n, err, once.Len())
	}
	again, err := Load(once.Bytes())
	if err != nil {
		t.Fatalf("Load of what was written: %v\n%s", err, once.Bytes())
	}
	if f.Migrated && again.Migrated || again.Header.ID != f.Header.ID || len(again.Entries) != len(f.Entries) {
		t.Fatalf("%d entries became %d\n%q\n%q", len(f.Entries), len(again.Entries), f.text, once.Bytes())
	}
	for i, e := range again.Entries {
		if was := &f.Entries[i]; e.ID != was.ID || e.Parent != was.Parent || !bytes.Equal(e.JSON(), was.JSON()) {
			t.Fatalf("entry %d was %s, is %s", i, was.JSON(), e.JSON())
		}
	}
	if _, err := again.Tree().WriteTo(&twice); err != nil || !bytes.Equal(once.Bytes(), twice.Bytes()) {
		t.Fatalf("written again: %v\n%s\n%s", err, once.Bytes(), twice.Bytes())
	}
}

func FuzzLoad(f *testing.F) {
	a, b := user("a", ""), user("b", "a")
	f.Add([]byte(header1 + "\n" + a[:30] + b + "\n{\n}\n\x00"))
	f.Add([]byte(header3 + "\n" + a + "\r\n" + b))
	f.Add([]byte("\xef\xbb\xbf{\"type\":\"title\"}\n" + header1 + "\n{\"type\":\"compaction\",\"firstKeptEntryIndex\":1}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		was := bytes.Clone(text)
		file, err := Load(text)
		if !bytes.Equal(was, text) {
			t.Fatal("Load changed the text")
		}
		if err != nil {
			if !errors.Is(err, ErrHeader) {
				t.Fatalf("Load: %v, want ErrHeader", err)
			}
			return
		}
		at := 0
		for raw := range file.Objects() {
			i := bytes.Index(text[at:], raw)
			if i < 0 || jsonscan.Valid(raw) != nil {
				t.Fatalf("object %q is not in the file from byte %d", raw, at)
			}
			at += i + len(raw)
		}
		for line := range bytes.Lines(bytes.TrimPrefix(text, bom)) {
			line = bytes.Trim(line, space)
			if isObject(line) && !slices.ContainsFunc(slices.Collect(file.Objects()), func(raw []byte) bool { return bytes.Contains(raw, line) }) {
				t.Fatalf("line %q is lost", line)
			}
		}
		checkRoundTrip(t, file)
		tree := file.Tree()
		for _, e := range file.Entries {
			if err := jsonscan.Valid(tree.Context(At(e.ID)).JSON()); err != nil {
				t.Fatalf("context at %s: %v", e.ID, err)
			}
		}
	})
}

func BenchmarkLoad(b *testing.B) {
	var text bytes.Buffer
	text.WriteString(header3 + "\n")
	for i := range 10_000 {
		fmt.Fprintln(&text, user(fmt.Sprint(i), fmt.Sprint(i-1))[:len(user(fmt.Sprint(i), fmt.Sprint(i-1)))-1]+`,"pad":"`+
			strings.Repeat("x", 800)+`"}`)
	}
	b.SetBytes(int64(text.Len()))
	b.ReportAllocs()
	for b.Loop() {
		if f, err := Load(text.Bytes()); err != nil || len(f.Entries) != 10_000 {
			b.Fatal(err)
		}
	}
}

// BenchmarkLoadTorn is the worst that a line can be: everything on it is open.
func BenchmarkLoadTorn(b *testing.B) {
	text := []byte(header3 + "\n" + strings.Repeat(`{"a":[1,{"b":2},`, 100_000))
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		must.Get(Load(text))(b)
	}
}

// Two places of a session never have one id, so that a migration renames nothing but what was brought along (SPEC S5).
func TestEntryIDsAreDistinct(t *testing.T) {
	seen := map[string]int{}
	for n := range 300_000 {
		id := EntryID("d703a1a9-1b7b-4fb1-b512-c9738b1fe617", n, 0)
		if other, ok := seen[id]; ok || len(id) != 8 {
			t.Fatalf("EntryID of %d is %s, that of %d too", n, id, other)
		}
		seen[id] = n
	}
	if EntryID("a", 1, 0) == EntryID("b", 1, 0) || EntryID("a", 1, 0) == EntryID("a", 1, 1) {
		t.Error("EntryID does not depend on the session or the attempt")
	}
}
