package truncate_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"os"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"spool/internal/jsonscan"
	"spool/internal/must"
	"spool/pkg/truncate"
)

// NewBlob makes a store a truncate.Blobs.
func (s store) NewBlob(ref string, size int64) (truncate.BlobWriter, error) {
	if _, ok := s[ref]; ok {
		return nil, nil
	}
	return &blobWriter{store: s, ref: ref, size: size}, nil
}

type blobWriter struct {
	bytes.Buffer
	store store
	ref   string
	size  int64
}

func (w *blobWriter) Commit() error {
	if got := w.store.put(w.Bytes()); got != w.ref || int64(w.Len()) != w.size {
		return errors.New("the blob is " + got + ", not " + w.ref)
	}
	return nil
}

func (w *blobWriter) Abort() {}

// pieces reads b a byte at a time, or if that would take long, in halves of what is asked for.
func pieces(b []byte) io.Reader {
	if len(b) < 8<<10 {
		return iotest.OneByteReader(bytes.NewReader(b))
	}
	return iotest.DataErrReader(iotest.HalfReader(bytes.NewReader(b)))
}

// sameStreamed holds Scan and Apply against the result of Entry, and RestoreTo against raw.
func sameStreamed(t testing.TB, raw []byte, opt truncate.Options, want truncate.Result, wantBlobs store) {
	t.Helper()
	must.Is(t, truncate.Check(pieces(raw)), nil, "Check(%.200q)", raw)
	p, err := truncate.Scan(pieces(raw), opt)
	if err != nil {
		t.Fatalf("Scan(%.200q) = %v", raw, err)
	}
	if !reflect.DeepEqual(p.Summary, want.Summary) || p.Lossy != (want.Full != nil) {
		t.Fatalf("Scan = %+v, lossy %v, want %+v, %v", p.Summary, p.Lossy, want.Summary, want.Full != nil)
	}
	if p.Size != int64(len(raw)) || p.TextSize != int64(len(want.Text)) || p.FullSize != int64(len(want.Full)) {
		t.Fatalf("Scan = sizes %d, %d, %d, want %d, %d, %d", p.Size, p.TextSize, p.FullSize, len(raw), len(want.Text), len(want.Full))
	}
	if p.Clean() != bytes.Equal(want.Text, raw) {
		t.Fatalf("Clean() = %v", p.Clean())
	}
	var text, full, back bytes.Buffer
	blobs := store{}
	if err := p.Apply(pieces(raw), &text, &full, blobs); err != nil {
		t.Fatalf("Apply(%.200q) = %v", raw, err)
	}
	if !bytes.Equal(text.Bytes(), want.Text) || !bytes.Equal(full.Bytes(), want.Full) {
		t.Fatalf("Apply = %s\nfull  %s\nwant  %s\nfull  %s", ends(text.String()), ends(full.String()), ends(string(want.Text)),
			ends(string(want.Full)))
	}
	if !reflect.DeepEqual(blobs, wantBlobs) {
		t.Fatalf("Apply stored %d blobs, want the %d of Entry", len(blobs), len(wantBlobs))
	}
	base := text.Bytes()
	if p.Lossy {
		base = full.Bytes()
	}
	err = truncate.RestoreTo(&back, pieces(base), p.Splices, func(ref string) (io.ReadCloser, error) {
		return io.NopCloser(pieces(blobs[ref])), nil
	})
	if err != nil || !bytes.Equal(back.Bytes(), raw) {
		t.Fatalf("RestoreTo = %s, %v, want %s", ends(back.String()), err, ends(string(raw)))
	}
}

// sameError runs what is not to be an entry through Entry and Scan, which must refuse it for the same reason.
func sameError(t testing.TB, raw []byte, opt truncate.Options) error {
	t.Helper()
	_, err := truncate.Entry(raw, nil, opt)
	_, streamed := truncate.Scan(pieces(raw), opt)
	for _, reason := range []error{jsonscan.ErrSyntax, jsonscan.ErrDepth, truncate.ErrTooManyEdits} {
		if errors.Is(err, reason) && errors.Is(streamed, reason) {
			if checked := truncate.Check(pieces(raw)); !errors.Is(checked, reason) && (checked != nil || reason != truncate.ErrTooManyEdits) {
				t.Fatalf("Check(%.200q) = %v, want %v", raw, checked, reason)
			}
			return err
		}
	}
	t.Fatalf("Entry(%.200q) = %v, Scan = %v, want the same reason", raw, err, streamed)
	return nil
}

func TestTooManyEdits(t *testing.T) {
	many := []byte("[" + strings.Repeat(`{"partialJson":1},`, 100_000) + "1]")
	if r, _ := entry(t, many, truncate.Options{}); r.Stripped != 100_000 {
		t.Errorf("%d stripped, want 100000", r.Stripped)
	}
	must.Is(t, sameError(t, append([]byte(`[{"partialJson":1},`), many[1:]...), truncate.Options{}), truncate.ErrTooManyEdits, "Entry")
}

var errDisk = errors.New("disk")

// failing is a store whose step named by at fails.
type failing struct {
	at      string
	aborted bool
}

func (f *failing) NewBlob(string, int64) (truncate.BlobWriter, error) {
	if f.at == "new" {
		return nil, errDisk
	}
	return f, nil
}

func (f *failing) Write(b []byte) (int, error) {
	if f.at == "write" {
		return 0, errDisk
	}
	return len(b), nil
}

func (f *failing) Commit() error {
	if f.at == "commit" {
		return errDisk
	}
	return nil
}

func (f *failing) Abort() { f.aborted = true }

