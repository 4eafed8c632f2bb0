package casstore_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"spool/internal/must"
	"spool/pkg/casstore"
)

func textNode(text string, refs ...casstore.Ref) *casstore.Node {
	return &casstore.Node{Type: "content", Payload: casstore.AppendString(nil, text), Refs: refs}
}

func mustFinish(t testing.TB, b *casstore.PackBuilder) (header, body []byte) {
	t.Helper()
	header, body = must.Two(b.Finish())(t)
	return header, body
}

func mustOpen(t testing.TB, header, body []byte) *casstore.Pack {
	t.Helper()
	p := must.Get(casstore.OpenPack(header, body))(t)
	return p
}

// drawRefs draws refs of every kind; it notes the nodes outside with the pack they are to be located in.
func drawRefs(t *rapid.T, added []casstore.Ref, outside map[casstore.Ref]casstore.PackID) (refs []casstore.Ref) {
	for range rapid.IntRange(0, 14).Draw(t, "refs") {
		switch k := rapid.IntRange(0, 3).Draw(t, "kind"); {
		case k == 0:
			refs = append(refs, casstore.Ref{})
		case k == 1:
			refs = append(refs, blobRef(rapid.Byte().Draw(t, "blob")))
		case k == 2 || len(added) == 0:
			r := ref(rapid.Byte().Draw(t, "outside"))
			outside[r] = casstore.PackID{r[32], 1}
			refs = append(refs, r)
		default:
			refs = append(refs, rapid.SampledFrom(added).Draw(t, "own"))
		}
	}
	return refs
}

func TestPackHoldsWhatWasAdded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := casstore.NewPackBuilder()
		b.Quick = rapid.Bool().Draw(t, "quick")
		var added []casstore.Ref
		nodes := map[casstore.Ref]*casstore.Node{}
		outside := map[casstore.Ref]casstore.PackID{}
		for i := range rapid.IntRange(0, 60).Draw(t, "nodes") {
			refs := drawRefs(t, added, outside)
			n := textNode(strings.Repeat(fmt.Sprint(i), rapid.SampledFrom([]int{1, 100, 50_000}).Draw(t, "size")), refs...)
			r := b.Add(n.AppendTo(nil), refs)
			if again := b.AddNode(n); again != r {
				t.Fatalf("AddNode(same node) = %s, want %s", again, r)
			}
			added, nodes[r] = append(added, r), n
		}
		for r, pack := range outside {
			b.Locate(casstore.Located{Ref: r, Pack: pack})
		}
		if rapid.Bool().Draw(t, "cluster") {
			b.Cluster()
		}
		header, body := must.Two(b.Finish())(t)
		p := must.Get(casstore.OpenPack(header, body))(t)
		if p.Len() != len(nodes) {
			t.Fatalf("Len() = %d, want %d", p.Len(), len(nodes))
		}
		must.Do(t, p.Verify())
		for r, want := range nodes {
			got, err := p.Node(r)
			if err != nil || !bytes.Equal(got.AppendTo(nil), want.AppendTo(nil)) {
				t.Fatalf("Node(%s) = %v, %v, want what was added", r, got, err)
			}
		}
		for r, want := range outside {
			if id, ok := p.Locate(r); !ok || id != want {
				t.Fatalf("Locate(%s) = %s, %v, want %s", r, id, ok, want)
			}
		}
		if _, err := p.Node(ref(200)); !errors.Is(err, casstore.ErrNotFound) {
			t.Fatalf("Node(not there) = %v, want ErrNotFound", err)
		}
	})
}

// Threads that were written in turns come together, forks with what they share, in the order that each has.
func TestCluster(t *testing.T) {
	b := casstore.NewPackBuilder()
	names := map[casstore.Ref]string{}
	at := map[string]casstore.Ref{}
	for _, n := range []struct{ name, parent string }{
		{"a1", ""}, {"b1", ""}, {"c1", ""}, {"a2", "a1"}, {"b2", "b1"}, {"fork of a1", "a1"}, {"c2", "c1"}, {"a3", "a2"},
		{"alone", ""}, {"b3", "b2"},
	} {
		ref := b.AddNode(textNode(n.name, at[n.parent], blobRef(7))) // that they share a blob brings no two together
		at[n.name], names[ref] = ref, n.name
	}
	b.Cluster()
	header, body := mustFinish(t, b)
	p := mustOpen(t, header, body)
	var got []string
	for i := range p.Len() {
		got = append(got, names[p.Ref(i)])
	}
	if want := []string{"a1", "a2", "fork of a1", "a3", "b1", "b2", "b3", "c1", "c2", "alone"}; !slices.Equal(got, want) {
		t.Errorf("clustered = %q, want %q", got, want)
	}
	must.Is(t, p.Verify(), nil, "Verify()")
}

