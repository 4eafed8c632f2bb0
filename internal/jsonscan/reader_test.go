package jsonscan_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"spool/internal/jsonscan"
	"spool/internal/must"
)

// reading is the grammar on top of a Reader: it writes the spelling of every token to out, and strings also unescaped.
type reading struct {
	*jsonscan.Reader
	out  strings.Builder
	text []string
}

func (r *reading) whole() error {
	if err := r.value(0); err != nil {
		return err
	}
	if r.Space(); !r.End() {
		return r.Unexpected()
	}
	return nil
}

func (r *reading) value(depth int) error {
	switch c := r.Space(); c {
	case '"':
		return r.str()
	case '{', '[':
		return r.list(c, c+2, depth+1)
	case 't', 'f', 'n':
		return r.Literal()
	}
	number, err := r.Number(make([]byte, 0, 100))
	r.out.Write(number)
	return err
}

func (r *reading) list(open, end byte, depth int) error {
	if depth > jsonscan.MaxDepth {
		return r.TooDeep()
	}
	r.Skip()
	for c, n := r.Space(), 0; c != end; c, n = r.Space(), n+1 {
		if n > 0 {
			if c != ',' {
				return r.Unexpected()
			}
			r.Skip()
		}
		if open == '{' {
			if r.Space() != '"' {
				return r.Unexpected()
			}
			if err := r.str(); err != nil {
				return err
			}
			if r.Space() != ':' {
				return r.Unexpected()
			}
			r.Skip()
		}
		if err := r.value(depth); err != nil {
			return err
		}
	}
	r.Skip()
	return nil
}

func (r *reading) str() error {
	r.Skip()
	start, length := r.out.Len(), int64(0)
	from := r.Offset()
	var text []byte
	for {
		p, err := r.Part()
		if err != nil {
			return err
		}
		if len(p.Raw) == 0 {
			break
		}
		length += int64(len(p.Raw))
		r.out.Write(p.Raw)
		if p.Rune >= 0 {
			text = utf8.AppendRune(text, p.Rune)
		} else {
			text = append(text, string([]rune(string(p.Raw)))...) // U+FFFD for each invalid byte
		}
	}
	if r.Offset() != from+length+1 {
		return errors.New("Offset does not fit the parts of " + r.out.String()[start:])
	}
	r.text = append(r.text, string(text))
	return nil
}

// readers give the same text in pieces of all kinds.
func readers(raw []byte) map[string]*jsonscan.Reader {
	return map[string]*jsonscan.Reader{
		"memory": jsonscan.NewTextReader(raw, 0),
		"bytes":  jsonscan.NewReader(iotest.OneByteReader(bytes.NewReader(raw))),
		"whole":  jsonscan.NewReader(iotest.DataErrReader(bytes.NewReader(raw))),
	}
}

// sameAsValid reads raw in every way: Valid says whether that must succeed.
func sameAsValid(t *testing.T, raw []byte) {
	t.Helper()
	valid := jsonscan.Valid(raw)
	var first *reading
	for name, reader := range readers(raw) {
		r := &reading{Reader: reader}
		err := r.whole()
		for _, is := range []error{jsonscan.ErrSyntax, jsonscan.ErrDepth, nil} {
			if errors.Is(err, is) != errors.Is(valid, is) {
				t.Fatalf("%s: reading %.200q = %v, Valid = %v", name, raw, err, valid)
			}
		}
		if first == nil {
			first = r
		}
		if err == nil && (r.out.String() != first.out.String() || r.Offset() != int64(len(raw)) ||
			strings.Join(r.text, "|") != strings.Join(first.text, "|")) {
			t.Fatalf("%s: read %.200q, otherwise %.200q", name, r.out.String(), first.out.String())
		}
	}
}

var readerSeeds = []string{
	`{"a":[1.5e-3,"x\ud83c\udf4ay\ud83d\u0041\udf4a",{"":null}],"é🍊\/":-0} `, "\"\xf0\x9f\x8d\"", "\"\xf0\x9f\"",
	"\"\xf0A\xed\xa0\x80\xff\"", `"\ud83c\udf4`, `"\ud83c\n"`,
	"\"🍊🍊\"", ` [ [ ] , { } , true , false , null , 0.10 ] `, `[1,]`, `{"a":1,}`, `{,}`, `[01]`, `[-]`, `1.`, `1e`, `nul`,
	`truth`, `"a`, "\"\n\"", "", " ", "\x00", "[1\x00]", `{"a" 1}`, `[1}`, `{}}`,
}

