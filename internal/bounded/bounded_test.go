package bounded_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/vmihailenco/msgpack/v5"

	"spool/internal/bounded"
	"spool/internal/must"
)

func TestCheckAcceptsEveryForm(t *testing.T) {
	long := strings.Repeat("x", 70_000)
	for _, v := range []any{
		nil, true, false, 0, 127, 128, 255, 256, 65_536, uint64(1) << 40, -1, -32, -33, -129, -40_000, int64(-1) << 40,
		float32(1), 1.5, "", "short", long[:200], long[:300], long, []byte(long[:3]), []byte(long[:300]), []byte(long),
		[]any{}, []any{1, "two", []any{3}}, make([]int, 16), make([]int, 70_000), map[string]any{"a": map[string]any{"b": nil}},
	} {
		b := must.Get(msgpack.Marshal(v))(t)
		if n, err := bounded.Check(append(b, 0xff)); n != len(b) || err != nil {
			t.Errorf("Check(%.20T of %d bytes) = %d, %v, want %d, nil", v, len(b), n, err, len(b))
		}
		must.Is(t, bounded.Exactly(b), nil, "Exactly(%T)", v)
		for cut := range min(len(b), 20) {
			must.Is(t, must.Err(bounded.Check(b[:cut])), bounded.ErrMalformed, "Check(first %d of %d bytes)", cut, len(b))
		}
	}
	for _, ext := range []string{"\xd4\x01a", "\xd5\x01ab", "\xd6\x01abcd", "\xd7\x01abcdefgh", "\xd8\x010123456789abcdef",
		"\xc7\x02\x01ab", "\xc8\x00\x02\x01ab", "\xc9\x00\x00\x00\x02\x01ab"} {
		must.Is(t, bounded.Exactly([]byte(ext)), nil, "Exactly(%q)", ext)
	}
}

func TestCheckRefusesBombs(t *testing.T) {
	for name, b := range map[string]string{
		"array16": "\xdc\xff\xff", "array32": "\xdd\xff\xff\xff\xff", "map16": "\xde\xff\xff", "map32": "\xdf\xff\xff\xff\xff",
		"bin8": "\xc4\xff", "bin16": "\xc5\xff\xff", "bin32": "\xc6\xff\xff\xff\xff",
		"str8": "\xd9\xff", "str16": "\xda\xff\xff", "str32": "\xdb\xff\xff\xff\xff", "fixstr": "\xbfshort",
		"ext8": "\xc7\xff\x01", "ext16": "\xc8\xff\xff\x01", "ext32": "\xc9\xff\xff\xff\xff\x01",
		"reserved": "\xc1", "empty": "", "map without value": "\x81\xa1k",
		"nested arrays": strings.Repeat("\x91", 1_000) + "\xc0", "nested maps": strings.Repeat("\x81\x01", 1_000) + "\xc0",
		"array of bombs": "\x92\xdd\x00\x00\x00\x02\xc0\xc0\xdf\x7f\xff\xff\xff",
	} {
		n, err := bounded.Check([]byte(b))
		if n != 0 || !errors.Is(err, bounded.ErrMalformed) {
			t.Errorf("%s: Check = %d, %v, want 0, ErrMalformed", name, n, err)
		}
	}
}

func TestCheckDepth(t *testing.T) {
	deepest := append(bytes.Repeat([]byte{0x91}, bounded.MaxDepth), 0xc0)
	must.Is(t, bounded.Exactly(deepest), nil, "Exactly(depth %d)", bounded.MaxDepth)
	must.Is(t, bounded.Exactly(append([]byte{0x91}, deepest...)), bounded.ErrMalformed, "Exactly(depth %d)", bounded.MaxDepth+1)
}

func TestExactlyNamesTheOffset(t *testing.T) {
	for b, want := range map[string]string{
		"\xc0\xc0":     "at byte 1: bytes after the value",
		"\x92\x01\xc1": "at byte 2: first byte 0xc1",
	} {
		if err := bounded.Exactly([]byte(b)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Exactly(%q) = %v, want it to contain %q", b, err, want)
		}
	}
}

func TestCheckAllocatesNothing(t *testing.T) {
	b, _ := msgpack.Marshal(map[string]any{"a": []any{1, "two", map[string]any{"three": nil}}})
	must.Same(t, testing.AllocsPerRun(100, func() { _, _ = bounded.Check(b) }), 0, "Check allocates %v times, want %v")
}

// FuzzCheck holds that what the walker accepts, a general decoder can read without more memory than the input justifies,
// and that it reads as many bytes as the walker says.
func FuzzCheck(f *testing.F) {
	for _, s := range []string{"\xc0", "\x93\x01\xa1a\xc4\x01b", "\xdd\xff\xff\xff\xff", "\x81\xa1k\x91\x91\xc0", "\xc9\xff\xff\xff\xff\x01"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		n, err := bounded.Check(b)
		if err != nil {
			if n != 0 || !errors.Is(err, bounded.ErrMalformed) {
				t.Fatalf("Check(%x) = %d, %v, want 0 and ErrMalformed", b, n, err)
			}
			return
		}
		r := bytes.NewReader(b[:n])
		if err := msgpack.NewDecoder(r).Skip(); err != nil {
			t.Fatalf("Check(%x) = %d, but msgpack refuses: %v", b, n, err)
		}
	})
}

func BenchmarkCheck(b *testing.B) {
	v, _ := msgpack.Marshal(map[string]any{"role": "coder", "timestamp": 1778308464000, "meta": map[string]any{"i": 1, "s": "text"}})
	b.SetBytes(int64(len(v)))
	for b.Loop() {
		_, _ = bounded.Check(v)
	}
}
