package casstore

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestVerify(t *testing.T) {
	const text = "the bytes of a blob"
	ref := SumBlob([]byte(text))
	for name, wrap := range map[string]func(io.Reader) io.Reader{"bytes": iotest.OneByteReader, "with the end": iotest.DataErrReader} {
		if got, err := io.ReadAll(Verify(wrap(strings.NewReader(text)), ref)); err != nil || string(got) != text {
			t.Errorf("%s: %q, %v, want %q", name, got, err, text)
		}
		for _, wrong := range []string{"", text[1:], text + "."} {
			if _, err := io.ReadAll(Verify(wrap(strings.NewReader(wrong)), ref)); !errors.Is(err, ErrCorrupt) {
				t.Errorf("%s: reading %q = %v, want ErrCorrupt", name, wrong, err)
			}
		}
	}
	if _, err := io.ReadAll(Verify(iotest.ErrReader(io.ErrNoProgress), ref)); !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("a reader that fails = %v, want its error", err)
	}
}