func TestReader(t *testing.T) {
	for _, s := range readerSeeds {
		sameAsValid(t, []byte(s))
	}
	for depth := 255; depth < 259; depth++ {
		sameAsValid(t, []byte(strings.Repeat(`[{"a":`, depth/2)+strings.Repeat("[", depth%2)+strings.Repeat("]",
			depth%2)+strings.Repeat(`1}]`, depth/2)))
		sameAsValid(t, []byte(strings.Repeat("[", depth)+strings.Repeat("]", depth)))
	}
	border := strings.Repeat("x", 64<<10-9)
	for n := range 9 { // everything at the border of the window
		for _, s := range []string{`🍊é`, `\ud83c\udf4a`, `\\\"`, "\xf0\x9f\x8d"} {
			sameAsValid(t, []byte(`["`+border[n:]+s+`"]`))
		}
	}
}

func TestReaderParts(t *testing.T) {
	r := jsonscan.NewTextReader([]byte(`ab\n\ud83c\udf4a\ud83d\u00E9é"`), 100)
	for _, want := range []jsonscan.Part{{[]byte("ab"), -1}, {[]byte(`\n`), '\n'}, {[]byte(`\ud83c\udf4a`), '🍊'},
		{[]byte(`\ud83d`), 0xD83D}, {[]byte(`\u00E9`), 'é'}, {[]byte("é"), -1}, {}} {
		if p, err := r.Part(); err != nil || string(p.Raw) != string(want.Raw) || p.Rune != want.Rune {
			t.Errorf("Part() = %q %U, %v, want %q %U", p.Raw, p.Rune, err, want.Raw, want.Rune)
		}
	}
	if r.Offset() != 131 || !r.End() {
		t.Errorf("Offset() = %d, End() = %v, want 131 at the end", r.Offset(), r.End())
	}
}

func TestReaderCopy(t *testing.T) {
	for name, r := range readers([]byte(`[{"a"  ]]`)) {
		var out strings.Builder
		r.Space()
		if err := r.Copy(&out, 7); err != nil || out.String() != `[{"a"  ` || r.Space() != ']' {
			t.Errorf("%s: Copy = %q, %v, want 7 bytes", name, out.String(), err)
		}
		if err := r.Copy(&out, 3); !errors.Is(err, jsonscan.ErrSyntax) || out.String() != `[{"a"  ]]` {
			t.Errorf("%s: Copy over the end = %q, %v, want ErrSyntax", name, out.String(), err)
		}
	}
}

// An error of the stream is told as such, wherever it comes.
func TestReaderError(t *testing.T) {
	broken := errors.New("broken")
	raw := `{"a":[true,"x\ud83c\udf4aé",-1.5e7]}`
	for n := range len(raw) {
		r := &reading{Reader: jsonscan.NewReader(io.MultiReader(strings.NewReader(raw[:n]), iotest.ErrReader(broken)))}
		if err := r.whole(); !errors.Is(err, broken) || errors.Is(err, jsonscan.ErrSyntax) {
			t.Errorf("reading %q and an error = %v, want the error alone", raw[:n], err)
		}
	}
	r := &reading{Reader: jsonscan.NewReader(io.MultiReader(strings.NewReader(raw), iotest.ErrReader(broken)))}
	must.Is(t, r.whole(), broken, "reading a whole text and an error")
}

func TestValidUnless(t *testing.T) {
	raw := []byte(`{"a":{"b\n" : [1] ,"c":2},"d":x}`)
	var keys []string
	found, err := jsonscan.ValidUnless(raw, func(key, rest []byte) bool {
		keys = append(keys, string(key)+"="+string(rest[:2]))
		return string(key) == "c"
	})
	if got := strings.Join(keys, " "); !found || err != nil || got != `a={" b\n= [ c=2}` {
		t.Errorf("ValidUnless = %v, %v after %s, want true after c", found, err, got)
	}
	if found, err := jsonscan.ValidUnless(raw, func(_, _ []byte) bool { return false }); found || !errors.Is(err, jsonscan.ErrSyntax) {
		t.Errorf("ValidUnless = %v, %v, want ErrSyntax", found, err)
	}
	if found, err := jsonscan.ValidUnless([]byte(`{"a":1}`), func(_, _ []byte) bool { return false }); found || err != nil {
		t.Errorf("ValidUnless = %v, %v, want false", found, err)
	}
}

func FuzzReader(f *testing.F) {
	for _, s := range readerSeeds {
		f.Add([]byte(s))
	}
	f.Fuzz(sameAsValid)
}
