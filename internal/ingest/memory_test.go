package ingest_test

import (
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"

	"spool/internal/ingest"
)

// Lines that never end, and those that do, leave no garbage of their length behind: what bounds the bytes that are held bounds memory.
func TestLinesLeaveNoGarbage(t *testing.T) {
	const size = 32 << 20
	cut := errors.New("the client has gone")
	for name, c := range map[string]struct {
		end  io.Reader
		most uint64 // bytes
	}{
		"cut":   {failing{cut}, 1 << 20},
		"whole": {strings.NewReader("\n"), size + 8<<20},
	} {
		read := func() {
			in := io.MultiReader(io.LimitReader(forever{}, size), c.end)
			_, err := ingest.Lines(t.Context(), in, &sink{}, ingest.Config{Envelopes: true, Producer: "p"})
			if !errors.Is(err, cut) && name == "cut" {
				t.Fatal(err)
			}
		}
		least := uint64(1 << 62)
		for range 5 { // a collection in between may take what is to be used again
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			read()
			runtime.ReadMemStats(&after)
			least = min(least, after.TotalAlloc-before.TotalAlloc)
		}
		if least > c.most {
			t.Errorf("%s: %d bytes allocated, want at most %d", name, least, c.most)
		}
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

type forever struct{}

func (forever) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}
