package threads_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vmihailenco/msgpack/v5"

	"spool/internal/must"
	"spool/pkg/casstore"
	"spool/pkg/threads"
)

func ref(b byte) casstore.Ref { return casstore.NodeRef([32]byte{31: b}) }

func located(b byte) casstore.Located {
	return casstore.Located{Ref: ref(b), Pack: casstore.PackID{15: b}}
}

// TestNode15 is the example of seed 004.
func TestNode15(t *testing.T) {
	const start, content = 100, 101
	h := threads.Head{Start: located(start)}
	for i := byte(1); i <= 14; i++ {
		h.Advance(located(i))
	}
	s := h.Next("coder")
	s.Content = ref(content)
	want := []casstore.Ref{ref(start), ref(14), ref(content), ref(13), ref(12), ref(11), ref(10), ref(9), ref(8), ref(7),
		ref(6), ref(5), ref(4)}
	must.SameAll(t, s.Node().Refs, want, "node 15 has refs %v, want %v")
	empty := threads.Head{Start: located(start)}
	first := empty.Next("coder")
	first.Content = ref(content)
	if got, want := first.Node().Refs, []casstore.Ref{ref(start), {}, ref(content)}; !slices.Equal(got, want) {
		t.Errorf("the first node has refs %v, want %v", got, want)
	}
}

// TestEngineChain appends what the original engine appended and compares the shapes. It keeps the positions of its later
// version, ancestors with the parent first; ours follow seed 004.
func TestEngineChain(t *testing.T) {
	var golden struct {
		States []struct {
			Hash, Role string
			Timestamp  int64
			Ancestors  []string
		}
		Blobs map[string]string
	}
	readGolden(t, "03a_engine_chain.json", &golden)
	w := newWorld(t, 4)
	h := w.begin()
	names := map[casstore.Ref]string{}
	contentOf := regexp.MustCompile(`(?m)^  content: (\w+)$`)
	for _, want := range golden.States {
		blob := golden.Blobs[want.Hash]
		text := strings.TrimSuffix(strings.TrimPrefix(golden.Blobs[contentOf.FindStringSubmatch(blob)[1]],
			"type: content\npayload: "), "\nrefs: []\n")
		at := w.add(&h, want.Role, 1)
		names[at.Ref] = want.Hash
		w.flush()
		s := must.Get(w.reader().State(t.Context(), at))(t)
		var got []string
		if !s.Parent.IsZero() {
			got = append(got, names[s.Parent])
		}
		for _, a := range s.Ancestors {
			got = append(got, names[a])
		}
		must.SameAll(t, got, want.Ancestors, "%s: parent and ancestors %v, want %v", want.Hash)
		if s.Role != want.Role || s.Start != h.Start.Ref || text == "" {
			t.Errorf("%s: role %q, start %s, want %q, %s", want.Hash, s.Role, s.Start, want.Role, h.Start.Ref)
		}
	}
	must.Is(t, threads.Verify(t.Context(), w.reader(), h), nil, "Verify")
}

func readGolden(t *testing.T, name string, v any) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "golden", "cas", name))
	if err == nil {
		err = json.Unmarshal(b, v)
	}
	must.Do(t, err)
}

func fullState() threads.State {
	return threads.State{
		Role: "coder", Meta: []byte("\x81\xa1i\x01"), Timestamp: 1778308464000, Compact: ref(9),
		Entry: threads.Record{
			Dialect: "claude", ID: "uuid", Type: "assistant", Index: 7, First: 12, Count: 3, Projection: "claude/1",
			Memory: []byte{1, 2}, User: "u", Claimed: "c", Raw: []byte("{}"), Full: casstore.BlobRef([32]byte{1}),
			Splices: [][2]int64{{100, 1}, {2000, 2}},
		},
		Start: ref(1), Parent: ref(2), Content: ref(3), Ancestors: []casstore.Ref{ref(4), ref(5)},
	}
}

func TestStateRoundTrip(t *testing.T) {
	for name, s := range map[string]threads.State{
		"full":     fullState(),
		"least":    {Role: "coder", Start: ref(1), Content: ref(3)},
		"no items": {Role: "", Start: ref(1), Content: ref(3), Entry: threads.Record{First: 4}},
		"not text": {Role: "\xff", Start: ref(1), Content: ref(3), Entry: threads.Record{ID: "\xfe"}},
	} {
		n := s.Node()
		got, err := threads.ParseState(n)
		if err != nil {
			t.Fatalf("%s: ParseState(Node()) = %v, want nil", name, err)
		}
		if diff := cmp.Diff(s, got); diff != "" {
			t.Errorf("%s: ParseState(Node()) differs (-want +got):\n%s", name, diff)
		}
		if again := got.Node(); !bytes.Equal(again.AppendTo(nil), n.AppendTo(nil)) {
			t.Errorf("%s: encoding again gives other bytes", name)
		}
		checkSorted(t, name, n.Payload)
	}
}

// checkSorted decodes a payload with a general decoder and encodes it sorted: that must change nothing.
func checkSorted(t *testing.T, name string, payload []byte) {
	t.Helper()
	v := must.Get(casstore.DecodeValue(payload))(t)
	var b bytes.Buffer
	e := msgpack.NewEncoder(&b)
	e.UseCompactInts(true)
	e.SetSortMapKeys(true)
	must.Do(t, e.Encode(v))
	if !bytes.Equal(b.Bytes(), payload) {
		t.Errorf("%s: payload %x is not canonical, want %x", name, payload, b.Bytes())
	}
}

