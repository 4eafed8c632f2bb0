package artifacts_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"spool/internal/must"
	"spool/pkg/artifacts"
	"spool/pkg/truncate"
)

// dir is a folder in memory that knows whether what it opened was closed.
type dir struct {
	files map[string]string
	open  int
}

func (d *dir) Names(context.Context) ([]string, error) {
	if d.files == nil {
		return nil, fs.ErrNotExist
	}
	return slices.Collect(maps.Keys(d.files)), nil
}

func (d *dir) Open(_ context.Context, name string) (io.ReadCloser, int64, error) {
	d.open++
	return &closer{strings.NewReader(d.files[name]), d}, int64(len(d.files[name])), nil
}

// OpenBlob makes it a store of blobs too.
func (d *dir) OpenBlob(ctx context.Context, ref string) (io.ReadCloser, int64, error) {
	if _, ok := d.files[ref]; !ok {
		return nil, 0, fs.ErrNotExist
	}
	return d.Open(ctx, ref)
}

type closer struct {
	io.Reader
	d *dir
}

func (c *closer) Close() error {
	c.d.open--
	return nil
}

func resolve(s artifacts.Sources, address string, lines artifacts.Lines) (artifacts.Resource, string, error) {
	res, err := s.Resolve(context.Background(), address, lines)
	if err != nil {
		return res, "", err
	}
	b, err := io.ReadAll(res.Body)
	return res, string(b), errors.Join(err, res.Body.Close())
}

func sources(files map[string]string) (artifacts.Sources, *dir) {
	d := &dir{files: files}
	return artifacts.Sources{Dir: d, Blobs: d}, d
}

// TestResolve has what the recorded addresses have not (SPEC A8, A9): kinds of errors, nested outputs, odd names.
func TestResolve(t *testing.T) {
	ref := truncate.Ref([]byte("blob"))
	s, d := sources(map[string]string{
		"2.md": "no tool", "2.bash.log": "tool", "007.x.log": "bond", "10.x.log": "ten", "0-A.md": "parent", "0-A.1-B.md": `{"k":[1]}`,
		"0-A.1-B.0-v1.2.md": "deep", "1-a_b.md": "slash", ref: "blob", truncate.Ref([]byte("other")): "blob",
		"j.md": "\ufeff" + `{"a]":1,"q":{"it's":2,"":3},"n":1.50,"u":"\u00e9","k":1,"k":2}`, "prose.md": "- item", "tab.md": "\t\n",
	})
	for _, c := range []struct {
		address string
		want    string // content, or the error when kind is set
		kind    error
	}{
		{"artifact://2", "tool", nil},
		{" ARTIFACT://007#top ", "bond", nil},
		{"artifact://7", "Artifact 7 not found. Available: 2, 007, 10", artifacts.ErrNotFound},
		{"artifact://../10", "artifact:// ID must be numeric, got: ..", artifacts.ErrURL},
		{"agent://0-A/1-B", `{"k":[1]}`, nil},
		{"agent://0-A.1-B/k/0", "1", nil},
		{"agent://0-A/1-B/0-v1.2", "deep", nil},
		{"agent://1-a%2Fb", "slash", nil},
		{"agent://%2e%2e%2fetc", "Not found: ../etc\nAvailable: 0-A, 0-A.1-B, 0-A.1-B.0-v1.2, 1-a_b, 2, j, prose, tab", artifacts.ErrNotFound},
		{"agent://j?q=.q['it\\'s']", "2", nil},
		{"agent://j/q/it's", "2", nil},
		{"agent://j?q=q[\"\"]", "3", nil},
		{"agent://j?q=q[']", "3", nil}, // a single quote is the empty name
		{"agent://j?q=.n&q=.k", "1.50", nil},
		{"agent://j?x=1&q=.u", `"\u00e9"`, nil},
		{"agent://j/x/.././k", "2", nil},
		{"agent://j/k/..", "\ufeff" + `{"a]":1,"q":{"it's":2,"":3},"n":1.50,"u":"\u00e9","k":1,"k":2}`, nil},
		{"agent://j/a%5D", "Invalid query: unexpected token ''' in ['a]']", artifacts.ErrURL},
		{"agent://j?q=.%E7%B7%9A", "Invalid query: unexpected token '線' in .線", artifacts.ErrURL},
		{"agent://0-A/k", `Output 0-A is not valid JSON: JSON Parse error: Unexpected identifier "parent"`, artifacts.ErrURL},
		{"agent://prose/k", "Output prose is not valid JSON: invalid JSON at byte 1", artifacts.ErrURL},
		{"agent://tab?q=.", "Output tab is not valid JSON: JSON Parse error: Unexpected EOF", artifacts.ErrURL},
		{ref, "blob", nil},
		{truncate.Ref(nil), "Not found: " + truncate.Ref(nil), artifacts.ErrNotFound},
		{truncate.Ref([]byte("other")), "blob is corrupt: " + truncate.Ref([]byte("other")), artifacts.ErrCorrupt},
		{"blob:sha256:../../x", `"blob:sha256:../../x" is no blob ref: use blob:sha256: and 64 of 0-9 a-f`, artifacts.ErrURL},
		{"file:///etc/passwd", "Invalid URL: file:///etc/passwd; use artifact://<number>, agent://<id>, blob:sha256:<hash> or <session>/threads/<thread>/logs/thread.log", artifacts.ErrURL},
		{"artifact:0", "Invalid URL: artifact:0; use artifact://<number>, agent://<id>, blob:sha256:<hash> or <session>/threads/<thread>/logs/thread.log", artifacts.ErrURL},
	} {
		_, got, err := resolve(s, c.address, artifacts.Lines{})
		if c.kind != nil {
			if !errors.Is(err, c.kind) || err.Error() != c.want {
				t.Errorf("Resolve(%q) = %v, want %q, a %v", c.address, err, c.want, c.kind)
			}
		} else if err != nil || got != c.want {
			t.Errorf("Resolve(%q) = %q, %v, want %q", c.address, got, err, c.want)
		}
	}
	must.Same(t, d.open, 0, "%d files were left open, want %d")
	if _, _, err := resolve(artifacts.Sources{}, ref, artifacts.Lines{}); !errors.Is(err, artifacts.ErrNowhere) {
		t.Errorf("Resolve without blobs = %v, want ErrNowhere", err)
	}
}

