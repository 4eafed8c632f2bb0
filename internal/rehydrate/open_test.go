package rehydrate_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"io"
	"testing"

	"spool/internal/must"
	"spool/internal/rehydrate"
	"spool/pkg/casstore"
)

// opened gives blobs in pieces, as a store does; its readers find out at the end that bytes are wrong.
type opened struct {
	bytes map[casstore.Ref][]byte
	opens int
}

func (o *opened) open(_ context.Context, ref casstore.Ref) (io.Reader, error) {
	o.opens++
	b, ok := o.bytes[ref]
	if !ok {
		return nil, casstore.ErrNotFound
	}
	return casstore.Verify(bytes.NewReader(b), ref), nil
}

// TestBlobsInPieces: a blob of any size comes back; one that turns out to be corrupt leaves no trace but its ref (SPEC T10),
// and without a listener it is an error.
func TestBlobsInPieces(t *testing.T) {
	for name, size := range map[string]int{"small": 3000, "as large as what is read ahead": 4 << 20, "large": 4<<20 + 3001} {
		t.Run(name, func(t *testing.T) {
			image := bytes.Repeat([]byte("i"), size)
			line := `{"content":[{"type":"image","data":"` + base64.StdEncoding.EncodeToString(image) + `"}],"n":1}`
			s, head := thread(t, blobs{}, line)
			from := opened{bytes: map[casstore.Ref][]byte{casstore.SumBlob(image): image}}
			s.Open = from.open
			for _, warn := range []func(rehydrate.Missing){nil, func(m rehydrate.Missing) { t.Errorf("told %v", m) }} {
				s.Warn = warn
				if got := export(t, s, head, rehydrate.Full); got[0] != line {
					t.Errorf("export = %d bytes, want the %d that were put in", len(got[0]), len(line))
				}
			}
			from.bytes[casstore.SumBlob(image)] = append(bytes.Clone(image[:size-1]), 'x')
			s.Warn = nil
			must.Is(t, must.Err(s.Export(t.Context(), head, rehydrate.Full, io.Discard)), casstore.ErrCorrupt, "export of a corrupt blob")
			var told []rehydrate.Missing
			s.Warn = func(m rehydrate.Missing) { told = append(told, m) }
			want := `{"content":[{"type":"image","data":"` + casstore.SumBlob(image).String() + `"}],"n":1}`
			if got := export(t, s, head, rehydrate.Full)[0]; got != want || len(told) != 1 || !told[0].Corrupt() {
				t.Errorf("export = %.200s, told %v, want %s and one corrupt blob", got, told, want)
			}
		})
	}
}

func TestLine(t *testing.T) {
	for _, size := range []int{0, 1, rehydrate.LineHead, rehydrate.LineHead + 1, 3 * rehydrate.LineHead} {
		b := bytes.Repeat([]byte("line"), size/4+1)[:size]
		var w rehydrate.LineWriter
		for rest := b; len(rest) > 0; {
			n, _ := w.Write(rest[:min(len(rest), 300_001)])
			rest = rest[n:]
		}
		if got, want := w.Line(), rehydrate.LineOf(b); !got.Equal(want) || got.Size != int64(size) {
			t.Errorf("%d bytes written: a line of %d and %d at hand, want %d and %d", size, got.Size, len(got.Head), want.Size, len(want.Head))
		}
		if size == 0 {
			continue
		}
		other := bytes.Clone(b)
		other[size-1] ^= 1
		if rehydrate.LineOf(other).Equal(w.Line()) {
			t.Errorf("%d bytes are taken for others", size)
		}
	}
}
