package threads_test

import (
	"bytes"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"spool/internal/must"
	"spool/pkg/casstore"
	"spool/pkg/threads"
)

var update = flag.Bool("update", false, "rewrite the test vectors in docs/format.md")

const formatDoc = "../../docs/format.md"

// vector is one example of docs/format.md: a name and bytes.
type vector struct {
	name  string
	bytes []byte
}

// exampleThread is the thread of docs/format.md: a prompt, a start, one entry and the end, in one pack that also refers to a
// node outside.
func exampleThread(t *testing.T) (nodes []casstore.Node, names []string, header, body []byte, head threads.Head) {
	t.Helper()
	b := casstore.NewPackBuilder()
	outside := casstore.Located{Ref: casstore.NodeRef([32]byte{0xaa}), Pack: casstore.PackID{0xbb}}
	b.Locate(outside)
	add := func(name string, n casstore.Node) casstore.Ref {
		nodes, names = append(nodes, n), append(names, name)
		return b.AddNode(&n)
	}
	pack := casstore.PackID{0: 0x01, 15: 0x10}
	prompt := add("content: prompt", threads.Content{Text: []byte("solve it")}.Node())
	start := threads.Start{Name: "solve-issue", Hash: "BUNDLE", MaxRounds: 10, Prompt: prompt}
	head = threads.Head{Start: casstore.Located{Ref: add("start", start.Node()), Pack: pack}, Dialect: "step", Created: 1778308464000}

	first := head.Next("coder")
	blob := casstore.SumBlob([]byte("image"))
	first.Content = add("content: entry", threads.Content{Text: []byte("\xffraw"), Refs: []casstore.Ref{outside.Ref, blob}}.Node())
	first.Meta, first.Timestamp = []byte("\x81\xa1i\xcc\xc8"), 1778308464000
	first.Entry = threads.Record{Dialect: "step", ID: "s1", Type: "step", Index: 1, First: 1, Count: 2, Splices: [][2]int64{{300, 1}}}
	head.Advance(casstore.Located{Ref: add("state: entry", first.Node()), Pack: pack})

	last := head.Next(threads.RoleEnd)
	last.Content = add("content: end", threads.Content{Text: []byte("done")}.Node())
	last.Meta, last.Timestamp = []byte("\x82\xaareturnCode\x00\xa7summary\xa4done"), 1778308464001
	last.Entry = threads.Record{Index: 2, First: 3}
	head.Advance(casstore.Located{Ref: add("state: end", last.Node()), Pack: pack})

	head.Producers = []threads.Producer{{ID: "agent-7", Epoch: 1, Seq: 2, At: 41}}
	head.Applied, head.N, head.Sent, head.Entries = 41, 2, 0, 2
	head.Status, head.Leaf, head.Updated = threads.StatusCompleted, "s1", 1778308464001
	head.Batch, head.BytesIn, head.Externalized = [16]byte{0x0b}, 512, 1
	header, body = must.Two(b.Finish())(t)
	return nodes, names, header, body, head
}

const (
	packHeaderVector = "pack header"
	packBodyVector   = "pack body"
)

// vectors lists the examples in the order of the document.
func vectors(t *testing.T) (list []vector) {
	nodes, names, header, body, head := exampleThread(t)
	for i := range nodes {
		encoded := nodes[i].AppendTo(nil)
		list = append(list, vector{names[i] + " " + casstore.SumNode(encoded).String(), encoded})
	}
	tips := threads.Tips{States: []casstore.Ref{head.Recent[1].Ref}, Entries: 1, Items: 2}.Node()
	encoded := tips.AppendTo(nil)
	list = append(list, vector{"tips, not in the pack", encoded})
	grown := head.Clone()
	grown.Older, grown.OlderTips = casstore.Located{Ref: casstore.SumNode(encoded), Pack: head.Start.Pack}, 1
	list = append(list, vector{packHeaderVector, header}, vector{packBodyVector, body})
	return append(list, vector{"head", head.Encode()}, vector{"head with nodes", grown.Encode()})
}

// vectorSection is the part of the document that holds the vectors, and oneVector a vector in it.
var (
	vectorSection = regexp.MustCompile(`(?s)(<!-- vectors -->\n)(.*?)(\n<!-- end of vectors -->)`)
	oneVector     = regexp.MustCompile("(?s)`([^`\n]+)`\n```hex\n(.*?)```")
)