func TestResolveRefusesLinesOfAValue(t *testing.T) {
	s, d := sources(map[string]string{"j.md": "{}", "a.b.md": "x\ny\n"})
	for _, address := range []string{"agent://j/k", "agent://j?q=."} {
		if _, _, err := resolve(s, address, artifacts.Lines{Limit: 1}); err == nil ||
			err.Error() != "Cannot combine query extraction with offset/limit" {
			t.Errorf("Resolve(%s, limit 1) = %v", address, err)
		}
	}
	if res, got, err := resolve(s, "agent://a/b", artifacts.Lines{Offset: 2, Limit: 1}); err != nil || got != "y\n" || res.Size != -1 {
		t.Errorf("Resolve(nested output, line 2) = %q, size %d, %v", got, res.Size, err)
	}
	for _, lines := range []artifacts.Lines{{Offset: -1}, {Limit: -1}} {
		if _, _, err := resolve(s, "agent://j", lines); !errors.Is(err, artifacts.ErrURL) {
			t.Errorf("Resolve(%v) = %v, want ErrURL", lines, err)
		}
	}
	if _, _, err := resolve(s, "agent://a.b", artifacts.Lines{Offset: 4}); !errors.Is(err, artifacts.ErrPastEnd) ||
		!strings.Contains(err.Error(), "3 lines") {
		t.Errorf("Resolve(line 4 of 3) = %v, want ErrPastEnd", err)
	}
	must.Same(t, d.open, 0, "%d files were left open, want %d")
}

// TestLinesMeet: ranges that follow each other make up the text, and each has as many newlines as its limit.
func TestLinesMeet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`([ab]{0,3}\n?){0,20}`).Draw(t, "text")
		if rapid.Bool().Draw(t, "long") {
			text = strings.ReplaceAll(text, "a", strings.Repeat("x", 70_000)) // longer than the buffer
		}
		s, _ := sources(map[string]string{"0.t.log": text})
		limit := rapid.Int64Range(1, 5).Draw(t, "limit")
		var all strings.Builder
		lines := int64(strings.Count(text, "\n") + 1)
		for at := int64(1); at <= lines; at += limit {
			_, got, err := resolve(s, "artifact://0", artifacts.Lines{Offset: at, Limit: limit})
			if err != nil {
				t.Fatalf("lines %d+%d of %d: %v", at, limit, lines, err)
			}
			if want := min(limit, lines-at); int64(strings.Count(got, "\n")) != want {
				t.Fatalf("lines %d+%d of %d have %d newlines, want %d", at, limit, lines, strings.Count(got, "\n"), want)
			}
			all.WriteString(got)
		}
		if all.String() != text {
			t.Fatalf("ranges of %d make up %q, want %q", limit, all.String(), text)
		}
		if _, _, err := resolve(s, "artifact://0", artifacts.Lines{Offset: lines + 1}); !errors.Is(err, artifacts.ErrPastEnd) {
			t.Fatalf("line %d of %d = %v, want ErrPastEnd", lines+1, lines, err)
		}
	})
}

// endless is an artifact that never ends, in lines of 1 MiB.
type endless struct{ read int64 }

func (e *endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
		if e.read++; e.read%(1<<20) == 0 {
			p[i] = '\n'
		}
	}
	return len(p), nil
}

func (e *endless) Close() error { return nil }

