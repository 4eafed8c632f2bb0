package casstore_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vmihailenco/msgpack/v5"
	"pgregory.net/rapid"

	"spool/internal/must"
	"spool/pkg/casstore"
)

func ref(b byte) casstore.Ref     { return casstore.NodeRef([32]byte{31: b}) }
func blobRef(b byte) casstore.Ref { return casstore.BlobRef([32]byte{31: b}) }

func TestRefText(t *testing.T) {
	for _, r := range []casstore.Ref{ref(1), blobRef(0xab), casstore.SumBlob([]byte("x"))} {
		got, err := casstore.ParseRef(r.String())
		if err != nil || got != r {
			t.Errorf("ParseRef(%q) = %v, %v, want the ref", r, got, err)
		}
	}
	if got := (casstore.Ref{}).String(); got != "" {
		t.Errorf("nil ref as text = %q, want empty", got)
	}
	hex := strings.Repeat("a", 64)
	for _, s := range []string{
		"", "blob:sha256:", "blob:sha256:" + hex[1:], "blob:sha256:" + hex + "a", "blob:sha256:" + strings.ToUpper(hex),
		"blob:sha256:" + hex[1:] + "g", "Blob:sha256:" + hex, "node:sha1:" + hex, " node:sha256:" + hex, "node:sha256:" + hex + "\n",
		"blob:sha256:../../" + hex[6:], hex,
	} {
		if r, err := casstore.ParseRef(s); !errors.Is(err, casstore.ErrBadRef) || !r.IsZero() {
			t.Errorf("ParseRef(%q) = %v, %v, want nil, ErrBadRef", s, r, err)
		}
	}
}

func TestPackIDText(t *testing.T) {
	id := casstore.PackID{1, 0xff}
	if got, err := casstore.ParsePackID(id.String()); err != nil || got != id {
		t.Errorf("ParsePackID(%q) = %v, %v, want the id", id, got, err)
	}
	for _, s := range []string{"", id.String()[1:], strings.ToUpper(id.String()), id.String() + "0", strings.Repeat("g", 32)} {
		must.Is(t, must.Err(casstore.ParsePackID(s)), casstore.ErrBadPackID, "ParsePackID(%q)", s)
	}
}

func TestNodeRoundTrip(t *testing.T) {
	long := strings.Repeat("t", 300)
	for _, n := range []casstore.Node{
		{Type: "content", Payload: casstore.AppendString(nil, "text")},
		{Type: "state", Payload: []byte{0x80}, Refs: []casstore.Ref{ref(1), {}, blobRef(2)}},
		{Type: long, Payload: casstore.AppendBin(nil, make([]byte, 70_000)), Refs: make([]casstore.Ref, 20)},
		{Type: "x", Payload: []byte{0xc0}, Extra: []byte("\xa3key\x01\xa5later\x92\x01\x02")},
	} {
		b := n.AppendTo(nil)
		got, err := casstore.DecodeNode(b)
		if err != nil {
			t.Fatalf("DecodeNode(AppendTo(%.20q)) = %v, want nil", n.Type, err)
		}
		if diff := cmp.Diff(n, got); diff != "" {
			t.Errorf("DecodeNode(AppendTo(n)) differs (-want +got):\n%s", diff)
		}
		if again := got.AppendTo(nil); !bytes.Equal(again, b) {
			t.Errorf("AppendTo(DecodeNode(%x)) = %x, want the same bytes", b, again)
		}
		must.Is(t, must.Err(msgpack.NewDecoder(bytes.NewReader(b)).DecodeInterface()), nil, "a general decoder of %.100x", b)
	}
}

func TestDecodeNodeRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		bytes string
		want  error
	}{
		"empty":        {"", casstore.ErrMalformed},
		"no map":       {"\x90", casstore.ErrMalformed},
		"version 2":    {"\x81\xa1v\x02", casstore.ErrVersion},
		"version text": {"\x81\xa1v\xa3two", casstore.ErrVersion},
		"no version":   {"\x84\xa4type\xa1x\xa7payload\xc0\xa4refs\x90\xa1v\x01", casstore.ErrMalformed},
		"order":        {"\x84\xa1v\x01\xa7payload\xc0\xa4type\xa1x\xa4refs\x90", casstore.ErrMalformed},
		"refs missing": {"\x83\xa1v\x01\xa4type\xa1x\xa7payload\xc0", casstore.ErrMalformed},
		"long type":    {"\x84\xa1v\x01\xa4type\xd9\x01x\xa7payload\xc0\xa4refs\x90", casstore.ErrMalformed},
		"long refs":    {"\x84\xa1v\x01\xa4type\xa1x\xa7payload\xc0\xa4refs\xdc\x00\x00", casstore.ErrMalformed},
		"long map":     {"\xde\x00\x04\xa1v\x01\xa4type\xa1x\xa7payload\xc0\xa4refs\x90", casstore.ErrMalformed},
		"short ref":    {"\x84\xa1v\x01\xa4type\xa1x\xa7payload\xc0\xa4refs\x91\xc4\x01\x01", casstore.ErrMalformed},
		"kind of ref":  {"\x84\xa1v\x01\xa4type\xa1x\xa7payload\xc0\xa4refs\x91\xc4\x21\x03" + strings.Repeat("x", 32), casstore.ErrMalformed},
		"long ref": {"\x84\xa1v\x01\xa4type\xa1x\xa7payload\xc0\xa4refs\x91\xc5\x00\x21\x01" + strings.Repeat("x", 32),
			casstore.ErrMalformed},
		"key twice":      {"\x85\xa1v\x01\xa4type\xa1x\xa7payload\xc0\xa4refs\x90\xa4refs\x90", casstore.ErrMalformed},
		"key no text":    {"\x85\xa1v\x01\xa4type\xa1x\xa7payload\xc0\xa4refs\x90\x01\x01", casstore.ErrMalformed},
		"trailing":       {"\x84\xa1v\x01\xa4type\xa1x\xa7payload\xc0\xa4refs\x90\xc0", casstore.ErrMalformed},
		"bomb in a refs": {"\x84\xa1v\x01\xa4type\xa1x\xa7payload\xc0\xa4refs\xdd\xff\xff\xff\xff", casstore.ErrMalformed},
	} {
		must.Is(t, must.Err(casstore.DecodeNode([]byte(c.bytes))), c.want, "%s: DecodeNode", name)
	}
	_, err := casstore.DecodeNode([]byte("\x81\xa1v\x02"))
	if err == nil || !strings.Contains(err.Error(), "unknown version: 2, this program reads version 1") {
		t.Errorf("DecodeNode(version 2) = %v, want it to name both versions", err)
	}
}

func FuzzDecodeNode(f *testing.F) {
	n := casstore.Node{Type: "state", Payload: []byte{0x81, 0xa1, 'k', 1}, Refs: []casstore.Ref{ref(1), {}, blobRef(2)}}
	f.Add(n.AppendTo(nil))
	n.Extra = []byte("\xa3key\x01")
	f.Add(n.AppendTo(nil))
	f.Add([]byte("\x84\xa1v\x01\xa4type\xa1x\xa7payload\xc0\xa4refs\xdd\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		n, err := casstore.DecodeNode(b)
		if err != nil {
			return
		}
		if again := n.AppendTo(nil); !bytes.Equal(again, b) {
			t.Fatalf("AppendTo(DecodeNode(%x)) = %x, want the same bytes", b, again)
		}
	})
}

