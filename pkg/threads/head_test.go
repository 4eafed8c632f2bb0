package threads_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"spool/internal/must"
	"spool/pkg/casstore"
	"spool/pkg/threads"
)

func fullHead() threads.Head {
	return threads.Head{
		Start: located(1), Recent: []casstore.Located{located(4), located(3)}, Tips: []casstore.Located{located(2)},
		Producers: []threads.Producer{{ID: "a", Epoch: 1, Seq: 2, At: 3}, {ID: "~b", Epoch: 1 << 40, Seq: 0, At: 1 << 50}},
		Applied:   900, N: 12, Sent: 10, Entries: 7, Status: threads.StatusFailed, Failure: "why", Leaf: "leaf", Dialect: "omp",
		Memory: []byte{1, 2, 3}, Batch: [16]byte{1, 15: 2}, Updated: 1778308464001, Created: 1778308464000,
		Truncated: 1, Externalized: 2, Unknown: 3, BytesIn: 4, Messages: 5, Standing: 2, Turns: 6, TokensIn: 7, TokensCached: 8, TokensOut: 9,
	}
}

func TestHeadRoundTrip(t *testing.T) {
	captured := fullHead()
	captured.Captured = threads.Captured{
		By: "4f2a", Host: "box", Home: "/root", Size: 1 << 33, Modified: 1778308464000000001, Sum: [32]byte{1, 31: 2},
	}
	later := fullHead()
	later.Later = []byte("\xa5later\x92\x01\x02")
	for name, h := range map[string]threads.Head{"zero": {}, "full": fullHead(), "captured": captured, "later": later} {
		b := h.Encode()
		got, err := threads.DecodeHead(b)
		if err != nil {
			t.Fatalf("%s: DecodeHead(Encode()) = %v, want nil", name, err)
		}
		if diff := cmp.Diff(h, got); diff != "" {
			t.Errorf("%s: DecodeHead(Encode()) differs (-want +got):\n%s", name, diff)
		}
		if again := got.Encode(); !bytes.Equal(again, b) {
			t.Errorf("%s: encoding again gives other bytes", name)
		}
	}
}

// Heads that were written before messages and standing were kept have 21 fields, those before turns and tokens 23.
func TestDecodeHeadWithoutListing(t *testing.T) {
	for _, fields := range []int{21, 23} {
		want := fullHead()
		want.Turns, want.TokensIn, want.TokensCached, want.TokensOut = 0, 0, 0, 0
		if fields == 21 {
			want.Messages, want.Standing = 0, 0
		}
		b := want.Encode()
		if !bytes.Equal(b[:3], []byte{0xdc, 0, 27}) {
			t.Fatalf("a head begins with % x, want an array of 27", b[:3])
		}
		cut := 4 // of one byte each
		if fields == 21 {
			cut = 6
		}
		got, err := threads.DecodeHead(append([]byte{0xdc, 0, byte(fields)}, b[3:len(b)-cut]...))
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("DecodeHead(%d fields): %v (-want +got):\n%s", fields, err, diff)
		}
	}
}

func TestDecodeHeadRefuses(t *testing.T) {
	good := fullHead().Encode()
	for cut := range good {
		must.Is(t, must.Err(threads.DecodeHead(good[:cut])), casstore.ErrMalformed, "DecodeHead(first %d bytes)", cut)
	}
	_, err := threads.DecodeHead([]byte{0x91, 3})
	const both = "3, this program reads the versions 1 and 2"
	if !errors.Is(err, casstore.ErrVersion) || !strings.Contains(err.Error(), both) {
		t.Errorf("DecodeHead(version 3) = %v, want ErrVersion naming all", err)
	}
	must.Is(t, must.Err(threads.DecodeHead([]byte{0x91, 1})), casstore.ErrMalformed, "DecodeHead(version alone)")
}

func TestHeadBeforeTheFirstState(t *testing.T) {
	h := threads.Head{Start: located(1)}
	if got := h.Head(); got != located(1) {
		t.Errorf("Head() = %s, want the start", got)
	}
	if got := h.Roots(); !slices.Equal(got, []casstore.Located{located(1)}) {
		t.Errorf("Roots() = %v, want the start", got)
	}
}

func TestDuplicate(t *testing.T) {
	h := threads.Head{}
	h.Saw("p", 5, 9, 99)
	h.Saw("p", 5, 10, 100)
	for _, c := range []struct {
		producer   string
		epoch, seq uint64
		want       bool
	}{{"p", 5, 10, true}, {"p", 5, 9, true}, {"p", 5, 8, false}, {"p", 5, 11, false}, {"p", 4, 99, true}, {"p", 6, 0, false},
		{"q", 0, 0, false}} {
		must.Same(t, h.Duplicate(c.producer, c.epoch, c.seq), c.want, "Duplicate(%s, %d, %d) = %v, want %v", c.producer, c.epoch, c.seq)
	}
	h.Saw("p", 6, 1, 101)
	if len(h.Producers) != 1 || !h.Duplicate("p", 5, 11) {
		t.Errorf("after an epoch begins, producers are %v and the old epoch is not fenced", h.Producers)
	}
}

