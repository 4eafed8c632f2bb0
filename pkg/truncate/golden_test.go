package truncate_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"spool/internal/jsonscan"
	"spool/internal/must"
	"spool/pkg/truncate"
)

// store is a blob store in memory.
type store map[string][]byte

func (s store) put(b []byte) string {
	ref := truncate.Ref(b)
	s[ref] = bytes.Clone(b)
	return ref
}

var errNoBlob = errors.New("no such blob")

func (s store) get(ref string) ([]byte, error) {
	if b, ok := s[ref]; ok {
		return b, nil
	}
	return nil, errNoBlob
}

// entry runs Entry and holds what must be true of any entry: Text is JSON, Restore gives raw back, and a second pass
// finds nothing to do.
func entry(t testing.TB, raw []byte, opt truncate.Options) (truncate.Result, store) {
	t.Helper()
	blobs, before := store{}, bytes.Clone(raw)
	r, err := truncate.Entry(raw, blobs.put, opt)
	if err != nil {
		t.Fatalf("Entry(%.200q) = %v", raw, err)
	}
	if !bytes.Equal(raw, before) {
		t.Fatal("Entry changed its input")
	}
	if err := jsonscan.Valid(r.Text); err != nil {
		t.Fatalf("Text %.200q: %v", r.Text, err)
	}
	stored := r.Text
	if r.Full != nil {
		stored = r.Full
	}
	back, err := truncate.Restore(stored, r.Splices, blobs.get)
	if err != nil || !bytes.Equal(back, raw) {
		t.Fatalf("Restore = %.300q, %v, want %.300q", back, err, raw)
	}
	again, err := truncate.Entry(r.Text, nil, opt)
	if err != nil || &again.Text[0] != &r.Text[0] {
		t.Fatalf("Entry of its own Text = %+.300q, %v, want it untouched: %.300q", again.Text, err, r.Text)
	}
	sameStreamed(t, raw, opt, r, blobs)
	if r.Truncated+r.Cleared+r.Stripped+r.Externalized == 0 && &r.Text[0] != &raw[0] {
		t.Fatal("an entry without changes was copied")
	}
	return r, blobs
}

// golden reads a vector, gzipped or not.
func golden(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	if err == nil {
		return b
	}
	f, err := os.Open(name + ".gz")
	check(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	check(t, err)
	b, err = io.ReadAll(z)
	check(t, err)
	return b
}

// deviations are the vectors where the program loses data and Spool does not (SPEC T7): the entry stays as it is.
var deviations = map[string]string{
	"059-img-nonbase64-lenient": "the program decodes 2,200 characters to 2 bytes",
	"060-img-urlsafe-b64":       "the program gives back standard base64 for URL-safe",
}

func TestGoldenPersist(t *testing.T) {
	dirs, err := filepath.Glob("../../testdata/golden/omp/persist/*")
	check(t, err)
	if len(dirs) < 50 {
		t.Fatalf("%d golden vectors, want at least 50", len(dirs))
	}
	for _, dir := range dirs {
		name := filepath.Base(dir)
		t.Run(name, func(t *testing.T) {
			raw := golden(t, filepath.Join(dir, "input.json"))
			want := golden(t, filepath.Join(dir, "expected.14.9.9.json"))
			r, blobs := entry(t, raw, truncate.Options{})
			if why, ok := deviations[name]; ok {
				if &r.Text[0] != &raw[0] || len(blobs) != 0 {
					t.Errorf("Text = %.200q with %d blobs, want the entry untouched: %s", r.Text, len(blobs), why)
				}
				return
			}
			if got, want := parse(t, r.Text), parse(t, jsonscan.Get(want, "persisted")); !reflect.DeepEqual(got, want) {
				t.Errorf("Text differs from the program's (-program +spool):\n%.2000s", cmp.Diff(want, got))
			}
			if same, _ := jsonscan.Bool(jsonscan.Get(want, "sameReference")); same != (&r.Text[0] == &raw[0]) {
				t.Errorf("untouched = %v, want %v", !same, same)
			}
			var wantBlobs, gotBlobs []string
			check(t, jsonscan.Array(jsonscan.Get(want, "blobs"), func(b []byte) bool {
				hash, _ := jsonscan.Text(jsonscan.Get(b, "sha256"))
				wantBlobs = append(wantBlobs, fmt.Sprintf("blob:sha256:%s %s", hash, jsonscan.Get(b, "bytes")))
				return true
			}))
			for ref, b := range blobs {
				gotBlobs = append(gotBlobs, fmt.Sprintf("%s %d", ref, len(b)))
			}
			slices.Sort(wantBlobs)
			slices.Sort(gotBlobs)
			must.SameAll(t, gotBlobs, wantBlobs, "blobs = %q, want %q")
		})
	}
}

// The rest of SPEC T8: a string that only begins like a ref is no ref, however long or short, and is never looked up.
func TestOnlyWholeRefsAreRefs(t *testing.T) {
	hash := strings.Repeat("ab", 32)
	for s, want := range map[string]bool{
		"blob:sha256:" + hash:                    true,
		"blob:sha256:" + strings.ToUpper(hash):   false,
		"blob:sha256:" + hash + "0":              false,
		"blob:sha256:" + hash[1:]:                false,
		"blob:sha256:../../../../etc/passwd":     false,
		" blob:sha256:" + hash:                   false,
		"blob:sha256:" + hash[:63] + "g":         false,
		"blob:sha512:" + hash:                    false,
		"blob:sha256:" + strings.Repeat("/", 64): false,
		"":                                       false,
	} {
		must.Same(t, truncate.IsRef(s), want, "IsRef(%q) = %v, want %v", s)
	}
	for _, ref := range []string{"blob:sha256:../../../../etc/passwd", "blob:sha256:" + strings.Repeat("/", 64)} {
		text := []byte(`{"data":"` + ref + strings.Repeat(" ", 80) + `"}`)
		_, err := truncate.Restore(text, []truncate.Splice{{Offset: 9}}, func(string) ([]byte, error) { t.Error("looked up"); return nil, nil })
		must.Is(t, err, truncate.ErrBadSplice, "Restore of %q", ref)
	}
}
