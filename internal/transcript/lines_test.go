package transcript

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"spool/internal/must"
	"spool/pkg/sessions"
)

func recordsOf(t testing.TB, text string) (all []record) {
	t.Helper()
	l := newLines(strings.NewReader(text))
	for {
		r, err := l.next()
		if errors.Is(err, io.EOF) {
			return all
		}
		must.Do(t, err)
		all = append(all, r)
	}
}

// joined is the text that records are an export of.
func joined(all []record) string {
	var b strings.Builder
	glued, open := true, false
	for _, r := range all {
		if !glued && !r.part && !(r.torn && r.open) {
			b.WriteByte('\n')
		}
		b.Write(r.body)
		glued, open = r.part || r.torn, r.open
	}
	if !glued && !open {
		b.WriteByte('\n')
	}
	return b.String()
}

// agree checks that the records of a file are the file, that they have places of their own, and that the objects among them
// and what is malformed are what sessions.Load finds (SPEC S6).
func agree(t testing.TB, text string) {
	t.Helper()
	all := recordsOf(t, text)
	if got := joined(all); got != text {
		t.Fatalf("records of %q give %q", text, got)
	}
	seq := uint64(0)
	var objects []string
	malformed := map[int]int{}
	torn := false
	for _, r := range all {
		if r.seq() <= seq && !r.torn {
			t.Fatalf("%q: a record has the place %d after %d", text, r.seq(), seq)
		}
		seq = r.seq()
		if r.json {
			objects = append(objects, string(trim(r.body)))
		} else if r.malformed() && !r.torn {
			malformed[r.line]++
		}
		torn = torn || r.torn
	}
	f, err := sessions.Load([]byte(text))
	if err != nil {
		return
	}
	var want []string
	for raw := range f.Objects() {
		want = append(want, string(raw))
	}
	if fmt.Sprint(objects) != fmt.Sprint(want) {
		t.Fatalf("%q: objects %q, Load finds %q", text, objects, want)
	}
	n := 0
	for _, s := range f.Skipped {
		if malformed[s.Line] > 0 {
			n++
			malformed[s.Line]--
		}
	}
	if n != len(f.Skipped) && !torn {
		t.Fatalf("%q: malformed %v, Load skips %v", text, malformed, f.Skipped)
	}
}

const header = `{"type":"session","version":3,"id":"s","timestamp":"t","cwd":"/"}`

func message(id string) string {
	return `{"type":"message","id":"` + id + `","timestamp":"t","message":{"role":"user","content":"x"}}`
}

var damaged = []string{
	header + "\n" + message("a") + "\n",
	bom + header + "\r\n\r\n" + message("a") + "\r\n",
	bom, bom + "\n", "\n", "\n\n" + header, header, header + " ", "{", "{\n",
	header + "\n" + `{"type":"mess` + message("a") + "\n" + message("b"),
	header + "\n" + message("a") + message("b") + " \n" + message("c") + "  " + message("d"),
	header + "\n" + message("a") + " rubbish\n" + message("b") + "\n",
	header + "\n" + message("a") + `{"torn`,
	header + "\n" + `{"torn` + message("a") + `{"torn`,
	header + "\n" + `{"torn` + message("a"),
	header + "\n" + strings.ReplaceAll(message("a"), ",", ",\n\t") + "\n" + message("b") + "\n",
	header + "\n" + `{"type":` + "\n" + message("b") + "\n",
	header + "\n" + `{"type":` + "\n" + message("b") + "\n" + message("c") + "\n",
	header + "\n" + `{"a":1,` + "\n" + `"b":2}{"c":3,` + "\n" + `"d":4} {}` + "\n",
	"rubbish\n" + header + "\n\x00\x00\n" + message("a"),
	"junk" + header + "\n" + message("a"), bom + "junk" + header + "\n" + message("a") + "\n",
	header + "\n\njunk" + message("a") + "\n", header + "\n \njunk" + message("a") + "\n" + "  " + message("b") + "\t\r\n",
	header + "\n12\n\"s\"\nnull\n[1]\n" + message("a"),
}

const bom = "\xef\xbb\xbf"

func TestRecords(t *testing.T) {
	for _, text := range damaged {
		for n := range text {
			agree(t, text[:n])
		}
		agree(t, text)
	}
	files, _ := filepath.Glob("../../testdata/golden/omp/legacy/*/input.jsonl")
	if len(files) == 0 {
		t.Fatal("no golden files")
	}
	for _, name := range files {
		text := must.Get(os.ReadFile(name))(t)
		agree(t, string(text))
	}
}

func TestRecordsOfAnything(t *testing.T) {
	pieces := []string{header, message("a"), message("b"), "\n", "\r\n", "\n\n", " ", bom, "{", "}", `{"a":`, "[", `"`, "x",
		",", "{}", "{\n\t\"a\": 1\n}", "\x00"}
	rapid.Check(t, func(rt *rapid.T) {
		text := header + "\n" + strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 12).Draw(rt, "pieces"), "")
		agree(t, text)
	})
}

// A file may be read in any pieces, and a long object in the middle costs no more than reading it.
func TestLongObject(t *testing.T) {
	var b bytes.Buffer
	b.WriteString(header + "\n{\"type\":\"custom\",\"data\":[\n")
	for b.Len() < 5<<20 {
		b.WriteString("1,\n")
	}
	b.WriteString("1]}\n" + message("a") + "\n")
	agree(t, b.String())
}

func FuzzRecords(f *testing.F) {
	for _, text := range damaged {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) { agree(t, text) })
}