func TestFinishNamesTheUnlocated(t *testing.T) {
	b := casstore.NewPackBuilder()
	missing := ref(9)
	holder := b.AddNode(textNode("holder", blobRef(1), missing))
	b.Locate(casstore.Located{Ref: missing})
	_, _, err := b.Finish()
	if !errors.Is(err, casstore.ErrUnlocated) || !strings.Contains(err.Error(), missing.String()) ||
		!strings.Contains(err.Error(), holder.String()) {
		t.Errorf("Finish() = %v, want ErrUnlocated with both refs", err)
	}
	b.Locate(casstore.Located{Ref: missing, Pack: casstore.PackID{1}})
	mustFinish(t, b)
}

func TestUnusedLocationsAreNotStored(t *testing.T) {
	b := casstore.NewPackBuilder()
	b.Locate(casstore.Located{Ref: ref(1), Pack: casstore.PackID{1}})
	b.Locate(casstore.Located{Ref: ref(2), Pack: casstore.PackID{1}})
	b.AddNode(textNode("a", ref(2)))
	p := mustOpen(t, first(mustFinish(t, b)), second(mustFinish(t, b)))
	if p.OutsideLen() != 1 || p.OutsideAt(0).Ref != ref(2) {
		t.Errorf("outside table has %d entries, want only the one referred to", p.OutsideLen())
	}
}

func first(a, _ []byte) []byte  { return a }
func second(_, b []byte) []byte { return b }

func TestParentsMayBeAddedFirst(t *testing.T) {
	chain := []*casstore.Node{textNode("0")}
	for i := 1; i < 50; i++ {
		chain = append(chain, textNode(fmt.Sprint(i), casstore.SumNode(chain[i-1].AppendTo(nil))))
	}
	for name, order := range map[string][]int{"backwards": backwards(len(chain)), "shuffled": rand.New(rand.NewPCG(1, 2)).Perm(len(chain))} {
		b := casstore.NewPackBuilder()
		for _, i := range order {
			b.AddNode(chain[i])
		}
		header, body := mustFinish(t, b)
		p := mustOpen(t, header, body)
		must.Is(t, p.Verify(), nil, "%s: Verify()", name)
		if i, ok := p.Find(casstore.SumNode(chain[0].AppendTo(nil))); !ok || i != 0 {
			t.Errorf("%s: the first of the chain is at %d, %v, want 0", name, i, ok)
		}
	}
}

func backwards(n int) (order []int) {
	for i := range n {
		order = append(order, n-1-i)
	}
	return order
}

func TestFinishRefusesCycles(t *testing.T) {
	b := casstore.NewPackBuilder()
	x, y := textNode("x").AppendTo(nil), textNode("y").AppendTo(nil)
	b.Add(x, []casstore.Ref{casstore.SumNode(y)})
	b.Add(y, []casstore.Ref{casstore.SumNode(x)})
	if _, _, err := b.Finish(); !errors.Is(err, casstore.ErrMalformed) {
		t.Errorf("Finish() = %v, want ErrMalformed", err)
	}
}

func TestBuilderReset(t *testing.T) {
	b := casstore.NewPackBuilder()
	r := b.AddNode(textNode("old", ref(1)))
	b.Reset()
	if b.Len() != 0 || b.RawBytes() != 0 || b.Has(r) {
		t.Errorf("after Reset: Len %d, RawBytes %d, Has %v, want 0, 0, false", b.Len(), b.RawBytes(), b.Has(r))
	}
	header, body := mustFinish(t, b)
	if p := mustOpen(t, header, body); p.Len() != 0 || len(body) != 0 {
		t.Errorf("an empty pack has %d nodes and a body of %d bytes, want none", p.Len(), len(body))
	}
}

func TestLargeNodeHasItsOwnFrame(t *testing.T) {
	b := casstore.NewPackBuilder()
	large := strings.Repeat("a long line\n", 6_000_000) // above the limit for frames of several nodes
	refs := []casstore.Ref{b.AddNode(textNode("small")), b.AddNode(textNode(large)), b.AddNode(textNode("small too"))}
	header, body := mustFinish(t, b)
	p := mustOpen(t, header, body)
	for _, r := range refs {
		must.Is(t, must.Err(p.Encoded(r)), nil, "Encoded(%s)", r)
	}
}