func TestStartAndContentRoundTrip(t *testing.T) {
	start := threads.Start{Name: "solve-issue", Hash: "BUNDLE_HASH", MaxRounds: 10, Depth: 2, Prompt: ref(1)}
	gotStart, err := threads.ParseStart(start.Node())
	if err != nil || gotStart != start {
		t.Errorf("ParseStart(Node()) = %v, %v, want %v", gotStart, err, start)
	}
	checkSorted(t, "start", start.Node().Payload)
	for _, text := range []string{"", "text", "\xff not text", strings.Repeat("long", 20_000)} {
		c := threads.Content{Text: []byte(text), Refs: []casstore.Ref{casstore.BlobRef([32]byte{1}), ref(2)}}
		got, err := threads.ParseContent(c.Node())
		if err != nil || string(got.Text) != text || !slices.Equal(got.Refs, c.Refs) {
			t.Errorf("ParseContent(Node(%.10q)) = %.10q, %v, want the same", text, got.Text, err)
		}
	}
}

func TestParseRefusesWrongShapes(t *testing.T) {
	blob := casstore.BlobRef([32]byte{1})
	many := make([]casstore.Ref, 14)
	for i := range many {
		many[i] = ref(1)
	}
	state := threads.State{Role: "r", Start: ref(1), Content: ref(3)}.Node()
	with := func(refs ...casstore.Ref) casstore.Node {
		return casstore.Node{Type: "state", Payload: state.Payload, Refs: refs}
	}
	payload := func(p string) casstore.Node {
		return casstore.Node{Type: "state", Payload: []byte(p), Refs: state.Refs}
	}
	for name, c := range map[string]struct {
		node casstore.Node
		want error
	}{
		"type":           {casstore.Node{Type: "content", Payload: state.Payload, Refs: state.Refs}, threads.ErrShape},
		"two refs":       {with(ref(1), ref(2)), threads.ErrShape},
		"too many":       {with(many...), threads.ErrShape},
		"no start":       {with(casstore.Ref{}, ref(2), ref(3)), threads.ErrShape},
		"no content":     {with(ref(1), ref(2), casstore.Ref{}), threads.ErrShape},
		"content a blob": {with(ref(1), ref(2), blob), threads.ErrShape},
		"parent a blob":  {with(ref(1), blob, ref(3)), threads.ErrShape},
		"nil ancestor":   {with(ref(1), ref(2), ref(3), casstore.Ref{}), threads.ErrShape},
		"ancestors only": {with(ref(1), casstore.Ref{}, ref(3), ref(4)), threads.ErrShape},
		"no map":         {payload("\x90"), casstore.ErrMalformed},
		"no role":        {payload("\x81\xa9timestamp\x01"), casstore.ErrMalformed},
		"role twice":     {payload("\x82\xa4role\xa1a\xa4role\xa1b"), casstore.ErrMalformed},
		"role a number":  {payload("\x81\xa4role\x01"), casstore.ErrMalformed},
		"meta no map":    {payload("\x82\xa4meta\x01\xa4role\xa1a"), casstore.ErrMalformed},
		"compact no ref": {payload("\x82\xa7compact\xa1x\xa4role\xa1a"), casstore.ErrMalformed},
		"items of three": {payload("\x82\xa5entry\x81\xa5items\x93\x01\x01\x01\xa4role\xa1a"), casstore.ErrMalformed},
	} {
		must.Is(t, must.Err(threads.ParseState(c.node)), c.want, "%s: ParseState", name)
	}
	must.Is(t, must.Err(threads.ParseStart(casstore.Node{Type: "start", Payload: []byte{0x80}})), threads.ErrShape, "ParseStart(no prompt)")
	must.Is(t, must.Err(threads.ParseContent(casstore.Node{Type: "content", Payload: []byte{0x01}})), casstore.ErrMalformed,
		"ParseContent(number)")
	later := payload("\x83\xa5later\x91\x01\xa4role\xa1a\xa9timestamp\x05")
	if s, err := threads.ParseState(later); err != nil || s.Role != "a" || s.Timestamp != 5 {
		t.Errorf("ParseState(key of a later writer) = %v, %v, want it ignored", s, err)
	}
}

func FuzzParseState(f *testing.F) {
	n := fullState().Node()
	f.Add(n.AppendTo(nil))
	least := threads.State{Role: "coder", Start: ref(1), Content: ref(3)}.Node()
	f.Add(least.AppendTo(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		n, err := casstore.DecodeNode(b)
		if err != nil {
			return
		}
		s, err := threads.ParseState(n)
		if err != nil {
			return
		}
		again, err := threads.ParseState(s.Node())
		if err != nil {
			t.Fatalf("ParseState(Node(ParseState(%x))) = %v", b, err)
		}
		if diff := cmp.Diff(s, again); diff != "" {
			t.Fatalf("encoding and parsing again differs:\n%s", diff)
		}
	})
}

func BenchmarkStateNode(b *testing.B) {
	s := fullState()
	dst := make([]byte, 0, 2048)
	b.ReportAllocs()
	for b.Loop() {
		n := s.Node()
		dst = n.AppendTo(dst[:0])
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "nodes/s")
}