// TestFormatDocument holds docs/format.md against the code: the code writes every node and the head as they stand there, and
// reads the pack that stands there. A pack is not compared byte by byte, because encoders may compress differently.
// -update rewrites the vectors.
func TestFormatDocument(t *testing.T) {
	doc := must.Get(os.ReadFile(formatDoc))(t)
	section := vectorSection.FindSubmatch(doc)
	if section == nil {
		t.Fatalf("%s has no place for vectors", formatDoc)
	}
	want := vectors(t)
	if *update {
		writeVectors(t, doc, want)
		return
	}
	got := map[string][]byte{}
	for _, m := range oneVector.FindAllSubmatch(section[2], -1) {
		b, err := hex.DecodeString(strings.Join(strings.Fields(string(m[2])), ""))
		if err != nil {
			t.Fatalf("%s: vector %s: %v", formatDoc, m[1], err)
		}
		got[string(m[1])] = b
	}
	must.Same(t, len(got), len(want), "%s has %d vectors, want %d", formatDoc)
	p, err := casstore.OpenPack(got[packHeaderVector], got[packBodyVector])
	if err != nil {
		t.Fatalf("%s: the pack does not open: %v", formatDoc, err)
	}
	for _, v := range want {
		if v.name == packHeaderVector || v.name == packBodyVector {
			continue
		}
		if !bytes.Equal(got[v.name], v.bytes) {
			t.Errorf("%s: vector %s is %x, the code writes %x; a new format needs a new version", formatDoc, v.name, got[v.name], v.bytes)
		}
		if _, text, ok := strings.Cut(v.name, " node:"); ok {
			ref, err := casstore.ParseRef("node:" + text)
			if b, err2 := p.Encoded(ref); err != nil || err2 != nil || !bytes.Equal(b, v.bytes) {
				t.Errorf("%s: the pack does not hold %s: %v, %v", formatDoc, v.name, err, err2)
			}
		}
	}
}

// nodeReader is the program of the document that reads a node.
var nodeReader = regexp.MustCompile("(?s)<!-- node.py -->\n```python\n(.*?)```")

// The reader in the document is what a stranger would write: it names every node by the same hash, type and refs, and refuses
// one that is cut short.
func TestFormatDocumentReader(t *testing.T) {
	doc := must.Get(os.ReadFile(formatDoc))(t)
	program := nodeReader.FindSubmatch(doc)
	if program == nil {
		t.Fatalf("%s has no reader of nodes", formatDoc)
	}
	python, err := exec.LookPath("python3")
	if err != nil && os.Getenv("SPOOL_CI") != "" {
		t.Fatal(err)
	}
	if err != nil {
		t.Skip("python3 is not installed")
	}
	nodes, names, _, _, _ := exampleThread(t)
	for i, n := range nodes {
		encoded := n.AppendTo(nil)
		want := casstore.SumNode(encoded).String() + " " + n.Type
		for _, r := range n.Refs {
			if r.IsZero() {
				want += " -"
			} else {
				want += " " + hex.EncodeToString(r[:])
			}
		}
		out, err := exec.CommandContext(t.Context(), python, "-c", string(program[1]), hex.EncodeToString(encoded)).CombinedOutput()
		if got := strings.TrimSpace(string(out)); err != nil || got != want {
			t.Errorf("%s: %v\n%s\nwant\n%s", names[i], err, got, want)
		}
	}
	short := nodes[0].AppendTo(nil)
	if out, err := exec.CommandContext(t.Context(), python, "-c", string(program[1]),
		hex.EncodeToString(short[:len(short)-1])).CombinedOutput(); err == nil {
		t.Errorf("a node that is cut short reads as %s", out)
	}
}

func writeVectors(t *testing.T, doc []byte, list []vector) {
	t.Helper()
	var b bytes.Buffer
	for _, v := range list {
		fmt.Fprintf(&b, "\n`%s`\n```hex\n", v.name)
		for text := hex.EncodeToString(v.bytes); text != ""; {
			n := min(len(text), 96)
			fmt.Fprintln(&b, text[:n])
			text = text[n:]
		}
		b.WriteString("```\n")
	}
	at := vectorSection.FindSubmatchIndex(doc)
	out := string(doc[:at[4]]) + b.String() + string(doc[at[5]:])
	must.Do(t, os.WriteFile(formatDoc, []byte(out), 0o644))
}

// TestFormatDocumentNames holds the constants in the text of the document against the code.
func TestFormatDocumentNames(t *testing.T) {
	doc := must.Get(os.ReadFile(formatDoc))(t)
	for _, want := range []string{
		fmt.Sprintf("at most %d ancestors", threads.MaxAncestors), fmt.Sprintf("at most %d producers", threads.MaxProducers),
		fmt.Sprintf("at most %d MiB", casstore.MaxNode>>20), fmt.Sprintf("at most %d refs", casstore.MaxRefs),
		fmt.Sprintf("%d bytes: the ref, then the pack id", casstore.LocatedSize), threads.RoleEnd,
	} {
		if !strings.Contains(string(doc), want) {
			t.Errorf("%s does not say %q", formatDoc, want)
		}
	}
}