// samplePack has several frames, own refs, outside nodes and blobs.
func samplePack(t testing.TB, quick bool) (header, body []byte, refs []casstore.Ref) {
	b := casstore.NewPackBuilder()
	b.Quick = quick
	b.Locate(casstore.Located{Ref: ref(1), Pack: casstore.PackID{1}})
	last := ref(1)
	text := rand.New(rand.NewPCG(3, 4))
	for range 40 {
		last = b.AddNode(textNode(fmt.Sprintf("%x", make([]byte, 3000+text.IntN(10_000))), last, casstore.Ref{}, blobRef(2)))
		refs = append(refs, last)
	}
	header, body = mustFinish(t, b)
	return header, body, refs
}

func TestEveryFlippedByteIsFound(t *testing.T) {
	for _, quick := range []bool{false, true} {
		testFlippedBytes(t, quick)
	}
}

func testFlippedBytes(t *testing.T, quick bool) {
	header, body, refs := samplePack(t, quick)
	for i := range header {
		bad := bytes.Clone(header)
		bad[i] ^= 0x10
		if _, err := casstore.OpenHeader(bad); !errors.Is(err, casstore.ErrCorrupt) && !errors.Is(err, casstore.ErrVersion) {
			t.Errorf("OpenHeader(byte %d flipped) = %v, want ErrCorrupt", i, err)
		}
	}
	whole := mustOpen(t, header, body)
	for i := 0; i < len(body); i += 7 {
		bad := bytes.Clone(body)
		bad[i] ^= 0x10
		p := mustOpen(t, header, bad)
		for _, r := range refs {
			got, err := p.Encoded(r)
			if err != nil {
				must.Is(t, err, casstore.ErrCorrupt, "Encoded(byte %d flipped)", i)
				continue
			}
			if want, _ := whole.Encoded(r); !bytes.Equal(got, want) {
				t.Errorf("Encoded(byte %d flipped) gives wrong bytes without an error", i)
			}
		}
	}
	must.Is(t, must.Err(casstore.OpenPack(header, body[:len(body)-1])), casstore.ErrCorrupt, "OpenPack(body cut)")
}

// sealed replaces the checksum, as an attacker would.
func sealed(header []byte) []byte {
	covered := header[:max(0, len(header)-sha256.Size)]
	sum := sha256.Sum256(covered)
	return append(bytes.Clone(covered), sum[:]...)
}

func TestOpenHeaderRefusesLies(t *testing.T) {
	header, _, _ := samplePack(t, false)
	for name, lie := range map[string]func(h []byte){
		"nodes":    func(h []byte) { binary.LittleEndian.PutUint32(h[8:], 1<<31) },
		"outside":  func(h []byte) { binary.LittleEndian.PutUint32(h[12:], 1<<31) },
		"frames":   func(h []byte) { binary.LittleEndian.PutUint32(h[16:], 1<<31) },
		"edges":    func(h []byte) { binary.LittleEndian.PutUint32(h[20:], 1<<31) },
		"raw":      func(h []byte) { binary.LittleEndian.PutUint64(h[24:], 1<<62) },
		"body":     func(h []byte) { binary.LittleEndian.PutUint64(h[32:], 1<<62) },
		"reserved": func(h []byte) { h[5] = 1 },
		"edge":     func(h []byte) { h[len(h)-33] = 0xff },
	} {
		bad := bytes.Clone(header)
		lie(bad)
		must.Is(t, must.Err(casstore.OpenHeader(sealed(bad))), casstore.ErrCorrupt, "%s: OpenHeader", name)
	}
	bad := bytes.Clone(header)
	bad[4] = 2
	must.Is(t, must.Err(casstore.OpenHeader(sealed(bad))), casstore.ErrVersion, "OpenHeader(version 2)")
}

func TestBombInAFrame(t *testing.T) {
	b := casstore.NewPackBuilder()
	r := b.AddNode(textNode(strings.Repeat("a", 10_000)))
	header, body := mustFinish(t, b)
	bomb := casstore.NewPackBuilder()
	bomb.AddNode(textNode(strings.Repeat("b", 1<<20)))
	_, large := mustFinish(t, bomb)
	for name, swap := range map[string][]byte{"another frame": large, "frame after the frame": append(bytes.Clone(body), large...)} {
		bad := bytes.Clone(header)
		binary.LittleEndian.PutUint64(bad[32:], uint64(len(swap)))
		binary.LittleEndian.PutUint32(bad[40+32:], uint32(len(swap)))
		p := mustOpen(t, sealed(bad), swap)
		must.Is(t, must.Err(p.Encoded(r)), casstore.ErrCorrupt, "%s: Encoded", name)
	}
}