func TestStreamFailures(t *testing.T) {
	raw := `{"content":[{"type":"image","data":"` + picture + `"}],"partialJson":"` + long + `"}`
	plan := func() *truncate.Plan {
		p, err := truncate.Scan(strings.NewReader(raw), truncate.Options{})
		check(t, err)
		return p
	}
	for _, at := range []string{"new", "write", "commit"} {
		blobs := &failing{at: at}
		err := plan().Apply(strings.NewReader(raw), io.Discard, io.Discard, blobs)
		if !errors.Is(err, errDisk) || blobs.aborted != (at == "write") {
			t.Errorf("Apply with a failing %s = %v, aborted %v", at, err, blobs.aborted)
		}
	}
	for name, other := range map[string]string{
		"shorter": raw[:len(raw)-1], "longer": raw + " ", "an escape in the image": strings.Replace(raw, "AAEC", `\u0041EC`, 1),
		"no base64": strings.Replace(raw, "AAEC", "A*EC", 1), "a quote in the image": strings.Replace(raw, "AAEC", `A"EC`, 1), "empty": "",
	} {
		must.Is(t, plan().Apply(strings.NewReader(other), io.Discard, nil, store{}), truncate.ErrChanged, "Apply with %s", name)
	}
	for _, n := range []int64{0, 20, 500, 300_000} {
		broken := func() io.Reader {
			return io.MultiReader(io.LimitReader(strings.NewReader(raw), n), iotest.ErrReader(errDisk))
		}
		if _, err := truncate.Scan(broken(), truncate.Options{}); !errors.Is(err, errDisk) || errors.Is(err, jsonscan.ErrSyntax) {
			t.Errorf("Scan of a reader that fails after %d bytes = %v, want its error alone", n, err)
		}
		if err := plan().Apply(broken(), io.Discard, nil, store{}); !errors.Is(err, errDisk) || errors.Is(err, truncate.ErrChanged) {
			t.Errorf("Apply of a reader that fails after %d bytes = %v, want its error alone", n, err)
		}
	}
}

// A missing blob leaves its ref where it is, and the rest is restored (SPEC T10).
func TestRestoreKeepsRefOfMissingBlob(t *testing.T) {
	text := `["` + pictureAt + `","` + urlAt + `"]`
	var out strings.Builder
	err := truncate.RestoreTo(&out, strings.NewReader(text),
		[]truncate.Splice{{Offset: 2}, {Offset: 81, Form: truncate.FormVerbatim}}, func(ref string) (io.ReadCloser, error) {
			if ref == pictureAt {
				return nil, nil
			}
			return io.NopCloser(strings.NewReader(url)), nil
		})
	if want := `["` + pictureAt + `","` + url + `"]`; err != nil || out.String() != want {
		t.Errorf("RestoreTo = %q, %v, want %q", out.String(), err, want)
	}
}

// discard checks blobs against their refs and forgets them.
type discard struct {
	sum  hash.Hash
	ref  string
	size int64
}

func (d *discard) NewBlob(ref string, size int64) (truncate.BlobWriter, error) {
	d.sum, d.ref, d.size = sha256.New(), ref, size
	return d, nil
}

func (d *discard) Write(b []byte) (int, error) {
	d.size -= int64(len(b))
	return d.sum.Write(b)
}

func (d *discard) Commit() error {
	if d.ref != "blob:sha256:"+hex.EncodeToString(d.sum.Sum(nil)) || d.size != 0 {
		return errDisk
	}
	return nil
}

func (d *discard) Abort() {}

// repeated is a text with a long middle.
func repeated(before, unit string, size int64, after string) io.Reader {
	return io.MultiReader(strings.NewReader(before), io.LimitReader(&endless{unit: strings.Repeat(unit, 4096/len(unit))},
		size), strings.NewReader(after))
}

type endless struct {
	unit string
	at   int
}

func (e *endless) Read(b []byte) (int, error) {
	n := copy(b, e.unit[e.at:])
	e.at = (e.at + n) % len(e.unit)
	return n, nil
}

// A string of any size goes through in constant memory: 256 MiB here, 1 GiB with SPOOL_TEST_GIANT=1.
func TestStreamMemory(t *testing.T) {
	size := int64(256 << 20)
	if os.Getenv("SPOOL_TEST_GIANT") != "" {
		size = 1 << 30
	} else if testing.Short() {
		size = 32 << 20
	}
	const element = `"a",1.5, {"content": []} ,`
	for name, open := range map[string]func() io.Reader{
		"text":   func() io.Reader { return repeated(`{"lineCount":1,"content":"`, `some text\n`, size, `"}`) },
		"image":  func() io.Reader { return repeated(`{"content":[{"data":"`, `abcd`, size, `","type":"image"}]}`) },
		"URL":    func() io.Reader { return repeated(`{"image_url":"data:image/png;base64,`, `abcd`, size, `"}`) },
		"number": func() io.Reader { return repeated(`[`, `1234`, size/16, `]`) },
		"key":    func() io.Reader { return repeated(`{"`, `1234`, size/16, `":0}`) },
		"removed": func() io.Reader {
			return repeated(`{"partialJson":[`, element, size/4/int64(len(element))*int64(len(element)), `0]}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			runtime.GC()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			p, err := truncate.Scan(open(), truncate.Options{})
			check(t, err)
			check(t, p.Apply(open(), io.Discard, io.Discard, &discard{}))
			runtime.ReadMemStats(&after)
			if grown := int64(after.HeapSys) - int64(before.HeapSys); grown > 32<<20 {
				t.Errorf("the heap grew by %d bytes for an entry of %d", grown, p.Size)
			}
			if (p.Truncated+p.Externalized+p.Stripped == 0) != (name == "number" || name == "key") {
				t.Errorf("Scan = %+v", p.Summary)
			}
		})
	}
}