// TestLinesNeedNoMemory reads two lines behind 512 MiB: only as much as that is read, through one buffer.
func TestLinesNeedNoMemory(t *testing.T) {
	source := &endless{}
	folder := artifacts.NewFolder([]artifacts.Record{row("art_1", "s")},
		func(context.Context, artifacts.Record) (io.ReadCloser, int64, error) {
			return source, 5 << 30, nil
		})
	s := artifacts.Sources{Dir: folder}
	res := must.Get(s.Resolve(context.Background(), "artifact://0", artifacts.Lines{Offset: 513, Limit: 2}))(t)
	if n, err := io.Copy(io.Discard, res.Body); n != 2<<20 || err != nil {
		t.Errorf("read %d bytes, %v, want 2 MiB", n, err)
	}
	if over := source.read - 514<<20; over > 128<<10 {
		t.Errorf("read %d bytes more than it had to", over)
	}
	if allocs := testing.AllocsPerRun(3, func() {
		_,
			_ = s.Resolve(context.Background(), "artifact://0", artifacts.Lines{Offset: 20})
	}); allocs > 50 {
		t.Errorf("passing over 19 MiB allocates %v times", allocs)
	}
}

func TestFolder(t *testing.T) {
	named := row("art_1", "s")
	named.Seq, named.Filename = "12", "report.txt"
	agent := row("art_2", "s")
	agent.Seq, agent.Writer, agent.Filename = "", artifacts.FromAgent, artifacts.AgentFile("0-Review")
	folder := artifacts.NewFolder([]artifacts.Record{row("art_0", "s"), named, agent},
		func(_ context.Context, r artifacts.Record) (io.ReadCloser, int64, error) {
			return io.NopCloser(strings.NewReader(string(r.ID))), int64(len(r.ID)), nil
		})
	s := artifacts.Sources{Dir: folder}
	for address, want := range map[string]string{"artifact://0": "art_0", "artifact://12": "art_1", "agent://0-Review": "art_2"} {
		if _, got, err := resolve(s, address, artifacts.Lines{}); got != want || err != nil {
			t.Errorf("Resolve(%s) = %q, %v, want %q", address, got, err, want)
		}
	}
	if _, _, err := folder.Open(context.Background(), "nothing"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Open(nothing) = %v, want fs.ErrNotExist", err)
	}
}

// FuzzResolve holds that whatever calls itself an address gives bytes or a decision.
func FuzzResolve(f *testing.F) {
	for _, s := range []string{"artifact://0", "agent://j/a/0?q=", "agent://j?q=.a[0]['x']", "blob:sha256:",
		"agent://%zz/%2e%2E/x", "agent://j?q=['"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, address string) {
		s, d := sources(map[string]string{"0.x.log": "0", "j.md": `{"a":[1,{"x":2}]}`})
		_, _, err := resolve(s, address, artifacts.Lines{})
		known := []error{artifacts.ErrURL, artifacts.ErrNotFound}
		if err != nil && !slices.ContainsFunc(known, func(k error) bool { return errors.Is(err, k) }) || d.open != 0 {
			t.Fatalf("Resolve(%q) = %v with %d files open, want one of %v", address, err, d.open, known)
		}
	})
}

// FuzzExtract compares extraction with the same steps through decoded values, and holds that no address panics.
func FuzzExtract(f *testing.F) {
	f.Add(`{"a":[1,{"b":null}],"":{"x y":"z"}}`, "a/1/b")
	f.Add(`[[[]],1e5]`, "0/length")
	f.Add(`{"a":{"length":3}}`, "a/length")
	f.Add(`{"0":1}`, "0") // a number goes into arrays only
	f.Add(`nope`, "x")
	f.Fuzz(func(t *testing.T, text, path string) {
		var value any
		dec := json.NewDecoder(strings.NewReader(text))
		dec.UseNumber()
		valid := json.Valid([]byte(text)) && dec.Decode(&value) == nil
		s, _ := sources(map[string]string{"x.md": text})
		_, got, err := resolve(s, "agent://x/"+path, artifacts.Lines{})
		parts := strings.Split(path, "/")
		plain := !slices.ContainsFunc(parts, func(p string) bool {
			return p == "" || strings.ContainsFunc(p, func(r rune) bool { return (r < '0' || r > '9') && (r < 'a' || r > 'z') })
		})
		if !valid || !plain || err != nil && strings.Contains(err.Error(), "deeper") {
			return
		}
		want := walk(value, parts)
		var found any
		dec = json.NewDecoder(bytes.NewReader([]byte(got)))
		dec.UseNumber()
		if err != nil || dec.Decode(&found) != nil || !reflect.DeepEqual(found, want) {
			t.Fatalf("%s of %s = %s, %v, want %v", path, text, got, err, want)
		}
	})
}

func walk(value any, parts []string) any {
	for _, p := range parts {
		digits := strings.Trim(p, "0123456789") == ""
		switch v := value.(type) {
		case map[string]any:
			value = v[p]
			if digits {
				value = nil
			}
		case []any:
			n, err := json.Number(strings.TrimLeft(p, "0")).Int64()
			if strings.Trim(p, "0") == "" {
				n, err = 0, nil
			}
			switch {
			case p == "length":
				l, _ := json.Marshal(len(v))
				value = json.Number(l)
			case digits && err == nil && n < int64(len(v)):
				value = v[n]
			default:
				value = nil
			}
		default:
			return nil
		}
	}
	return value
}