// jsonLike draws values of the kinds that AppendValue takes.
func jsonLike(depth int) *rapid.Generator[any] {
	kinds := []*rapid.Generator[any]{
		rapid.Just[any](nil), rapid.Bool().AsAny(), rapid.Int64().AsAny(), rapid.Float64().AsAny(), rapid.String().AsAny(),
		rapid.Custom(func(t *rapid.T) any { return append([]byte{}, rapid.SliceOf(rapid.Byte()).Draw(t, "bin")...) }),
	}
	if depth > 0 {
		kinds = append(kinds,
			rapid.Custom(func(t *rapid.T) any {
				return append([]any{}, rapid.SliceOfN(jsonLike(depth-1), 0, 20).Draw(t, "list")...)
			}),
			rapid.MapOfN(rapid.String(), jsonLike(depth-1), 0, 20).AsAny())
	}
	return rapid.OneOf(kinds...)
}

func TestValueAgreesWithMsgpack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := jsonLike(3).Draw(t, "v")
		b, err := casstore.AppendValue(nil, v)
		if err != nil {
			t.Fatalf("AppendValue(%v) = %v, want nil", v, err)
		}
		var theirs bytes.Buffer
		e := msgpack.NewEncoder(&theirs)
		e.UseCompactInts(true)
		e.SetSortMapKeys(true)
		must.Do(t, e.Encode(v))
		if !bytes.Equal(b, theirs.Bytes()) {
			t.Fatalf("AppendValue(%v) = %x, msgpack encodes %x", v, b, theirs.Bytes())
		}
		back, err := casstore.DecodeValue(b)
		if err != nil {
			t.Fatalf("DecodeValue(%x) = %v, want nil", b, err)
		}
		if diff := cmp.Diff(v, back); diff != "" {
			t.Fatalf("DecodeValue(AppendValue(v)) differs (-want +got):\n%s", diff)
		}
	})
}

func TestIntegersAreShortest(t *testing.T) {
	for v, want := range map[int64]int{0: 1, 127: 1, 128: 2, 255: 2, 256: 3, 65_535: 3, 65_536: 5, 1<<32 - 1: 5, 1 << 32: 9,
		-1: 1, -32: 1, -33: 2, -128: 2, -129: 3, -32_768: 3, -32_769: 5, -1 << 31: 5, -1<<31 - 1: 9, -1 << 63: 9} {
		b := casstore.AppendInt(nil, v)
		c := casstore.NewCursor(b)
		if got := c.Int(); len(b) != want || got != v || c.Done() != nil {
			t.Errorf("AppendInt(%d) = %x (%d bytes), read as %d; want %d bytes", v, b, len(b), got, want)
		}
	}
}

func TestAppendValueRefuses(t *testing.T) {
	var deep any
	for range 70 {
		deep = []any{deep}
	}
	for _, v := range []any{struct{}{}, []any{float32(1)}, map[string]any{"k": make(chan int)}, deep} {
		b, err := casstore.AppendValue([]byte("kept"), v)
		if !errors.Is(err, casstore.ErrUnsupported) || string(b) != "kept" {
			t.Errorf("AppendValue(%T) = %q, %v, want the slice as it was and ErrUnsupported", v, b, err)
		}
	}
	b, err := casstore.AppendValue(nil, "\xff")
	if err != nil || !bytes.Equal(b, []byte{0xc4, 1, 0xff}) {
		t.Errorf("AppendValue(invalid UTF-8) = %x, %v, want a bin", b, err)
	}
}

func FuzzDecodeValue(f *testing.F) {
	f.Add([]byte("\x82\xa1a\x93\x01\xcb\x00\x00\x00\x00\x00\x00\x00\x00\xc3\xa1b\xc0"))
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := casstore.DecodeValue(b)
		if err != nil {
			if !errors.Is(err, casstore.ErrMalformed) {
				t.Fatalf("DecodeValue(%x) = %v, want ErrMalformed", b, err)
			}
			return
		}
		if _, err := casstore.AppendValue(nil, v); err != nil && !errors.Is(err, casstore.ErrUnsupported) {
			t.Fatalf("AppendValue(%v) = %v", v, err)
		}
	})
}
