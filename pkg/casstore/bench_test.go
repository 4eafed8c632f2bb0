package casstore_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"spool/internal/must"
	"spool/pkg/casstore"
)

// words are drawn with a skew, so that the text compresses about as agents' JSON does.
var words = func() []string {
	r := rand.New(rand.NewPCG(5, 6))
	list := make([]string, 2000)
	for i := range list {
		b := make([]byte, 2+r.IntN(9))
		for j := range b {
			b[j] = 'a' + byte(r.IntN(26))
		}
		list[i] = string(b)
	}
	return list
}()

// entryJSON is an entry of about 2 KB.
func entryJSON(r *rand.Rand, i int) []byte {
	b := fmt.Appendf(nil, `{"type":"message","id":"%08x","parentId":"%08x","timestamp":"2026-05-09T06:34:%02d.000Z","message":{"role":"assistant","content":[{"type":"text","text":"`, r.Uint32(), r.Uint32(), i%60)
	for len(b) < 1950 {
		b = append(append(b, words[int(float64(len(words))*r.Float64()*r.Float64())]...), ' ')
	}
	return append(b, `"}],"usage":{"input":1234,"output":567}}}`...)
}

// thread adds entries as a thread does: one content and one state each, the state with a skip list.
func thread(b *casstore.PackBuilder, r *rand.Rand, entries int) {
	start := b.AddNode(textNode(fmt.Sprint("start", r.Uint64())))
	var recent []casstore.Ref
	for i := range entries {
		content := b.AddNode(&casstore.Node{Type: "content", Payload: casstore.AppendText(nil, entryJSON(r, i))})
		s := stateNode(start, content, recent, i)
		recent = append([]casstore.Ref{b.AddNode(&s)}, recent[:min(len(recent), 10)]...)
	}
}

func stateNode(start, content casstore.Ref, recent []casstore.Ref, i int) casstore.Node {
	refs := append(make([]casstore.Ref, 0, 13), start, casstore.Ref{}, content)
	if len(recent) > 0 {
		refs[1] = recent[0]
		refs = append(refs, recent[1:]...)
	}
	payload := append([]byte(nil), "\x83\xa4meta\x80\xa4role\xa9assistant\xa9timestamp"...)
	return casstore.Node{Type: "state", Payload: casstore.AppendInt(payload, int64(1778308464000+i)), Refs: refs}
}

func BenchmarkNodeEncode(b *testing.B) {
	var recent []casstore.Ref
	for i := range byte(11) {
		recent = append(recent, ref(i+1))
	}
	n := stateNode(ref(20), ref(21), recent, 1)
	dst := make([]byte, 0, 1024)
	for b.Loop() {
		dst = n.AppendTo(dst[:0])
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "nodes/s")
}

func BenchmarkNodeDecode(b *testing.B) {
	var recent []casstore.Ref
	for i := range byte(11) {
		recent = append(recent, ref(i+1))
	}
	n := stateNode(ref(20), ref(21), recent, 1)
	encoded := n.AppendTo(nil)
	b.ReportAllocs()
	for b.Loop() {
		must.Get(casstore.DecodeNode(encoded))(b)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "nodes/s")
}

// BenchmarkPackBuild builds packs of 500 entries of 2 KB, 1,000 nodes.
func BenchmarkPackBuild(b *testing.B) {
	r := rand.New(rand.NewPCG(7, 8))
	const entries = 500
	type node struct {
		encoded []byte
		refs    []casstore.Ref
	}
	var nodes []node
	source := casstore.NewPackBuilder()
	thread(source, r, entries)
	p := mustOpen(b, first(mustFinish(b, source)), second(mustFinish(b, source)))
	for i := range p.Len() {
		n := must.Get(p.Node(p.Ref(i)))(b)
		encoded, _ := p.EncodedAt(i)
		nodes = append(nodes, node{encoded, n.Refs})
	}
	builder := casstore.NewPackBuilder()
	var stored int
	for b.Loop() {
		builder.Reset()
		for _, n := range nodes {
			builder.Add(n.encoded, n.refs)
		}
		header, body := mustFinish(b, builder)
		stored = len(header) + len(body)
	}
	b.SetBytes(int64(builder.RawBytes()))
	b.ReportMetric(float64(b.N)*float64(len(nodes))/b.Elapsed().Seconds(), "nodes/s")
	b.ReportMetric(float64(stored)/entries, "stored-B/entry")
	b.ReportMetric(float64(stored)/float64(builder.RawBytes()), "stored/raw")
}

// BenchmarkHeaderMark opens a header, checksum included, and marks all of it from one root.
func BenchmarkHeaderMark(b *testing.B) {
	source := casstore.NewPackBuilder()
	thread(source, rand.New(rand.NewPCG(9, 10)), 1000)
	header := first(mustFinish(b, source))
	var nodes int
	for b.Loop() {
		h := must.Get(casstore.OpenHeader(header))(b)
		marked, outside := casstore.NewBits(h.Len()), casstore.NewBits(h.OutsideLen())
		marked.Set(h.Len() - 1)
		h.Mark(marked, outside)
		nodes = h.Len()
	}
	b.ReportMetric(float64(b.N)*float64(nodes)/b.Elapsed().Seconds(), "nodes/s")
	b.ReportMetric(float64(len(header))/float64(nodes), "header-B/node")
}

// BenchmarkPackRead opens a pack and reads every node of it.
func BenchmarkPackRead(b *testing.B) {
	source := casstore.NewPackBuilder()
	thread(source, rand.New(rand.NewPCG(11, 12)), 500)
	header, body := mustFinish(b, source)
	var nodes int
	for b.Loop() {
		p := mustOpen(b, header, body)
		for i := range p.Len() {
			must.Get(p.Node(p.Ref(i)))(b)
		}
		nodes = p.Len()
	}
	b.SetBytes(int64(source.RawBytes()))
	b.ReportMetric(float64(b.N)*float64(nodes)/b.Elapsed().Seconds(), "nodes/s")
}
