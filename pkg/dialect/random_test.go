package dialect_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"spool/internal/jsonscan"
	"spool/pkg/dialect"
)

// words are the names and values that dialects look for, so that random JSON meets their branches.
var words = func() []string {
	files, _ := filepath.Glob(filepath.Join("testdata", "*.jsonl"))
	seen := map[string]bool{}
	var out []string
	for _, f := range files {
		data, _ := os.ReadFile(f)
		for i, w := range strings.Split(string(data), `"`) {
			if i%2 == 1 && len(w) < 30 && !strings.ContainsAny(w, `\`) && !seen[w] {
				seen[w] = true
				out = append(out, w)
			}
		}
	}
	return out
}()

// randomValue appends a random JSON value, strings with bytes that are no UTF-8 and lone surrogates among them.
func randomValue(r *rand.Rand, b []byte, depth int) []byte {
	switch k := r.IntN(10); {
	case k < 3 && depth > 0:
		return randomObject(r, b, depth)
	case k < 5 && depth > 0:
		b = append(b, '[')
		for i := range r.IntN(4) {
			if i > 0 {
				b = append(b, ',')
			}
			b = randomValue(r, b, depth-1)
		}
		return append(b, ']')
	case k < 6:
		return append(b, []string{"null", "true", "false", "0", "-1", "3.5", "1e400", "99999999999999999999", "1795176001000"}[r.IntN(9)]...)
	case k < 7:
		odd := []string{`""`, `"\ud83d"`, `"\\n"`, "\"\xff\xfe\"", `"\n\r\n x"`, `"2026-11-20T12:00:00.000Z"`,
			`"2026-99-20T12:00:00.000Z"`, `"[Request interrupted by user]"`,
			"\"{\\\"output\\\":\\\"x\xff\\\",\\\"metadata\\\":{\\\"exit_code\\\":1}}\"", `"\u0000\u001b[31m"`,
			`"*** Begin Patch\n*** Update File: a"`}
		return append(b, odd[r.IntN(len(odd))]...)
	}
	return append(append(append(b, '"'), words[r.IntN(len(words))]...), '"')
}

func randomObject(r *rand.Rand, b []byte, depth int) []byte {
	b = append(b, '{')
	for i := range r.IntN(9) {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(append(b, '"'), words[r.IntN(len(words))]...), `":`...)
		b = randomValue(r, b, depth-1)
	}
	return append(b, '}')
}

// mutate puts random values in the place of some values of a line.
func mutate(r *rand.Rand, raw []byte, depth int) []byte {
	if r.IntN(12) == 0 {
		return randomValue(r, nil, 3)
	}
	switch jsonscan.KindOf(raw) {
	case jsonscan.KindObject:
		b := []byte{'{'}
		_ = jsonscan.Object(raw, func(key, value []byte) bool {
			if r.IntN(20) == 0 {
				return true
			}
			if len(b) > 1 {
				b = append(b, ',')
			}
			b = append(append(append(b, '"'), key...), `":`...)
			b = append(b, mutate(r, value, depth-1)...)
			return true
		})
		return append(b, '}')
	case jsonscan.KindArray:
		b := []byte{'['}
		_ = jsonscan.Array(raw, func(value []byte) bool {
			if len(b) > 1 {
				b = append(b, ',')
			}
			b = append(b, mutate(r, value, depth-1)...)
			return true
		})
		return append(b, ']')
	}
	return raw
}

// Whatever the shape: no panic, no error from a harness's dialect, valid items, rebuildable results.
func TestRandomShapes(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, name := range dialect.Names() {
		d, _ := dialect.Lookup(name)
		var seeds [][]byte
		if data, err := os.ReadFile(filepath.Join("testdata", name+".jsonl")); err == nil {
			seeds = lines(data)
		}
		contract := name == "item" || name == "step"
		var m dialect.Memory
		for i := range 6000 {
			line := randomObject(r, nil, 4)
			if len(seeds) > 0 && i%3 != 0 {
				line = mutate(r, seeds[r.IntN(len(seeds))], 6)
			}
			if err := jsonscan.Valid(line); err != nil {
				t.Fatalf("generator: %v in %q", err, line)
			}
			if contract {
				before := fmt.Sprintf("%x", m.Encode())
				if _, err := d.Read(line, &m); err != nil {
					if after := fmt.Sprintf("%x", m.Encode()); after != before {
						t.Fatalf("%s.Read failed and changed the memory", name)
					}
					continue
				}
			}
			for _, it := range readTwice(t, d, line, &m).Items {
				checkItem(t, it)
			}
		}
	}
}

func FuzzRead(f *testing.F) {
	for _, name := range dialect.Names() {
		data, err := os.ReadFile(filepath.Join("testdata", name+".jsonl"))
		if err != nil {
			continue
		}
		for _, line := range lines(data) {
			f.Add(line)
		}
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		if jsonscan.Valid(line) != nil {
			return
		}
		dialect.Detect([][]byte{line})
		for _, name := range dialect.Names() {
			d, _ := dialect.Lookup(name)
			var m dialect.Memory
			for range 2 {
				if _, err := d.Read(line, nil); err != nil {
					continue
				}
				for _, it := range readTwice(t, d, line, &m).Items {
					checkItem(t, it)
				}
			}
		}
	})
}