func TestProducersAreForgotten(t *testing.T) {
	h := threads.Head{}
	for i := range threads.MaxProducers {
		id := fmt.Sprint("durable", i)
		if i%2 == 1 {
			id = fmt.Sprint(threads.Ephemeral, i)
		}
		h.Saw(id, 1, 1, uint64(1000-i%7)+uint64(i))
	}
	h.Saw("~1", 1, 2, 99_999)
	h.Saw("new", 1, 1, 100_000)
	if len(h.Producers) != threads.MaxProducers || !h.Duplicate("durable0", 1, 1) || !h.Duplicate("~1", 1, 1) || !h.Duplicate("new", 1, 1) {
		t.Errorf("after one too many: %d producers, and a durable one or a recent one was forgotten", len(h.Producers))
	}
	if h.Duplicate("~3", 1, 1) {
		t.Error("the ephemeral producer that was silent longest was kept")
	}
	for i := range 2 * threads.MaxProducers {
		h.Saw(fmt.Sprint("more", i), 1, 1, uint64(200_000+i))
	}
	if len(h.Producers) != threads.MaxProducers || slices.ContainsFunc(h.Producers,
		func(p threads.Producer) bool { return strings.HasPrefix(p.ID, threads.Ephemeral) }) {
		t.Errorf("%d producers with ephemeral ones among them, want %d without", len(h.Producers), threads.MaxProducers)
	}
	if h.Duplicate("durable0", 1, 1) || !h.Duplicate(fmt.Sprint("more", 2*threads.MaxProducers-1), 1, 1) {
		t.Error("with durable producers alone, not the one silent longest was forgotten")
	}
}

func TestMoveTo(t *testing.T) {
	h := threads.Head{Start: located(1), Recent: []casstore.Located{located(5), located(4)}}
	move := func(want []byte, to ...casstore.Located) {
		t.Helper()
		h.MoveTo(to)
		var got []byte
		for _, l := range h.Tips {
			got = append(got, l.Ref[32])
		}
		must.SameAll(t, got, want, "MoveTo(%v): tips %v, want %v", to)
	}
	move([]byte{5}, located(4))
	move([]byte{5}, located(4))
	h.Advance(located(6))
	move([]byte{5, 6}, located(4))
	move([]byte{6, 4}, located(5), located(4))
	move([]byte{6, 4, 5})
	if h.Head() != h.Start {
		t.Errorf("MoveTo(none): head is %s, want the start", h.Head())
	}
	move([]byte{4, 5}, located(6), located(4))
}

func TestCloneIsApart(t *testing.T) {
	h := fullHead()
	want := fullHead()
	c := h.Clone()
	c.Advance(located(9))
	c.Saw("a", 9, 9, 9)
	c.MoveTo(nil)
	if diff := cmp.Diff(want, h); diff != "" {
		t.Errorf("changing the clone changed the head (-want +got):\n%s", diff)
	}
}

func FuzzDecodeHead(f *testing.F) {
	f.Add(fullHead().Encode())
	f.Add(threads.Head{}.Encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := threads.DecodeHead(b)
		if err != nil {
			return
		}
		again, err := threads.DecodeHead(h.Encode())
		if err != nil {
			t.Fatalf("DecodeHead(Encode(DecodeHead(%x))) = %v", b, err)
		}
		if diff := cmp.Diff(h, again); diff != "" {
			t.Fatalf("encoding and decoding again differs:\n%s", diff)
		}
	})
}

func BenchmarkHeadEncode(b *testing.B) {
	h := threads.Head{Start: located(1), Producers: fullHead().Producers, Leaf: "leaf", Dialect: "claude"}
	for i := range byte(11) {
		h.Advance(located(i))
	}
	b.ReportAllocs()
	for b.Loop() {
		_ = h.Encode()
	}
	b.ReportMetric(float64(len(h.Encode())), "B/head")
}

func BenchmarkHeadDecode(b *testing.B) {
	h := threads.Head{Start: located(1), Producers: fullHead().Producers, Leaf: "leaf", Dialect: "claude"}
	for i := range byte(11) {
		h.Advance(located(i))
	}
	encoded := h.Encode()
	b.ReportAllocs()
	for b.Loop() {
		must.Get(threads.DecodeHead(encoded))(b)
	}
}

func TestInherit(t *testing.T) {
	h := threads.Head{Applied: 9, Producers: []threads.Producer{{ID: "p", Epoch: 1, Seq: 2, At: 9}, {ID: "q", Seq: 7, At: 8}}}
	h.Inherit(&threads.Head{Applied: 5, Producers: []threads.Producer{{ID: "p", Seq: 4, At: 4}, {ID: "q", Seq: 8, At: 5},
		{ID: "r", Seq: 1, At: 3}}})
	want := []threads.Producer{{ID: "p", Epoch: 1, Seq: 2, At: 9}, {ID: "q", Seq: 8, At: 8}, {ID: "r", Seq: 1, At: 3}}
	if h.Applied != 9 || !slices.Equal(h.Producers, want) {
		t.Errorf("Inherit() = %d, %v, want 9, %v", h.Applied, h.Producers, want)
	}
	var many threads.Head
	for i := range uint64(threads.MaxProducers) {
		many.Saw(fmt.Sprint(i), 0, 1, 10+i)
	}
	h.Inherit(&many)
	if len(h.Producers) != threads.MaxProducers || h.Duplicate("r", 0, 1) || !h.Duplicate("1023", 0, 1) {
		t.Errorf("Inherit() keeps %d producers, want the %d that were seen last", len(h.Producers), threads.MaxProducers)
	}
}
