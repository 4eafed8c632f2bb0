package transcript

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"spool/internal/must"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// zeros is so many bytes of nothing.
func zeros(n int64) io.Reader { return io.LimitReader(endless{}, n) }

type endless struct{}

func (endless) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func packed(t *testing.T, r io.Reader) []byte {
	t.Helper()
	var b bytes.Buffer
	w := must.Get(zstd.NewWriter(&b, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1)))(t)
	must.Get(io.Copy(w, r))(t)
	must.Do(t, w.Close())
	return b.Bytes()
}

// TestBombs: what is compressed costs no more than it can hold, whatever it says; what is torn is told, behind what came before it;
// and frames that follow each other are one file.
func TestBombs(t *testing.T) {
	line := strings.Repeat(`{"type":"user","n":1}`+"\n", 100)
	bomb := packed(t, zeros(256<<20))
	if len(bomb) > 100<<10 {
		t.Fatalf("the bomb has %d bytes", len(bomb))
	}
	whole := packed(t, strings.NewReader(line))
	window := []byte("\x28\xb5\x2f\xfd\x00\xff\x01\x00\x00") // a frame that wants a window of more than a terabyte
	var zipped bytes.Buffer
	gz := gzip.NewWriter(&zipped)
	_, _ = io.Copy(gz, strings.NewReader(line))
	_ = gz.Close()
	for _, c := range []struct {
		name, file string
		data       []byte
		want       int64 // bytes at least
		text       string
		err        error // nil: any, if fails
		fails      bool
	}{
		{"bomb", "a.zst", bomb, 0, "", ErrBomb, true},
		{"bombs one behind the other", "a.zst", bytes.Repeat(bomb, 3), 0, "", ErrBomb, true},
		{"a bomb behind a transcript", "a.zst", append(bytes.Clone(whole), bomb...), int64(len(line)), "", ErrBomb, true},
		{"a bomb in a frame", "a.zst", packed(t, bytes.NewReader(bomb)), 0, string(bomb), nil, false},
		{"frames", "a.zst", bytes.Repeat(whole, 3), 0, line + line + line, nil, false},
		{"torn", "a.zst", whole[:len(whole)-3], 0, "", nil, true},
		{"bytes behind it", "a.zst", append(bytes.Clone(whole), "and more"...), int64(len(line)), "", nil, true},
		{"window", "a.zst", window, 0, "", zstd.ErrWindowSizeExceeded, true},
		{"no frame", "a.zst", []byte("plain text"), 0, "", nil, true},
		{"empty", "a.zst", nil, 0, "", nil, false},
		{"gzip", "a.gz", zipped.Bytes(), 0, line, nil, false},
		{"gzip, torn", "a.gz", zipped.Bytes()[:zipped.Len()-3], 0, "", io.ErrUnexpectedEOF, true},
		{"text that repeats", "a.zst", packed(t, strings.NewReader(strings.Repeat(line, (bombBytes/len(line))))),
			bombBytes / int64(len(line)) * int64(len(line)), "", nil, false},
	} {
		r, done, err := Decompress(c.file, bytes.NewReader(c.data))
		if err != nil {
			if !c.fails {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		got := &prefix{}
		n, err := io.Copy(got, r)
		done()
		if (err != nil) != c.fails || c.err != nil && !errors.Is(err, c.err) {
			t.Errorf("%s: %d bytes, %v, want an error: %v (%v)", c.name, n, err, c.fails, c.err)
		}
		if n < c.want || c.text != "" && string(got.b) != c.text || n > 2*bombBytes {
			t.Errorf("%s: %d bytes, want %d at least and those that were compressed", c.name, n, c.want)
		}
	}
}

// prefix keeps the first of what is written.
type prefix struct{ b []byte }

func (p *prefix) Write(b []byte) (int, error) {
	if len(p.b) < 1<<20 {
		p.b = append(p.b, b...)
	}
	return len(b), nil
}