func TestMark(t *testing.T) {
	b := casstore.NewPackBuilder()
	for i := range byte(3) {
		b.Locate(casstore.Located{Ref: ref(i), Pack: casstore.PackID{i + 1}})
	}
	leaf := b.AddNode(textNode("leaf", ref(0)))
	other := b.AddNode(textNode("other", ref(1)))
	middle := b.AddNode(textNode("middle", leaf, casstore.Ref{}, blobRef(7)))
	root := b.AddNode(textNode("root", middle, leaf, ref(2)))
	h := must.Get(casstore.OpenHeader(first(mustFinish(t, b))))(t)
	marked, outside := casstore.NewBits(h.Len()), casstore.NewBits(h.OutsideLen())
	i, _ := h.Find(root)
	marked.Set(i)
	h.Mark(marked, outside)
	for r, want := range map[casstore.Ref]bool{leaf: true, other: false, middle: true, root: true} {
		if i, _ := h.Find(r); marked.Has(i) != want {
			t.Errorf("Mark: node %d marked %v, want %v", i, !want, want)
		}
	}
	for i, l := range h.Outside() {
		if want := l.Ref != ref(1); outside.Has(i) != want {
			t.Errorf("Mark: outside %s marked %v, want %v", l, !want, want)
		}
	}
}

func FuzzOpenHeader(f *testing.F) {
	header, _, _ := samplePack(f, false)
	f.Add(header)
	header, _, _ = samplePack(f, true)
	f.Add(header)
	f.Add(first(mustFinish(f, casstore.NewPackBuilder())))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := casstore.OpenHeader(sealed(b))
		if err != nil {
			return
		}
		marked, outside := casstore.NewBits(h.Len()), casstore.NewBits(h.OutsideLen())
		for i := range h.Len() {
			marked.Set(i)
			if _, ok := h.Find(h.Ref(i)); !ok {
				t.Fatalf("Find(Ref(%d)) finds nothing", i)
			}
		}
		h.Mark(marked, outside)
		for _, l := range h.Outside() {
			h.Locate(l.Ref)
		}
	})
}

func FuzzOpenPack(f *testing.F) {
	b := casstore.NewPackBuilder()
	b.Locate(casstore.Located{Ref: ref(1), Pack: casstore.PackID{1}})
	own := b.AddNode(textNode("first of the pack", ref(1), blobRef(2)))
	b.AddNode(textNode("second of the pack", own, casstore.Ref{}))
	header, body := mustFinish(f, b)
	f.Add(header, body)
	f.Fuzz(func(t *testing.T, header, body []byte) {
		p, err := casstore.OpenPack(sealed(header), body)
		if err != nil {
			return
		}
		for i := range p.Len() {
			if b, err := p.EncodedAt(i); err == nil && casstore.SumNode(b) != p.Ref(i) {
				t.Fatalf("EncodedAt(%d) gives wrong bytes without an error", i)
			}
		}
		_ = p.Verify()
	})
}

// TestRefsWithTheSameBeginning: two refs that share the bytes by which a builder finds them are two refs.
func TestRefsWithTheSameBeginning(t *testing.T) {
	b := casstore.NewPackBuilder()
	var one, two [32]byte
	one[31], two[31] = 1, 2
	refs := []casstore.Ref{casstore.BlobRef(one), casstore.BlobRef(two), casstore.BlobRef(one)}
	n := casstore.Node{Type: "test", Payload: casstore.AppendString(nil, "x"), Refs: refs}
	ref := b.AddNode(&n)
	header, body := must.Two(b.Finish())(t)
	p := must.Get(casstore.OpenPack(header, body))(t)
	must.Is(t, p.Verify(), nil, "Verify()")
	if got, err := p.Node(ref); err != nil || !slices.Equal(got.Refs, refs) {
		t.Errorf("Node() = %v, %v, want refs %v", got.Refs, err, refs)
	}
	must.Same(t, p.OutsideLen(), 2, "OutsideLen() = %d, want %d")
}
